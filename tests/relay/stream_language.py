"""A short hand for streams: what an upstream says, and what a client was told, on one line each."""

from __future__ import annotations

import json
from typing import Any

from tests.wire import check_wire, joined

DONE = "data: [DONE]\n\n"


def data(document: object) -> str:
    return f"data: {json.dumps(document)}\n\n"


def chunk(delta: object = None, finish: object = None, **more: Any) -> str:
    """A chunk of one choice; ``usage`` goes beside it, everything else into the choice."""
    outer = {"usage": more.pop("usage")} if "usage" in more else {}
    delta = {} if delta is None else delta
    choice = {"index": 0, "delta": delta, "finish_reason": finish} | more
    return data({"id": "c", "object": "chat.completion.chunk", "choices": [choice]} | outer)


def text(said: object) -> str:
    return chunk({"content": said})


def call(arguments: object = None, name: str | None = None, **fields: Any) -> dict[str, Any]:
    """A piece of a call, with what is given and no more."""
    function = {"name": name, "arguments": arguments}
    return fields | {"function": {key: v for key, v in function.items() if v is not None}}


def calls(*pieces: dict[str, Any]) -> str:
    return chunk({"tool_calls": list(pieces)})


def told(stream: bytes) -> str:
    """``text 'Hi' | end_turn``: the blocks with their content, and the end."""
    return " | ".join(filter(None, map(line_of, joined(check_wire(stream)))))


def line_of(event: dict[str, Any]) -> str:
    match event["type"]:
        case "content_block_start":
            block = event["content_block"]
            return str(block.get("name", block["type"]))
        case "content_block_delta":
            said = next(value for name, value in event["delta"].items() if name != "type")
            return repr(said) if said else ""
        case "message_delta":
            sequence = event["delta"]["stop_sequence"]
            return str(event["delta"]["stop_reason"]) + (f" {sequence}" if sequence else "")
        case "error":
            return f"{event['error']['type']}: {event['error']['message']}"
        case _:
            return ""
