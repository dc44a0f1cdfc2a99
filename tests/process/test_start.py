"""What starting costs: only what the configuration asks for is imported."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
EXTRAS = {"redis", "uvloop", "opentelemetry", "rich", "gateway.slots.redis", "gateway.tracing"}

SERVE = """
import asyncio, sys
import gateway.command
from gateway.app import running
from gateway.config import from_mapping
upstream = {"url": "http://127.0.0.1:9", "dialect": "anthropic", "models": ["m"], "slots": 1}
config = {"listen": {"port": 0}, "admin": {"port": 0}, "upstreams": {"one": upstream}}
async def main():
    async with running(from_mapping(config)):
        print(*sys.modules)
asyncio.run(main())
"""


def test_a_gateway_that_needs_no_extras_imports_none_of_them() -> None:
    command = [sys.executable, "-c", SERVE]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, check=True, text=True)
    loaded = set(done.stdout.split())
    assert "gateway.web.exchange" in loaded
    assert not loaded & EXTRAS
