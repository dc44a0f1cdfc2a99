"""A replica's copy of one shared line, kept up to date by what Redis publishes.  Pure.

Redis decides; the mirror only follows, so that positions and statistics of the whole line cost
nobody a question.  Every change is an event of a numbered message; a missing number means that
the copy is to be made anew.  Events may be repeated: applying one twice changes nothing.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterable, Iterator
from typing import NamedTuple

Event = list[str]
"""``["join", id, number, client, model]``, ``["grant", id, since]``, ``["leave", id]``,
``["slots", number]``, ``["gathered"]``."""


class Entry(NamedTuple):
    """A ticket of any replica.  Its number is when it joined, in microseconds of Redis's clock."""

    number: int
    client: str
    model: str


class Lease(NamedTuple):
    number: int
    client: str
    model: str
    since: int


class Mirror:
    """The line as it was after message ``version``."""

    def __init__(self, *, slots: int, version: int = 0, turned: int = 0) -> None:
        self.slots = slots
        self.version = version
        self.turned = turned
        """When a slot last changed hands, in microseconds of Redis's clock."""
        self.leases: dict[str, Lease] = {}
        self._entries: dict[str, Entry] = {}
        self._line: list[tuple[int, str]] = []

    def __repr__(self) -> str:
        return f"<Mirror {len(self.leases)}/{self.slots} running, {len(self._line)} waiting>"

    @property
    def waiting(self) -> int:
        return len(self._line)

    def __contains__(self, ticket_id: str) -> bool:
        """Whether the ticket waits."""
        return ticket_id in self._entries

    def position(self, ticket_id: str) -> int:
        """The 1-based place of a waiting ticket; raises KeyError for any other."""
        return bisect_left(self._line, (self._entries[ticket_id].number, ticket_id)) + 1

    def number(self, ticket_id: str) -> int | None:
        """When the ticket joined, waiting or running; None if it is not known."""
        known = self._entries.get(ticket_id) or self.leases.get(ticket_id)
        return known.number if known else None

    def first(self, count: int) -> list[str]:
        return [ticket_id for _, ticket_id in self._line[:count]]

    def line(self) -> Iterator[Entry]:
        return (self._entries[ticket_id] for _, ticket_id in self._line)

    def ids(self) -> Iterator[str]:
        """Every ticket, waiting or running."""
        yield from self._entries
        yield from self.leases

    # --- following -----------------------------------------------------------------------------

    def apply(self, event: Event) -> Lease | None:
        """Answers the lease that the event has ended, if it has."""
        match event:
            case ["join", ticket_id, number, client, model]:
                self.join(ticket_id, Entry(int(number), client, model))
            case ["grant", ticket_id, since]:
                self._grant(ticket_id, int(since))
            case ["leave", ticket_id]:
                return self.leave(ticket_id)
            case ["slots", slots]:
                self.slots = int(slots)
        return None

    def join(self, ticket_id: str, entry: Entry) -> None:
        if ticket_id not in self._entries and ticket_id not in self.leases:
            self._entries[ticket_id] = entry
            insort(self._line, (entry.number, ticket_id))

    def hold(self, ticket_id: str, lease: Lease) -> None:
        self._take_out(ticket_id)
        self.leases[ticket_id] = lease

    def leave(self, ticket_id: str) -> Lease | None:
        self._take_out(ticket_id)
        return self.leases.pop(ticket_id, None)

    def replay(self, messages: Iterable[tuple[int, list[Event]]]) -> list[Lease]:
        """Catches up with what was published since the copy was made.  Answers the leases that
        have ended."""
        ended = []
        for version, events in messages:
            if version > self.version:
                self.version = version
                ended += [lease for event in events if (lease := self.apply(event))]
        return ended

    def _grant(self, ticket_id: str, since: int) -> None:
        self.turned = max(self.turned, since)
        if entry := self._take_out(ticket_id):
            self.leases[ticket_id] = Lease(*entry, since=since)

    def _take_out(self, ticket_id: str) -> Entry | None:
        entry = self._entries.pop(ticket_id, None)
        if entry is not None:
            del self._line[bisect_left(self._line, (entry.number, ticket_id))]
        return entry
