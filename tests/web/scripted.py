"""A real upstream whose every answer waits for the test to write it.

Each request arrives as an ``Arrival``; the test opens, writes, ends or breaks it.  Nothing sleeps:
the test awaits arrivals and departures.
"""

from __future__ import annotations

import asyncio
import json
import socket
import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from aiohttp import web

SECONDS = 5.0
"""Longer than anything here may take; a test that waits so long has failed."""


class Arrival:
    """One request at the upstream, and what the test does with it."""

    def __init__(self, request: web.Request, body: bytes) -> None:
        self.request = request
        self.body = body
        self.left = asyncio.Event()
        """The gateway closed the connection before we were done."""
        self._script: asyncio.Queue[Any] = asyncio.Queue()

    @property
    def json(self) -> dict[str, Any]:
        return json.loads(self.body)

    @property
    def prompt(self) -> str:
        return self.json["messages"][-1]["content"]

    def open(self, status: int = 200, content_type: str = "text/event-stream", **headers: str):
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        self._script.put_nowait(("open", status, {"Content-Type": content_type} | named))
        return self

    def write(self, data: bytes) -> Arrival:
        self._script.put_nowait(("write", data))
        return self

    def end(self) -> None:
        self._script.put_nowait(("end",))

    def reset(self) -> None:
        self._script.put_nowait(("reset",))

    def answer(self, text: str = "Hi") -> None:
        """A whole good answer in the dialect and form that was asked for."""
        native = self.request.path.endswith("/messages")
        if self.json.get("stream"):
            self.open().write(native_stream(text) if native else chat_stream(text)).end()
        else:
            body = native_message(text) if native else chat_message(text)
            self.open(content_type="application/json").write(json.dumps(body).encode()).end()

    async def play(self) -> web.StreamResponse:
        response: web.StreamResponse | None = None
        while True:
            match await self._script.get():
                case ("open", status, headers):
                    response = web.StreamResponse(status=status, headers=headers)
                    await response.prepare(self.request)
                case ("write", data):
                    assert response is not None
                    await response.write(data)
                case ("reset",):
                    return self._reset(response)
                case ("end",):
                    assert response is not None
                    return response

    def _reset(self, response: web.StreamResponse | None) -> web.StreamResponse:
        transport = self.request.transport
        if transport is not None:
            connection = transport.get_extra_info("socket")
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            transport.abort()
        return response or web.Response()


class ScriptedUpstream:
    """The upstream; ``url`` once it is started."""

    def __init__(self) -> None:
        self.arrivals: list[Arrival] = []
        self.running: list[Arrival] = []
        self.most_at_once = 0
        self.url = ""
        self._changed = asyncio.Condition()

    async def arrival(self, number: int = 1) -> Arrival:
        """The ``number``-th request that ever came, once it has."""
        await self._until(lambda: len(self.arrivals) >= number)
        return self.arrivals[number - 1]

    async def idle(self) -> None:
        await self._until(lambda: not self.running)

    async def _until(self, condition: Any) -> None:
        async with asyncio.timeout(SECONDS), self._changed:
            await self._changed.wait_for(condition)

    async def _notify(self) -> None:
        async with self._changed:
            self._changed.notify_all()

    async def handle(self, request: web.Request) -> web.StreamResponse:
        arrival = Arrival(request, await request.read())
        self.arrivals.append(arrival)
        self.running.append(arrival)
        self.most_at_once = max(self.most_at_once, len(self.running))
        await self._notify()
        try:
            return await arrival.play()
        except (asyncio.CancelledError, ConnectionError):
            arrival.left.set()
            raise
        finally:
            self.running.remove(arrival)
            asyncio.get_running_loop().create_task(self._notify())


@asynccontextmanager
async def scripted_upstream() -> AsyncIterator[ScriptedUpstream]:
    upstream = ScriptedUpstream()
    app = web.Application(client_max_size=1 << 28)
    app.router.add_post("/v1/messages", upstream.handle)
    app.router.add_post("/v1/chat/completions", upstream.handle)
    app.router.add_post("/v1/messages/count_tokens", upstream.handle)
    runner = web.AppRunner(app, handler_cancellation=True, access_log=None, shutdown_timeout=1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    upstream.url = f"http://127.0.0.1:{site.port}"
    try:
        yield upstream
    finally:
        await runner.cleanup()


def frame(data: dict[str, Any]) -> bytes:
    return f"event: {data['type']}\ndata: {json.dumps(data)}\n\n".encode()


def native_message(text: str) -> dict[str, Any]:
    return {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": "m",
        "content": [{"type": "text", "text": text}],
        "stop_reason": "end_turn",
        "stop_sequence": None,
        "usage": {"input_tokens": 3, "output_tokens": 1},
    }


def native_start(text: str = "Hi") -> bytes:
    """A native stream up to and with its first words."""
    message = native_message("") | {"content": [], "stop_reason": None}
    message["usage"] = {"input_tokens": 3, "output_tokens": 0}
    block = {"type": "text", "text": ""}
    delta = {"type": "text_delta", "text": text}
    return (
        frame({"type": "message_start", "message": message})
        + frame({"type": "content_block_start", "index": 0, "content_block": block})
        + frame({"type": "content_block_delta", "index": 0, "delta": delta})
    )


def native_end() -> bytes:
    delta = {"stop_reason": "end_turn", "stop_sequence": None}
    return (
        frame({"type": "content_block_stop", "index": 0})
        + frame({"type": "message_delta", "delta": delta, "usage": {"output_tokens": 1}})
        + frame({"type": "message_stop"})
    )


def native_stream(text: str) -> bytes:
    return native_start(text) + native_end()


def chat_message(text: str) -> dict[str, Any]:
    choice = {"index": 0, "message": {"role": "assistant", "content": text}}
    usage = {"prompt_tokens": 3, "completion_tokens": 1, "total_tokens": 4}
    return {"id": "c", "choices": [choice | {"finish_reason": "stop"}], "usage": usage}


def chat_stream(text: str) -> bytes:
    chunks: list[tuple[dict[str, str], str | None]] = [({"content": text}, None), ({}, "stop")]
    return (
        b"".join(
            f"data: {json.dumps({'id': 'c', 'choices': [choice(*chunk)]})}\n\n".encode()
            for chunk in chunks
        )
        + b"data: [DONE]\n\n"
    )


def choice(delta: dict[str, str], reason: str | None) -> dict[str, Any]:
    return {"index": 0, "delta": delta, "finish_reason": reason}
