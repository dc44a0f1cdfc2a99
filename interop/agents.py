"""Coding agents at a small task through the gateway; also when every one of their turns queues."""

from __future__ import annotations

import asyncio
import tempfile
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from interop.agent import DONE, is_result, parts
from interop.gateway import SLOTS, Gateway, gateway
from interop.registry import CLIENTS as ALL
from interop.registry import Client
from interop.trial import run
from interop.upstream import Upstream, upstream

CLIENTS = tuple(client for client in ALL if client.agent)
TURNS = 3
"""Read, edit, answer."""


@dataclass(frozen=True)
class Task:
    client: str
    version: str
    answer: str
    error: str
    turns: list[int]
    """For each request with tools: how many tools' results it brought, in order of arrival."""
    queued: int
    """How many requests had to wait in line."""

    def good(self, queued: bool) -> bool:
        """Done, every turn was sent once and in order, and waited if it should have."""
        once = self.turns == list(range(TURNS))
        return not self.error and self.answer == DONE and once and (self.queued >= TURNS) == queued


async def task(client: Client, queued: bool) -> Task:
    with tempfile.TemporaryDirectory(prefix="interop-") as name:
        async with upstream() as scripted, gateway(Path(name), scripted.url) as line:
            order: dict[str, Any] = {
                "url": line.url,
                "mode": "stream",
                "model": "agent",
                "prompt": "",
                "stream": True,
                "headers": {},
            }
            seen: Counter[str] = Counter()
            play = asyncio.create_task(keep_full(line, scripted, seen)) if queued else None
            try:
                said = await run(client, order)
            finally:
                if play is not None:
                    play.cancel()
                    await asyncio.gather(play, return_exceptions=True)
            turns = [results(body) for body in scripted.bodies if body.get("tools")]
            return Task(
                client.name, said["version"], said["text"], said["error"], turns, seen["queued"]
            )


def results(body: dict[str, Any]) -> int:
    return sum(is_result(block) for message in body["messages"] for block in parts(message))


async def keep_full(line: Gateway, scripted: Upstream, seen: Counter[str]) -> None:
    """Holds every slot until somebody waits; lets that one through, and takes the slot again.

    The new holder joins the line behind the one who waits, so nobody ever finds a free slot.
    """
    for _ in range(SLOTS):
        line.hold()
    while True:
        await scripted.holds(SLOTS)
        while (await line.status())[1] == 0:
            await asyncio.sleep(0.02)
        seen["queued"] += 1
        line.hold()
        await line.waits(2)
        await scripted.release()
