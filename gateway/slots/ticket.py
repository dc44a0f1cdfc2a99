"""A ticket as its exchange holds it: one future, one state, and the rules of telling.

Shared by every pool.  The pool moves the ticket from state to state and wakes it; the exchange
awaits it.  A near ticket (one of the first ``NEAR`` places) is woken by every change at once, a
far one by the pool's sweep, at most once per ``merge_seconds``.  A change that comes while the
exchange still writes the one before is told when it comes back, so none is lost.
"""

from __future__ import annotations

import asyncio
import enum
import sys
from collections.abc import Callable
from types import TracebackType
from typing import Protocol, Self

from gateway.slots.base import Outcome, Place, TicketEnded

NEAR = 20
"""Places that hear of every change at once."""

MERGE_SECONDS = 1.0
"""Farther back, changes within this time are told as one."""

FAR_OUT = 1000
"""Behind this place a second is nothing: changes are merged for longer, the farther the longer."""


def merge_seconds(position: int) -> float:
    return MERGE_SECONDS * max(1.0, position / FAR_OUT)


class State(enum.Enum):
    JOINING = "joining"
    """The pool has not answered yet (only a shared pool needs time for that)."""
    WAITING = "waiting"
    GRANTED = "granted"
    ENDED = "ended"
    CLOSED = "closed"


class Owner(Protocol):
    """What a ticket needs of its pool."""

    def place_of(self, ticket: PoolTicket) -> Place: ...

    def position_of(self, ticket: PoolTicket) -> int: ...

    def watch(self, every: float) -> None:
        """Sees to it that waiting tickets are swept often enough for telling ``every`` seconds."""

    def close_ticket(self, ticket: PoolTicket) -> None: ...


class PoolTicket:
    """See ``base.Ticket``."""

    __slots__ = (
        "_every",
        "_loop",
        "_on_lost",
        "_pool",
        "_told_at",
        "_told_position",
        "_waiter",
        "client",
        "granted_at",
        "id",
        "joined_at",
        "model",
        "number",
        "outcome",
        "passed_on",
        "state",
    )

    def __init__(
        self,
        pool: Owner,
        loop: asyncio.AbstractEventLoop,
        *,
        client: str,
        model: str,
    ) -> None:
        self._pool = pool
        self._loop = loop
        self._waiter: asyncio.Future[None] | None = None
        self._every: float | None = None
        self._told_at = 0.0
        self._told_position = sys.maxsize
        self._on_lost: Callable[[], None] | None = None
        self.id = ""
        """Its name among several processes; only a shared pool needs one."""
        self.number = 0
        self.client = client
        self.model = model
        self.joined_at = loop.time()
        self.granted_at: float | None = None
        self.state = State.JOINING
        self.outcome: Outcome | None = None
        self.passed_on = False

    def __repr__(self) -> str:
        return f"<Ticket {self.number} of {self.client or '-'}: {self.state.value}>"

    # --- the exchange's side -------------------------------------------------------------------

    @property
    def granted(self) -> bool:
        return self.state is State.GRANTED

    @property
    def waiting(self) -> bool:
        """Whether it stands in line, or is about to."""
        return self.state in (State.JOINING, State.WAITING)

    @property
    def waited_seconds(self) -> float:
        until = self._loop.time() if self.granted_at is None else self.granted_at
        return max(0.0, until - self.joined_at)

    def places(self, every: float) -> Places:
        return Places(self, every)

    async def wait(self) -> None:
        while not self._decided():
            await self._woken()

    def on_lost(self, callback: Callable[[], None]) -> None:
        self._on_lost = callback

    def close(self) -> None:
        if self.state is not State.CLOSED:
            self._pool.close_ticket(self)
            self.state = State.CLOSED
            self._wake()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    # --- the pool's side -----------------------------------------------------------------------

    def answer_waiting(self) -> None:
        """The ticket stands in line."""
        if self.state is State.JOINING:
            self.state = State.WAITING
            self._wake()

    def answer_granted(self, now: float) -> None:
        if self.waiting:
            self.state = State.GRANTED
            self.outcome = Outcome.GRANTED
            self.granted_at = now
            self._wake()

    def answer_ended(self, outcome: Outcome) -> None:
        if self.waiting:
            self.state = State.ENDED
            self.outcome = outcome
            self._wake()

    def answer_lost(self) -> None:
        """The granted lease has lapsed."""
        if self.state is State.GRANTED and self._on_lost is not None:
            callback, self._on_lost = self._on_lost, None
            callback()

    def tell_if_moved(self, position: int) -> None:
        """Wakes a ticket that listens if it stands nearer than it has been told."""
        if self._every is not None and position < self._told_position:
            self._wake()

    def tell_if_due(self, position: int, now: float, until_next: float) -> None:
        """The sweep's turn: wakes for a merged change, or for a keep-alive that cannot wait for
        its next turn, ``until_next`` seconds away at most."""
        if self._every is None:
            return
        since = now - self._told_at
        if since + until_next > self._every or (
            position < self._told_position and since >= merge_seconds(position)
        ):
            self._wake()

    # --- steps ---------------------------------------------------------------------------------

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    def _decided(self) -> bool:
        """Whether the wait is over; raises TicketEnded if it ended badly."""
        if self.state is State.ENDED:
            assert self.outcome is not None
            raise TicketEnded(self.outcome)
        if self.state is State.CLOSED:
            raise TicketEnded(Outcome.ABANDONED)
        return self.state is State.GRANTED

    async def _woken(self) -> None:
        self._waiter = self._loop.create_future()
        try:
            await self._waiter
        finally:
            self._waiter = None

    async def _next_place(self, every: float) -> Place | None:
        """The next place to tell, or None with the grant."""
        if self._every is None:
            self._every = every
            self._pool.watch(every)
        elif not self._decided() and not self._missed_a_move():
            await self._woken()
        while not self._decided():
            if self.state is State.WAITING:
                return self._told(self._pool.place_of(self))
            await self._woken()
        return None

    def _told(self, place: Place) -> Place:
        """What is told never rises, though a shared line may let an older ticket back in."""
        self._told_at = self._loop.time()
        self._told_position = min(place.position, self._told_position)
        return place._replace(position=self._told_position)

    def _missed_a_move(self) -> bool:
        """Whether a near ticket has moved while nobody waited to hear of it."""
        position = self._pool.position_of(self)
        return position <= NEAR and position < self._told_position


class Places:
    """The places of one ticket as they change; see ``base.Ticket.places``."""

    def __init__(self, ticket: PoolTicket, every: float) -> None:
        self._ticket = ticket
        self._every = every

    def __aiter__(self) -> Places:
        return self

    async def __anext__(self) -> Place:
        place = await self._ticket._next_place(self._every)
        if place is None:
            raise StopAsyncIteration
        return place
