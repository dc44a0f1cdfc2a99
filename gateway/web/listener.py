"""aiohttp's server with our words for requests that are not even HTTP.

A request line or header that cannot be parsed never reaches routing or a middleware; aiohttp
answers it with ``text/plain`` and logs a traceback for what is a client's mistake.  Such input
may also be an attempt at smuggling, so the connection is closed behind the answer.
"""

from __future__ import annotations

import asyncio
import logging
import secrets

from aiohttp import web

from gateway.errors import InternalError, InvalidRequest
from gateway.web.replies import error_reply

log = logging.getLogger("gateway")


class _Handler(web.RequestHandler):
    """One connection; answers what aiohttp itself refuses."""

    __slots__ = ()

    def handle_error(
        self,
        request: web.BaseRequest,
        status: int = 500,
        exc: BaseException | None = None,
        message: str | None = None,
    ) -> web.StreamResponse:
        """A whole answer in Anthropic's shape, or ConnectionError where one has begun already."""
        request_id = f"req_{secrets.token_hex(12)}"
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
        return _Handler(self, loop=asyncio.get_running_loop(), **self._kwargs)


class Runner(web.AppRunner):
    """An AppRunner whose connections are handled by ``_Handler``.

    Unlike aiohttp's own, it does not silently drop every option when one of them is misspelt.
    """

    async def _make_server(self) -> web.Server:
        server = await super()._make_server()
        ours = _Server.__new__(_Server)
        ours.__dict__.update(server.__dict__)
        return ours
