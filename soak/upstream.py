"""The upstream of the soak: speaks both dialects, and does what the plan in the prompt says."""

from __future__ import annotations

import asyncio
import json
import socket
import struct
import time
from collections.abc import Iterator

from aiohttp import web

from soak.plan import TOKENS, Upstream

FLOOD_BYTES = 4 << 20
SILENCE_SECONDS = 30.0


class SoakUpstream:
    """Counts what runs at the same time and remembers in which order requests began."""

    def __init__(self) -> None:
        self.most: dict[str, int] = {"native": 0, "chat": 0}
        self.began: dict[int, float] = {}
        self.twice: list[int] = []
        self._open: dict[str, dict[int, web.Request]] = {"native": {}, "chat": {}}

    def application(self) -> web.Application:
        app = web.Application()
        app.router.add_post("/native/v1/messages", self._messages)
        app.router.add_post("/chat/v1/chat/completions", self._completions)
        return app

    @property
    def running(self) -> int:
        return sum(len(requests) for requests in self._open.values())

    async def _messages(self, request: web.Request) -> web.StreamResponse:
        return await self._handle(request, "native", native_frames)

    async def _completions(self, request: web.Request) -> web.StreamResponse:
        return await self._handle(request, "chat", chat_frames)

    async def _handle(self, request: web.Request, model: str, frames) -> web.StreamResponse:
        body = await request.json()
        plan = json.loads(body["messages"][-1]["content"])
        number, upstream = plan["number"], Upstream[plan["upstream"]]
        if number in self.began:
            self.twice.append(number)
        self.began[number] = time.monotonic()
        running = self._open[model]
        running[number] = request
        self.most[model] = max(self.most[model], sum(map(is_open, running.values())))
        try:
            return await answer(request, upstream, bool(body.get("stream")), frames)
        except ConnectionError:
            return web.Response()  # the gateway has left, for whatever reason
        finally:
            del running[number]


def is_open(request: web.Request) -> bool:
    return request.transport is not None and not request.transport.is_closing()


async def answer(
    request: web.Request, upstream: Upstream, stream: bool, frames
) -> web.StreamResponse:
    if upstream is Upstream.SILENT:
        await asyncio.sleep(SILENCE_SECONDS)
    if upstream is Upstream.RESET_BEFORE:
        return reset(request)
    if upstream.name.startswith("STATUS_"):
        status = int(upstream.value)
        error = {"error": {"message": f"status {status}", "type": "some_error"}}
        return web.json_response(error, status=status, headers={"Retry-After": "1"})
    words = FLOOD_BYTES // 1024 if upstream is Upstream.FLOOD else TOKENS
    word = "x" * 1000 + " " if upstream is Upstream.FLOOD else "word "
    if not stream:
        return whole(request, upstream, words, word, frames)
    response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
    await response.prepare(request)
    for index, frame in enumerate(frames(words, word)):
        if index == words // 2 and upstream in BREAKS:
            return await break_off(request, response, upstream)
        await response.write(frame)
        if upstream is Upstream.ANSWER_SLOWLY:
            await asyncio.sleep(0.01)
    return response


BREAKS = (Upstream.RESET_WITHIN, Upstream.END_WITHIN, Upstream.ERROR_WITHIN)


async def break_off(
    request: web.Request, response: web.StreamResponse, upstream: Upstream
) -> web.StreamResponse:
    if upstream is Upstream.RESET_WITHIN:
        return reset(request)
    if upstream is Upstream.ERROR_WITHIN:
        error = {"type": "error", "error": {"type": "api_error", "message": "a bad day"}}
        await response.write(f"event: error\ndata: {json.dumps(error)}\n\n".encode())
    return response


def reset(request: web.Request) -> web.Response:
    transport = request.transport
    if transport is not None:
        connection = transport.get_extra_info("socket")
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        transport.abort()
    return web.Response()


def whole(
    request: web.Request, upstream: Upstream, words: int, word: str, frames
) -> web.StreamResponse:
    if upstream in BREAKS:
        return reset(request)
    text = word * words
    if frames is native_frames:
        message = {**MESSAGE, "content": [{"type": "text", "text": text}]}
        message |= {"stop_reason": "end_turn", "usage": {"input_tokens": 1, "output_tokens": words}}
        return web.json_response(message)
    choice = {"index": 0, "message": {"role": "assistant", "content": text}}
    usage = {"prompt_tokens": 1, "completion_tokens": words, "total_tokens": 1 + words}
    return web.json_response(
        {"id": "c", "choices": [{**choice, "finish_reason": "stop"}], "usage": usage}
    )


MESSAGE: dict[str, object] = {
    "id": "msg_soak",
    "type": "message",
    "role": "assistant",
    "model": "native",
    "content": [],
    "stop_reason": None,
    "stop_sequence": None,
    "usage": {"input_tokens": 1, "output_tokens": 0},
}


def native_frames(words: int, word: str) -> Iterator[bytes]:
    block = {"type": "text", "text": ""}
    delta = {"type": "text_delta", "text": word}
    yield event({"type": "message_start", "message": MESSAGE})
    yield event({"type": "content_block_start", "index": 0, "content_block": block})
    for _ in range(words):
        yield event({"type": "content_block_delta", "index": 0, "delta": delta})
    yield event({"type": "content_block_stop", "index": 0})
    end = {"stop_reason": "end_turn", "stop_sequence": None}
    yield event({"type": "message_delta", "delta": end, "usage": {"output_tokens": words}})
    yield event({"type": "message_stop"})


def event(data: dict[str, object]) -> bytes:
    return f"event: {data['type']}\ndata: {json.dumps(data)}\n\n".encode()


def chat_frames(words: int, word: str) -> Iterator[bytes]:
    for _ in range(words):
        yield chunk({"content": word}, None)
    yield chunk({}, "stop")
    usage = {"prompt_tokens": 1, "completion_tokens": words, "total_tokens": 1 + words}
    yield f"data: {json.dumps({'id': 'c', 'choices': [], 'usage': usage})}\n\n".encode()
    yield b"data: [DONE]\n\n"


def chunk(delta: dict[str, str], finish: str | None) -> bytes:
    choice = {"index": 0, "delta": delta, "finish_reason": finish}
    return f"data: {json.dumps({'id': 'c', 'choices': [choice]})}\n\n".encode()
