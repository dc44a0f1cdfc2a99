"""The documented way to read the stream: the same code as the demo's, wherever frames are cut."""

from __future__ import annotations

import asyncio
import json
import re
from pathlib import Path
from typing import Any

from aiohttp import web
from aiohttp.test_utils import TestServer

from gateway.slots.base import Place
from gateway.web.frames import QueueEvents, queue_frame
from gateway.web.pages import text
from tests.observability.browser import Browser
from tests.web.scripted import native_stream

DOCS = Path(__file__).parents[2] / "docs"

#: Feeds bytes in pieces of one size through the module, as if the network had cut them so.
READ = """(async (bytes, size) => {
  const { ask } = await import("./demo/stream.js");
  globalThis.fetch = async () => new Response(new ReadableStream({ start(stream) {
    for (let at = 0; at < bytes.length; at += size) stream.enqueue(bytes.slice(at, at + size));
    stream.close();
  } }));
  const seen = [];
  try { for await (const frame of ask("x", {})) seen.push(frame); }
  catch ({ type, message }) { seen.push({ event: "thrown", data: { type, message } }); }
  return seen;
})(new Uint8Array(%s), %d)"""


async def read(browser: Browser, make_gateway: Any, stream: bytes, *sizes: int) -> list[Any]:
    surface = await make_gateway({"admin": {"port": 0, "demo": True}})
    page = await browser.tab(f"http://127.0.0.1:{surface.admin_port}/demo")
    return [await page.run(READ % (json.dumps(list(stream)), size)) for size in sizes]


async def test_every_cut_of_the_stream_reads_the_same(browser: Browser, make_gateway: Any) -> None:
    place = queue_frame(Place(3, 7, 4.2, 31.4), QueueEvents.EVENT)
    stream = place + b": keep-alive\n\n" + native_stream("Grüße, 世界")
    whole, *cut = await read(browser, make_gateway, stream, 10**6, 1, 2, 3, 7)
    assert all(frames == whole for frames in cut)
    assert whole[0] == {
        "event": "queue",
        "data": {
            "type": "ping",
            "position": 3,
            "queue_length": 7,
            "waited_seconds": 4.2,
            "estimated_wait_seconds": 31,
        },
    }
    texts = [frame["data"]["delta"].get("text", "") for frame in whole if "delta" in frame["data"]]
    assert "".join(texts) == "Grüße, 世界"
    assert whole[-1]["event"] == "message_stop"


async def test_bad_ends_are_thrown(browser: Browser, make_gateway: Any) -> None:
    data = {"type": "error", "error": {"type": "overloaded_error", "message": "m"}}
    error = f"event: error\ndata: {json.dumps(data)}\n\n".encode()
    (late,) = await read(browser, make_gateway, error, 5)
    assert late == [{"event": "thrown", "data": {"type": "overloaded_error", "message": "m"}}]
    (cut,) = await read(browser, make_gateway, native_stream("Hi")[:-60], 50)
    assert cut[-1]["data"] == {"type": "api_error", "message": "The answer broke off."}


def test_the_page_for_front_ends_shows_the_code_that_the_demo_runs() -> None:
    module = text("stream.js")
    assert f"```js\n{module}```" in (DOCS / "frontend.md").read_text()
    assert module.count("\n") < 90


class Site:
    """The documented page, its module and an answer that waits for the test's word."""

    def __init__(self) -> None:
        self.go_on, self.left = asyncio.Event(), asyncio.Event()
        page = re.search(r"```html\n(.*?)```", (DOCS / "frontend.md").read_text(), re.DOTALL)
        assert page is not None
        self.app = web.Application()
        self.app.add_routes(
            [
                web.get("/", serving(page[1], "text/html")),
                web.get("/stream.js", serving(text("stream.js"), "text/javascript")),
                web.post("/llm/v1/messages", self.answer),
            ]
        )

    async def answer(self, request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"content-type": "text/event-stream"})
        try:
            await response.prepare(request)
            await response.write(queue_frame(Place(3, 7, 4.2, 31.4), QueueEvents.EVENT))
            await self.go_on.wait()
            await response.write(native_stream("Grüße, 世界"))
            return response
        except asyncio.CancelledError:
            self.left.set()
            raise


def serving(body: str, content_type: str) -> Any:
    async def serve(request: web.Request) -> web.Response:
        return web.Response(text=body, content_type=content_type, charset="utf-8")

    return serve


async def test_the_documented_page_shows_the_place_then_the_answer(browser: Browser) -> None:
    site = Site()
    async with TestServer(site.app, handler_cancellation=True) as server:
        page = await browser.tab(str(server.make_url("/")))
        await page.until("place.innerText === 'You are number 3 of 7.'")
        site.go_on.set()
        await page.until("answer.innerText === 'Grüße, 世界' && place.innerText === ''")


async def test_the_documented_page_leaves_the_line_when_it_is_stopped(browser: Browser) -> None:
    site = Site()
    async with TestServer(site.app, handler_cancellation=True) as server:
        page = await browser.tab(str(server.make_url("/")))
        await page.until("place.innerText === 'You are number 3 of 7.'")
        await page.click("#stop")
        await page.until("place.innerText === 'Stopped.'")
        async with asyncio.timeout(10):
            await site.left.wait()


def test_the_type_of_the_frame_has_the_frames_fields() -> None:
    frame = queue_frame(Place(1, 1, 0.0, None), QueueEvents.EVENT).decode()
    fields = json.loads(frame.partition("data: ")[2])
    types = (DOCS / "queue-frame.d.ts").read_text()
    interface = re.search(r"interface QueueFrame \{(.*?)\n\}", types, re.DOTALL)
    assert interface is not None
    typed = dict(re.findall(r"^  (\w+): (.*);$", interface[1], re.MULTILINE))
    assert list(typed) == list(fields)
    assert typed["type"] == '"ping"'
    assert typed["estimated_wait_seconds"] == "number | null"
