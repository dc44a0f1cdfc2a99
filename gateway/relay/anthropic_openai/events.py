"""Anthropic's stream events as bytes, by template, and whole messages folded from them.

The shapes are those that every SDK's accumulator was seen to need: ``usage`` in the first event
and in ``message_delta``, ``input: {}`` where a tool call begins, a signature, if only an empty
one, before a thinking block ends (Anthropic's "Streaming messages").
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

from gateway.relay.failures import decoded, garbage
from gateway.sse import Parser, encode

text_json: Final = msgspec.json.Encoder().encode

MESSAGE_STOP: Final = encode("message_stop", b'{"type":"message_stop"}')

TOOL_BLOCKS: Final = ("tool_use", "server_tool_use")

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


def signature_delta(index: int) -> bytes:
    """Nobody here can sign; the empty string is what clients accept and send back."""
    return _DELTA % (index, b"signature_delta", b"signature", b'""')


def input_delta(index: int, partial_json: str) -> bytes:
    return _DELTA % (index, b"input_json_delta", b"partial_json", text_json(partial_json))


def block_stop(index: int) -> bytes:
    return _STOP % index


def message_delta(reason: str, stop_sequence: str | None, usage: dict[str, int]) -> bytes:
    delta = {"stop_reason": reason, "stop_sequence": stop_sequence}
    event = {"type": "message_delta", "delta": delta, "usage": usage}
    return encode("message_delta", text_json(event))


def fold(frames: bytes) -> dict[str, Any]:
    """The message that a complete stream adds up to, as SDKs accumulate it.

    Arguments that are not a JSON object, from a model that was cut off or erred, become
    ``{"_raw": "…"}``: nothing is lost, and ``input`` is an object as clients expect.
    Raises UpstreamFailed for a native stream that is none.
    """
    message: dict[str, Any] = {}
    try:
        for event in Parser().feed(frames):
            data = decoded(event.data)
            if isinstance(data, dict):
                _add(message, data)
        for block in message["content"]:
            if block["type"] in TOOL_BLOCKS:
                block["input"] = _input(block.pop("_json", ""), block.get("input"))
    except (LookupError, TypeError, ValueError, AttributeError) as error:
        raise garbage("the stream does not add up to a message") from error
    return message


def _add(message: dict[str, Any], event: dict[str, Any]) -> None:
    match event.get("type"):
        case "message_start":
            message.update(event["message"])
        case "content_block_start":
            message["content"].append(event["content_block"])
        case "content_block_delta":
            _extend(message["content"][event["index"]], event["delta"])
        case "message_delta":
            message.update(event["delta"])
            usage = {name: count for name, count in event["usage"].items() if count is not None}
            message["usage"] |= usage


def _extend(block: dict[str, Any], delta: dict[str, Any]) -> None:
    match delta["type"]:
        case "text_delta":
            block["text"] += delta["text"]
        case "thinking_delta":
            block["thinking"] += delta["thinking"]
        case "signature_delta":
            block["signature"] = delta["signature"]
        case "input_json_delta":
            block["_json"] = block.get("_json", "") + delta["partial_json"]
        case "citations_delta":
            block["citations"] = [*(block.get("citations") or ()), delta["citation"]]


def _input(json: str, begun: object) -> dict[str, Any]:
    """Some servers (llama.cpp) leave ``input`` out where the block begins."""
    if not json.strip():
        return begun if isinstance(begun, dict) else {}
    value = decoded(json.encode())
    return value if isinstance(value, dict) else {"_raw": json}


def unfold(message: dict[str, Any]) -> bytes:
    """The stream that adds up to a whole native ``message``."""
    usage = {"input_tokens": 0, "output_tokens": 0} | (message.get("usage") or {})
    frames = [message_start(message["id"], message["model"], usage)]
    for index, block in enumerate(message["content"]):
        frames.append(_whole_block(index, dict(block)))
    frames.append(message_delta(message["stop_reason"], message.get("stop_sequence"), usage))
    return b"".join(frames) + MESSAGE_STOP


def _whole_block(index: int, block: dict[str, Any]) -> bytes:
    match block.get("type"):
        case "text":
            text, block["text"] = block["text"], ""
            deltas = text_delta(index, text) if text else b""
        case "thinking":
            thinking, block["thinking"] = block["thinking"], ""
            signature = block.get("signature") or ""
            block["signature"] = ""
            deltas = thinking_delta(index, thinking)
            deltas += _DELTA % (index, b"signature_delta", b"signature", text_json(signature))
        case kind if kind in TOOL_BLOCKS:
            arguments, block["input"] = block["input"], {}
            deltas = input_delta(index, text_json(arguments).decode())
        case _:
            deltas = b""
    return block_start(index, block) + deltas + block_stop(index)
