"""The sweep on a clock of its own: however long the line, nobody waits too long to be told."""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Callable
from typing import Any

import pytest

from gateway.slots.sweep import BREATH_SECONDS, SLICE, SWEEP_SECONDS, Sweep
from gateway.slots.ticket import PoolTicket, State

EVERY = 10.0
TURN_SECONDS = 0.0004
"""What telling a slice takes, with the frames that are written for it."""


class Timer:
    def __init__(self, callback: Callable[..., None], arguments: tuple[Any, ...]) -> None:
        self.callback = callback
        self.arguments = arguments
        self.cancelled = False

    def cancel(self) -> None:
        self.cancelled = True


class Loop:
    """Timers in order, at no time."""

    def __init__(self) -> None:
        self._now = 0.0
        self._timers: list[tuple[float, int, Timer]] = []
        self._numbers = itertools.count()

    def time(self) -> float:
        return self._now

    def call_later(self, seconds: float, callback: Callable[..., None], *arguments: Any) -> Timer:
        return self.call_at(self._now + seconds, callback, *arguments)

    def call_at(self, when: float, callback: Callable[..., None], *arguments: Any) -> Timer:
        timer = Timer(callback, arguments)
        heapq.heappush(self._timers, (when, next(self._numbers), timer))
        return timer

    def run(self, seconds: float) -> None:
        while self._timers and self._now < seconds:
            when, _, timer = heapq.heappop(self._timers)
            if not timer.cancelled:
                self._now = max(self._now, when)
                timer.callback(*timer.arguments)
                self._now += TURN_SECONDS


class Listener(PoolTicket):
    """Is told whenever it is woken."""

    def __init__(self, line: Any, loop: Any) -> None:
        super().__init__(line, loop, client="", model="")
        self.state = State.WAITING
        self.longest = 0.0
        self._every = EVERY
        self._told_position = 1

    def _wake(self) -> None:
        now = self._loop.time()
        self.longest = max(self.longest, now - self._told_at)
        self._told_at = now


class Line:
    def __init__(self, length: int, loop: Loop) -> None:
        self._loop = loop
        self.tickets = [Listener(self, loop) for _ in range(length)]
        self.sweeps: list[list[float]] = []
        """When each ticket was looked at, for each sweep."""

    def waiting_tickets(self) -> list[Listener]:
        self.sweeps.append([])
        return self.tickets

    def position_of(self, ticket: PoolTicket) -> int:
        self.sweeps[-1].append(self._loop.time())
        return 1

    def next_expiry(self) -> float | None:
        return 1e9

    def expire(self, now: float) -> None:
        pass


@pytest.mark.parametrize("length", [20, 1_000, 7_000, 7_200, 10_000, 20_000])
def test_a_keep_alive_is_never_late_however_long_the_line(length: int) -> None:
    """Around 7,100 a sweep takes as long as the time from one to the next."""
    loop: Any = Loop()
    line: Any = Line(length, loop)
    Sweep(line, loop).arm()
    loop.run(3 * EVERY)
    for ticket in line.tickets:
        ticket._wake()
    longest = [ticket.longest for ticket in line.tickets]
    assert max(longest) <= EVERY
    assert min(longest) > EVERY * 0.7


def test_the_event_loop_breathes_between_two_slices() -> None:
    loop: Any = Loop()
    line: Any = Line(10 * SLICE, loop)
    Sweep(line, loop).arm()
    loop.run(1.5 * SWEEP_SECONDS)
    slices = line.sweeps[0][::SLICE]
    assert all(later - sooner >= BREATH_SECONDS for sooner, later in itertools.pairwise(slices))


def test_a_sweep_that_takes_long_is_over_before_the_next_begins() -> None:
    loop: Any = Loop()
    line: Any = Line(20_000, loop)
    Sweep(line, loop).arm()
    loop.run(EVERY)
    *over, _ = map(len, line.sweeps)
    assert len(over) > 3 and set(over) == {20_000}


def test_what_is_stopped_in_the_middle_tells_nobody_any_more() -> None:
    loop: Any = Loop()
    line: Any = Line(20_000, loop)
    sweep = Sweep(line, loop)
    sweep.arm()
    loop.run(1.2 * SWEEP_SECONDS)
    (looks,) = line.sweeps
    so_far = len(looks)
    sweep.stop()
    loop.run(EVERY)
    assert 0 < so_far < 20_000 and len(line.sweeps) == 1 and len(looks) == so_far
