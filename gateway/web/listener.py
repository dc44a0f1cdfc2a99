"""aiohttp's server with our words for requests that are not even HTTP.

A request line or header that cannot be parsed never reaches routing or a middleware; aiohttp
answers it with ``text/plain`` and logs a traceback for what is a client's mistake.  A body that
turns out broken while a handler waits for the rest of it is worse: aiohttp's C parser queues its
complaint behind that handler, which then waits for ever (seen in 3.14.5).  Such input may also be
an attempt at smuggling, so the connection is closed behind the answer.
"""

from __future__ import annotations

import logging
from typing import Any

from aiohttp import web

from gateway.errors import InternalError, InvalidRequest
from gateway.web.bodies import BROKEN_BODY
from gateway.web.identity import new_request_id
from gateway.web.replies import error_reply, of_framework

log = logging.getLogger("gateway")


class _Handler(web.RequestHandler):
    """One connection; answers what aiohttp itself refuses."""

    __slots__ = ()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self._messages and (self._current_request is not None or len(self._messages) > 1):
            # A turn later: a handler that has just been woken has its request by then.
            self._loop.call_soon(self._break_unfinished_body)

    def resume_reading(self, resume_parser: bool = True) -> None:
        """Only what is paused: aiohttp asks for this after every read, by way of the parser."""
        if self._reading_paused:
            super().resume_reading(resume_parser)

    async def _drain_helper(self) -> None:
        """A wait for the client to read may be cut short, by a timeout say, and begun anew.

        aiohttp would await the same cancelled future again, which cancels whoever does so (since
        3.14; seen in 3.14.5).
        """
        if self._drain_waiter is not None and self._drain_waiter.done():
            self._drain_waiter = None
        await super()._drain_helper()

    def _break_unfinished_body(self) -> None:
        """What is queued behind a body that has not ended can only be the parser's complaint."""
        request = self._current_request
        if self._messages and request is not None and not request.content.is_eof():
            request.content.set_exception(web.RequestPayloadError("The body is not well-formed"))

    def log_exception(self, *args: Any, **options: Any) -> None:
        """A body found broken after its request was refused is the client's fault as well."""
        if isinstance(options.get("exc_info"), BROKEN_BODY):
            log.info("refused a body that cannot be read")
        else:
            super().log_exception(*args, **options)

    async def finish_response(
        self, request: web.BaseRequest, resp: web.StreamResponse, start_time: float | None
    ) -> tuple[web.StreamResponse, bool]:
        """What aiohttp refuses before any middleware runs, such as an odd expectation."""
        if isinstance(resp, web.HTTPException):
            resp = error_reply(of_framework(resp, request), new_request_id())
            resp.force_close()
        return await super().finish_response(request, resp, start_time)

    def handle_error(
        self,
        request: web.BaseRequest,
        status: int = 500,
        exc: BaseException | None = None,
        message: str | None = None,
    ) -> web.StreamResponse:
        """A whole answer in Anthropic's shape, or ConnectionError where one has begun already."""
        request_id = new_request_id()
        if status >= 500:
            log.error("%s: a fault of the gateway itself", request_id, exc_info=exc)
        else:
            log.info(
                "%s: refused what is not well-formed HTTP (%s)", request_id, type(exc).__name__
            )
        if request.writer.output_size > 0:
            raise ConnectionError("an answer has begun already")
        error = (
            InternalError("The gateway failed to handle this request; its log says why.")
            if status >= 500
            else InvalidRequest("The request is not well-formed HTTP.")
        )
        reply = error_reply(error, request_id)
        reply.force_close()
        return reply


class _Server(web.Server):
    """Makes a handler per connection."""

    def __call__(self) -> web.RequestHandler:
        return _Handler(self, loop=self._loop, **self._kwargs)


class Runner(web.AppRunner):
    """An AppRunner whose connections are handled by ``_Handler``.

    Unlike aiohttp's own, it does not silently drop every option when one of them is misspelt.
    """

    async def _make_server(self) -> web.Server:
        server = await super()._make_server()
        ours = _Server.__new__(_Server)
        ours.__dict__.update(server.__dict__)
        return ours
