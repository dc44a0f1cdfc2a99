"""One client in one scenario: a line, the client in it, the line moves, the end is judged."""

from __future__ import annotations

import asyncio
import json
import os
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from interop.environments import command
from interop.gateway import MAX_WAITING, SLOTS, Gateway, gateway
from interop.registry import Client
from interop.scenarios import Line, Scenario
from interop.upstream import Upstream, upstream

CLIENT_SECONDS = 90.0


@dataclass(frozen=True)
class Report:
    """The JSON line a client's script prints, and what the upstream saw of it."""

    client: str
    version: str
    ok: bool
    text: str
    events: list[Any] = field(default_factory=list)
    """The positions that the caller's own code was handed."""
    error: str = ""
    sent: int = 0
    """How often the request reached the upstream."""

    def good(self, scenario: Scenario) -> bool:
        """The right text once, or where there can be none, an error that is reported."""
        if scenario.expected is None or (scenario.line is Line.FULL and not self.ok):
            return not self.ok and bool(self.error)
        return self.ok and self.text == scenario.expected and self.sent == 1


async def trial(
    client: Client, mode: str, scenario: Scenario, headers: dict[str, str] | None = None
) -> Report:
    with tempfile.TemporaryDirectory(prefix="interop-") as name:
        async with upstream() as scripted, gateway(Path(name), scripted.url) as line:
            order = scenario.order(line.url, mode, headers or {})
            await line.fill(BEFORE[scenario.line])
            play = asyncio.create_task(MOVES[scenario.line](line, scripted))
            try:
                said = await run(client, order)
            finally:
                play.cancel()
                await asyncio.gather(play, return_exceptions=True)
            return Report(**said, sent=len(scripted.bodies))


async def run(client: Client, order: dict[str, Any]) -> dict[str, Any]:
    """Starts the client's script; the JSON object of its last line."""
    words, environ = command(client)
    process = await asyncio.create_subprocess_exec(
        *words,
        json.dumps(order),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env=os.environ | environ,
    )
    try:
        async with asyncio.timeout(CLIENT_SECONDS):
            output, errors = await process.communicate()
    except TimeoutError:
        output, errors = b"", f"no end in {CLIENT_SECONDS:.0f} s".encode()
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    return parse(client, output.decode(errors="replace"), errors.decode(errors="replace"))


def parse(client: Client, output: str, errors: str) -> dict[str, Any]:
    lines = output.strip().splitlines()
    try:
        said: dict[str, Any] = json.loads(lines[-1])
    except (IndexError, ValueError):
        said = {"version": "", "ok": False, "text": "", "events": []}
        said["error"] = f"the script broke: {(errors or output).strip()[-300:]}"
    return said | {"client": client.name}


BEFORE = {
    Line.FREE: 0,
    Line.THREE: SLOTS + 2,
    Line.FULL: SLOTS + MAX_WAITING,
    Line.CLOSING: SLOTS,
}
"""How many are there before the client."""


async def free(line: Gateway, scripted: Upstream) -> None:
    """Nothing moves."""


async def three(line: Gateway, scripted: Upstream) -> None:
    """The client comes third, and hears of each place before the next one."""
    for waiting in (3, 2, 1):
        await line.holds(SLOTS, waiting)
        await asyncio.sleep(0.1)  # its frame, and its own code's turn
        await scripted.release()
    while True:  # the others too, whatever the client does next
        await scripted.release()


async def full(line: Gateway, scripted: Upstream) -> None:
    """Everybody leaves once the client has been refused."""
    await line.logs("rejected")
    for _ in line.holders:
        await scripted.release()


async def closing(line: Gateway, scripted: Upstream) -> None:
    await line.holds(SLOTS, 1)
    line.close()
    await line.logs("closing")
    for _ in line.holders:
        await scripted.release()


MOVES = {Line.FREE: free, Line.THREE: three, Line.FULL: full, Line.CLOSING: closing}
