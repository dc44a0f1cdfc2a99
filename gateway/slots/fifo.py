"""The decision core of the queue: who holds a slot and who waits.  Pure: no await, no clock.

A ticket's state is its membership: it waits, or it holds a lease, or it is gone.  Every verb is
one synchronous step that leaves the invariants whole and returns the effects for the shell to
carry out:

* never more leases than slots, unless ``slots`` was just lowered;
* nobody waits while a slot is free, and a newcomer never overtakes;
* grants follow ticket numbers; positions are 1..n without gaps and never rise;
* each ticket has exactly one outcome.

Ticket numbers only grow, so the line is a sorted list and a position is a bisection.  Removing
from that list moves eight bytes per waiter behind it: some microseconds for 50,000 of them.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter
from typing import NamedTuple

from gateway.slots.base import LineLimits, Outcome


class Waiting(NamedTuple):
    client: str
    model: str
    joined_at: float


class Lease(NamedTuple):
    client: str
    model: str
    joined_at: float
    granted_at: float


class Effects(NamedTuple):
    """What the shell must tell whom.  Grants come first, in the order of the line."""

    granted: tuple[int, ...] = ()
    ended: tuple[tuple[int, Outcome], ...] = ()
    moved: bool = False
    """Whether places of the remaining line have changed."""


NOTHING = Effects()


class Fifo:
    """The slots of one upstream and the one line in front of them."""

    def __init__(self, *, slots: int, limits: LineLimits) -> None:
        self.slots = slots
        self.limits = limits
        self.outcomes: Counter[Outcome] = Counter()
        self.closing: Outcome | None = None
        self._last_number = 0
        self._line: list[int] = []
        self._waiting: dict[int, Waiting] = {}
        self._leases: dict[int, Lease] = {}
        self._waiting_of_client: Counter[str] = Counter()

    def __repr__(self) -> str:
        return f"<Fifo {len(self._leases)}/{self.slots} running, waiting {self._line}>"

    # --- verbs ---------------------------------------------------------------------------------

    def join(self, *, client: str, model: str, now: float) -> tuple[int, Effects]:
        """A new ticket: granted, at the end of the line, or rejected."""
        self._last_number += 1
        number = self._last_number
        if refusal := self._refusal(client):
            return number, self._end_all([(number, refusal)], moved=False)
        if not self._line and len(self._leases) < self.slots:
            self._leases[number] = Lease(client, model, joined_at=now, granted_at=now)
            self.outcomes[Outcome.GRANTED] += 1
            return number, Effects((number,))
        self._waiting[number] = Waiting(client, model, now)
        self._line.append(number)
        self._waiting_of_client[client] += 1
        return number, NOTHING

    def leave(self, number: int, now: float) -> Effects:
        """Gives up waiting, or releases the slot, or does nothing if the ticket is gone."""
        if number in self._leases:
            del self._leases[number]
            granted = self._grant(now)
            return Effects(granted, moved=bool(granted))
        if number in self._waiting:
            del self._line[bisect_left(self._line, number)]
            self._forget(number)
            return self._end_all([(number, Outcome.ABANDONED)])
        return NOTHING

    def reconfigure(self, *, slots: int, limits: LineLimits, now: float) -> Effects:
        """New bounds.  Nobody running is stopped; nobody waiting is sent away by a shorter line."""
        self.slots = slots
        self.limits = limits
        granted = self._grant(now)
        return Effects(granted, moved=bool(granted))

    def expire(self, now: float) -> Effects:
        """Ends the tickets that have waited too long: always the first ones of the line."""
        expired = self._cut(bisect_right(self._line, now, key=self._expiry))
        return self._end_all([(number, Outcome.EXPIRED) for number, _ in expired])

    def evict(self, outcome: Outcome) -> Effects:
        """Ends every waiting ticket and rejects newcomers from now on."""
        self.closing = outcome
        evicted = [(number, outcome) for number in self._line]
        self._line.clear()
        self._waiting.clear()
        self._waiting_of_client.clear()
        return self._end_all(evicted)

    def reopen(self) -> None:
        """Takes newcomers again; leases from before still count."""
        self.closing = None

    # --- views ---------------------------------------------------------------------------------

    @property
    def running(self) -> int:
        return len(self._leases)

    @property
    def waiting(self) -> int:
        return len(self._line)

    def position(self, number: int) -> int:
        """The 1-based place of a waiting ticket; raises KeyError for any other."""
        if number not in self._waiting:
            raise KeyError(number)
        return bisect_left(self._line, number) + 1

    def first(self, count: int) -> list[int]:
        """The tickets in the first ``count`` places."""
        return self._line[:count]

    def line(self, most: int | None = None) -> list[tuple[int, Waiting]]:
        """The tickets in their order, or only the first ``most``."""
        return [(number, self._waiting[number]) for number in self._line[:most]]

    def leases(self) -> list[Lease]:
        return list(self._leases.values())

    def next_expiry(self) -> float | None:
        """When the first ticket of the line will have waited too long."""
        if not self._line:
            return None
        return self._expiry(self._line[0])

    # --- steps ---------------------------------------------------------------------------------

    def _refusal(self, client: str) -> Outcome | None:
        if self.closing is not None:
            return (
                Outcome.EVICTED_REMOVED
                if self.closing is Outcome.EVICTED_REMOVED
                else Outcome.REJECTED_CLOSING
            )
        if not self._line and len(self._leases) < self.slots:
            return None
        if len(self._line) >= self.limits.max_waiting:
            return Outcome.REJECTED_FULL
        per_client = self.limits.max_waiting_per_client
        if per_client is not None and self._waiting_of_client[client] >= per_client:
            return Outcome.REJECTED_CLIENT_LIMIT
        return None

    def _expiry(self, number: int) -> float:
        return self._waiting[number].joined_at + self.limits.max_wait_seconds

    def _grant(self, now: float) -> tuple[int, ...]:
        free = self.slots - len(self._leases)
        if free <= 0 or not self._line:
            return ()
        granted = self._cut(free)
        for number, waiting in granted:
            self._leases[number] = Lease(*waiting, granted_at=now)
        self.outcomes[Outcome.GRANTED] += len(granted)
        return tuple(number for number, _ in granted)

    def _cut(self, count: int) -> list[tuple[int, Waiting]]:
        """Takes the first ``count`` tickets out of the line, all in one move."""
        numbers = self._line[:count]
        del self._line[:count]
        return [(number, self._forget(number)) for number in numbers]

    def _forget(self, number: int) -> Waiting:
        waiting = self._waiting.pop(number)
        self._waiting_of_client[waiting.client] -= 1
        if not self._waiting_of_client[waiting.client]:
            del self._waiting_of_client[waiting.client]
        return waiting

    def _end_all(self, ended: list[tuple[int, Outcome]], *, moved: bool = True) -> Effects:
        self.outcomes.update(outcome for _, outcome in ended)
        return Effects(ended=tuple(ended), moved=moved and bool(ended))
