"""The upstream of the measurements: ``python -m bench.stub PORT``.

A request says itself what it wants: ``max_tokens`` words, ``top_k`` milliseconds apart (0: as fast
as they are taken, a write for each; JOINED: many of them to a write).  Every word is the time at
which it was written, so that clients can tell how long it was on its way.  ``held`` in a path
begins to answer and goes on after a ``POST /release``.
"""

from __future__ import annotations

import asyncio
import json
import random
import sys
import time
from typing import cast

from bench.http import Requests, chunk, run

STREAM = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
USAGE = {"input_tokens": 1, "output_tokens": 0}
MESSAGE = {
    "id": "msg_bench",
    "type": "message",
    "role": "assistant",
    "model": "m",
    "content": [],
    "stop_reason": None,
    "stop_sequence": None,
    "usage": USAGE,
}
JOINED = -1
BATCH = 16

held: list[Stub] = []
waiting: list[Stub] = []
ended_ns = [0]
"""When the latest stream ended."""


def event(data: dict[str, object]) -> bytes:
    return b"event: %s\ndata: %s\n\n" % (str(data["type"]).encode(), json.dumps(data).encode())


NATIVE_BEGIN = event({"type": "message_start", "message": MESSAGE}) + event(
    {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}}
)
NATIVE_END = (
    event({"type": "content_block_stop", "index": 0})
    + event(
        {
            "type": "message_delta",
            "delta": {"stop_reason": "end_turn", "stop_sequence": None},
            "usage": {"output_tokens": 1},
        }
    )
    + event({"type": "message_stop"})
)
CHAT_END = (
    b'data: {"id":"c","choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}\n\n'
    b'data: {"id":"c","choices":[],"usage":{"prompt_tokens":1,"completion_tokens":1}}\n\n'
    b"data: [DONE]\n\n"
)


def native_word() -> bytes:
    return (
        b'event: content_block_delta\ndata: {"type":"content_block_delta","index":0,'
        b'"delta":{"type":"text_delta","text":"%d "}}\n\n' % time.monotonic_ns()
    )


def chat_word() -> bytes:
    return (
        b'data: {"id":"chatcmpl-1","object":"chat.completion.chunk","created":1,"model":"m",'
        b'"choices":[{"index":0,"delta":{"content":"%d "},"logprobs":null,'
        b'"finish_reason":null}]}\n\n' % time.monotonic_ns()
    )


class Stub(asyncio.Protocol):
    """One connection."""

    def __init__(self) -> None:
        self._requests = Requests()
        self._loop = asyncio.get_running_loop()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        for head, body in self._requests.feed(data):
            self._take(head, body)

    def _take(self, head: bytes, body: bytes) -> None:
        if head.startswith(b"POST /release"):
            if held:
                held.pop(0)._say(native=True, words=0, pause=0)
            self._whole(b"%d" % len(held))
        elif b"held" in head.split(b"\r\n", 1)[0]:
            arrived = time.monotonic_ns()
            for stub in waiting:
                stub._whole(b"%d %d" % (ended_ns[-1], arrived))
            waiting.clear()
            self._transport.write(STREAM + chunk(NATIVE_BEGIN + native_word()))
            held.append(self)
        elif head.startswith(b"GET /next"):
            waiting.append(self)
        else:
            self.answer(head, body)

    def answer(self, head: bytes, body: bytes) -> None:
        wanted = json.loads(body)
        native = b"/messages" in head.split(b"\r\n", 1)[0]
        words, pause = wanted.get("max_tokens", 1), wanted.get("top_k") or 0
        if not wanted.get("stream"):
            self._whole(json.dumps(whole(native)).encode())
            return
        self._transport.write(STREAM + (chunk(NATIVE_BEGIN) if native else b""))
        first = random.random() * max(0, pause) / 1000  # streams do not march in step
        self._loop.call_later(first, self._say, native, words, pause / 1000)

    def _say(self, native: bool, words: int, pause: float) -> None:
        if self._transport.is_closing():
            return
        word = native_word if native else chat_word
        if words <= 0:
            self._transport.write(chunk(NATIVE_END if native else CHAT_END) + b"0\r\n\r\n")
            ended_ns[:] = [time.monotonic_ns()]
        elif pause > 0:
            self._transport.write(chunk(word()))
            self._loop.call_later(pause, self._say, native, words - 1, pause)
        else:
            some = min(BATCH if pause else 1, words)
            self._transport.write(chunk(b"".join(word() for _ in range(some))))
            self._loop.call_soon(self._say, native, words - some, pause)

    def _whole(self, body: bytes) -> None:
        self._transport.write(
            b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s"
            % (len(body), body)
        )


def whole(native: bool) -> dict[str, object]:
    if native:
        text = {"type": "text", "text": "Hi"}
        return MESSAGE | {"content": [text], "stop_reason": "end_turn"}
    message = {"role": "assistant", "content": "Hi"}
    choice = {"index": 0, "message": message, "finish_reason": "stop"}
    return {"id": "c", "choices": [choice], "usage": {"prompt_tokens": 1, "completion_tokens": 1}}


async def main() -> None:
    server = await asyncio.get_running_loop().create_server(
        Stub, "127.0.0.1", int(sys.argv[1]), backlog=4096
    )
    await server.serve_forever()


if __name__ == "__main__":
    run(main)
