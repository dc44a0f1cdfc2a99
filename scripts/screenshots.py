#!/usr/bin/env python3
"""Takes the pictures of docs/images: a gateway under a day's load, in headless Chromium.

    scripts/screenshots.py [--minutes N] [--into docs/images]

Runs as long as it says (15 minutes fill the plot), with a model that answers at random lengths and
now and then breaks off. Needs the test extras and Chromium.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import random
import shutil
import sys
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path

from aiohttp import ClientError, ClientSession, ClientTimeout, web

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from gateway.app import Service, running  # noqa: E402
from gateway.config import from_mapping  # noqa: E402
from tests.observability.browser import Browser, Tab, chromium  # noqa: E402
from tests.web.scripted import frame, native_end, native_start  # noqa: E402

STORY = "The lighthouse keeper had counted ships for forty years before one of them counted back. "
CLIENTS = ("web", "anna", "ben", "nightly-tests")
DESK, PHONE, CHAT = (1280, 860), (390, 844), (760, 560)


class Model:
    """Answers with a story, a word at a time; one in thirty breaks off."""

    def __init__(self, chance: random.Random) -> None:
        self._chance = chance

    async def answer(self, request: web.Request) -> web.StreamResponse:
        await request.read()
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await asyncio.sleep(self._chance.uniform(0.3, 1.2))
        await response.prepare(request)
        await response.write(native_start("Once. "))
        words = (STORY * 9).split()[: int(self._chance.lognormvariate(3.7, 0.5))]
        for word in words:
            delta = {"type": "text_delta", "text": f"{word} "}
            event = {"type": "content_block_delta", "index": 0, "delta": delta}
            await response.write(frame(event))
            await asyncio.sleep(0.15)
            if self._chance.random() < 1 / 30 / 40 and request.transport is not None:
                request.transport.abort()
                return response
        count = f'"output_tokens": {len(words)}'.encode()
        await response.write(native_end().replace(b'"output_tokens": 1', count))
        return response


@contextlib.asynccontextmanager
async def model(chance: random.Random) -> AsyncIterator[str]:
    app = web.Application()
    app.router.add_post("/v1/messages", Model(chance).answer)
    runner = web.AppRunner(app, handler_cancellation=True, access_log=None, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    try:
        yield f"http://127.0.0.1:{site.port}"
    finally:
        await runner.cleanup()


def config_of(url: str) -> dict[str, object]:
    upstream = {"url": url, "dialect": "anthropic", "server": "other"}
    return {
        "listen": {"port": 0},
        "admin": {"port": 0, "demo": True},
        "upstreams": {
            "reasoning": upstream | {"slots": 3, "models": ["reasoning"]},
            "small": upstream | {"slots": 4, "models": ["qwen2.5:3b-instruct", "smollm2"]},
        },
        "auth": {
            "keys": [{"name": name, "key": f"key of {name}".replace(" ", "-")} for name in CLIENTS]
        },
        "shutdown": {"grace_seconds": 0},
    }


class Crowd:
    """Clients that come and go at random."""

    def __init__(self, url: str, session: ClientSession, chance: random.Random) -> None:
        self._url, self._session, self._chance = url, session, chance

    async def come(self) -> None:
        async with asyncio.TaskGroup() as group:
            while True:
                rush = self._chance.choice((0.3, 0.6, 1, 1, 1.5))
                for _ in range(25):
                    group.create_task(self._ask())
                    await asyncio.sleep(self._chance.expovariate(0.62 * rush))

    async def _ask(self) -> None:
        model = self._chance.choice(("reasoning",) * 5 + ("qwen2.5:3b-instruct", "smollm2"))
        message = {"role": "user", "content": "Tell me a story."}
        body = {"model": model, "max_tokens": 400, "stream": True, "messages": [message]}
        key = f"key-of-{self._chance.choice(CLIENTS)}"
        patience = 8 if self._chance.random() < 0.06 else 600
        with contextlib.suppress(ClientError, TimeoutError):
            async with (
                asyncio.timeout(patience),
                self._session.post(
                    f"{self._url}/llm/v1/messages",
                    data=json.dumps(body),
                    headers={"x-api-key": key},
                ) as response,
            ):
                await response.read()


async def take(browser: Browser, service: Service, into: Path) -> None:
    admin = f"http://127.0.0.1:{service.admin_port}"
    status = await browser.tab(f"{admin}/status")
    await status.until("document.querySelectorAll('.upstream').length === 2")
    reasoning = next(iter(service.gateway.directory)).pool
    while not 4 <= reasoning.statistics().waiting <= 6:  # noqa: ASYNC110 - a pool has no event
        await asyncio.sleep(0.2)
    await shoot(status, into / "status.png", DESK)
    await shoot(status, into / "status-phone.png", PHONE, prefers_color_scheme="dark")
    demo = await browser.tab(f"{admin}/demo")
    await demo.emulate(width=CHAT[0], height=CHAT[1])
    await demo.until("!document.querySelector('#key').hidden")
    await demo.type("#key", "key-of-web")
    await demo.run("document.querySelector('#key').dispatchEvent(new Event('change'))")
    await demo.until("document.querySelector('#model').length > 0")
    await demo.type("#text", "Tell me a story.")
    await demo.press("Enter")
    await demo.until("!document.querySelector('#place').hidden")
    await demo.until(
        "/go, waiting for [2-9] s/.test(document.querySelector('#countdown').innerText)"
    )
    await shoot(demo, into / "demo.png", CHAT)
    assert not status.problems


async def shoot(tab: Tab, path: Path, size: tuple[int, int], **media: str) -> None:
    await tab.emulate(width=size[0], height=size[1], prefers_reduced_motion="reduce", **media)
    await asyncio.sleep(1.5)  # the page draws once a second
    await tab.screenshot(path)
    print(path)


async def main(minutes: float, into: Path) -> None:
    chance = random.Random(7)
    program = shutil.which("chromium") or sys.exit("chromium is not installed")
    async with contextlib.AsyncExitStack() as stack:
        url = await stack.enter_async_context(model(chance))
        service = await stack.enter_async_context(running(from_mapping(config_of(url), {})))
        session = await stack.enter_async_context(ClientSession(timeout=ClientTimeout(None)))
        surface = f"http://127.0.0.1:{service.port}"
        crowd = asyncio.create_task(Crowd(surface, session, chance).come())
        stack.callback(crowd.cancel)
        await asyncio.sleep(minutes * 60)
        folder = stack.enter_context(tempfile.TemporaryDirectory(ignore_cleanup_errors=True))
        browser = await stack.enter_async_context(chromium(program, Path(folder)))
        await take(browser, service, into)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Takes the pictures of docs/images.")
    parser.add_argument("--minutes", type=float, default=15.0)
    parser.add_argument("--into", type=Path, default=ROOT / "docs" / "images")
    arguments = parser.parse_args()
    asyncio.run(main(arguments.minutes, arguments.into))
