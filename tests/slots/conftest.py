"""Pools to test, each made by a factory that also ends them; a real Redis for the shared ones."""

from __future__ import annotations

import asyncio
import itertools
import os
import shutil
import signal
import socket
import subprocess
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Protocol

import pytest
from redis import Redis
from redis.exceptions import RedisError

from gateway.slots.base import LineLimits, SlotPool
from gateway.slots.local import LocalPool
from gateway.slots.redis import RedisPool
from gateway.slots.redis_line import RedisLine

AMPLE = LineLimits(max_waiting=100_000, max_wait_seconds=60)
LEASE_SECONDS = 0.6

names = (f"upstream {{{os.getpid()}:{number}}}" for number in itertools.count())
"""Nobody else's line, in letters that keys must escape."""


class OpenPool(Protocol):
    async def __call__(self, slots: int, limits: LineLimits = AMPLE) -> SlotPool: ...


class OpenReplica(Protocol):
    async def __call__(
        self,
        server: RedisServer,
        name: str,
        slots: int,
        limits: LineLimits = AMPLE,
        lease_seconds: float = LEASE_SECONDS,
        line: RedisLine | None = None,
    ) -> RedisPool: ...


class RedisServer:
    """A redis-server of our own, which can be stopped in every way."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        with socket.create_server(("127.0.0.1", 0)) as probe:
            self.port: int = probe.getsockname()[1]
        self.url = f"redis://127.0.0.1:{self.port}/0"
        self._process: subprocess.Popen[bytes] | None = None

    def start(self, *options: str | Path, keep: bool = False) -> None:
        """With ``keep`` it writes all it does to a file, and reads that file first."""
        persistence = ("yes", "always") if keep else ("no", "no")
        self._process = subprocess.Popen(
            [
                *("redis-server", "--port", str(self.port), "--bind", "127.0.0.1"),
                *("--dir", str(self._folder), "--save", ""),
                *("--appendonly", persistence[0], "--appendfsync", persistence[1]),
                *options,
            ],
            stdout=subprocess.DEVNULL,
        )
        with self.client() as client:
            for _ in range(500):
                try:
                    client.ping()
                except RedisError:
                    select_nothing(0.01)
                else:
                    return
        raise AssertionError("redis-server did not start")

    def client(self) -> Redis:
        return Redis.from_url(self.url)

    def signal(self, number: int) -> None:
        assert self._process is not None
        self._process.send_signal(number)

    def kill(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None


def select_nothing(seconds: float) -> None:
    """A pause between two attempts to reach another process."""
    signal.sigtimedwait((), seconds)


async def gathered(pool: RedisPool) -> None:
    """A line that Redis has never seen grants nobody until it is sure to be alone."""
    async with asyncio.timeout(5):
        while pool._link.gathering:
            await asyncio.sleep(0.001)


def needs_redis() -> None:
    if shutil.which("redis-server") is None:
        if os.environ.get("GATEWAY_REQUIRE_SERVERS") == "1":
            pytest.fail("redis-server is not installed")
        pytest.skip("redis-server is not installed")


@pytest.fixture(scope="session")
def shared_redis(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RedisServer]:
    """One for all tests that leave it alone."""
    needs_redis()
    server = RedisServer(tmp_path_factory.mktemp("redis"))
    server.start()
    yield server
    server.kill()


@pytest.fixture
def redis_server(tmp_path: Path) -> Iterator[RedisServer]:
    """One to be ill-treated, started by the test."""
    needs_redis()
    server = RedisServer(tmp_path)
    yield server
    server.kill()


@pytest.fixture
def upstream_name() -> str:
    return next(names)


@pytest.fixture(params=["local", "redis"])
async def open_pool(request: pytest.FixtureRequest) -> AsyncIterator[OpenPool]:
    """Opens a pool of each kind; the same claims hold for both."""
    pools: list[SlotPool] = []
    make: Callable[[int, LineLimits], SlotPool] = lambda slots, limits: LocalPool(  # noqa: E731
        slots=slots, limits=limits
    )
    if request.param == "redis":
        server: RedisServer = request.getfixturevalue("shared_redis")
        line = RedisLine(server.url, lease_seconds=LEASE_SECONDS)
        make = lambda slots, limits: RedisPool(  # noqa: E731
            line, name=next(names), slots=slots, limits=limits
        )

    async def open_(slots: int, limits: LineLimits = AMPLE) -> SlotPool:
        pool = make(slots, limits)
        pools.append(pool)
        await pool.start()
        if isinstance(pool, RedisPool):
            await gathered(pool)
        return pool

    yield open_
    for pool in pools:
        await pool.stop()
    assert len(asyncio.all_tasks()) == 1, "a pool ends its own tasks"


@pytest.fixture
async def open_replica() -> AsyncIterator[OpenReplica]:
    """Opens pools of one upstream as different gateways would: nothing is shared but Redis."""
    pools: list[RedisPool] = []

    async def open_(
        server: RedisServer,
        name: str,
        slots: int,
        limits: LineLimits = AMPLE,
        lease_seconds: float = LEASE_SECONDS,
        line: RedisLine | None = None,
    ) -> RedisPool:
        line = line or RedisLine(server.url, lease_seconds=lease_seconds)
        pools.append(RedisPool(line, name=name, slots=slots, limits=limits))
        await pools[-1].start()
        return pools[-1]

    yield open_
    for pool in pools:
        await pool.stop()
    assert len(asyncio.all_tasks()) == 1, "a pool ends its own tasks"
