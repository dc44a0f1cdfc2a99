"""Bytes from the upstream's socket to whoever wants them, without waking a task for each piece.

aiohttp's StreamReader wakes the task that reads it by completing a future.  Here something that
looks like that future takes its place: completing it schedules one plain callback, which delivers.
A task with its coroutines and futures costs more per token than all the rest of relaying one.

Delivering in the very call that completes the future would save the callback too, but that call
comes from inside the HTTP parser, and reading from the buffer may enter the parser again.

This is the one place that leans on a private attribute of aiohttp (``StreamReader._waiter``, the
same since 2016).  Where it is missing ``can_deliver`` says so, and the plain way of reading is
taken, which also serves whenever the client is slow.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from aiohttp import StreamReader

Sink = Callable[[bytes], bool]
"""Takes a piece; says whether it wants the next one delivered as well.  May raise."""


def can_deliver(content: StreamReader) -> bool:
    """Whether this reader is as we know it, nobody reads it, and there is more to come."""
    return getattr(content, "_waiter", "missing") is None and not content.is_eof()


class Delivery:
    """Stands in for the future of a reading task until the sink has had enough."""

    def __init__(self, content: StreamReader, sink: Sink) -> None:
        self._content = content
        self._sink = sink
        self._loop = asyncio.get_running_loop()
        self._over: asyncio.Future[None] = self._loop.create_future()

    async def run(self) -> None:
        """Returns at the end of the body or when the sink says no; raises what either raises.

        Cancelling it loses nothing: what has not been delivered stays in the reader.
        """
        while data := self._content.read_nowait():  # what came before we stood here
            if not self._sink(data) or self._content.is_eof():
                return
        self._content._waiter = self  # type: ignore[assignment]
        try:
            await self._over
        finally:
            if self._content._waiter is self:  # type: ignore[comparison-overlap]
                self._content._waiter = None

    # --- what the reader sees of a future ------------------------------------------------------

    def done(self) -> bool:
        return self._over.done()

    def set_result(self, _: None) -> None:
        """More has arrived, or the end."""
        self._loop.call_soon(self._deliver)

    def set_exception(self, error: BaseException) -> None:
        if not self._over.done():
            self._over.set_exception(error)

    def _deliver(self) -> None:
        if self._over.done():
            return
        try:
            wanted = self._sink(self._content.read_nowait())
        except Exception as error:
            self.set_exception(error)
            return
        if wanted and not self._content.is_eof():
            self._content._waiter = self  # type: ignore[assignment]
        else:
            self._over.set_result(None)
