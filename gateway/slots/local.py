"""The slots of one process: a thin asyncio shell over ``fifo``.

All it adds is a clock, the tickets' futures, and one timer, the sweep.
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
from gateway.slots.estimate import DEPTH, Estimates, Line
from gateway.slots.fifo import Effects, Fifo
from gateway.slots.sweep import Sweep
from gateway.slots.ticket import NEAR, PoolTicket

HAND_OVER_SECONDS = 0.001
"""What a grant gets ahead of the news about it: its request goes up first, then twenty frames are
written.  Changes within this time are told as one."""


class LocalPool:
    """See ``base.SlotPool``."""

    reachable = True

    def __init__(self, *, slots: int, limits: LineLimits) -> None:
        self._loop = asyncio.get_running_loop()
        self._fifo = Fifo(slots=slots, limits=limits)
        self._tickets: dict[int, PoolTicket] = {}
        self._changed_hands_at = self._loop.time()
        self._sweep = Sweep(self, self._loop)
        self._telling: asyncio.TimerHandle | None = None
        self._estimates = Estimates(self._line)

    def __repr__(self) -> str:
        return f"<LocalPool {self._fifo!r}>"

    # --- verbs ---------------------------------------------------------------------------------

    async def start(self) -> None:
        """Nothing to reach."""

    async def stop(self) -> None:
        self._sweep.stop()
        if self._telling is not None:
            self._telling.cancel()
            self._telling = None

    def join(self, *, model: str, client: str) -> PoolTicket:
        ticket = PoolTicket(self, self._loop, client=client, model=model)
        ticket.number, effects = self._fifo.join(client=client, model=model, now=ticket.joined_at)
        self._tickets[ticket.number] = ticket
        self._carry_out(effects)
        ticket.answer_waiting()
        if not self._sweep.armed:
            self._sweep.arm()
        return ticket

    def close_ticket(self, ticket: PoolTicket) -> None:
        self._tickets.pop(ticket.number, None)
        now = self._loop.time()
        effects = self._fifo.leave(ticket.number, now)
        ticket.passed_on = bool(effects.granted)
        self._carry_out(effects)
        if ticket.granted_at is not None:
            self._changed_hands_at = now
            self._estimates.observe(ticket.model, now - ticket.granted_at)

    def reconfigure(self, *, slots: int, limits: LineLimits) -> None:
        now = self._loop.time()
        self._carry_out(self._fifo.reconfigure(slots=slots, limits=limits, now=now))
        self._sweep.arm()

    def evict(self, outcome: Outcome) -> None:
        self._carry_out(self._fifo.evict(outcome))

    def reopen(self) -> None:
        self._fifo.reopen()

    # --- views ---------------------------------------------------------------------------------

    @property
    def busy(self) -> bool:
        return bool(self._tickets)

    def place_of(self, ticket: PoolTicket) -> Place:
        position = self.position_of(ticket)
        return Place(
            position=position,
            queue_length=self._fifo.waiting,
            waited_seconds=ticket.waited_seconds,
            estimated_wait_seconds=self._estimates.wait(position, self._loop.time()),
        )

    def statistics(self, most_tickets: int | None = None) -> SlotStatistics:
        now = self._loop.time()
        first = self._fifo.line(1)
        return SlotStatistics(
            limit=self._fifo.slots,
            running=self._fifo.running,
            waiting=self._fifo.waiting,
            oldest_wait_seconds=now - first[0][1].joined_at if first else 0.0,
            seconds_since_release=now - self._changed_hands_at,
            outcomes=dict(self._fifo.outcomes),
            tickets=tuple(
                TicketView(
                    position,
                    waiting.model,
                    waiting.client,
                    now - waiting.joined_at,
                    self._estimates.wait(position, now),
                )
                for position, (_, waiting) in enumerate(self._fifo.line(most_tickets), start=1)
            ),
            leases=tuple(
                LeaseView(lease.model, lease.client, now - lease.granted_at)
                for lease in self._fifo.leases()
            ),
        )

    def next_grant_seconds(self) -> float | None:
        return self._estimates.wait(1, self._loop.time())

    def _line(self, now: float) -> Line:
        """What the next estimate starts from."""
        return Line(
            self._fifo.slots,
            [(lease.model, now - lease.granted_at) for lease in self._fifo.leases()],
            [self._tickets[number].model for number in self._fifo.first(DEPTH)],
        )

    # --- telling -------------------------------------------------------------------------------

    def _carry_out(self, effects: Effects) -> None:
        """Grants first: whoever got a slot runs before anybody hears of having moved."""
        self._estimates.line_changed()
        if effects.granted:
            now = self._changed_hands_at = self._loop.time()
            for number in effects.granted:
                self._tickets[number].answer_granted(now)
        for number, outcome in effects.ended:
            if ticket := self._tickets.get(number):
                ticket.answer_ended(outcome)
        if effects.moved and self._telling is None:
            self._telling = self._loop.call_later(HAND_OVER_SECONDS, self._tell_near)

    def _tell_near(self) -> None:
        self._telling = None
        for position, number in enumerate(self._fifo.first(NEAR), start=1):
            self._tickets[number].tell_if_moved(position)

    def watch(self, every: float) -> None:
        self._sweep.hasten(every)

    # --- the sweep's side ----------------------------------------------------------------------

    def waiting_tickets(self) -> list[PoolTicket]:
        return [self._tickets[number] for number in self._fifo.first(self._fifo.waiting)]

    def position_of(self, ticket: PoolTicket) -> int:
        return self._fifo.position(ticket.number)

    def next_expiry(self) -> float | None:
        return self._fifo.next_expiry()

    def expire(self, now: float) -> None:
        self._carry_out(self._fifo.expire(now))
