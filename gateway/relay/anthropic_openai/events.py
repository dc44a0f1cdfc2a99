"""Anthropic's stream events as bytes, by template.

The shapes are those that every SDK's accumulator was seen to need: ``usage`` in the first event
and in ``message_delta``, ``input: {}`` where a tool call begins, a signature, if only an empty
one, before a thinking block ends (Anthropic's "Streaming messages").
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

from gateway.sse import encode

text_json: Final = msgspec.json.Encoder().encode

MESSAGE_STOP: Final = encode("message_stop", b'{"type":"message_stop"}')

_DELTA: Final = (
    b"event: content_block_delta\n"
    b'data: {"type":"content_block_delta","index":%d,"delta":{"type":"%s","%s":%s}}\n\n'
)
_STOP: Final = b'event: content_block_stop\ndata: {"type":"content_block_stop","index":%d}\n\n'


def message_start(id: str, model: str, usage: dict[str, int]) -> bytes:
    message: dict[str, Any] = {
        "id": id,
        "type": "message",
        "role": "assistant",
        "model": model,
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
        "usage": usage,
    }
    return encode("message_start", text_json({"type": "message_start", "message": message}))


def block_start(index: int, block: dict[str, Any]) -> bytes:
    event = {"type": "content_block_start", "index": index, "content_block": block}
    return encode("content_block_start", text_json(event))


def text_delta(index: int, text: str) -> bytes:
    return _DELTA % (index, b"text_delta", b"text", text_json(text))


def thinking_delta(index: int, thinking: str) -> bytes:
    return _DELTA % (index, b"thinking_delta", b"thinking", text_json(thinking))


def signature_delta(index: int, signature: str = "") -> bytes:
    """Nobody here can sign; the empty string is what clients accept and send back."""
    return _DELTA % (index, b"signature_delta", b"signature", text_json(signature))


def input_delta(index: int, partial_json: str) -> bytes:
    return _DELTA % (index, b"input_json_delta", b"partial_json", text_json(partial_json))


def block_stop(index: int) -> bytes:
    return _STOP % index


def message_delta(reason: str, stop_sequence: str | None, usage: dict[str, int]) -> bytes:
    delta = {"stop_reason": reason, "stop_sequence": stop_sequence}
    event = {"type": "message_delta", "delta": delta, "usage": usage}
    return encode("message_delta", text_json(event))
