"""The gateway under trial, in a process of its own, and the clients that fill its line."""

from __future__ import annotations

import asyncio
import signal
import socket
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from aiohttp import ClientSession

from interop.scenarios import MODEL

ROOT = Path(__file__).resolve().parents[1]
SLOTS = 2
MAX_WAITING = 3
POLL_SECONDS = 0.01
PATIENCE_SECONDS = 30.0

CONFIG = """
listen: {{port: {port}}}
admin: {{port: {admin}}}
upstreams:
  scripted:
    url: {upstream}
    dialect: {dialect}
    slots: {slots}
    models: {models}
    queue: {{max_waiting: {max_waiting}, max_wait_seconds: 60}}
queue_events: {{keepalive_seconds: 1}}
shutdown: {{grace_seconds: 5}}
"""


SCRIPTED = {"dialect": "anthropic", "models": f"[{MODEL}, agent]"}


class Gateway:
    def __init__(
        self, folder: Path, upstream: str, settings: dict[str, str], session: ClientSession
    ) -> None:
        self.port, self.admin = free_port(), free_port()
        self.url = f"http://127.0.0.1:{self.port}/llm"
        self.log = folder / "gateway.log"
        self.config = folder / "config.yaml"
        self.session = session
        self.holders: list[asyncio.Task[None]] = []
        self.process: asyncio.subprocess.Process | None = None
        self.config.write_text(
            CONFIG.format(
                port=self.port,
                admin=self.admin,
                upstream=upstream,
                slots=SLOTS,
                max_waiting=MAX_WAITING,
                **(SCRIPTED | settings),
            )
        )

    async def start(self) -> None:
        command = [sys.executable, "-m", "gateway", "--config", str(self.config)]
        with self.log.open("wb") as log:
            self.process = await asyncio.create_subprocess_exec(*command, cwd=ROOT, stderr=log)
        await self.logs("listening")

    async def logs(self, words: str, times: int = 1) -> None:
        """Until the log has these words so often."""
        assert self.process is not None
        async with asyncio.timeout(PATIENCE_SECONDS):
            while self.log.read_text().count(words) < times:
                if self.process.returncode is not None:
                    raise RuntimeError(self.log.read_text())
                await asyncio.sleep(POLL_SECONDS)

    async def fill(self, count: int) -> None:
        """So many requests that hold their slots; the line has their order."""
        for number in range(len(self.holders) + 1, len(self.holders) + count + 1):
            self.hold()
            await self.holds(min(number, SLOTS), max(0, number - SLOTS))

    def hold(self) -> None:
        """One more of them, wherever it comes in the line."""
        self.holders.append(asyncio.create_task(self._hold()))

    async def _hold(self) -> None:
        body = {
            "model": MODEL,
            "max_tokens": 128,
            "stream": True,
            "messages": [{"role": "user", "content": "hold"}],
        }
        async with self.session.post(f"{self.url}/v1/messages", json=body) as response:
            await response.read()

    async def holds(self, running: int, waiting: int) -> None:
        """Until exactly so many run and wait."""
        async with asyncio.timeout(PATIENCE_SECONDS):
            while await self.status() != (running, waiting):
                await asyncio.sleep(POLL_SECONDS)

    async def waits(self, count: int) -> None:
        """Until so many wait, or more."""
        async with asyncio.timeout(PATIENCE_SECONDS):
            while (await self.status())[1] < count:
                await asyncio.sleep(POLL_SECONDS)

    async def status(self) -> tuple[int, int]:
        async with self.session.get(f"http://127.0.0.1:{self.admin}/status.json") as response:
            one: dict[str, Any] = (await response.json())["upstreams"]["scripted"]
        return one["running"], one["waiting"]

    def close(self) -> None:
        """SIGTERM: waiters are told at once, running ones may finish."""
        assert self.process is not None
        if self.process.returncode is None:
            self.process.send_signal(signal.SIGTERM)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@asynccontextmanager
async def gateway(folder: Path, upstream: str, **settings: str) -> AsyncIterator[Gateway]:
    """In front of the scripted upstream, unless the settings say how the other one is."""
    async with ClientSession() as session:
        started = Gateway(folder, upstream, settings, session)
        try:
            await started.start()
            yield started
        finally:
            for holder in started.holders:
                holder.cancel()
            await asyncio.gather(*started.holders, return_exceptions=True)
            if started.process is not None:
                started.close()
                await started.process.wait()
