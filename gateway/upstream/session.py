"""The one ClientSession: a pool of connections that never queues, and its unpooled twin.

Measured with aiohttp 3.14.5: a connector's default limit of 100 makes the 101st request wait
without a word although it holds a slot, hence ``limit=0``: the line in front of the slots is the
only limit.  vLLM, SGLang and llama.cpp close idle connections after five seconds, and a POST on a
connection that is just being closed fails, hence a much shorter keep-alive of our own, and a
second session without any for the one repetition of such a POST.
"""

from __future__ import annotations

import asyncio

from aiohttp import ClientSession, ClientTimeout, DummyCookieJar, TCPConnector

from gateway.upstream.protocol import connector

IDLE_CONNECTION_SECONDS = 2.0
READ_BUFFER_BYTES = 65536
"""Kept per stream when the client reads slower than the upstream writes (twice this at most)."""


class UpstreamSession:
    """Owns the session and the requests that were given up before they were answered."""

    def __init__(self) -> None:
        self.loop = asyncio.get_running_loop()
        self._abandoned: set[asyncio.Task[object]] = set()
        self.http = _session(connector(limit=0, keepalive_timeout=IDLE_CONNECTION_SECONDS))
        self.fresh = _session(connector(limit=0, force_close=True))

    def abandon(self, task: asyncio.Task[object]) -> None:
        """Cancels a request whose exchange is over, and keeps it until it has noticed."""
        if not task.done():
            self._abandoned.add(task)
            task.add_done_callback(self._noticed)
            task.cancel()
        elif not task.cancelled():
            task.exception()

    def _noticed(self, task: asyncio.Task[object]) -> None:
        self._abandoned.discard(task)
        if not task.cancelled():
            task.exception()

    async def close(self) -> None:
        if self._abandoned:
            await asyncio.wait(self._abandoned)
        await self.http.close()
        await self.fresh.close()


def _session(connector: TCPConnector) -> ClientSession:
    return ClientSession(
        connector=connector,
        timeout=ClientTimeout(total=None),
        cookie_jar=DummyCookieJar(),
        auto_decompress=True,
        read_bufsize=READ_BUFFER_BYTES,
    )
