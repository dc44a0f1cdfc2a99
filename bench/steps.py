"""The pure steps over a fixed recording: ``python -m bench.steps STEP ROUNDS``.

Says nothing and measures nothing itself: ``bench.instructions`` runs it under valgrind.  One round
is the same 600 tokens each time: thinking, text, and a tool call with its arguments in pieces, cut
as servers send them, one frame to a read.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable

from bench.stub import CHAT_END, MESSAGE, NATIVE_END, event
from gateway.relay import Step
from gateway.relay.anthropic_openai.stream import OpenAIStream
from gateway.relay.passthrough import Passthrough

TOKENS = 600
KINDS = ("thinking", "text", "arguments")
WORDS = ("The", " queue", " moves", "\n", ' "on"', " and", " on", ",", " é", " 😀")


def chunk(delta: dict[str, object]) -> bytes:
    choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": None}
    about = {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m"}
    return b"data: " + json.dumps(about | {"choices": [choice]}).encode() + b"\n\n"


def chat_delta(kind: str, word: str) -> bytes:
    if kind == "thinking":
        return chunk({"reasoning_content": word})
    if kind == "text":
        return chunk({"content": word})
    return chunk({"tool_calls": [{"index": 0, "function": {"arguments": word}}]})


def native_delta(kind: str, word: str) -> bytes:
    delta = {
        "thinking": {"type": "thinking_delta", "thinking": word},
        "text": {"type": "text_delta", "text": word},
        "arguments": {"type": "input_json_delta", "partial_json": word},
    }[kind]
    return event({"type": "content_block_delta", "index": KINDS.index(kind), "delta": delta})


def tokens(delta: Callable[[str, str], bytes], kind: str) -> list[bytes]:
    return [delta(kind, WORDS[n % len(WORDS)]) for n in range(TOKENS // len(KINDS))]


def native_block(kind: str) -> list[bytes]:
    index = KINDS.index(kind)
    block: dict[str, object] = {
        "thinking": {"type": "thinking", "thinking": "", "signature": ""},
        "text": {"type": "text", "text": ""},
        "arguments": {"type": "tool_use", "id": "toolu_1", "name": "look", "input": {}},
    }[kind]
    begin = event({"type": "content_block_start", "index": index, "content_block": block})
    stop = event({"type": "content_block_stop", "index": index})
    return [begin, *tokens(native_delta, kind), stop]


CALL = {"index": 0, "id": "call_1", "type": "function", "function": {"name": "look"}}
CHAT = [
    chunk({"role": "assistant", "content": ""}),
    *tokens(chat_delta, "thinking"),
    *tokens(chat_delta, "text"),
    chunk({"tool_calls": [CALL]}),
    *tokens(chat_delta, "arguments"),
    CHAT_END,
]
NATIVE = [
    event({"type": "message_start", "message": MESSAGE}),
    *(frame for kind in KINDS for frame in native_block(kind)),
    NATIVE_END,
]


def take(step: Step, reads: list[bytes]) -> None:
    for data in reads:
        step.feed(data)
    step.finish()


def ordinary(rounds: int) -> None:
    """What any Python does for a living: the measure for the others, so that another build of
    Python, which needs fewer instructions for everything, does not look like progress."""
    for _ in range(rounds * TOKENS):
        fields = dict(part.split(b"=") for part in b"a=1;b=2;c=3".split(b";"))
        text = f"{len(fields)}:{fields[b'a'].decode()}"
        assert text.startswith("3")


def relayed(rounds: int) -> None:
    for _ in range(rounds):
        take(Passthrough(), NATIVE)


def translated(rounds: int) -> None:
    for _ in range(rounds):
        take(OpenAIStream(model="m"), CHAT)


STEPS = {"ordinary": ordinary, "relayed": relayed, "translated": translated}

if __name__ == "__main__":
    STEPS[sys.argv[1]](int(sys.argv[2]))
