"""Bytes from the upstream's socket to whoever wants them, without waking a task for each piece."""

from __future__ import annotations

import asyncio
import enum
from collections.abc import Callable

from aiohttp import StreamReader

from gateway.upstream.protocol import UpstreamProtocol

Sink = Callable[[bytes], bool]
"""Takes a piece; says whether it wants the next one delivered as well.  May raise."""


class State(enum.Enum):
    IDLE = "idle"
    DELIVERING = "delivering"
    OVER = "over"


IDLE, DELIVERING, OVER = State


class Delivery:
    """Hands every piece to a sink until that has had enough, or the body ends."""

    __slots__ = ("_content", "_loop", "_over", "_protocol", "_sink", "_state")

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
        self._state = IDLE
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
            self._state = OVER
            self._protocol.on_progress = None

    def _deliver(self) -> None:
        if self._state is DELIVERING:  # reading makes room, and so made more come
            self._loop.call_soon(self._deliver)
            return
        if self._state is OVER:
            return
        self._state = DELIVERING
        try:
            data = self._content.read_nowait()
            wanted = not data or self._sink(data)
        except Exception as error:
            self._end(error)
        else:
            if wanted and not self._content.is_eof():
                self._state = IDLE
            else:
                self._end(None)

    def _end(self, error: Exception | None) -> None:
        """Lets go at once, since by its next turn the connection may serve another request, and
        wakes its task a turn later: a sink may just have woken somebody who has waited longer."""
        self._state = OVER
        self._protocol.on_progress = None
        self._loop.call_soon(self._wake, error)

    def _wake(self, error: Exception | None) -> None:
        if self._over.done():
            return
        if error is None:
            self._over.set_result(None)
        else:
            self._over.set_exception(error)
