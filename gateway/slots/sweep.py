"""The one timer of a pool.

It tells the far places, keeps silent streams alive and ends the tickets that have waited too long.
A timer and no task, so there is nothing to await when it stops.
"""

from __future__ import annotations

import asyncio
from typing import Protocol

from gateway.slots.ticket import PoolTicket

SWEEP_SECONDS = 0.5
SLICE = 20
"""Tickets told at one time, so that ten thousand never block the event loop."""

BREATH_SECONDS = 0.001
"""Between two slices, so that a grant, the news of it, or a token waits for one slice and not for
one in each of the turns of the event loop that it takes."""


class Owner(Protocol):
    """What the sweep needs of its pool.  Times are the event loop's."""

    def waiting_tickets(self) -> list[PoolTicket]:
        """In the order of the line."""

    def position_of(self, ticket: PoolTicket) -> int: ...

    def next_expiry(self) -> float | None:
        """When the first ticket will have waited too long; None while nobody waits."""

    def expire(self, now: float) -> None: ...


class Sweep:
    """Runs while somebody waits.  ``arm`` it whenever that begins or the next expiry changes."""

    def __init__(self, pool: Owner, loop: asyncio.AbstractEventLoop) -> None:
        self._pool = pool
        self._loop = loop
        self._tick = SWEEP_SECONDS
        self._due = 0.0
        self._began = 0.0
        self._takes = 0.0
        """Seconds, the last time: thousands of tickets take longer than a tick."""
        self._timer: asyncio.TimerHandle | None = None
        self._next_slice: asyncio.TimerHandle | None = None

    @property
    def armed(self) -> bool:
        return self._timer is not None

    def stop(self) -> None:
        self._disarm()
        if self._next_slice is not None:
            self._next_slice.cancel()
            self._next_slice = None

    def hasten(self, every: float) -> None:
        """Sweeps often enough for tickets that are told every ``every`` seconds."""
        if every < 2 * self._tick:
            self._tick = every / 4
            self._due = 0.0
            self.arm()

    def arm(self) -> None:
        """Sets the timer to what comes first: the next sweep or the next expiry."""
        self._disarm()
        expiry = self._pool.next_expiry()
        if expiry is None:
            self._due = 0.0
            return
        if not self._due:
            self._due = self._loop.time() + self._tick
        self._timer = self._loop.call_at(min(self._due, expiry), self._on_timer)

    def _on_timer(self) -> None:
        self._timer = None
        now = self._loop.time()
        self._pool.expire(now)
        if now >= self._due:
            self._due = now + self._tick
            if self._next_slice is None:
                self._began = now
                self._tell(self._pool.waiting_tickets(), 0)
        self.arm()

    def _disarm(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _tell(self, tickets: list[PoolTicket], start: int) -> None:
        now = self._loop.time()
        until_next = self._tick + 1.1 * self._takes  # which is never quite the same
        for ticket in tickets[start : start + SLICE]:
            if ticket.waiting:
                ticket.tell_if_due(self._pool.position_of(ticket), now, until_next)
        self._next_slice = None
        if start + SLICE < len(tickets):
            self._next_slice = self._loop.call_later(
                BREATH_SECONDS, self._tell, tickets, start + SLICE
            )
        else:
            self._takes = now - self._began
