"""The lazy timeout: as strict as the standard library's, but cheap to move."""

from __future__ import annotations

import asyncio

import pytest

from gateway.patience import Patience


async def test_it_raises_timeout_error_once_its_time_has_passed() -> None:
    loop = asyncio.get_running_loop()
    with pytest.raises(TimeoutError):
        async with Patience(loop, loop.time() + 0.01):
            await loop.create_future()


async def test_moving_the_deadline_ahead_keeps_the_block_alive() -> None:
    loop = asyncio.get_running_loop()
    async with Patience(loop, loop.time() + 0.01) as patience:
        patience.until = loop.time() + 60
        woken = loop.create_future()
        loop.call_later(0.03, woken.set_result, None)
        await woken


async def test_a_deadline_that_is_brought_forward_counts_at_once() -> None:
    loop = asyncio.get_running_loop()
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(5) as slow, Patience(loop, loop.time() + 60) as patience:
            patience.bring_forward(loop.time() + 0.01)
            await loop.create_future()
    assert not slow.expired()


async def test_a_cancellation_from_outside_stays_a_cancellation() -> None:
    loop = asyncio.get_running_loop()
    entered = asyncio.Event()

    async def wait_for_ever() -> None:
        async with Patience(loop, loop.time() + 60):
            entered.set()
            await loop.create_future()

    task = asyncio.create_task(wait_for_ever())
    await entered.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_leaving_the_block_leaves_no_timer_behind() -> None:
    loop = asyncio.get_running_loop()
    async with Patience(loop, loop.time() + 0.01):
        pass
    done = loop.create_future()
    loop.call_later(0.02, done.set_result, None)
    await done
