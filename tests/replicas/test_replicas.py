"""Three gateways as they are run, one Redis, one upstream: killed, paused, stopped under load."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import shutil
import signal
import socket
import sys
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from aiohttp import web

ROOT = Path(__file__).parents[2]
SECONDS = 30
LEASE = 1.0
SLOTS = 4

pytestmark = pytest.mark.skipif(
    shutil.which("redis-server") is None and os.environ.get("GATEWAY_REQUIRE_SERVERS") != "1",
    reason="redis-server is not installed",
)


async def until(condition: Callable[[], object]) -> None:
    async with asyncio.timeout(SECONDS):
        while not condition():
            await asyncio.sleep(0.005)


def free_ports(count: int) -> list[int]:
    probes = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [probe.getsockname()[1] for probe in probes]
    for probe in probes:
        probe.close()
    return ports


class Upstream:
    """Counts who is at it, and holds everybody until it is told to go on."""

    def __init__(self) -> None:
        self.started: list[int] = []
        self.active = 0
        self.most_active = 0
        self.go_on = asyncio.Event()
        self.port = 0

    async def messages(self, request: web.Request) -> web.StreamResponse:
        body = await request.json()
        self.active += 1
        self.most_active = max(self.most_active, self.active)
        self.started.append(int(body["messages"][0]["content"]))
        try:
            return await self._answer(request)
        finally:
            self.active -= 1

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"content-type": "text/event-stream"})
        await response.prepare(request)
        await response.write(frame("message_start", message=MESSAGE))
        await self.go_on.wait()
        await asyncio.sleep(0.002)
        await response.write(frame("message_delta", delta={"stop_reason": "end_turn"}, usage={}))
        await response.write(frame("message_stop"))
        return response


MESSAGE = {"id": "m", "type": "message", "role": "assistant", "model": "m", "content": []}


def frame(name: str, **fields: object) -> bytes:
    return f"event: {name}\ndata: {json.dumps({'type': name, **fields})}\n\n".encode()


class Process:
    """A child that is ended with the test."""

    def __init__(self, *command: object) -> None:
        self.command = [str(part) for part in command]
        self._child: asyncio.subprocess.Process | None = None

    async def start(self, port: int) -> None:
        """Returns once ``port`` can be reached."""
        self._child = await asyncio.create_subprocess_exec(
            *self.command,
            stdout=asyncio.subprocess.DEVNULL,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
        )
        async with asyncio.timeout(SECONDS):
            while True:
                try:
                    _, writer = await asyncio.open_connection("127.0.0.1", port)
                except OSError:
                    assert self._child.returncode is None, "it has ended by itself"
                    await asyncio.sleep(0.02)
                else:
                    writer.close()
                    return

    @property
    def pid(self) -> int:
        assert self._child is not None
        return self._child.pid

    def signal(self, number: signal.Signals) -> None:
        assert self._child is not None
        self._child.send_signal(number)

    async def ended(self) -> int:
        assert self._child is not None
        async with asyncio.timeout(SECONDS):
            return await self._child.wait()

    async def kill(self) -> None:
        if self._child is not None:
            with contextlib.suppress(ProcessLookupError):
                self._child.kill()
            await self._child.wait()


class Gateway(Process):
    def __init__(
        self, folder: Path, redis_port: int, upstream_port: int, *, workers: int = 1
    ) -> None:
        self.port, self.admin_port = free_ports(2)
        path = folder / f"{self.port}.yaml"
        config = {
            "listen": {"port": self.port, "workers": workers},
            "admin": {"port": self.admin_port} if workers == 1 else None,
            "upstreams": {
                "m": {
                    "url": f"http://127.0.0.1:{upstream_port}",
                    "dialect": "anthropic",
                    "slots": SLOTS,
                    "models": ["m"],
                    "queue": {"max_waiting": 1000},
                }
            },
            "queue_events": {"keepalive_seconds": 0.5},
            "slots": {
                "backend": "redis",
                "url": f"redis://127.0.0.1:{redis_port}/0",
                "lease_seconds": LEASE,
            },
            "shutdown": {"grace_seconds": 5},
        }
        path.write_text(json.dumps(config))  # which is YAML too
        super().__init__(sys.executable, "-m", "gateway", "--config", path)


class Exchange:
    """One streaming request: what its client sees."""

    def __init__(self, session: aiohttp.ClientSession, gateway: Gateway, index: int) -> None:
        self.index = index
        self.gateway = gateway
        self.events: list[str] = []
        self.places: list[int] = []
        self.failure: BaseException | None = None
        self.task = asyncio.create_task(self._run(session))

    def __repr__(self) -> str:
        return f"<Exchange {self.index}: {self.events[-3:]} {self.failure!r}>"

    async def _run(self, session: aiohttp.ClientSession) -> None:
        body = {"model": "m", "max_tokens": 1, "stream": True}
        body["messages"] = [{"role": "user", "content": str(self.index)}]
        url = f"http://127.0.0.1:{self.gateway.port}/llm/v1/messages"
        try:
            async with session.post(url, json=body) as response:
                async for line in response.content:
                    self._see(line.decode().strip())
        except aiohttp.ClientError as error:
            self.failure = error

    def _see(self, line: str) -> None:
        if line.startswith("event: "):
            self.events.append(line.removeprefix("event: "))
        elif line.startswith("data: ") and self.events[-1] == "queue":
            self.places.append(json.loads(line.removeprefix("data: "))["position"])

    @property
    def waits_or_runs(self) -> bool:
        return bool(self.events)

    @property
    def complete(self) -> bool:
        return self.events[-1:] == ["message_stop"] and self.failure is None

    @property
    def places_fall(self) -> bool:
        return self.places == sorted(self.places, reverse=True)


class Cluster:
    """Three gateways, the Redis between them, the upstream behind them."""

    def __init__(self, folder: Path, upstream: Upstream, session: aiohttp.ClientSession) -> None:
        self.upstream = upstream
        (self.redis_port,) = free_ports(1)
        self.redis = Process(
            *("redis-server", "--port", self.redis_port, "--bind", "127.0.0.1"),
            *("--dir", folder, "--save", ""),
        )
        self.gateways = [Gateway(folder, self.redis_port, upstream.port) for _ in range(3)]
        self.processes = [*self.gateways, self.redis]
        self.session = session
        self.exchanges: list[Exchange] = []

    async def start(self) -> None:
        await self.redis.start(self.redis_port)
        await asyncio.gather(*(gateway.start(gateway.port) for gateway in self.gateways))
        await self._warm_up()

    async def _warm_up(self) -> None:
        """A Redis that has only just started grants nobody for a lease, until all may be back."""
        self.upstream.go_on.set()
        await self.finish(await self.ask(1))
        self.upstream.go_on.clear()
        self.upstream.started.clear()
        self.exchanges.clear()

    async def ask(self, count: int) -> list[Exchange]:
        """One after another, so that the order of asking is that of joining."""
        asked = []
        for index in range(len(self.exchanges), len(self.exchanges) + count):
            asked.append(Exchange(self.session, self.gateways[index % 3], index))
            await until(lambda: asked[-1].waits_or_runs)
        self.exchanges += asked
        return asked

    async def status(self, gateway: Gateway) -> dict[str, Any]:
        url = f"http://127.0.0.1:{gateway.admin_port}/status.json"
        async with self.session.get(url) as response:
            status: dict[str, Any] = (await response.json())["upstreams"]["m"]
            return status

    async def finish(self, exchanges: list[Exchange]) -> None:
        async with asyncio.timeout(SECONDS):
            await asyncio.gather(*(exchange.task for exchange in exchanges))

    async def end(self) -> None:
        for exchange in self.exchanges:
            exchange.task.cancel()
        tasks = (exchange.task for exchange in self.exchanges)
        await asyncio.gather(*tasks, return_exceptions=True)
        for process in self.processes:
            await process.kill()


@pytest.fixture
async def cluster(tmp_path: Path) -> AsyncIterator[Cluster]:
    upstream = Upstream()
    app = web.Application()
    app.router.add_post("/v1/messages", upstream.messages)
    runner = web.AppRunner(app, handler_cancellation=True, shutdown_timeout=0)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    upstream.port = site.port
    connector = aiohttp.TCPConnector(limit=0, force_close=True)
    timeout = aiohttp.ClientTimeout(total=None)
    async with aiohttp.ClientSession(connector=connector, timeout=timeout) as session:
        cluster = Cluster(tmp_path, upstream, session)
        try:
            await cluster.start()
            yield cluster
        finally:
            await cluster.end()
            await runner.cleanup()


def nearly_sorted(order: list[int]) -> bool:
    """The few that are granted at one moment may arrive in any order."""
    return all(
        order[place] > max(order[: max(0, place + 1 - SLOTS)], default=-1)
        for place in range(len(order))
    )


async def test_three_hundred_requests_over_three_gateways_are_one_line(cluster: Cluster) -> None:
    exchanges = await cluster.ask(300)
    assert [exchange.places[0] for exchange in exchanges if exchange.places][-1] == 296
    for gateway in cluster.gateways:
        status = await cluster.status(gateway)
        assert (status["slots"], status["running"], status["waiting"]) == (SLOTS, SLOTS, 296)
        assert [ticket["position"] for ticket in status["tickets"]] == list(range(1, 297))
    cluster.upstream.go_on.set()
    await cluster.finish(exchanges)
    assert [exchange for exchange in exchanges if not exchange.complete] == []
    assert cluster.upstream.most_active == SLOTS
    assert nearly_sorted(cluster.upstream.started)
    assert sorted(cluster.upstream.started) == list(range(300))
    assert all(exchange.places_fall for exchange in exchanges)


async def test_a_killed_gateway_takes_nothing_with_it_but_its_own(cluster: Cluster) -> None:
    exchanges = await cluster.ask(12)
    victim = cluster.gateways[0]
    others = [exchange for exchange in exchanges if exchange.gateway is not victim]
    loop = asyncio.get_running_loop()
    killed = loop.time()
    await victim.kill()
    await until(lambda: len(cluster.upstream.started) == SLOTS + 2)
    assert loop.time() - killed <= LEASE + 2 * LEASE / 3
    assert cluster.upstream.active <= SLOTS
    cluster.upstream.go_on.set()
    await cluster.finish(others)
    assert [exchange for exchange in others if not exchange.complete] == []
    started = [index for index in cluster.upstream.started if index % 3]
    assert nearly_sorted(started)
    assert all(exchange.places_fall for exchange in others)


async def test_a_paused_gateway_ends_what_it_has_lost_with_an_error(cluster: Cluster) -> None:
    exchanges = await cluster.ask(8)
    sleeper = cluster.gateways[0]
    sleeper.signal(signal.SIGSTOP)
    await until(lambda: len(cluster.upstream.started) == SLOTS + 2)
    sleeper.signal(signal.SIGCONT)
    lost = [exchanges[0], exchanges[3]]
    await cluster.finish(lost)
    assert all(exchange.events[-1] == "error" for exchange in lost)
    await until(lambda: cluster.upstream.active == SLOTS)
    cluster.upstream.go_on.set()
    rest = [exchange for exchange in exchanges if exchange not in lost]
    await cluster.finish(rest)
    assert [exchange for exchange in rest if not exchange.complete] == []


async def test_gateways_are_restarted_one_by_one_without_a_gap(cluster: Cluster) -> None:
    exchanges = await cluster.ask(9)
    leaver = cluster.gateways[0]
    leaver.signal(signal.SIGTERM)
    waiting = [exchanges[6]]
    await cluster.finish(waiting)
    assert waiting[0].events[-1] == "error"
    cluster.upstream.go_on.set()
    rest = [exchange for exchange in exchanges if exchange not in waiting]
    await cluster.finish(rest)
    assert [exchange for exchange in rest if not exchange.complete] == []
    assert await leaver.ended() == 0
    await leaver.start(leaver.port)
    again = await cluster.ask(3)
    await cluster.finish(again)
    assert [exchange for exchange in again if not exchange.complete] == []
    assert cluster.upstream.most_active <= SLOTS


async def test_redis_killed_under_load_costs_no_client_its_stream(cluster: Cluster) -> None:
    exchanges = await cluster.ask(40)
    await cluster.redis.kill()
    cluster.upstream.go_on.set()
    await until(lambda: cluster.upstream.active == 0)
    assert len(cluster.upstream.started) == SLOTS
    await until(lambda: all(len(exchange.places) >= 2 for exchange in exchanges[SLOTS:]))
    for gateway in cluster.gateways:
        async with cluster.session.get(f"http://127.0.0.1:{gateway.port}/readyz") as response:
            assert response.status == 503
    await cluster.redis.start(cluster.redis_port)
    await cluster.finish(exchanges)
    assert [exchange for exchange in exchanges if not exchange.complete] == []
    assert cluster.upstream.most_active == SLOTS
    assert nearly_sorted(cluster.upstream.started)
    assert all(exchange.places_fall for exchange in exchanges)


def children_of(process: Process) -> list[int]:
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text()
    return [int(child) for child in children.split()]


async def test_workers_of_one_port_share_the_line_and_are_replaced(
    cluster: Cluster, tmp_path: Path
) -> None:
    both = Gateway(tmp_path, cluster.redis_port, cluster.upstream.port, workers=2)
    cluster.gateways = [both, both, both]
    try:
        await both.start(both.port)
        exchanges = await cluster.ask(30)
        assert exchanges[-1].places[0] == 26
        victim = children_of(both)[0]
        os.kill(victim, signal.SIGKILL)
        cluster.upstream.go_on.set()
        await cluster.finish(exchanges)
        lost = [exchange for exchange in exchanges if not exchange.complete]
        assert 0 < len(lost) < 30, "those of the dead worker, and no others"
        assert [exchange for exchange in lost if not exchange.failure] == []
        await until(lambda: len(children_of(both)) == 2)
        again = await cluster.ask(6)
        await cluster.finish(again)
        assert [exchange for exchange in again if not exchange.complete] == []
        assert cluster.upstream.most_active <= SLOTS
        both.signal(signal.SIGTERM)
        assert await both.ended() == 0
    finally:
        await both.kill()


async def test_workers_that_cannot_start_end_the_supervisor_with_their_code(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        gateway = Gateway(tmp_path, 1, 1, workers=2)
        command = [*gateway.command, "--port", str(taken.getsockname()[1])]
        child = await asyncio.create_subprocess_exec(
            *command, stderr=asyncio.subprocess.PIPE, env={**os.environ, "PYTHONPATH": str(ROOT)}
        )
        async with asyncio.timeout(SECONDS):
            _, errors = await child.communicate()
    assert (child.returncode, b"cannot listen" in errors) == (1, True)
