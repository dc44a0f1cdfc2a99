#!/usr/bin/env python3
"""A scripted upstream that speaks both dialects, for trying and testing the gateway.

    stub_upstream.py [--port P] [--hold SECONDS] [--tokens N] [--token-delay SECONDS]

Any model name is served. Each request is held for ``--hold`` before its first token and answers
``--tokens`` words, or ``max_tokens`` if that is less. Prints ``ready http://127.0.0.1:P``.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import json
import os
import signal
import sys
import time
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from typing import Any

from aiohttp import web

TEXT = "Here is an answer from the stub, one word at a time, as long as you like:"


@dataclass(frozen=True)
class Answer:
    """What one request gets, whatever the dialect."""

    id: str
    model: str
    input_tokens: int
    words: tuple[str, ...]
    cut: bool
    """Whether ``max_tokens`` ended it."""

    @property
    def text(self) -> str:
        return "".join(self.words)


class Stub:
    """The pace of all answers, and the four routes."""

    def __init__(self, *, hold: float, tokens: int, token_delay: float) -> None:
        self.hold, self.tokens, self.token_delay = hold, tokens, token_delay
        self._numbers = itertools.count(1)

    def application(self) -> web.Application:
        application = web.Application(client_max_size=64 * 1024**2)
        application.add_routes(
            [
                web.post("/v1/chat/completions", self.chat_completions),
                web.post("/v1/messages", self.messages),
                web.post("/v1/messages/count_tokens", self.count_tokens),
                web.get("/v1/models", self.models),
            ]
        )
        return application

    async def chat_completions(self, request: web.Request) -> web.StreamResponse:
        body = await request.json()
        answer = self.answer(body, body.get("max_completion_tokens") or body.get("max_tokens"))
        usage = bool((body.get("stream_options") or {}).get("include_usage"))
        if not body.get("stream"):
            await self.whole_time(answer)
            return web.json_response(openai_whole(answer))
        return await self.stream(request, answer, list(openai_frames(answer, usage)))

    async def messages(self, request: web.Request) -> web.StreamResponse:
        body = await request.json()
        answer = self.answer(body, body.get("max_tokens"))
        if not body.get("stream"):
            await self.whole_time(answer)
            return web.json_response(anthropic_whole(answer))
        return await self.stream(request, answer, list(anthropic_frames(answer)))

    async def count_tokens(self, request: web.Request) -> web.Response:
        return web.json_response({"input_tokens": count(await request.json())})

    async def models(self, request: web.Request) -> web.Response:
        model = {"id": "stub", "object": "model", "created": 0, "owned_by": "stub"}
        return web.json_response({"object": "list", "data": [model]})

    def answer(self, body: dict[str, Any], limit: int | None) -> Answer:
        number = next(self._numbers)
        length = min(self.tokens, limit or self.tokens)
        words = tuple(
            word + " " for word in itertools.islice(itertools.cycle(TEXT.split()), length)
        )
        model = str(body.get("model", "stub"))
        return Answer(f"stub-{number}", model, count(body), words, length < self.tokens)

    async def whole_time(self, answer: Answer) -> None:
        await asyncio.sleep(self.hold + self.token_delay * len(answer.words))

    async def stream(
        self, request: web.Request, answer: Answer, frames: list[bytes]
    ) -> web.StreamResponse:
        await asyncio.sleep(self.hold)
        response = web.StreamResponse(headers={"content-type": "text/event-stream"})
        await response.prepare(request)
        async for chunk in self.paced(frames):
            await response.write(chunk)
        return response

    async def paced(self, frames: list[bytes]) -> AsyncIterator[bytes]:
        if not self.token_delay:
            yield b"".join(frames)
            return
        for frame in frames:
            yield frame
            await asyncio.sleep(self.token_delay)


def count(body: dict[str, Any]) -> int:
    """Prompt tokens of a stub that takes every word of the request's texts for one."""
    keep = {key: body[key] for key in ("system", "messages", "tools") if key in body}
    return len(json.dumps(keep).split())


