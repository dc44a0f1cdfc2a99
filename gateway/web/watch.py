"""What operators watch: the last quarter of an hour, the last exchanges, and who is looking.

One task samples the lines and tells the open status pages.  While nobody looks it only counts
waiting and running every few seconds.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import deque
from collections.abc import AsyncIterator

import msgspec
from aiohttp import web

from gateway.web.gateway import Gateway
from gateway.web.record import ExchangeRecord
from gateway.web.snapshot import exchange_view, snapshot

log = logging.getLogger("gateway")

TICK_SECONDS = 1.0
"""Between two pictures of the lines for those who look."""

SAMPLE_SECONDS = 5.0
HISTORY_SECONDS = 15 * 60
RECENT = 50
"""Exchanges kept."""

SHOWN_TICKETS = 100
"""Places of a line that a page is told; the rest is a number."""

MOST_UNREAD = 100
"""Frames kept for a page that does not read; it is dropped then, and comes back by itself."""


class Watch:
    """Owned by ``app``, which starts and stops it."""

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway
        self._history: deque[dict[str, object]] = deque(
            maxlen=int(HISTORY_SECONDS / SAMPLE_SECONDS)
        )
        self._exchanges: deque[dict[str, object]] = deque(maxlen=RECENT)
        self._viewers: set[asyncio.Queue[bytes]] = set()
        self._sample_at = 0.0
        self._stalled: set[str] = set()
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        self._task = asyncio.create_task(self._run(), name="watch")

    async def stop(self) -> None:
        """Ends the streams of all who look."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait((self._task,))
        for viewer in list(self._viewers):
            self._drop(viewer)

    def see(self, record: ExchangeRecord) -> None:
        """An observer: remembers an exchange that has ended, as a picture: its record's error
        would keep the whole request with it."""
        exchange = exchange_view(record, time.time())
        self._exchanges.appendleft(exchange)
        if self._viewers:
            self._tell("exchange", exchange)

    def picture(self, *, most_tickets: int | None = None) -> dict[str, object]:
        """Everything: the lines, the history (oldest first), the exchanges (latest first)."""
        return {
            **snapshot(self._gateway, most_tickets=most_tickets),
            "history": {"every_seconds": SAMPLE_SECONDS, "samples": list(self._history)},
            "exchanges": list(self._exchanges),
        }

    async def frames(self) -> AsyncIterator[bytes]:
        """SSE for one viewer: the whole picture, then what changes; ends with ``stop``."""
        viewer: asyncio.Queue[bytes] = asyncio.Queue()
        self._viewers.add(viewer)
        try:
            yield frame("status", self.picture(most_tickets=SHOWN_TICKETS))
            while data := await viewer.get():
                yield data
        finally:
            self._viewers.discard(viewer)

    async def _run(self) -> None:
        """Whatever goes wrong in one tick, the next one tries again."""
        while True:
            try:
                self._tick(time.monotonic())
            except Exception:
                log.exception("the status page could not be brought up to date")
            await asyncio.sleep(TICK_SECONDS)

    def _tick(self, now: float) -> None:
        self._note_stalled()
        if now >= self._sample_at:
            self._sample_at = now + SAMPLE_SECONDS - TICK_SECONDS / 2
            self._sample()
        if self._viewers:
            self._tell("status", snapshot(self._gateway, most_tickets=SHOWN_TICKETS))

    def _note_stalled(self) -> None:
        """Says in the log when an upstream stalls, and when its line moves again."""
        stalled = {upstream.name for upstream in self._gateway.directory if upstream.stalled}
        for name in sorted(stalled - self._stalled):
            log.warning("%s is stalled: all slots taken, a line, and none given back", name)
        for name in sorted(self._stalled - stalled):
            log.warning("%s moves again", name)
        self._stalled = stalled

    def _sample(self) -> None:
        counts = {}
        for upstream in self._gateway.directory.with_removed():
            statistics = upstream.pool.statistics(most_tickets=0)
            counts[upstream.name] = {"waiting": statistics.waiting, "running": statistics.running}
        sample = {"at": round(time.time(), 1), "upstreams": counts}
        self._history.append(sample)
        self._tell("sample", sample)

    def _tell(self, event: str, data: object) -> None:
        encoded = frame(event, data)
        for viewer in list(self._viewers):
            viewer.put_nowait(encoded)
            if viewer.qsize() > MOST_UNREAD:
                self._drop(viewer)

    def _drop(self, viewer: asyncio.Queue[bytes]) -> None:
        """Its last frame is an empty one, the end."""
        self._viewers.discard(viewer)
        viewer.put_nowait(b"")


def frame(event: str, data: object) -> bytes:
    return b"event: %s\ndata: %s\n\n" % (event.encode(), msgspec.json.encode(data))


WATCH = web.AppKey("WATCH", Watch)
