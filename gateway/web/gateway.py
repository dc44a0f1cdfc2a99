"""What all handlers share: the config in force, the directory, the session, who is running."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Coroutine

from aiohttp import web

from gateway.config import Config, Server
from gateway.errors import Overloaded
from gateway.upstream.server import ask_server
from gateway.upstream.session import UpstreamSession
from gateway.web.bodies import BodyBudget
from gateway.web.directory import Directory, PoolFactory, Upstream
from gateway.web.record import Observers, Tracing
from gateway.web.running import Running

ASK_AGAIN_SECONDS = 30.0
"""After a server that did not answer at all."""

CLOSING_MESSAGE = "The gateway is closing; try again in a moment."


class Gateway:
    """The state of one gateway process; made by ``app``, read by the handlers."""

    def __init__(self, config: Config, session: UpstreamSession, make_pool: PoolFactory) -> None:
        self.config = config
        self.loop = asyncio.get_running_loop()
        self.session = session
        self.directory = Directory(make_pool)
        self.bodies = BodyBudget()
        self.running = Running()
        self.observers = Observers()
        self.tracing: Tracing | None = None
        self.closing = False
        self.started_at = time.monotonic()
        self._servers: dict[str, Asking] = {}

    @property
    def ready(self) -> bool:
        return not self.closing and all(upstream.pool.reachable for upstream in self.directory)

    def refuse_if_closing(self) -> None:
        if self.closing:
            raise Overloaded(CLOSING_MESSAGE, retry_after=1)

    async def apply(self, config: Config) -> None:
        """Takes a new config into force without dropping a stream."""
        self.config = config
        await self.directory.apply(config)

    def begin_closing(self) -> None:
        """Ends everybody's wait at once; running exchanges go on."""
        self.closing = True
        self.directory.close()

    async def server_of(self, upstream: Upstream) -> str:
        """What the upstream is: as configured, or asked for once; ``other`` while unknown."""
        config = upstream.config
        if config.server is not Server.AUTO:
            return config.server.value
        asking = self._servers.get(config.url)
        if asking is None or asking.is_over:
            asking = Asking(ask_server(self.session, upstream.url(""), api_key=config.api_key))
            self._servers[config.url] = asking
        return await asking.answer() or Server.OTHER.value

    async def stop(self) -> None:
        """After the last exchange."""
        for asking in self._servers.values():
            await asking.stop()
        await self.directory.stop()
        await self.session.close()
        if self.tracing is not None:
            await self.tracing.stop()


class Asking:
    """One question about what a server is, shared by all who want to know."""

    def __init__(self, question: Coroutine[None, None, str | None]) -> None:
        self._task = asyncio.create_task(question)
        self._began = time.monotonic()

    @property
    def is_over(self) -> bool:
        """Whether it went unanswered and it is time to ask again."""
        waited = time.monotonic() - self._began
        return self._task.done() and self._task.result() is None and waited > ASK_AGAIN_SECONDS

    async def answer(self) -> str | None:
        return await asyncio.shield(self._task)

    async def stop(self) -> None:
        self._task.cancel()
        await asyncio.wait((self._task,))


GATEWAY = web.AppKey("GATEWAY", Gateway)
