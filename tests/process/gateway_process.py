"""The gateway as its users run it: ``python -m gateway`` in a process of its own."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import yaml

from tests.web.clients import Surface

ROOT = Path(__file__).resolve().parents[2]
START_SECONDS = 20.0
POLL_SECONDS = 0.01
"""Another process can only be asked."""


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class GatewayProcess(Surface):
    """Its clients' view of it (see ``Surface``), and its operator's."""

    def __init__(self, folder: Path, config: dict[str, Any], options: list[str]) -> None:
        self.port = free_port()
        self.admin_port = free_port()
        self.streams = []
        self.folder = folder
        self.log_path = folder / "gateway.log"
        self.config_path = folder / "config.yaml"
        self.options = options
        self.process: asyncio.subprocess.Process | None = None
        self.told_to_stop = False
        self.write_config(config)

    def write_config(self, config: dict[str, Any]) -> None:
        addresses = {"listen": {"port": self.port}, "admin": {"port": self.admin_port}}
        self.config_path.write_text(yaml.safe_dump(config | addresses))

    async def start(self, **environ: str) -> None:
        command = [sys.executable, "-W", "error", "-m", "gateway", "--config", self.config_path]
        with self.log_path.open("ab") as log:
            self.process = await asyncio.create_subprocess_exec(
                *command, *self.options, cwd=ROOT, stderr=log, env=os.environ | environ
            )
        await self.logs("listening")

    @property
    def log(self) -> str:
        return self.log_path.read_text()

    async def logs(self, words: str) -> None:
        """Until the log has these words."""
        assert self.process is not None
        async with asyncio.timeout(START_SECONDS):
            while words not in self.log:
                assert self.process.returncode is None, self.log
                await asyncio.sleep(POLL_SECONDS)

    async def picture(self) -> dict[str, Any]:
        return (await self.request("GET", "/status.json", admin=True)).json

    async def status(self) -> dict[str, Any]:
        return next(iter((await self.picture())["upstreams"].values()))

    async def until_upstreams(self, names: set[str]) -> None:
        """Until the operator sees these, and no others."""
        async with asyncio.timeout(5):
            while set((await self.picture())["upstreams"]) != names:
                await asyncio.sleep(POLL_SECONDS)

    async def waits(self, count: int) -> None:
        async with asyncio.timeout(5):
            while (await self.status())["waiting"] != count:
                await asyncio.sleep(POLL_SECONDS)

    async def free(self) -> None:
        async with asyncio.timeout(5):
            while (status := await self.status())["running"] or status["waiting"]:
                await asyncio.sleep(POLL_SECONDS)

    def signal(self, number: signal.Signals) -> None:
        assert self.process is not None
        self.told_to_stop = number is signal.SIGTERM
        self.process.send_signal(number)

    async def reload(self, config: dict[str, Any]) -> None:
        self.write_config(config)
        done = self.log.count("reload: the")
        self.signal(signal.SIGHUP)
        async with asyncio.timeout(5):
            while self.log.count("reload: the") == done:
                await asyncio.sleep(POLL_SECONDS)

    async def stop(self) -> int:
        """Ends it as an operator does; the exit status."""
        assert self.process is not None
        if self.process.returncode is None and not self.told_to_stop:
            self.signal(signal.SIGTERM)
        async with asyncio.timeout(20):
            return await self.process.wait()

    def resident_bytes(self) -> int:
        assert self.process is not None
        for line in Path(f"/proc/{self.process.pid}/status").read_text().splitlines():
            if line.startswith("VmRSS:"):
                return int(line.split()[1]) * 1024
        raise AssertionError("no VmRSS")


@asynccontextmanager
async def gateway_process(
    folder: Path, config: dict[str, Any], *options: str, **environ: str
) -> AsyncIterator[GatewayProcess]:
    """Started; at the end it must go with status 0, without a traceback in its log."""
    gateway = GatewayProcess(folder, config, list(options))
    try:
        await gateway.start(**environ)
        yield gateway
        await gateway.hang_up()
        assert await gateway.stop() == 0
        assert "Traceback" not in gateway.log
    finally:
        await gateway.hang_up()
        if gateway.process is not None and gateway.process.returncode is None:
            gateway.process.kill()
            await gateway.process.wait()
