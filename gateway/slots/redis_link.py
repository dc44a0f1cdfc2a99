"""What one pool and Redis say to each other.

The link sends the verbs of the pool's own tickets and follows the line in its mirror.  Events come
numbered; a gap, or an answer about a message that does not come, ends the session.  Each session
begins with a meeting: copy the line, claim what Redis has lost, give back what this process has
lost.
"""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Protocol

import msgspec

from gateway.slots.base import LineLimits, Outcome
from gateway.slots.redis_copy import copy_line
from gateway.slots.redis_line import RedisLine, Restart
from gateway.slots.redis_mirror import Entry, Event, Lease, Mirror
from gateway.slots.redis_session import Server, Session
from gateway.slots.redis_verbs import (
    MICROSECONDS,
    Answer,
    Argument,
    Command,
    Reply,
    Verb,
    batches,
    channel_of,
    data,
    keys_of,
)
from gateway.slots.ticket import PoolTicket

GATHERED: Event = ["gathered"]

Claim = tuple[str, PoolTicket]
"""``lease`` or ``ticket``, and whose."""


class Owner(Protocol):
    """What the link needs of its pool."""

    @property
    def tickets(self) -> Mapping[str, PoolTicket]:
        """Every open ticket of this process, waiting or running."""

    def on_met(self) -> None:
        """There is a new mirror."""

    def on_events(self, events: Sequence[Event], released: Sequence[Lease]) -> None:
        """The mirror has followed these, which have ended these leases."""

    def on_gathered(self) -> None:
        """Every replica is back in the line, or is not waited for any longer."""

    def on_refused(self, ticket: PoolTicket, outcome: Outcome) -> None: ...

    def on_lost(self, ticket: PoolTicket) -> None:
        """A lease has lapsed while its ticket runs."""

    def on_stranded(self) -> None:
        """Redis is away; nobody knows for how long."""


