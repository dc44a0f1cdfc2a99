"""A long line in front of eight slots: what waiting costs, and how fast a slot changes hands."""

from __future__ import annotations

import asyncio
import json
import statistics
import sys
import time
from pathlib import Path
from typing import cast

from bench.measures import Numbers, request
from bench.systems import ENDS_CPU, ROOT, Process, System, free_port, start, wait_for

SLOTS = 8
NEAR = 20
RELEASES = 50
SECONDS_BETWEEN = 0.2


class Waiter(asyncio.Protocol):
    """A client that notes its place, and when it heard of it."""

    def __init__(self, line: Line, ask: bytes) -> None:
        self._line = line
        self._ask = ask
        self.position = 0
        self.heard_ns = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)
        self.transport.write(self._ask)

    def data_received(self, data: bytes) -> None:
        found = data.rfind(b'"position":')
        if found >= 0:
            position = int(data[found + 11 : data.index(b",", found)])
            if not self.position:
                self._line.queued += 1
            if position != self.position:
                self.position, self.heard_ns = position, time.monotonic_ns()
                self._line.frames += 1
        elif b"message_start" in data:
            self.position = 0


class Line:
    """All clients, in this process; the stub and the gateway are others."""

    def __init__(self) -> None:
        self.queued = 0
        self.frames = 0
        self.waiters: list[Waiter] = []


def measure_line(name: str, count: int, folder: Path) -> Numbers:
    """Raises FileNotFoundError where the system is not installed."""
    port = free_port()
    stub = Process([sys.executable, "-m", "bench.stub", port], ENDS_CPU, folder / "stub.log")
    wait_for(port)
    try:
        system = start(name, port, folder, slots=SLOTS, path="/held")
        try:
            return asyncio.run(_measure(count, port, system))
        finally:
            system.process.stop()  # type: ignore[union-attr]
    finally:
        stub.stop()


async def _measure(count: int, stub: int, system: System) -> Numbers:
    proxy, port = system.process, system.port
    assert proxy is not None
    tells = system.name.startswith("gateway")
    loop = asyncio.get_running_loop()
    line = Line()
    body = json.dumps(request("native", words=1)).encode()
    head = f"POST {system.relayed} HTTP/1.1\r\nHost: b\r\nContent-Length: {len(body)}\r\n\r\n"
    ask = head.encode() + body
    before = proxy.resident_kib()
    for number in range(count + SLOTS):
        waiter = Waiter(line, ask)
        line.waiters.append(waiter)
        await loop.create_connection(lambda waiter=waiter: waiter, "127.0.0.1", port)  # type: ignore[misc]
        while tells and number - line.queued > SLOTS + 200:
            await asyncio.sleep(0.01)
    while tells and line.queued < count:
        await asyncio.sleep(0.05)
    if not tells:
        await asyncio.sleep(5)
    grown = proxy.resident_kib() - before
    handed: list[float] = []
    near: list[float] = []
    await asyncio.sleep(2)
    cpu, begun = proxy.cpu_seconds(), time.monotonic()
    for _ in range(RELEASES):
        released, arrived = await release(stub)
        handed.append((arrived - released) / 1e6)
        await asyncio.sleep(SECONDS_BETWEEN)
        near += [
            (waiter.heard_ns - released) / 1e6
            for waiter in line.waiters
            if 0 < waiter.position < NEAR and waiter.heard_ns > released
        ]
    used = (proxy.cpu_seconds() - cpu) / (time.monotonic() - begun)
    stalls = await probe(port, stub) if tells else {}
    for waiter in line.waiters:
        waiter.transport.abort()
    found = {
        "release to next request, ms, median": statistics.median(handed),
        "release to next request, ms, worst": max(handed),
        "CPU, % of one processor": used * 100,
        "memory per waiter, KiB": grown / count,
    }
    if tells:
        near.sort()
        found |= {
            f"the first {NEAR - 1} hear of it, ms, median": statistics.median(near),
            f"the first {NEAR - 1} hear of it, ms, 99 %": near[len(near) * 99 // 100],
            "event loop busy with one thing, ms, 99 %": stalls["stall"],
            "event loop busy with one thing, ms, worst": stalls["longest"],
        }
    return found


async def probe(port: int, stub: int) -> Numbers:
    """Once more as many releases, while another process asks how long anything takes."""
    seconds = RELEASES * SECONDS_BETWEEN
    command = ("-m", "bench.probe", str(port), str(seconds))
    asking = await asyncio.create_subprocess_exec(
        sys.executable, *command, cwd=ROOT, stdout=asyncio.subprocess.PIPE
    )
    for _ in range(RELEASES):
        await release(stub)
        await asyncio.sleep(SECONDS_BETWEEN)
    found: Numbers = json.loads((await asking.communicate())[0])
    return found


async def release(stub: int) -> tuple[int, int]:
    """Lets the oldest request at the stub be answered.

    Both times are the stub's: when it had written the end, and when the next request had come.
    """
    reader, writer = await asyncio.open_connection("127.0.0.1", stub)
    writer.write(b"GET /next HTTP/1.1\r\n\r\n")
    await writer.drain()
    await asyncio.sleep(0.01)
    _, order = await asyncio.open_connection("127.0.0.1", stub)
    order.write(b"POST /release HTTP/1.1\r\nContent-Length: 0\r\n\r\n")
    await reader.readuntil(b"\r\n\r\n")
    released, arrived = map(int, (await reader.read(100)).split())
    writer.close()
    order.close()
    return released, arrived
