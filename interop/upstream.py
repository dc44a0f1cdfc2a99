"""The scripted upstream: a native server whose answer is named in the prompt.

A prompt that is ``hold`` keeps its slot until the runner releases it; ``answer:tool`` and its like
get that answer.  A body whose model is ``agent`` is played by ``agent.next_answer``.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import Any

from aiohttp import web

from interop.agent import next_answer
from interop.scenarios import TEXT, THOUGHT, Answer

Block = dict[str, Any]


class Upstream:
    """``url`` once started; remembers every request that reached it."""

    def __init__(self) -> None:
        self.url = ""
        self.bodies: list[dict[str, Any]] = []
        """Of everybody but the holders, in the order of their arrival."""
        self._held: asyncio.Queue[asyncio.Event] = asyncio.Queue()

    async def release(self) -> None:
        """Lets the longest holder go, once there is one."""
        async with asyncio.timeout(10):
            (await self._held.get()).set()

    async def holds(self, count: int) -> None:
        """Until so many holders are here."""
        async with asyncio.timeout(10):
            while self._held.qsize() < count:
                await asyncio.sleep(0.01)

    async def messages(self, request: web.Request) -> web.StreamResponse:
        body = await request.json()
        # Of all messages: an agent may put its own reminders behind the user's.
        prompt = json.dumps(body["messages"])
        if body["messages"][-1]["content"] == "hold":
            released = asyncio.Event()
            self._held.put_nowait(released)
            await released.wait()
        else:
            self.bodies.append(body)
        if f"answer:{Answer.ERROR.value}" in prompt:
            return web.json_response({"type": "error", "error": ERROR}, status=500)
        message = as_message(next_answer(body) if body["model"] == "agent" else blocks(prompt))
        if not body.get("stream"):
            return web.json_response(message)
        return await self._stream(request, message)

    async def count_tokens(self, request: web.Request) -> web.Response:
        return web.json_response({"input_tokens": 7})

    async def _stream(self, request: web.Request, message: dict[str, Any]) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        for event in as_events(message):
            text = f"event: {event['type']}\ndata: {json.dumps(event)}\n\n"
            await response.write(text.encode())
        return response


ERROR = {"type": "api_error", "message": "the upstream broke on purpose"}


def blocks(prompt: str) -> list[Block]:
    text = {"type": "text", "text": TEXT}
    if f"answer:{Answer.TOOL.value}" in prompt:
        return [
            {"type": "tool_use", "id": "toolu_1", "name": "weather", "input": {"city": "Paris"}}
        ]
    if f"answer:{Answer.THINKING.value}" in prompt:
        return [{"type": "thinking", "thinking": THOUGHT, "signature": "c2lnbmVk"}, text]
    return [text]


def as_message(content: list[Block]) -> dict[str, Any]:
    wants_tool = any(block["type"] == "tool_use" for block in content)
    return {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": "interop",
        "content": content,
        "stop_reason": "tool_use" if wants_tool else "end_turn",
        "stop_sequence": None,
        "usage": {"input_tokens": 7, "output_tokens": 5},
    }


def as_events(message: dict[str, Any]) -> Iterator[dict[str, Any]]:
    start = {"content": [], "stop_reason": None, "usage": {"input_tokens": 7, "output_tokens": 0}}
    yield {"type": "message_start", "message": message | start}
    for index, block in enumerate(message["content"]):
        opened, deltas = in_deltas(block)
        yield {"type": "content_block_start", "index": index, "content_block": opened}
        for delta in deltas:
            yield {"type": "content_block_delta", "index": index, "delta": delta}
        yield {"type": "content_block_stop", "index": index}
    end = {"stop_reason": message["stop_reason"], "stop_sequence": None}
    yield {"type": "message_delta", "delta": end, "usage": {"output_tokens": 5}}
    yield {"type": "message_stop"}


def in_deltas(block: Block) -> tuple[Block, list[Block]]:
    """A block as it is opened, and the deltas that fill it; text comes in two."""
    match block["type"]:
        case "tool_use":
            arguments = json.dumps(block["input"])
            return block | {"input": {}}, [{"type": "input_json_delta", "partial_json": arguments}]
        case "thinking":
            thought = {"type": "thinking_delta", "thinking": block["thinking"]}
            signature = {"type": "signature_delta", "signature": block["signature"]}
            return block | {"thinking": "", "signature": ""}, [thought, signature]
        case _:
            text = block["text"]
            halves = (text[: len(text) // 2], text[len(text) // 2 :])
            return block | {"text": ""}, [{"type": "text_delta", "text": half} for half in halves]


@asynccontextmanager
async def upstream() -> AsyncIterator[Upstream]:
    scripted = Upstream()
    app = web.Application(client_max_size=1 << 26)
    app.router.add_post("/v1/messages", scripted.messages)
    app.router.add_post("/v1/messages/count_tokens", scripted.count_tokens)
    runner = web.AppRunner(app, handler_cancellation=True, access_log=None, shutdown_timeout=1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    scripted.url = f"http://127.0.0.1:{site.port}"
    try:
        yield scripted
    finally:
        await runner.cleanup()