def openai_whole(answer: Answer) -> dict[str, Any]:
    message = {"role": "assistant", "content": answer.text}
    choice = {"index": 0, "message": message, "finish_reason": openai_reason(answer)}
    return {
        **openai_base(answer, "chat.completion"),
        "choices": [choice],
        "usage": openai_usage(answer),
    }


def openai_frames(answer: Answer, usage: bool) -> Iterator[bytes]:
    base = openai_base(answer, "chat.completion.chunk")

    def chunk(delta: dict[str, Any], reason: str | None = None) -> bytes:
        choice = {"index": 0, "delta": delta, "finish_reason": reason}
        return data_frame({**base, "choices": [choice]})

    yield chunk({"role": "assistant", "content": ""})
    yield from (chunk({"content": word}) for word in answer.words)
    yield chunk({}, openai_reason(answer))
    if usage:
        yield data_frame({**base, "choices": [], "usage": openai_usage(answer)})
    yield b"data: [DONE]\n\n"


def openai_base(answer: Answer, kind: str) -> dict[str, Any]:
    return {"id": answer.id, "object": kind, "created": int(time.time()), "model": answer.model}


def openai_reason(answer: Answer) -> str:
    return "length" if answer.cut else "stop"


def openai_usage(answer: Answer) -> dict[str, int]:
    output = len(answer.words)
    return {
        "prompt_tokens": answer.input_tokens,
        "completion_tokens": output,
        "total_tokens": answer.input_tokens + output,
    }


def anthropic_whole(answer: Answer) -> dict[str, Any]:
    return {
        "id": answer.id,
        "type": "message",
        "role": "assistant",
        "model": answer.model,
        "content": [{"type": "text", "text": answer.text}],
        "stop_reason": "max_tokens" if answer.cut else "end_turn",
        "stop_sequence": None,
        "usage": {"input_tokens": answer.input_tokens, "output_tokens": len(answer.words)},
    }


def anthropic_frames(answer: Answer) -> Iterator[bytes]:
    whole = anthropic_whole(answer)
    empty = {"content": [], "stop_reason": None, "usage": {**whole["usage"], "output_tokens": 0}}
    yield event_frame("message_start", message={**whole, **empty})
    block = {"type": "text", "text": ""}
    yield event_frame("content_block_start", index=0, content_block=block)
    for word in answer.words:
        delta = {"type": "text_delta", "text": word}
        yield event_frame("content_block_delta", index=0, delta=delta)
    yield event_frame("content_block_stop", index=0)
    end = {"stop_reason": whole["stop_reason"], "stop_sequence": None}
    yield event_frame("message_delta", delta=end, usage={"output_tokens": len(answer.words)})
    yield event_frame("message_stop")


def event_frame(name: str, **fields: object) -> bytes:
    return f"event: {name}\n".encode() + data_frame({"type": name, **fields})


def data_frame(data: dict[str, Any]) -> bytes:
    return f"data: {json.dumps(data)}\n\n".encode()


async def serve(stub: Stub, port: int) -> int:
    # Without handler_cancellation a request whose client has left would be held to its end.
    runner = web.AppRunner(
        stub.application(), handler_cancellation=True, access_log=None, shutdown_timeout=0
    )
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", port).start()
    except (OSError, OverflowError) as error:
        why = os.strerror(error.errno or 0) if isinstance(error, OSError) else "no such port"
        print(f"Port {port} cannot be used ({why}); choose --port.", file=sys.stderr)
        await runner.cleanup()
        return 1
    print(f"ready http://127.0.0.1:{runner.addresses[0][1]}", flush=True)
    ending = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, ending.set)
    await ending.wait()
    await runner.cleanup()
    return 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--port", type=int, default=8001, help="on 127.0.0.1; 0 = any free one")
    parser.add_argument("--hold", type=float, default=0, help="seconds before the first token")
    parser.add_argument("--tokens", type=int, default=16, help="length of an answer")
    parser.add_argument("--token-delay", type=float, default=0, help="seconds between tokens")
    given = parser.parse_args()
    stub = Stub(hold=given.hold, tokens=given.tokens, token_delay=given.token_delay)
    return asyncio.run(serve(stub, given.port))


if __name__ == "__main__":
    sys.exit(main())
