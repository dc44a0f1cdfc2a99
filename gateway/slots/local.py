"""The slots of one process: a thin asyncio shell over ``fifo``.

All it adds is a clock, the tickets' futures, and one timer: the sweep, which tells the far places,
keeps silent streams alive and ends the tickets that waited too long.  No task, so nothing to
await when it stops.
"""

from __future__ import annotations

import asyncio

from gateway.slots.base import (
    LeaseView,
    LineLimits,
    Outcome,
    Place,
    SlotStatistics,
    TicketView,
)
from gateway.slots.fifo import Effects, Fifo
from gateway.slots.ticket import NEAR, PoolTicket

SWEEP_SECONDS = 0.5
SWEEP_SLICE = 100
"""Tickets told between two turns of the event loop, so that ten thousand never block it."""


class LocalPool:
    """See ``base.SlotPool``."""

    reachable = True

    def __init__(self, *, slots: int, limits: LineLimits) -> None:
        self._loop = asyncio.get_running_loop()
        self._fifo = Fifo(slots=slots, limits=limits)
        self._tickets: dict[int, PoolTicket] = {}
        self._last_turn = self._loop.time()
        self._tick = SWEEP_SECONDS
        self._timer: asyncio.TimerHandle | None = None
        self._sweep_due = 0.0

    def __repr__(self) -> str:
        return f"<LocalPool {self._fifo!r}>"

    # --- verbs ---------------------------------------------------------------------------------

    async def start(self) -> None:
        """Nothing to reach."""

    async def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def join(self, *, model: str, client: str) -> PoolTicket:
        ticket = PoolTicket(self, self._loop, client=client, model=model)
        ticket.number, effects = self._fifo.join(client=client, model=model, now=ticket.joined_at)
        self._tickets[ticket.number] = ticket
        self._carry_out(effects)
        ticket.answer_waiting()
        if self._timer is None:
            self._arm()
        return ticket

    def close_ticket(self, ticket: PoolTicket) -> None:
        self._tickets.pop(ticket.number, None)
        now = self._loop.time()
        if ticket.granted:
            self._last_turn = now
        self._carry_out(self._fifo.leave(ticket.number, now))

    def reconfigure(self, *, slots: int, limits: LineLimits) -> None:
        now = self._loop.time()
        self._carry_out(self._fifo.reconfigure(slots=slots, limits=limits, now=now))
        self._arm()

    def evict(self, outcome: Outcome) -> None:
        self._carry_out(self._fifo.evict(outcome))

    # --- views ---------------------------------------------------------------------------------

    def place_of(self, ticket: PoolTicket) -> Place:
        return Place(
            position=self._fifo.position(ticket.number),
            queue_length=self._fifo.waiting,
            waited_seconds=ticket.waited_seconds,
            estimated_wait_seconds=None,
        )

    def statistics(self) -> SlotStatistics:
        now = self._loop.time()
        line = self._fifo.line()
        return SlotStatistics(
            limit=self._fifo.slots,
            running=self._fifo.running,
            waiting=len(line),
            oldest_wait_seconds=now - line[0][1].joined_at if line else 0.0,
            seconds_since_release=now - self._last_turn,
            outcomes=dict(self._fifo.outcomes),
            tickets=tuple(
                TicketView(position, waiting.model, waiting.client, now - waiting.joined_at, None)
                for position, (_, waiting) in enumerate(line, start=1)
            ),
            leases=tuple(
                LeaseView(lease.model, lease.client, now - lease.granted_at)
                for lease in self._fifo.leases()
            ),
        )

    # --- telling -------------------------------------------------------------------------------

    def _carry_out(self, effects: Effects) -> None:
        """Grants first: whoever got a slot runs before anybody hears of having moved."""
        if effects.granted:
            now = self._last_turn = self._loop.time()
            for number in effects.granted:
                self._tickets[number].answer_granted(now)
        for number, outcome in effects.ended:
            if ticket := self._tickets.get(number):
                ticket.answer_ended(outcome)
        if effects.moved:
            for position, number in enumerate(self._fifo.first(NEAR), start=1):
                self._tickets[number].tell_if_moved(position)

    def watch(self, every: float) -> None:
        if every < 2 * self._tick:
            self._tick = every / 4
            self._sweep_due = 0.0
            self._arm()

    def _arm(self) -> None:
        """Sets the one timer to what comes first: the next sweep or the next expiry."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        expiry = self._fifo.next_expiry()
        if expiry is None:
            self._sweep_due = 0.0
            return
        if not self._sweep_due:
            self._sweep_due = self._loop.time() + self._tick
        self._timer = self._loop.call_at(min(self._sweep_due, expiry), self._on_timer)

    def _on_timer(self) -> None:
        self._timer = None
        now = self._loop.time()
        self._carry_out(self._fifo.expire(now))
        if now >= self._sweep_due:
            self._sweep_due = now + self._tick
            self._sweep([number for number, _ in self._fifo.line()], 0)
        self._arm()

    def _sweep(self, line: list[int], start: int) -> None:
        now = self._loop.time()
        for number in line[start : start + SWEEP_SLICE]:
            ticket = self._tickets.get(number)
            if ticket is not None and not ticket.granted and ticket.outcome is None:
                ticket.tell_if_due(self._fifo.position(number), now, self._tick)
        if start + SWEEP_SLICE < len(line):
            self._loop.call_soon(self._sweep, line, start + SWEEP_SLICE)
