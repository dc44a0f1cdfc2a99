"""Beating beside what is awaited: on time, alone, and gone with its block."""

from __future__ import annotations

import asyncio

import pytest

from gateway.heartbeat import Heartbeat


def soon() -> float:
    return 0.001


def late() -> float:
    return 60


class Heart:
    def __init__(self, *, stops_at: int = 0, dies_at: int = 0) -> None:
        self.beats = 0
        self.stopped: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._stops_at = stops_at
        self._dies_at = dies_at

    async def beat(self) -> None:
        self.beats += 1
        if self.beats == self._stops_at:
            self.stopped.set_result(None)
        if self.beats == self._dies_at:
            raise ConnectionError("enough")


async def test_it_beats_until_the_block_is_left() -> None:
    loop = asyncio.get_running_loop()
    heart = Heart(stops_at=3)
    async with asyncio.timeout(5), Heartbeat(loop, soon, heart.beat):
        await heart.stopped
    assert heart.beats == 3
    later = loop.create_future()
    loop.call_later(0.02, later.set_result, None)
    await later
    assert heart.beats == 3


async def test_nothing_is_started_for_what_comes_at_once() -> None:
    heart = Heart()
    before = asyncio.all_tasks()
    async with Heartbeat(asyncio.get_running_loop(), soon, heart.beat):
        assert asyncio.all_tasks() == before
    assert not heart.beats


async def test_what_a_beat_raises_ends_the_block() -> None:
    heart = Heart(dies_at=2)
    with pytest.raises(ConnectionError, match="enough"):
        async with Heartbeat(asyncio.get_running_loop(), soon, heart.beat):
            await asyncio.get_running_loop().create_future()
    assert heart.beats == 2


async def test_what_the_block_raises_comes_out_though_the_heart_is_beating() -> None:
    heart = Heart(stops_at=1)
    with pytest.raises(LookupError):
        async with Heartbeat(asyncio.get_running_loop(), soon, heart.beat):
            await heart.stopped
            raise LookupError


@pytest.mark.parametrize("beating", [False, True])
async def test_a_cancellation_from_outside_stays_one_and_leaves_nothing_behind(
    beating: bool,
) -> None:
    loop = asyncio.get_running_loop()
    heart = Heart(stops_at=1)
    entered = asyncio.Event()

    async def wait_for_ever() -> None:
        async with Heartbeat(loop, soon if beating else late, heart.beat):
            entered.set()
            await loop.create_future()

    before = asyncio.all_tasks()
    task = asyncio.create_task(wait_for_ever())
    await (heart.stopped if beating else entered.wait())
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await asyncio.sleep(0)
    assert asyncio.all_tasks() == before


async def test_a_beat_that_takes_long_does_not_hold_up_the_end() -> None:
    loop = asyncio.get_running_loop()
    begun = asyncio.Event()

    async def beat() -> None:
        begun.set()
        await loop.create_future()

    async with asyncio.timeout(5), Heartbeat(loop, soon, beat):
        await begun.wait()
