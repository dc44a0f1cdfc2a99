"""A POST straight to a connection of the session's pool.

A ClientSession prepares every request for what never happens here: redirects, cookies, proxies,
middlewares, tracing hooks, a body that comes piece by piece from a task of its own.  That is a
fifth of what a short request costs, and it stands between a freed slot and whoever waited for it.
So this leaves out all of it and keeps aiohttp's connector, writer, parser and response: head and
body go up in the very call, in one piece.

As seen in aiohttp 3.14.5, where ``ClientSession._request`` does the same things in this order.
"""

from __future__ import annotations

import asyncio

from aiohttp import (
    ClientRequest,
    ClientResponse,
    ClientSession,
    ClientTimeout,
    ConnectionTimeoutError,
    hdrs,
)
from aiohttp.connector import Connection
from aiohttp.helpers import TimerNoop
from aiohttp.http import StreamWriter
from multidict import CIMultiDict
from yarl import URL

READ_BUFFER_BYTES = 65536
"""Kept per stream when the client reads slower than the upstream writes (twice this at most)."""

NO_TIMER = TimerNoop()


class Endpoint:
    """One URL that is posted to, and what all requests to it have in common."""

    def __init__(self, http: ClientSession, url: URL) -> None:
        self._loop = asyncio.get_running_loop()
        self._http = http
        self._url = url
        self._request_line = f"{hdrs.METH_POST} {url.raw_path_qs} HTTP/1.1"
        self._host = url.host_port_subcomponent or ""
        # Never sent: it tells the connector where to, and the response what it answers.
        self._request = ClientRequest(
            hdrs.METH_POST, url, loop=self._loop, response_class=ClientResponse, session=http
        )
        self._request_info = self._request.request_info

    async def post(
        self, headers: CIMultiDict[str], body: bytes, patience: ClientTimeout
    ) -> ClientResponse:
        """Returns with the answer's status and headers.  Raises aiohttp.ClientError, OSError."""
        assert self._http.connector is not None, "the session is closed"
        try:
            connection = await self._http.connector.connect(self._request, [], patience)
        except TimeoutError as error:
            raise ConnectionTimeoutError("nobody accepted a connection in time") from error
        try:
            response = await self._send(connection, headers, body)
        except BaseException:
            connection.close()
            raise
        try:
            return await response.start(connection)
        except BaseException:
            response.close()
            raise

    async def _send(
        self, connection: Connection, headers: CIMultiDict[str], body: bytes
    ) -> ClientResponse:
        """Waits for nothing.  What the socket does not take at once goes up while the answer is
        awaited; until all has gone nobody else gets the connection (``UpstreamProtocol.rest``)."""
        protocol = connection.protocol
        assert protocol is not None, "the connection is closed"
        protocol.set_response_params(
            timer=NO_TIMER, read_until_eof=True, read_bufsize=READ_BUFFER_BYTES
        )
        writer = StreamWriter(protocol, self._loop)
        await writer.write_headers(self._request_line, self._complete(headers, len(body)))
        await writer.write(body, drain=False)
        return ClientResponse(
            hdrs.METH_POST,
            self._url,
            writer=None,
            continue100=None,
            timer=NO_TIMER,
            request_info=self._request_info,
            traces=[],
            loop=self._loop,
            session=self._http,
            stream_writer=writer,
        )

    def _complete(self, headers: CIMultiDict[str], size: int) -> CIMultiDict[str]:
        complete = CIMultiDict({hdrs.HOST: self._host})
        complete.update(headers)
        complete[hdrs.CONTENT_LENGTH] = str(size)
        return complete
