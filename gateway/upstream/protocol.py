"""One connection to an upstream, below aiohttp's session: its own protocol with three additions.

* It tells whoever relays its answer that something has come, in the very turn of the event loop
  in which the socket brought it.  aiohttp's way, completing a future that wakes a task, costs
  more per token than all the rest of relaying one.
* It knows a *stale* connection: one of the pool, closed at its other end before a single byte
  answered.  Only then did the server hardly look at the request.  It is no rare accident:
  llama.cpp closes after each stream although it promises not to, and by then whoever was next in
  line is being sent up.
* It does not resume what is not paused: aiohttp does so after each read, by way of the parser.

The private names of aiohttp that this leans on, as seen in 3.14.5: ``_factory`` and ``_release`` of
the connector, ``_reading_paused`` of the protocol.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Any

from aiohttp import ClientConnectionResetError, ServerDisconnectedError, TCPConnector
from aiohttp.client_proto import ResponseHandler


class StaleConnection(ServerDisconnectedError):
    """A connection from the pool had been closed at its other end when it was used again."""


class UpstreamProtocol(ResponseHandler):
    """Sits between the socket and the parser of one connection, for all its requests in turn."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(loop)
        self.on_progress: Callable[[], None] | None = None
        """Called when something has come, be it bytes, the end or a failure."""
        self._requests = 0
        self._answered = False
        self._resting = False

    def rest(self) -> None:
        """Called when the connection goes back to the pool: nothing may come before it is used
        again, and what comes all the same would be taken for the next request's answer.

        An answer may come before all of its request has gone up; nothing is sent behind that."""
        self._resting = True
        if self.transport is not None and self.transport.get_write_buffer_size() > 0:
            self.force_close()

    def set_response_params(self, **params: Any) -> None:
        """aiohttp calls this for each request, before it is sent."""
        self._requests += 1
        self._answered = self._resting = False
        super().set_response_params(**params)

    def data_received(self, data: bytes) -> None:
        if self._resting:
            self.abort()
            return
        self._answered = True
        super().data_received(data)
        if self._resting and self.should_close:  # more than the answer has come, in one piece
            self.abort()
        if self.on_progress is not None:
            self.on_progress()

    def connection_lost(self, exc: BaseException | None) -> None:
        super().connection_lost(exc)
        if self.on_progress is not None:
            self.on_progress()

    def set_exception(self, exc: BaseException, *cause: BaseException) -> None:
        if self._requests > 1 and not self._answered and had_closed(exc, *cause):
            exc = StaleConnection(str(exc))
        super().set_exception(exc, *cause)

    def resume_reading(self, resume_parser: bool = True) -> None:
        if self._reading_paused:
            super().resume_reading(resume_parser)


def had_closed(exc: BaseException, cause: BaseException | None = None) -> bool:
    """Whether ``exc`` says that the other end had said goodbye: to a request already written, to
    one that aiohttp could no longer write, or (EPIPE) to one that then met a closed socket.

    A reset without a goodbye (ECONNRESET) is none of these: whoever resets may have been at work,
    and a turn must not be sent twice.  Linux tells them apart in ``tcp_reset()``.
    """
    return isinstance(exc, ServerDisconnectedError) or isinstance(
        cause or exc.__cause__, BrokenPipeError | ClientConnectionResetError
    )


class UpstreamConnector(TCPConnector):
    """Tells a connection when it has been put aside."""

    def _release(self, key: Any, protocol: ResponseHandler, **options: Any) -> None:
        if isinstance(protocol, UpstreamProtocol):
            protocol.rest()
        super()._release(key, protocol, **options)


def connector(**options: Any) -> TCPConnector:
    """A connector whose connections are of this kind."""
    made = UpstreamConnector(**options)
    made._factory = partial(UpstreamProtocol, asyncio.get_running_loop())  # type: ignore[assignment]
    return made
