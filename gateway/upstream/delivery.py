"""Bytes from the upstream's socket to whoever wants them, without waking a task for each piece."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from aiohttp import StreamReader

from gateway.upstream.protocol import UpstreamProtocol

Sink = Callable[[bytes], bool]
"""Takes a piece; says whether it wants the next one delivered as well.  May raise."""


class Delivery:
    """Hands every piece to a sink until that has had enough, or the body ends."""

    __slots__ = ("_content", "_delivering", "_loop", "_over", "_protocol", "_sink")

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        protocol: UpstreamProtocol,
        content: StreamReader,
        sink: Sink,
    ) -> None:
        self._protocol = protocol
        self._content = content
        self._sink = sink
        self._delivering = False
        self._loop = loop
        self._over: asyncio.Future[None] = loop.create_future()

    async def run(self) -> None:
        """Raises what the sink raises, and what reading would.

        Cancelling it loses nothing: what has not been delivered stays in the reader.
        """
        self._protocol.on_progress = self._deliver
        try:
            self._deliver()  # what came before we stood here
            await self._over
        finally:
            self._protocol.on_progress = None

    def _deliver(self) -> None:
        if self._delivering:  # reading makes room, and so made more come
            self._loop.call_soon(self._deliver)
            return
        if self._over.done():
            return
        self._delivering = True
        try:
            data = self._content.read_nowait()
            wanted = not data or self._sink(data)
        except Exception as error:
            self._end()
            self._over.set_exception(error)
        else:
            if not wanted or self._content.is_eof():
                self._end()
                self._over.set_result(None)
        finally:
            self._delivering = False

    def _end(self) -> None:
        """At once: by its next turn the connection may serve another request."""
        self._protocol.on_progress = None
