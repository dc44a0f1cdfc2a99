"""The slots of one upstream, shared by any number of gateways through Redis.

Redis decides (``lua/``), the pool follows: it sends what its own tickets want and hears what
happens to everybody's, as events that come to all replicas in one order (``redis_link``).  The
truth about *this* process is its table of tickets.  A session with Redis begins by comparing the
two, so nothing that was sent needs to be remembered while Redis is away.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
from collections import Counter, OrderedDict
from collections.abc import Sequence

from gateway.slots.base import (
    LeaseView,
    LineLimits,
    Outcome,
    Place,
    SlotStatistics,
    TicketView,
)
from gateway.slots.estimate import DEPTH, Estimates, Line
from gateway.slots.redis_line import RedisLine
from gateway.slots.redis_link import RedisLink
from gateway.slots.redis_mirror import Event, Lease, Mirror
from gateway.slots.redis_verbs import MICROSECONDS
from gateway.slots.sweep import Sweep
from gateway.slots.ticket import NEAR, PoolTicket

log = logging.getLogger(__name__)


class RedisPool:
    """See ``base.SlotPool``.  All gateways that give the upstream this ``name`` share it."""

    def __init__(self, line: RedisLine, *, name: str, slots: int, limits: LineLimits) -> None:
        self._loop = asyncio.get_running_loop()
        self._road = line
        self._name = name
        self._slots = slots
        self._limits = limits
        self._link = RedisLink(line, self, upstream=name, slots=slots)
        self._sweep = Sweep(self, self._loop)
        self._estimates = Estimates(self._estimate_from)
        self._numbers = itertools.count(1)
        self.tickets: dict[str, PoolTicket] = {}
        self._waiting: OrderedDict[str, PoolTicket] = OrderedDict()
        self._closing: Outcome | None = None
        self._outcomes: Counter[Outcome] = Counter()
        self._leases_lost = 0
        self._foreign_slots: int | None = None
        # The line as tickets are told of it: what Redis says, except while the replicas gather
        # after a loss. Then it is the line from before, since not everybody is back in it yet.
        self._shown: Mirror = self._link.mirror
        self._behind_shown: dict[str, int] = {}

    def __repr__(self) -> str:
        return f"<RedisPool {self._name}: {self._link.mirror!r}>"

    # --- verbs ---------------------------------------------------------------------------------

    @property
    def reachable(self) -> bool:
        return self._road.reachable

    async def start(self) -> None:
        await self._link.start()

    async def stop(self) -> None:
        """Hands back at once whatever is still held."""
        self._sweep.stop()
        await self._link.stop()

    def join(self, *, model: str, client: str) -> PoolTicket:
        ticket = PoolTicket(self, self._loop, client=client, model=model)
        ticket.id = f"{self._link.replica}.{next(self._numbers)}"
        if self._closing is not None:
            removed = self._closing is Outcome.EVICTED_REMOVED
            self._end(ticket, self._closing if removed else Outcome.REJECTED_CLOSING)
            return ticket
        self.tickets[ticket.id] = self._waiting[ticket.id] = ticket
        if self._link.connected:
            self._link.join(ticket, self._limits)
        elif not self.reachable:
            self._put_in_line(ticket)
        if not self._sweep.armed:
            self._sweep.arm()
        return ticket

    def close_ticket(self, ticket: PoolTicket) -> None:
        if ticket.waiting:
            self._outcomes[Outcome.ABANDONED] += 1
        if ticket.id in self.tickets:
            ticket.passed_on = ticket.granted and self._shown.waiting > 0
            self._forget(ticket)
            self._leave([ticket.id])

    def reconfigure(self, *, slots: int, limits: LineLimits) -> None:
        self._limits = limits
        if not slots == self._slots == self._link.mirror.slots:
            self._slots = slots
            self._link.resize(slots)
        self._sweep.arm()

    def evict(self, outcome: Outcome) -> None:
        self._closing = outcome
        self._end_all(list(self._waiting.values()), outcome)

    def reopen(self) -> None:
        self._closing = None

    # --- views ---------------------------------------------------------------------------------

    @property
    def busy(self) -> bool:
        return bool(self.tickets)

    def place_of(self, ticket: PoolTicket) -> Place:
        position = self.position_of(ticket)
        return Place(
            position=position,
            queue_length=max(self._shown.waiting, position),
            waited_seconds=ticket.waited_seconds,
            estimated_wait_seconds=self._estimated(position),
        )

    def statistics(self, most_tickets: int | None = None) -> SlotStatistics:
        """Of the whole line, as it was after the last event."""
        mirror = self._link.mirror
        first = next(mirror.line(), None)
        return SlotStatistics(
            limit=mirror.slots,
            running=len(mirror.leases),
            waiting=mirror.waiting,
            oldest_wait_seconds=self._since(first.number) if first else 0.0,
            seconds_since_release=self._since_turn(mirror),
            outcomes=dict(self._outcomes),
            tickets=tuple(
                TicketView(
                    position,
                    entry.model,
                    entry.client,
                    self._since(entry.number),
                    self._estimated(position),
                )
                for position, entry in enumerate(
                    itertools.islice(mirror.line(), most_tickets), start=1
                )
            ),
            leases=tuple(
                LeaseView(lease.model, lease.client, self._since(lease.since))
                for lease in mirror.leases.values()
            ),
            leases_lost=self._leases_lost,
        )

    def next_grant_seconds(self) -> float | None:
        return self._estimated(1)

    def _estimated(self, position: int) -> float | None:
        """Unknown while nobody is granted."""
        return self._estimates.wait(position, self._loop.time()) if self.reachable else None

    def _estimate_from(self, now: float) -> Line:
        mirror = self._link.mirror
        return Line(
            mirror.slots,
            [(lease.model, self._since(lease.since)) for lease in mirror.leases.values()],
            [entry.model for entry in itertools.islice(mirror.line(), DEPTH)],
        )

    def _since_turn(self, mirror: Mirror) -> float:
        """Nothing while the replicas gather: leases of an earlier life may still be there, and
        nobody could be granted, so an old line of a Redis that kept its data is not stalled."""
        return self._since(mirror.turned) if mirror.turned and not self._link.gathering else 0.0

    def _since(self, moment: int) -> float:
        """Seconds since a moment of Redis's clock."""
        return max(0.0, self._loop.time() + self._link.clock_ahead - moment / MICROSECONDS)

    # --- the sweep's side ----------------------------------------------------------------------

    def watch(self, every: float) -> None:
        self._sweep.hasten(every)

    def waiting_tickets(self) -> list[PoolTicket]:
        return list(self._waiting.values())

    def position_of(self, ticket: PoolTicket) -> int:
        if ticket.id in self._shown:
            return self._shown.position(ticket.id)
        return self._behind_shown.get(ticket.id, self._shown.waiting + 1)

    def next_expiry(self) -> float | None:
        """Counted here, so that waits end in time without Redis too."""
        if not self._waiting:
            return None
        return self._expiry(next(iter(self._waiting.values())))

    def expire(self, now: float) -> None:
        waiting = self._waiting.values()
        due = list(itertools.takewhile(lambda ticket: self._expiry(ticket) <= now, waiting))
        self._end_all(due, Outcome.EXPIRED)

    def _expiry(self, ticket: PoolTicket) -> float:
        return ticket.joined_at + self._limits.max_wait_seconds

    # --- the link's side -----------------------------------------------------------------------

    def on_met(self) -> None:
        mirror = self._link.mirror
        self._on_slots(mirror.slots)
        for ticket in list(self.tickets.values()):
            if ticket.id in mirror.leases:
                self._grant(ticket)
            elif ticket.id in mirror:
                self._put_in_line(ticket)
            elif ticket.waiting:
                self._link.join(ticket, self._limits)
        if not self._link.gathering or not self._shown.waiting:
            self.on_gathered()

    def on_gathered(self) -> None:
        self._shown = self._link.mirror
        self._behind_shown.clear()
        self._tell_the_near()

    def on_events(self, events: Sequence[Event], released: Sequence[Lease]) -> None:
        """Grants first: whoever got a slot runs before anybody hears of having moved."""
        for lease in released:
            self._estimates.observe(lease.model, self._since(lease.since))
        for kind, *about in events:
            ticket = self.tickets.get(about[0]) if about else None
            if kind == "slots":
                self._on_slots(int(about[0]))
            elif ticket is None:
                continue
            elif kind == "join":
                self._put_in_line(ticket)
            elif kind == "grant":
                self._grant(ticket)
            else:
                self._road.restart("a ticket of ours has lapsed")
        self._tell_the_near()

    def on_refused(self, ticket: PoolTicket, outcome: Outcome) -> None:
        if ticket.waiting:
            self._end(ticket, outcome)

    def on_lost(self, ticket: PoolTicket) -> None:
        """Redis has given the slot to somebody else, so there is nothing to give back."""
        if ticket.id in self.tickets:
            self._forget(ticket)
            self._leases_lost += 1
            ticket.answer_lost()

    def on_stranded(self) -> None:
        """Who has only just joined is told the end of the line as it was last seen."""
        for ticket in self._waiting.values():
            self._put_in_line(ticket)

    # --- steps ---------------------------------------------------------------------------------

    def _put_in_line(self, ticket: PoolTicket) -> None:
        ticket.number = self._link.mirror.number(ticket.id) or ticket.number
        if ticket.id not in self._shown:
            end = self._shown.waiting + len(self._behind_shown) + 1
            self._behind_shown.setdefault(ticket.id, end)
        ticket.answer_waiting()

    def _grant(self, ticket: PoolTicket) -> None:
        if ticket.waiting:
            ticket.number = self._link.mirror.number(ticket.id) or ticket.number
            self._outcomes[Outcome.GRANTED] += 1
            self._forget_place(ticket)
            ticket.answer_granted(self._loop.time())

    def _end(self, ticket: PoolTicket, outcome: Outcome) -> None:
        self._outcomes[outcome] += 1
        self._forget(ticket)
        ticket.answer_ended(outcome)

    def _end_all(self, tickets: Sequence[PoolTicket], outcome: Outcome) -> None:
        for ticket in tickets:
            self._end(ticket, outcome)
        self._leave([ticket.id for ticket in tickets])

    def _forget(self, ticket: PoolTicket) -> None:
        self.tickets.pop(ticket.id, None)
        self._forget_place(ticket)

    def _forget_place(self, ticket: PoolTicket) -> None:
        self._waiting.pop(ticket.id, None)
        self._behind_shown.pop(ticket.id, None)

    def _leave(self, ids: Sequence[str]) -> None:
        """Without Redis, its next meeting with us finds them gone."""
        if self._link.connected:
            self._link.leave(ids)
        else:
            for ticket_id in ids:
                self._shown.leave(ticket_id)

    def _tell_the_near(self) -> None:
        self._estimates.line_changed()
        for position, ticket_id in enumerate(self._shown.first(NEAR), start=1):
            if ticket := self.tickets.get(ticket_id):
                ticket.tell_if_moved(position)

    def _on_slots(self, slots: int) -> None:
        if slots == self._slots:
            self._foreign_slots = None
        elif slots != self._foreign_slots:
            self._foreign_slots = slots
            log.warning(
                "upstream %s: another replica has set slots to %d, which counts for all; "
                "here it is configured as %d",
                self._name,
                slots,
                self._slots,
            )
