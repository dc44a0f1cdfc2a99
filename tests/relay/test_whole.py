"""Whole messages and streams for one another: under any name, native ones with what they lack."""

from __future__ import annotations

import json
from typing import Any

import pytest

from gateway.config import Dialect
from gateway.errors import GatewayError
from gateway.relay.anthropic_openai.folding import fold
from gateway.relay.dialects import answer_step, stream_step
from tests.relay.stream_language import DONE, chunk, text, told

TYPES = ["application/json", "text/event-stream", "text/plain", ""]
BLOCK = {"type": "text", "text": "Hi"}
MESSAGE = {
    "id": "msg_1",
    "type": "message",
    "role": "assistant",
    "model": "m",
    "content": [BLOCK],
    "stop_reason": "end_turn",
    "stop_sequence": None,
    "usage": {"input_tokens": 1, "output_tokens": 3},
}
CHAT = {"choices": [{"message": {"content": "Hi"}, "finish_reason": "stop"}]}


def event(kind: str, **fields: Any) -> str:
    return f"event: {kind}\ndata: {json.dumps({'type': kind} | fields)}\n\n"


def native(
    message: dict[str, Any], blocks: list[tuple[dict[str, Any], dict[str, Any]]], **last: Any
) -> str:
    """A native stream: ``blocks`` are each a beginning and one delta; the first index is 2."""
    stream = event("message_start", message=message)
    for index, (block, delta) in enumerate(blocks, 2):
        stream += event("content_block_start", index=index, content_block=block)
        stream += event("content_block_delta", index=index, delta=delta)
        stream += event("content_block_stop", index=index)
    return stream + event("message_delta", **last) + event("message_stop")


START = MESSAGE | {"content": [], "stop_reason": None}
STREAM = native(
    START,
    [(BLOCK | {"text": ""}, {"type": "text_delta", "text": "Hi"})],
    delta={"stop_reason": "end_turn"},
    usage={"output_tokens": 3},
)
BODIES = [
    (Dialect.ANTHROPIC, json.dumps(MESSAGE)),
    (Dialect.ANTHROPIC, STREAM),
    (Dialect.OPENAI, json.dumps(CHAT)),
    (Dialect.OPENAI, text("Hi") + chunk({}, "stop") + DONE),
]


def streamed(dialect: Dialect, content_type: str, body: str, size: int = 7) -> bytes:
    step = stream_step(dialect, content_type, model="m")
    upstream = body.encode()
    frames = [step.feed(upstream[i : i + size]) for i in range(0, len(upstream), size)]
    return b"".join([*frames, step.finish()])


def answered(dialect: Dialect, content_type: str, body: str) -> dict[str, Any]:
    answer = answer_step(dialect, content_type, model="m")
    answer.feed(body.encode())
    return dict(json.loads(answer.finish()))


@pytest.mark.parametrize("content_type", TYPES)
@pytest.mark.parametrize(("dialect", "body"), BODIES)
def test_a_body_is_what_it_is_and_not_what_it_is_called(
    dialect: Dialect, body: str, content_type: str
) -> None:
    frames = streamed(dialect, content_type, body)
    assert fold(frames)["content"] == [BLOCK]
    assert b"message_stop" in frames
    message = answered(dialect, content_type, body)
    assert (message["content"], message["stop_reason"]) == ([BLOCK], "end_turn")


def test_a_long_message_under_another_name_is_waited_for() -> None:
    said = "x" * 200_000
    body = json.dumps(MESSAGE | {"content": [BLOCK | {"text": said}]})
    frames = streamed(Dialect.ANTHROPIC, "text/plain", body, 1 << 14)
    assert fold(frames)["content"] == [BLOCK | {"text": said}]


def test_what_begins_like_a_message_and_never_ends_is_not_held_for_ever() -> None:
    step = stream_step(Dialect.ANTHROPIC, "text/plain", model="m")
    with pytest.raises(GatewayError, match="not an event stream"):
        for _ in range(200):
            step.feed(b"{" * 65536)


@pytest.mark.parametrize("content_type", TYPES)
@pytest.mark.parametrize("dialect", list(Dialect))
def test_an_error_in_a_stream_called_otherwise_is_an_error(
    dialect: Dialect, content_type: str
) -> None:
    begun = (
        STREAM.partition("event: message_delta")[0] if dialect is Dialect.ANTHROPIC else text("x")
    )
    body = begun + 'event: error\ndata: {"error":{"message":"boom"}}\n\n'
    with pytest.raises(GatewayError, match="boom"):
        answered(dialect, content_type, body)


TOOL = {"type": "tool_use", "id": "a", "name": "get_a"}
LEFT_OUT = {
    "usage": native(
        {name: value for name, value in START.items() if name != "usage"},
        [(BLOCK | {"text": ""}, {"type": "text_delta", "text": "Hi"})],
        delta={"stop_reason": "end_turn"},
    ),
    "content": native(
        START | {"content": None, "usage": {"input_tokens": None}},
        [({"type": "text"}, {"type": "text_delta", "text": "Hi"})],
        delta={"stop_reason": "end_turn"},
        usage=None,
    ),
}


@pytest.mark.parametrize("stream", LEFT_OUT.values(), ids=list(LEFT_OUT))
def test_what_a_native_stream_leaves_out_costs_no_message(stream: str) -> None:
    message = answered(Dialect.ANTHROPIC, "text/event-stream", stream)
    assert message["content"] == [BLOCK]
    assert message["usage"] == {"input_tokens": 0, "output_tokens": 0}


@pytest.mark.parametrize("kind", ["tool_use", "server_tool_use", "mcp_tool_use"])
def test_the_input_of_every_kind_of_call_is_collected(kind: str) -> None:
    block = TOOL | {"type": kind}
    stream = native(
        START,
        [(block, {"type": "input_json_delta", "partial_json": '{"x": 1}'})],
        delta={"stop_reason": "tool_use"},
    )
    message = answered(Dialect.ANTHROPIC, "text/event-stream", stream)
    assert message["content"] == [block | {"input": {"x": 1}}]


@pytest.mark.parametrize(
    ("odd", "expected"),
    [
        ({"id": None, "model": None, "usage": None}, "text | 'Hi' | end_turn"),
        ({"usage": {"output_tokens": None}}, "text | 'Hi' | end_turn"),
        ({"content": "Hi", "stop_reason": None}, "text | 'Hi' | end_turn"),
        ({"content": None}, "end_turn"),
        ({"content": [TOOL], "stop_reason": "tool_use"}, "get_a | '{}' | tool_use"),
        ({"content": [{"type": "thinking", "thinking": "hm"}]}, "thinking | 'hm' | end_turn"),
    ],
)
def test_what_a_native_message_leaves_out_costs_no_stream(odd: Any, expected: str) -> None:
    assert (
        told(streamed(Dialect.ANTHROPIC, "application/json", json.dumps(MESSAGE | odd))) == expected
    )


@pytest.mark.parametrize(
    ("said", "message"),
    [
        ("it broke", "it broke"),
        ('"it broke"', "it broke"),
        ("null", "an error without words"),
        ('{"detail": [{"msg": "it broke"}]}', "it broke"),
    ],
)
def test_a_native_error_in_plain_words_keeps_them(said: str, message: str) -> None:
    with pytest.raises(GatewayError, match=message):
        streamed(Dialect.ANTHROPIC, "text/event-stream", f"event: error\ndata: {said}\n\n")
