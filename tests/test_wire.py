"""The checker of streams is itself checked: it knows everything that clients cannot digest."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.wire import NotDigestible, check_wire

Event = dict[str, Any]
USAGE = {"input_tokens": 1, "output_tokens": 0}
MESSAGE = {
    "id": "msg_1",
    "type": "message",
    "role": "assistant",
    "model": "m",
    "content": [],
    "stop_reason": None,
    "stop_sequence": None,
    "usage": USAGE,
}
START: Event = {"type": "message_start", "message": MESSAGE}
TEXT: Event = {"type": "text", "text": ""}
TOOL: Event = {"type": "tool_use", "id": "a", "name": "get_a", "input": {}}
THINKING: Event = {"type": "thinking", "thinking": "", "signature": ""}
HI: Event = {"type": "text_delta", "text": "Hi"}
HM: Event = {"type": "thinking_delta", "thinking": "hm"}
STOP: Event = {"type": "message_stop"}
PLACE = [("type", "ping"), ("position", 1), ("queue_length", 1), ("waited_seconds", 0.1)]
QUEUE: Event = dict([*PLACE, ("estimated_wait_seconds", None)])


def open_(index: int, block: Event) -> Event:
    return {"type": "content_block_start", "index": index, "content_block": block}


def delta(index: int, of: Event) -> Event:
    return {"type": "content_block_delta", "index": index, "delta": of}


def close(index: int) -> Event:
    return {"type": "content_block_stop", "index": index}


def end(reason: str | None = "end_turn", **usage: Any) -> Event:
    reasons = {"stop_reason": reason, "stop_sequence": None}
    return {"type": "message_delta", "delta": reasons, "usage": usage or {"output_tokens": 1}}


def error(**error: Any) -> Event:
    return {"type": "error", "error": error}


def stream(*events: Event | bytes | tuple[str, Event]) -> bytes:
    return b"".join(map(frame, events))


def frame(event: Event | bytes | tuple[str, Event]) -> bytes:
    if isinstance(event, bytes):
        return event
    name, data = event if isinstance(event, tuple) else (event["type"], event)
    return f"event: {name}\ndata: {json.dumps(data)}\n\n".encode()


SAID = (open_(0, TEXT), delta(0, HI), close(0))
CALLED = (open_(0, TOOL), close(0))
BUSY = error(type="overloaded_error", message="busy")

DIGESTIBLE = {
    "text": (START, *SAID, end(), STOP),
    "nothing said": (START, end(), STOP),
    "a call": (START, *CALLED, end("tool_use"), STOP),
    "a call cut by length": (START, *CALLED, end("max_tokens"), STOP),
    "thinking": (
        *(START, open_(0, THINKING), delta(0, HM)),
        *(delta(0, {"type": "signature_delta", "signature": ""}), close(0), end(), STOP),
    ),
    "after waiting": (("queue", QUEUE), b": keep-alive\n\n", START, *SAID, end(), STOP),
    "with a ping": (START, ("ping", {"type": "ping"}), *SAID, end(), STOP),
    "an error first": (("queue", QUEUE), BUSY),
    "an error that cuts a block": (START, open_(0, TEXT), delta(0, HI), BUSY),
    "CRLF": (stream(START, *SAID, end(), STOP).replace(b"\n", b"\r\n"),),
}

INDIGESTIBLE = {
    "nothing": (),
    "no end": (START, *SAID),
    "no message_stop": (START, *SAID, end()),
    "a torn frame": (START, *SAID, end(), b'event: message_stop\ndata: {"type":'),
    "[DONE]": (START, *SAID, end(), STOP, b"data: [DONE]\n\n"),
    "[DONE] with a name": (START, *SAID, end(), STOP, b"event: done\ndata: [DONE]\n\n"),
    "no event line": (START, b"data: " + json.dumps(end()).encode() + b"\n\n", STOP),
    "an event line of another type": (("message", START), end(), STOP),
    "data that is no object": (START, b"event: x\ndata: [1]\n\n", end(), STOP),
    "data without type": (START, b"event: x\ndata: {}\n\n", end(), STOP),
    "a queue frame inside": (START, ("queue", QUEUE), end(), STOP),
    "a queue frame with its own type": (("queue", QUEUE | {"type": "queue"}), START, end(), STOP),
    "a queue frame at no place": (("queue", QUEUE | {"position": 0}), START, end(), STOP),
    "two beginnings": (START, START, end(), STOP),
    "a beginning without usage": ({**START, "message": MESSAGE | {"usage": {}}}, end(), STOP),
    "usage that is null": (
        {**START, "message": MESSAGE | {"usage": USAGE | {"input_tokens": None}}},
        *(end(), STOP),
    ),
    "no id": ({**START, "message": MESSAGE | {"id": ""}}, end(), STOP),
    "a stop reason at the beginning": (
        {**START, "message": MESSAGE | {"stop_reason": "end_turn"}},
        *(end(), STOP),
    ),
    "an end without usage": (START, *SAID, {**end(), "usage": {}}, STOP),
    "an end without reason": (START, *SAID, end(None), STOP),
    "two ends": (START, *SAID, end(), end(), STOP),
    "something behind the end": (START, *SAID, end(), STOP, ("ping2", {"type": "ping2"})),
    "something behind an error": (START, BUSY, STOP),
    "an end before an error": (START, *SAID, end(), BUSY),
    "an error that is a text": (START, {"type": "error", "error": "boom"}),
    "an error of an unknown type": (START, error(type="internal_error", message="boom")),
    "an error without message": (START, error(type="api_error")),
    "an index that begins at 1": (START, open_(1, TEXT), delta(1, HI), close(1), end(), STOP),
    "two open blocks": (START, open_(0, TEXT), delta(0, HI), open_(1, TEXT), end(), STOP),
    "a stop twice": (START, *SAID, close(0), end(), STOP),
    "a stop missing": (START, open_(0, TEXT), delta(0, HI), end(), STOP),
    "a delta behind its stop": (START, *SAID, delta(0, HI), end(), STOP),
    "a delta of another block": (START, open_(0, TEXT), delta(1, HI), close(0), end(), STOP),
    "a delta of another kind": (START, open_(0, TEXT), delta(0, HM), close(0), end(), STOP),
    "a text without text": (START, open_(0, TEXT), close(0), end(), STOP),
    "thinking without signature": (
        *(START, open_(0, THINKING), delta(0, HM), close(0)),
        *(end(), STOP),
    ),
    "an input at the start": (
        *(START, open_(0, TOOL | {"input": {"x": 1}}), close(0)),
        *(end("tool_use"), STOP),
    ),
    "a call without name": (
        *(START, open_(0, TOOL | {"name": ""}), close(0)),
        *(end("tool_use"), STOP),
    ),
    "a call with an odd id": (
        *(START, open_(0, TOOL | {"id": "a.b:0"}), close(0)),
        *(end("tool_use"), STOP),
    ),
    "one id twice": (START, *CALLED, open_(1, TOOL), close(1), end("tool_use"), STOP),
    "a call that is no reason": (START, *CALLED, end(), STOP),
    "a reason without a call": (START, *SAID, end("tool_use"), STOP),
}


@pytest.mark.parametrize("events", DIGESTIBLE.values(), ids=list(DIGESTIBLE))
def test_a_proper_stream_passes(events: tuple[Any, ...]) -> None:
    assert check_wire(stream(*events), model="m")


@pytest.mark.parametrize("events", INDIGESTIBLE.values(), ids=list(INDIGESTIBLE))
def test_what_some_client_cannot_read_is_found(events: tuple[Any, ...]) -> None:
    with pytest.raises(NotDigestible):
        check_wire(stream(*events))


def test_another_model_is_found() -> None:
    with pytest.raises(NotDigestible):
        check_wire(stream(START, end(), STOP), model="n")
