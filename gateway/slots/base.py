"""The words of the queue: pool, ticket, place, outcome, statistics.

A *ticket* is a place in line from joining to its end.  A granted ticket holds a *lease* on one
slot until it is closed.  Closing is synchronous and idempotent, so that ``with pool.join(...)``
gives the slot back, or leaves the line, whatever happens inside and however often.
"""

from __future__ import annotations

import enum
from collections.abc import AsyncIterator, Callable, Mapping
from types import TracebackType
from typing import NamedTuple, Protocol, Self


class Outcome(enum.Enum):
    """How a ticket's wait ended; each ticket has exactly one."""

    GRANTED = "granted"
    REJECTED_FULL = "rejected_full"
    REJECTED_CLIENT_LIMIT = "rejected_client_limit"
    REJECTED_CLOSING = "rejected_closing"
    EXPIRED = "expired"
    ABANDONED = "abandoned"
    EVICTED_CLOSING = "evicted_closing"
    EVICTED_REMOVED = "evicted_removed"


class TicketEnded(Exception):
    """The wait ended without a slot; ``outcome`` says how."""

    def __init__(self, outcome: Outcome) -> None:
        super().__init__(outcome.value)
        self.outcome = outcome


class LineLimits(NamedTuple):
    """How much may wait, and for how long.  ``None`` means without limit."""

    max_waiting: int
    max_wait_seconds: float
    max_waiting_per_client: int | None = None


class Place(NamedTuple):
    """What a waiting ticket is told: ``position`` counts from 1 (next) and never rises."""

    position: int
    queue_length: int
    waited_seconds: float
    estimated_wait_seconds: float | None


class TicketView(NamedTuple):
    """A waiting ticket as outsiders see it."""

    position: int
    model: str
    client: str
    waited_seconds: float
    estimated_wait_seconds: float | None


class LeaseView(NamedTuple):
    """A held slot as outsiders see it."""

    model: str
    client: str
    held_seconds: float


class SlotStatistics(NamedTuple):
    """One consistent snapshot of a pool; with replicas, of the whole line."""

    limit: int
    running: int
    waiting: int
    oldest_wait_seconds: float
    seconds_since_release: float
    """Since a slot was last given back or granted to somebody; what "stalled" is judged by."""
    outcomes: Mapping[Outcome, int]
    """How tickets' waits have ended in this process since it started."""
    tickets: tuple[TicketView, ...]
    leases: tuple[LeaseView, ...]
    leases_lost: int = 0
    """How many leases of this process have lapsed while they were held."""


class Ticket(Protocol):
    """One request's place in line and, once granted, its lease on a slot.

    ::

        with pool.join(model=..., client=...) as ticket:
            async for place in ticket.places(keepalive_seconds):
                ...                 # waiting: tell the client
            ...                     # granted: the slot is held until the block is left
    """

    @property
    def granted(self) -> bool: ...

    @property
    def passed_on(self) -> bool:
        """Whether its slot, when it was released, went to somebody who had waited for it; with a
        shared line, whether somebody waited."""

    @property
    def waited_seconds(self) -> float:
        """From joining until the grant, or until now."""

    def places(self, every: float) -> AsyncIterator[Place]:
        """Yields the place at once when it has to wait, again whenever it changed, and the same
        again at least ``every`` seconds; ends with the grant.

        Yields nothing for a ticket that is granted at once.  A change and the grant in the same
        tick yield nothing more: the grant wins.  Raises TicketEnded for every other end.
        """

    async def wait(self) -> None:
        """Returns with the grant; raises TicketEnded for every other end."""

    def on_lost(self, callback: Callable[[], None]) -> None:
        """Calls back, once, if the granted lease lapses while it is still held (only a pool that
        is shared between replicas can lose one)."""

    def close(self) -> None:
        """Leaves the line or releases the slot.  Synchronous, idempotent, never raises."""

    def __enter__(self) -> Self: ...

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None: ...


class SlotPool(Protocol):
    """The slots of one upstream and the line in front of them."""

    def join(self, *, model: str, client: str) -> Ticket:
        """Takes a slot at once if one is free and nobody waits, otherwise the end of the line.

        Never raises: a refusal (full, closing, client limit) is raised by the ticket's first
        ``places`` or ``wait``, since a shared pool learns of it only later.
        """

    def reconfigure(self, *, slots: int, limits: LineLimits) -> None:
        """Raising ``slots`` grants at once, in order; lowering lets the running ones finish."""

    def evict(self, outcome: Outcome) -> None:
        """Ends every waiting ticket with ``outcome`` and rejects newcomers from now on; leases
        stay until they are closed."""

    def reopen(self) -> None:
        """Takes newcomers again after ``evict``; leases that have stayed still count."""

    @property
    def busy(self) -> bool:
        """Whether a ticket of this process is open, waiting or running."""

    def statistics(self, most_tickets: int | None = None) -> SlotStatistics:
        """A snapshot; with ``most_tickets`` it shows only the first ones of the line, and then
        costs the same however long the line is."""

    def next_grant_seconds(self) -> float | None:
        """How long until the first in line will probably be granted, which makes room for one
        more; None until enough is measured, or while nobody is granted."""

    @property
    def reachable(self) -> bool:
        """Whether slots can be granted at all (a shared pool may have lost its store)."""

    async def start(self) -> None: ...

    async def stop(self) -> None:
        """After the last ticket is closed: ends the pool's own tasks and timers."""