class RedisLink:
    """See the module.  ``slots`` is the limit that this process was configured with."""

    def __init__(self, line: RedisLine, owner: Owner, *, upstream: str, slots: int) -> None:
        self.channel = channel_of(upstream)
        self.replica = uuid.uuid4().hex
        """Who this is to the other replicas, for the life of this pool."""
        self.mirror = Mirror(slots=slots)
        self.connected = False
        self.gathering = False
        self.clock_ahead = 0.0
        """Redis's clock less the event loop's, in seconds."""
        self._loop = asyncio.get_running_loop()
        self._line = line
        self._owner = owner
        self._keys = keys_of(upstream)
        self._epoch = ""
        self._slots = slots
        self._decides = True
        self._stopping = False
        self._unread: list[tuple[int, list[Event]]] | None = []
        self._wanted = 0
        self._patience: asyncio.TimerHandle | None = None
        self._hold_end: asyncio.TimerHandle | None = None

    # --- the pool's side -----------------------------------------------------------------------

    async def start(self) -> None:
        await self._line.attach(self)

    async def stop(self) -> None:
        self._stopping = True
        await self._line.detach(self, self._command(Verb.QUIT))
        self.cut_off()

    def join(self, ticket: PoolTicket, limits: LineLimits) -> None:
        per_client = limits.max_waiting_per_client
        self._post(
            Verb.JOIN,
            ticket.id,
            data(ticket.client),
            data(ticket.model),
            limits.max_waiting,
            "" if per_client is None else per_client,
            answer=partial(self._on_joined, ticket),
        )

    def leave(self, ids: Sequence[str]) -> None:
        for batch in batches(ids):
            self._post(Verb.LEAVE, *batch)

    def resize(self, slots: int) -> None:
        """Of all replicas, the last to say this decides."""
        self._slots = slots
        self._decides = True
        if self.connected:
            self._post(Verb.RESIZE, slots, answer=self._on_resized)

    # --- the road's side -----------------------------------------------------------------------

    async def meet(self, session: Session, server: Server) -> None:
        self._unread = []
        await self._hello(session, server)
        mirror = await copy_line(partial(self._ask_page, session))
        reply = await self._claim(session, mirror)
        mirror.replay(self._unread)
        if any(version > reply.version and GATHERED in events for version, events in self._unread):
            reply = reply._replace(hold=0)
        self.mirror, self._unread = mirror, None
        self.connected = True
        self._on_reply(reply)
        self._owner.on_met()
        self.leave([id for id in mirror.ids() if self._is_stray(id)])

    def feed(self, payload: bytes) -> None:
        version, *events = msgspec.json.decode(payload)
        if self._unread is not None:
            self._unread.append((int(version), events))
        elif int(version) > self.mirror.version + 1:
            self._line.restart("a message was missed")
        elif int(version) == self.mirror.version + 1:
            released = self.mirror.replay([(int(version), events)])
            if GATHERED in events:
                self._on_hold(0)
            self._owner.on_events(events, released)

    def beats(self) -> Iterator[Command]:
        """One for each so many leases, or an empty one: the replica lives all the same."""
        if not self.connected or self._stopping:
            return
        held = [ticket.id for ticket in self._owner.tickets.values() if ticket.granted]
        for batch in batches(held) or [[]]:
            yield self._command(Verb.BEAT, *batch, answer=self._on_beat)

    def cut_off(self) -> None:
        self.connected = False
        for timer in (self._patience, self._hold_end):
            if timer is not None:
                timer.cancel()
        self._patience = self._hold_end = None

    def strand(self) -> None:
        self._owner.on_stranded()

    # --- meeting -------------------------------------------------------------------------------

    async def _hello(self, session: Session, server: Server) -> None:
        young = server.uptime_seconds <= self._line.lease_seconds
        reply = await session.call(
            self._command(Verb.HELLO, server.run, int(young), self._slots, int(self._decides))
        )
        self._epoch = reply.rest[0].decode()
        self._decides = False

    async def _ask_page(self, session: Session, after: int, count: int) -> Reply:
        return await session.call(self._command(Verb.PAGE, after, count))

    async def _claim(self, session: Session, mirror: Mirror) -> Reply:
        """The leases first, so that no slot is given away while its holder speaks."""
        tickets = list(self._owner.tickets.values())
        claims = [("lease", ticket) for ticket in tickets if ticket.granted]
        claims += [("ticket", ticket) for ticket in tickets if is_missing(ticket, mirror)]
        pages = batches(claims) or [[]]
        for page in pages:
            final = int(page is pages[-1])
            arguments = [argument for claim in page for argument in claim_arguments(*claim)]
            reply = await session.call(self._command(Verb.CLAIM, final, *arguments))
            if reply.status != "ok":
                raise Restart("another epoch has begun")
            self._claimed(page, reply, mirror)
        return reply

    def _claimed(self, page: Sequence[Claim], reply: Reply, mirror: Mirror) -> None:
        """Into the mirror at once: its tickets are told of their places before the news come."""
        lost = {ticket_id.decode() for ticket_id in reply.rest[0]}
        for kind, ticket in page:
            entry = Entry(ticket.number, ticket.client, ticket.model)
            if ticket.id in lost:
                mirror.leave(ticket.id)
                self._owner.on_lost(ticket)
            elif kind == "ticket":
                mirror.join(ticket.id, entry)
            elif ticket.id not in mirror.leases:
                mirror.hold(ticket.id, Lease(*entry, since=reply.now))

    def _is_stray(self, ticket_id: str) -> bool:
        """Whether Redis keeps a ticket of ours that has been closed meanwhile."""
        ours = ticket_id.startswith(f"{self.replica}.")
        return ours and ticket_id not in self._owner.tickets

    # --- answers -------------------------------------------------------------------------------

    def _on_reply(self, reply: Reply) -> None:
        if reply.status == "unknown":
            self._line.restart("Redis does not know this replica")
            return
        self.clock_ahead = reply.now / MICROSECONDS - self._loop.time()
        self._on_hold(reply.hold)
        self._expect(reply.version)

    def _on_joined(self, ticket: PoolTicket, reply: Reply) -> None:
        self._on_reply(reply)
        if reply.status not in ("ok", "unknown"):
            self._owner.on_refused(ticket, Outcome(reply.status))

    def _on_resized(self, reply: Reply) -> None:
        self._on_reply(reply)
        self._decides = reply.status != "ok"

    def _on_beat(self, reply: Reply) -> None:
        self._on_reply(reply)
        if reply.rest and reply.rest[0]:
            self._line.restart("a lease has lapsed")
        if reply.more:
            self._post(Verb.BEAT, answer=self._on_beat)

    def _on_hold(self, hold: int) -> None:
        """Asks again when the hold ends, since Redis does nothing of its own accord."""
        if self.gathering and not hold:
            self.gathering = False
            self._owner.on_gathered()
        self.gathering = hold > 0
        if hold and self._hold_end is None:
            self._hold_end = self._loop.call_later(hold / MICROSECONDS + 0.001, self._ask_again)

    def _ask_again(self) -> None:
        self._hold_end = None
        self._post(Verb.BEAT, answer=self._on_beat)

    # --- news that do not come -----------------------------------------------------------------

    def _expect(self, version: int) -> None:
        self._wanted = version
        if version > self.mirror.version and self._patience is None:
            seen = self.mirror.version
            self._patience = self._loop.call_later(self._line.patience, self._look, seen)

    def _look(self, seen: int) -> None:
        """Behind and no news at all since: they are lost."""
        self._patience = None
        if self.mirror.version == seen < self._wanted:
            self._line.restart("a message did not come")
        else:
            self._expect(self._wanted)

    # --- sending -------------------------------------------------------------------------------

    def _post(self, verb: Verb, *arguments: Argument, answer: Answer | None = None) -> None:
        self._line.post(self._command(verb, *arguments, answer=answer))

    def _command(self, verb: Verb, *arguments: Argument, answer: Answer | None = None) -> Command:
        lease = int(self._line.lease_seconds * MICROSECONDS)
        common = (self.channel, self.replica, self._epoch, lease)
        return Command(verb, self._keys, (*common, *arguments), answer or self._on_reply)


def is_missing(ticket: PoolTicket, mirror: Mirror) -> bool:
    """Whether Redis has forgotten a ticket that it had put in line."""
    return ticket.waiting and bool(ticket.number) and mirror.number(ticket.id) is None


def claim_arguments(kind: str, ticket: PoolTicket) -> list[Argument]:
    return [kind, ticket.id, ticket.number, data(ticket.client), data(ticket.model)]
