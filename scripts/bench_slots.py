"""What the shared line costs, on loopback, with a redis-server of its own.

Three measurements, each bounded: the time that an uncontended acquire adds; the time from a
release on one replica to the grant on another, with thousands waiting; and Redis's CPU per
exchange as the line grows. All replicas live in this one process, so its event loop is part of
every number.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import itertools
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Iterator, Sequence

from redis import Redis
from redis.exceptions import RedisError

from gateway.slots.base import LineLimits, Ticket
from gateway.slots.redis import RedisPool
from gateway.slots.redis_line import RedisLine

LIMITS = LineLimits(max_waiting=1_000_000, max_wait_seconds=3600)
REPLICAS = 3
LEASE_SECONDS = 10.0


@contextlib.contextmanager
def redis_server() -> Iterator[str]:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    with tempfile.TemporaryDirectory() as folder:
        command = ("redis-server", "--port", str(port), "--dir", folder)
        options = ("--appendonly", "yes", "--appendfsync", "everysec", "--save", "")
        process = subprocess.Popen([*command, *options], stdout=subprocess.DEVNULL)
        try:
            wait_for(f"redis://127.0.0.1:{port}/0")
            yield f"redis://127.0.0.1:{port}/0"
        finally:
            process.terminate()
            process.wait()


def wait_for(url: str) -> None:
    for _ in range(200):
        with contextlib.suppress(RedisError), Redis.from_url(url) as client:
            client.ping()
            return
        time.sleep(0.02)
    raise SystemExit("redis-server did not start.")


@contextlib.asynccontextmanager
async def replicas(url: str, name: str, slots: int) -> AsyncIterator[list[RedisPool]]:
    lines = [RedisLine(url, lease_seconds=LEASE_SECONDS) for _ in range(REPLICAS)]
    pools = [RedisPool(line, name=name, slots=slots, limits=LIMITS) for line in lines]
    for pool in pools:
        await pool.start()
    with pools[0].join(model="m", client="c") as ticket:
        await ticket.wait()
    try:
        yield pools
    finally:
        for pool in pools:
            await pool.stop()


async def fill(pools: Sequence[RedisPool], waiting: int) -> list[Ticket]:
    """One ticket runs, so many wait, spread over the replicas and listening as streams do."""
    tickets: list[Ticket] = []
    while len(tickets) <= waiting:
        for pool in pools:
            tickets += [pool.join(model="m", client="c") for _ in range(200)]
        while pools[0].statistics().waiting < len(tickets) - 1:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
    return tickets


async def uncontended(url: str, rounds: int) -> list[float]:
    times = []
    async with replicas(url, "uncontended", 4) as pools:
        for _ in range(rounds):
            started = time.perf_counter()
            with pools[0].join(model="m", client="c") as ticket:
                await ticket.wait()
                times.append(time.perf_counter() - started)
            await asyncio.sleep(0.001)
    return times


async def hand_off(url: str, waiting: int, rounds: int) -> list[float]:
    """From close() on the replica that holds to the wake-up on the one that waits."""
    times = []
    async with replicas(url, f"hand-off {waiting}", 1) as pools:
        tickets = interleaved(await fill(pools, waiting))
        await tickets[0].wait()
        for holder, heir in itertools.pairwise(tickets[: rounds + 1]):
            waiter = asyncio.create_task(woken(heir))
            await asyncio.sleep(0.002)
            started = time.perf_counter()
            holder.close()
            times.append(await waiter - started)
        for ticket in tickets:
            ticket.close()
    return times


def interleaved(tickets: list[Ticket]) -> list[Ticket]:
    """In the order of the line."""
    return sorted(tickets, key=lambda ticket: getattr(ticket, "number", 0))


async def woken(ticket: Ticket) -> float:
    await ticket.wait()
    return time.perf_counter()


async def redis_cpu(url: str, waiting: int, rounds: int) -> float:
    """Seconds of Redis's CPU for one exchange: a join, a grant, a release."""
    with Redis.from_url(url) as client:
        async with replicas(url, f"cpu {waiting}", 1) as pools:
            tickets = interleaved(await fill(pools, waiting))
            before = cpu_of(client)
            for index in range(rounds):
                await tickets[index].wait()
                tickets.append(pools[index % REPLICAS].join(model="m", client="c"))
                tickets[index].close()
            await tickets[rounds].wait()
            used = cpu_of(client) - before
            for ticket in tickets:
                ticket.close()
    return used / rounds


def cpu_of(client: Redis) -> float:
    numbers = client.info("cpu")
    assert isinstance(numbers, dict)
    return float(numbers["used_cpu_user"]) + float(numbers["used_cpu_sys"])


def spread(times: list[float]) -> str:
    ordered = sorted(times)
    p50, p99 = ordered[len(ordered) // 2], ordered[int(len(ordered) * 0.99)]
    return f"p50 {p50 * 1e3:6.2f} ms   p99 {p99 * 1e3:6.2f} ms   max {ordered[-1] * 1e3:6.2f} ms"


async def measure(lines: Sequence[int], rounds: int) -> None:
    with redis_server() as url:
        print(f"acquire, slot free                {spread(await uncontended(url, rounds))}")
        for waiting in (1, 5000):
            times = await hand_off(url, waiting, min(rounds, 600 if waiting == 1 else rounds))
            print(f"hand-off, {waiting:6d} waiting           {spread(times)}")
        for waiting in lines:
            used = await redis_cpu(url, waiting, rounds)
            print(f"Redis CPU per exchange, {waiting:6d} waiting   {used * 1e6:6.0f} µs")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=1000)
    parser.add_argument("--lines", type=int, nargs="+", default=[100, 5_000, 50_000])
    given = parser.parse_args()
    asyncio.run(measure(given.lines, given.rounds))
    return 0


if __name__ == "__main__":
    sys.exit(main())
