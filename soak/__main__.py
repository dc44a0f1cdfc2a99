"""Runs the soak and judges it; exit status 0 if nothing was lost."""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import signal
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

from aiohttp import ClientSession, web

from soak.client import Seen, act
from soak.plan import Client, Plan, Upstream, draw
from soak.upstream import SoakUpstream

MARGIN_SECONDS = 0.1
"""Closer arrivals are not told apart: either end is measured in this process, not in the line.  To
this comes what its own event loop was late just then."""

CONFIG = """
listen: {{port: 0}}
admin: {{port: {admin}}}
upstreams:
  native:
    url: http://127.0.0.1:{upstream}/native
    dialect: anthropic
    slots: {slots}
    models: [native]
    queue: &queue {{max_waiting: 5000, max_wait_seconds: 60}}
    timeouts: &timeouts {{connect_seconds: 2, first_byte_seconds: 2, idle_seconds: 1}}
  chat:
    url: http://127.0.0.1:{upstream}/chat
    dialect: openai
    server: other
    slots: {slots}
    models: [chat]
    queue: *queue
    timeouts: *timeouts
queue_events: {{keepalive_seconds: 0.5}}
client: {{write_timeout_seconds: 3, max_buffered_bytes: 65536}}
shutdown: {{grace_seconds: 5}}
"""


class Gateway:
    """The process under test."""

    def __init__(self, process: asyncio.subprocess.Process, port: int, admin: int, log: Path):
        self.process = process
        self.port = port
        self.admin = admin
        self.log = log

    async def status(self) -> dict:
        async with (
            ClientSession() as session,
            session.get(f"http://127.0.0.1:{self.admin}/status.json") as response,
        ):
            return await response.json()

    def descriptors(self) -> int:
        return len(list(Path(f"/proc/{self.process.pid}/fd").iterdir()))

    def resident_kib(self) -> int:
        for line in Path(f"/proc/{self.process.pid}/status").read_text().splitlines():
            if line.startswith("VmRSS:"):
                return int(line.split()[1])
        return 0


async def start_gateway(folder: Path, upstream: int, slots: int) -> Gateway:
    port, admin = free_port(), free_port()
    config = folder / "config.yaml"
    config.write_text(CONFIG.format(admin=admin, upstream=upstream, slots=slots))
    log = folder / "gateway.log"
    command = [sys.executable, "-m", "gateway", "--config", str(config), "--port", str(port)]
    with log.open("wb") as output:
        process = await asyncio.create_subprocess_exec(*command, stderr=output)
    gateway = Gateway(process, port, admin, log)
    async with asyncio.timeout(20):
        while b"listening" not in log.read_bytes():
            if process.returncode is not None:
                raise SystemExit(log.read_text())
            await asyncio.sleep(0.02)
    return gateway


def free_port() -> int:
    import socket

    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Lateness:
    """When this process's event loop was late, and by how many seconds."""

    EVERY_SECONDS = 0.01

    def __init__(self) -> None:
        self._late: list[tuple[float, float]] = []
        self._loop = asyncio.get_running_loop()
        self._due = self._loop.time()
        self._look()

    def _look(self) -> None:
        now = self._loop.time()
        self._late.append((now, now - self._due))
        self._due = now + self.EVERY_SECONDS
        self._timer = self._loop.call_at(self._due, self._look)

    def stop(self) -> None:
        self._timer.cancel()

    def between(self, begin: float, end: float) -> float:
        """The worst from a moment before ``begin`` to one behind ``end``."""
        begin, end = begin - MARGIN_SECONDS, end + MARGIN_SECONDS
        return max(
            (late for now, late in self._late if now >= begin and now - late <= end), default=0
        )


async def crowd(options: argparse.Namespace, port: int) -> list[Seen]:
    """Up to ``--clients`` at a time until the count or the time is reached."""
    seen: list[Seen] = []
    numbers = iter(range(options.exchanges))
    until = time.monotonic() + options.seconds

    async def one_after_another() -> None:
        for number in numbers:
            if time.monotonic() > until:
                return
            seen.append(await act(draw(options.seed, number), port))

    async with asyncio.TaskGroup() as group:
        for _ in range(options.clients):
            group.create_task(one_after_another())
    return seen


async def settled(gateway: Gateway, upstream: SoakUpstream) -> list[str]:
    """What is still held once everybody has gone; a moment for the last FINs is fair."""
    status = {}
    for _ in range(100):
        status = (await gateway.status())["upstreams"]
        held = sum(one["running"] + one["waiting"] for one in status.values())
        if not held and not upstream.running:
            return []
        await asyncio.sleep(0.05)
    return [f"left over: {json.dumps(status)}, {upstream.running} at the upstream"]


