"""Making a mirror of a line while the line goes on: page by page, then what was published since."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import msgspec

from gateway.slots.redis_mirror import Entry, Lease, Mirror
from gateway.slots.redis_verbs import BATCH, Reply

AskPage = Callable[[int, int], Awaitable[Reply]]
"""The page behind a ticket number, of so many tickets."""


async def copy_line(ask: AskPage) -> Mirror:
    """A mirror as old as its first page.

    A page may be newer than the first, so the mirror is whole once all that was published since
    the first has been replayed; events that a page has in it already change nothing.
    """
    page = await ask(0, BATCH)
    mirror = Mirror(slots=page.rest[0], version=page.version, turned=page.rest[1])
    while True:
        _, _, waiting, running = page.rest
        for ticket_id, ticket in waiting:
            mirror.join(ticket_id.decode(), entry_of(ticket))
        if running is not None:
            break
        page = await ask(entry_of(waiting[-1][1]).number, BATCH)
    for ticket_id, since, ticket in running:
        mirror.hold(ticket_id.decode(), Lease(*entry_of(ticket), since=int(since)))
    return mirror


def entry_of(ticket: bytes) -> Entry:
    number, client, model = msgspec.json.decode(ticket, type=list[Any])
    return Entry(int(number), client, model)
