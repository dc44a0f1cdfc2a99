"""The one ClientSession: a pool of connections that never queues, and its unpooled twin.

Measured with aiohttp 3.14.5: a connector's default limit of 100 makes the 101st request wait
without a word although it holds a slot, hence ``limit=0``: the line in front of the slots is the
only limit.  vLLM, SGLang and llama.cpp close idle connections after five seconds, and a POST on a
connection that is just being closed fails, hence a much shorter keep-alive of our own, and a
second session without any for the one repetition of such a POST.
"""

from __future__ import annotations

import asyncio
import functools

from aiohttp import ClientSession, ClientTimeout, DummyCookieJar, TCPConnector

from gateway.upstream.post import READ_BUFFER_BYTES, Endpoint
from gateway.upstream.protocol import connector

IDLE_CONNECTION_SECONDS = 2.0


class UpstreamSession:
    """``http`` for every request, ``fresh`` for the repetition of one."""

    def __init__(self) -> None:
        self.loop = asyncio.get_running_loop()
        self.http = _session(connector(limit=0, keepalive_timeout=IDLE_CONNECTION_SECONDS))
        self.fresh = _session(connector(limit=0, force_close=True))
        self.endpoint = functools.lru_cache(maxsize=1024)(functools.partial(Endpoint, self.http))
        """By URL."""

    async def close(self) -> None:
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
