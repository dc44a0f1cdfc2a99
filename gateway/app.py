"""The composition root: builds every room, and says in which order they start and stop."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
from collections.abc import AsyncIterator, Callable, Mapping

from aiohttp import web

from gateway.config import Config, SlotBackend, SlotsConfig, UpstreamConfig
from gateway.errors import ConfigError, Overloaded
from gateway.slots.base import SlotPool
from gateway.slots.local import LocalPool
from gateway.upstream.session import UpstreamSession
from gateway.web import journal, routes
from gateway.web.directory import line_limits
from gateway.web.gateway import CLOSING_MESSAGE, GATEWAY, Gateway
from gateway.web.listener import Runner
from gateway.web.metering import METRICS, metrics_of
from gateway.web.middleware import identify_and_explain
from gateway.web.watch import WATCH, Watch

log = logging.getLogger("gateway")

MAX_HEADER_BYTES = 16384
MAX_HEADERS = 256
"""More than any client sends, and together what one stranger's connection may cost:
4 MB, since aiohttp bounds neither their sum nor the time they take."""
LAST_FRAMES_SECONDS = 2.0
"""What interrupted exchanges get for writing their error frame."""


class Service:
    """One gateway process: two listeners around one Gateway."""

    def __init__(self, config: Config, gateway: Gateway) -> None:
        self.config = config
        self.gateway = gateway
        self.watch = Watch(gateway)
        self.metrics = metrics_of(gateway)
        gateway.observers.add(self.watch.see)
        self._runners: list[web.AppRunner] = []
        self._surface: web.TCPSite | None = None
        self.port = 0
        self.admin_port: int | None = None

    async def start(self) -> None:
        """Raises OSError if a port cannot be had."""
        await self.gateway.apply(self.config)
        self.watch.start()
        admin = self.config.admin
        if admin is not None:
            table = routes.admin(demo=admin.demo)
            self.admin_port = (await self._listen("admin", table, admin.host, admin.port)).port
        listen = self.config.listen
        surface = routes.surface()
        self._surface = await self._listen("listen", surface, listen.host, listen.port)
        self.port = self._surface.port

    @property
    def addresses(self) -> str:
        """Where it listens, for people."""
        surface = address(self.config.listen.host, self.port)
        if self.config.admin is None or self.admin_port is None:
            return surface
        return f"{surface}, admin on {address(self.config.admin.host, self.admin_port)}"

    async def reload(self, config: Config) -> None:
        """Takes ``config`` into force, but for what only a restart can change."""
        self.config = config
        await self.gateway.apply(config)

    async def close(self) -> None:
        """The way out: nobody new, waiters told at once, running exchanges given their grace.

        Operators can look until the end.
        """
        if self._surface is not None:
            await self._surface.stop()
        self.gateway.begin_closing()
        await self._let_finish(self.config.shutdown.grace_seconds)
        self.interrupt_running()
        await self._let_finish(LAST_FRAMES_SECONDS)
        await self.watch.stop()
        for runner in self._runners:
            await runner.cleanup()
        await self.gateway.stop()

    def interrupt_running(self) -> None:
        """Ends what runs with an error that its clients can read."""
        self.gateway.running.interrupt_all(Overloaded(CLOSING_MESSAGE, retry_after=1))

    async def _let_finish(self, seconds: float) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self.gateway.running.idle()

    async def _listen(
        self, section: str, table: list[web.RouteDef], host: str, port: int
    ) -> web.TCPSite:
        app = application(self.gateway, table)
        app[WATCH] = self.watch
        app[METRICS] = self.metrics
        runner = Runner(
            app,
            handler_cancellation=True,
            access_log=None,
            max_line_size=MAX_HEADER_BYTES,
            max_field_size=MAX_HEADER_BYTES,
            max_headers=MAX_HEADERS,
            shutdown_timeout=LAST_FRAMES_SECONDS,
        )
        await runner.setup()
        self._runners.append(runner)
        workers = self.config.listen.workers
        site = web.TCPSite(runner, host, port, backlog=1024, reuse_port=workers > 1 or None)
        try:
            await site.start()
        except OSError as error:
            # asyncio's own text repeats the address in Python's words.
            why = os.strerror(error.errno) if error.errno and error.errno > 0 else error.strerror
            where = address(host, port)
            raise OSError(f"{section}: cannot listen on {where}: {why}") from None
        return site


def address(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def application(gateway: Gateway, table: list[web.RouteDef]) -> web.Application:
    app = web.Application(middlewares=[identify_and_explain])
    app[GATEWAY] = gateway
    app.add_routes(table)
    return app


def build(config: Config) -> Service:
    """Everything, not yet started; needs a running event loop.  Raises ConfigError."""
    pools = pool_factory(config)
    gateway = Gateway(config, UpstreamSession(), pools)
    gateway.observers.add(journal.write)
    if traces_are_wanted(os.environ):
        trace(gateway)
    return Service(config, gateway)


def traces_are_wanted(environ: Mapping[str, str]) -> bool:
    """By OpenTelemetry's own variables: somewhere to send them to, and not switched off."""
    if environ.get("OTEL_SDK_DISABLED", "").lower() == "true":
        return False
    if environ.get("OTEL_TRACES_EXPORTER", "otlp") != "otlp":
        return False
    variables = ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")
    return any(environ.get(variable) for variable in variables)


def trace(gateway: Gateway) -> None:
    try:
        from gateway import tracing
    except ImportError as error:
        log.warning("no traces: %s; install the extra [otel]", error)
        return
    gateway.tracing = traces = tracing.from_environment()
    gateway.observers.add(traces.see)


def pool_factory(config: Config) -> Callable[[UpstreamConfig], SlotPool]:
    if config.slots.backend is SlotBackend.REDIS:
        return redis_pools(config.slots)

    def local(upstream: UpstreamConfig) -> SlotPool:
        return LocalPool(slots=upstream.slots, limits=line_limits(upstream))

    return local


def redis_pools(slots: SlotsConfig) -> Callable[[UpstreamConfig], SlotPool]:
    """Pools that share one road to Redis.

    Raises ConfigError without the package for it, or if that does not understand the URL.
    """
    try:
        from gateway.slots.redis import RedisPool
        from gateway.slots.redis_line import RedisLine
        from gateway.slots.redis_session import refuse_unknown_options
    except ModuleNotFoundError as error:
        raise ConfigError(
            f"slots.backend: redis needs the package {error.name}: pip install redis hiredis"
        ) from None
    try:
        refuse_unknown_options(str(slots.url))
    except ValueError as error:
        raise ConfigError(f"slots.url: {error}") from None
    line = RedisLine(str(slots.url), lease_seconds=slots.lease_seconds)

    def shared(upstream: UpstreamConfig) -> SlotPool:
        limits = line_limits(upstream)
        return RedisPool(line, name=upstream.name, slots=upstream.slots, limits=limits)

    return shared


@contextlib.asynccontextmanager
async def running(config: Config) -> AsyncIterator[Service]:
    """A started service, closed with the block; what tests and tools use."""
    service = build(config)
    try:
        await service.start()
        yield service
    finally:
        await service.close()
