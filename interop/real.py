"""The same clients before a real model: llama.cpp's server, in both dialects."""

from __future__ import annotations

import asyncio
import sys
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from interop.gateway import ROOT, SLOTS, free_port, gateway
from interop.registry import Client
from interop.scenarios import MODEL, Line, Scenario
from interop.trial import run

DIALECTS = ("anthropic", "openai")
START_SECONDS = 120.0
SCENARIOS = (Scenario("free", Line.FREE), Scenario("queued", Line.THREE))


@asynccontextmanager
async def model_server() -> AsyncIterator[str]:
    """Its URL.  Needs what ``scripts/local-model`` installs.

    Raises:
        RuntimeError: it ended instead of starting.
    """
    words = ["--port", free_port(), "--slots", SLOTS]
    process = await asyncio.create_subprocess_exec(
        *map(str, [sys.executable, ROOT / "scripts" / "model_server.py", *words]),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
    )
    assert process.stdout is not None
    try:
        async with asyncio.timeout(START_SECONDS):
            while not (line := await process.stdout.readline()).startswith(b"ready "):
                if not line:
                    raise RuntimeError("the model server ended; scripts/local-model installs it")
        yield line.split()[1].decode()
    finally:
        if process.returncode is None:
            process.terminate()
        await process.wait()


async def real_trial(
    client: Client, dialect: str, scenario: Scenario, server: str
) -> dict[str, Any]:
    """What the client said; its text is the model's own, so any will do that is not empty."""
    settings = {"dialect": dialect, "models": f"{{{MODEL}: smollm2}}"}
    with tempfile.TemporaryDirectory(prefix="interop-") as name:
        async with gateway(Path(name), server, **settings) as line:
            if scenario.line is Line.THREE:
                await line.fill(SLOTS + 2)
            order = scenario.order(line.url, client.modes[0], {}) | {"max_tokens": 24}
            said = await run(client, order)
    return said | {"dialect": dialect, "scenario": scenario.name}
