"""Whether a client's own way to set a header arrives: the form its queue frames then have."""

from __future__ import annotations

import asyncio
import tempfile
from pathlib import Path

from interop.gateway import SLOTS, gateway
from interop.registry import Client
from interop.scenarios import Line, Scenario
from interop.tap import tap
from interop.trial import run, three
from interop.upstream import upstream

HEADER = "x-gateway-queue-events"
FORMS = {"event": b"event: queue\n", "comment": b": queue position=3", "off": b": keep-alive"}
QUEUED = Scenario("queued", Line.THREE)


async def form(client: Client, wanted: str) -> list[str]:
    """Which forms went over the wire when the client asked for one."""
    with tempfile.TemporaryDirectory(prefix="interop-") as name:
        async with (
            upstream() as scripted,
            gateway(Path(name), scripted.url) as line,
            tap(line.port) as wire,
        ):
            await line.fill(SLOTS + 2)
            play = asyncio.create_task(three(line, scripted))
            try:
                said = await run(client, QUEUED.order(wire.url, client.modes[0], {HEADER: wanted}))
            finally:
                play.cancel()
                await asyncio.gather(play, return_exceptions=True)
            if not said["ok"]:
                raise RuntimeError(said["error"])
            return [name for name, mark in FORMS.items() if mark in wire.received]


async def forms(client: Client) -> list[bool]:
    """Whether each form came when it was asked for, and no other.

    A ``: keep-alive`` may come in every form.
    """
    others = {"event", "comment"}
    return [set(await form(client, wanted)) & others == {wanted} & others for wanted in FORMS]