def out_of_order(seen: list[Seen], upstream: SoakUpstream, lateness: Lateness) -> list[str]:
    """Pairs of one line that stayed, were told their place apart, and began the wrong way round."""
    problems = []
    for model in ("native", "chat"):
        stayed = sorted(
            (one.first_queued, upstream.began[one.plan.number], one.plan.number)
            for one in seen
            if one.plan.model == model and one.first_queued and one.plan.number in upstream.began
        )
        latest, latest_number, behind = 0.0, 0, []
        for queued, began, number in stayed:
            while behind and behind[0][0] < queued - MARGIN_SECONDS:
                _, start, who = behind.pop(0)
                if start > latest:
                    latest, latest_number = start, who
            by = latest - began - MARGIN_SECONDS
            if by > 0 and by > lateness.between(began, latest):
                problems.append(f"{number} overtook {latest_number} for {model} by {by:.2f} s")
            behind.append((queued, began, number))
    return problems


async def soak(options: argparse.Namespace, folder: Path) -> list[str]:
    upstream = SoakUpstream()
    runner = web.AppRunner(upstream.application(), handler_cancellation=True, shutdown_timeout=1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0, backlog=1024)
    await site.start()
    gateway = await start_gateway(folder, site.port, options.slots)
    try:
        warm = [
            await act(Plan(-n, Client.READ, Upstream.ANSWER, "chat"), gateway.port) for n in (1, 2)
        ]
        before, resident = gateway.descriptors(), gateway.resident_kib()
        began = time.monotonic()
        lateness = Lateness()
        seen = warm + await crowd(options, gateway.port)
        lateness.stop()
        seconds = time.monotonic() - began
        problems = [f"{one.plan}: {one.problem}" for one in seen if one.problem]
        problems += await settled(gateway, upstream)
        last = await act(Plan(-3, Client.READ, Upstream.ANSWER, "native"), gateway.port)
        problems += [f"one more request: {last.problem}"] if last.problem else []
        await asyncio.sleep(2.5)  # the pool's idle connections close by themselves
        problems += judge(options, seen, upstream, gateway, before)
        problems += out_of_order(seen, upstream, lateness)
        report(seen, upstream, seconds, gateway.resident_kib() - resident)
    finally:
        gateway.process.send_signal(signal.SIGTERM)
        status = await gateway.process.wait()
        await runner.cleanup()
    if status != 0:
        problems.append(f"exit status {status}")
    problems += [line for line in gateway.log.read_text().splitlines() if "Traceback" in line]
    if problems:
        print(gateway.log.read_text()[-3000:], file=sys.stderr)
    return problems


def judge(
    options: argparse.Namespace,
    seen: list[Seen],
    upstream: SoakUpstream,
    gateway: Gateway,
    descriptors: int,
) -> list[str]:
    problems = [
        f"{most} at once for {model}, with {options.slots} slots"
        for model, most in upstream.most.items()
        if most > options.slots
    ]
    if upstream.twice:
        problems.append(f"sent twice: {upstream.twice[:10]}")
    if gateway.descriptors() > descriptors + 2:
        problems.append(f"{gateway.descriptors()} file descriptors, {descriptors} before")
    return problems


def report(seen: list[Seen], upstream: SoakUpstream, seconds: float, grown: int) -> None:
    queued = sum(1 for one in seen if one.positions)
    print(f"{len(seen)} exchanges in {seconds:.0f} s, {queued} of them queued")
    print(f"at most {upstream.most} at the upstream at once; memory grew by {grown} KiB")
    for name, count in Counter(one.plan.client.name.lower() for one in seen).most_common():
        print(f"  {count:6} clients: {name}")


def main() -> int:
    parser = argparse.ArgumentParser(prog="scripts/soak", description=__doc__)
    parser.add_argument("--exchanges", type=int, default=20000)
    parser.add_argument("--seconds", type=float, default=900, help="at most this long")
    parser.add_argument("--clients", type=int, default=200, help="at one time")
    parser.add_argument("--slots", type=int, default=8)
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 32))
    options = parser.parse_args()
    print(f"seed {options.seed}", flush=True)
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, sys.path))
    with tempfile.TemporaryDirectory(prefix="soak-") as folder:
        problems = asyncio.run(soak(options, Path(folder)))
    for problem in problems[:20]:
        print(f"FAIL {problem}")
    print(f"{len(problems)} problems" if problems else "nothing lost")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
