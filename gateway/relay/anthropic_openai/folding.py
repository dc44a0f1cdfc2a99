"""Whole messages from streams and streams from whole messages, as SDKs accumulate them.

Native servers leave out what Anthropic's own never does (``usage``, ``content``, a block's empty
``text``, ``input``), so here nothing is taken for granted but the order of the events.
"""

from __future__ import annotations

import secrets
from typing import Any, Final

from gateway.relay.anthropic_openai import events
from gateway.relay.failures import decoded, garbage
from gateway.sse import Parser

Block = dict[str, Any]

TOOL_BLOCKS: Final = ("tool_use", "server_tool_use", "mcp_tool_use")

#: Where in a block the text of a delta goes, for those that add to it piece by piece.
ADDED: Final = {"text_delta": "text", "thinking_delta": "thinking"}


def fold(frames: bytes) -> dict[str, Any]:
    """The message that a complete stream adds up to.

    Arguments that are not a JSON object, from a model that was cut off or erred, become
    ``{"_raw": "…"}``: nothing is lost, and ``input`` is an object as clients expect.
    Raises UpstreamFailed for a native stream that is none.
    """
    message: dict[str, Any] = {}
    blocks: dict[int, Block] = {}
    try:
        for event in Parser().feed(frames):
            data = decoded(event.data)
            if isinstance(data, dict):
                _add(message, blocks, data)
        message["content"] = list(blocks.values()) or message.get("content") or []
        for block in message["content"]:
            if block["type"] in TOOL_BLOCKS:
                block["input"] = _input(block.pop("_json", ""), block.get("input"))
        message["usage"] = numbers(message["usage"])
    except (LookupError, TypeError, ValueError, AttributeError) as error:
        raise garbage("the stream does not add up to a message") from error
    return message


def _add(message: dict[str, Any], blocks: dict[int, Block], event: dict[str, Any]) -> None:
    match event.get("type"):
        case "message_start":
            message.update(event["message"])
            message["usage"] = message.get("usage") or {}
        case "content_block_start":
            blocks[event["index"]] = event["content_block"]
        case "content_block_delta":
            _extend(blocks[event["index"]], event["delta"])
        case "message_delta":
            message.update(event.get("delta") or {})
            usage = event.get("usage") or {}
            message["usage"] |= {name: said for name, said in usage.items() if said is not None}


def _extend(block: Block, delta: dict[str, Any]) -> None:
    kind = delta["type"]
    if name := ADDED.get(kind):
        block[name] = (block.get(name) or "") + delta[name]
    elif kind == "signature_delta":
        block["signature"] = delta["signature"]
    elif kind == "input_json_delta":
        block["_json"] = block.get("_json", "") + delta["partial_json"]
    elif kind == "citations_delta":
        block["citations"] = [*(block.get("citations") or ()), delta["citation"]]


def _input(json: str, begun: object) -> dict[str, Any]:
    """Some servers (llama.cpp) leave ``input`` out where the block begins."""
    if not json.strip():
        return begun if isinstance(begun, dict) else {}
    value = decoded(json.encode())
    return value if isinstance(value, dict) else {"_raw": json}


def numbers(usage: dict[str, Any]) -> dict[str, Any]:
    """Usage with the two counts that clients do sums with."""
    return {"input_tokens": 0, "output_tokens": 0} | {
        name: said for name, said in usage.items() if said is not None
    }


def unfold(message: dict[str, Any]) -> bytes:
    """The stream that adds up to a whole native ``message``."""
    usage = numbers(message.get("usage") or {})
    content = message.get("content") or []
    if isinstance(content, str):
        content = [{"type": "text", "text": content}]
    id = message.get("id") or f"msg_{secrets.token_hex(12)}"
    frames = [events.message_start(id, message.get("model") or "", usage)]
    for index, block in enumerate(content):
        frames.append(_whole_block(index, dict(block)))
    reason = message.get("stop_reason") or "end_turn"
    frames.append(events.message_delta(reason, message.get("stop_sequence"), usage))
    return b"".join(frames) + events.MESSAGE_STOP


def _whole_block(index: int, block: Block) -> bytes:
    match block.get("type"):
        case "text":
            text, block["text"] = block.get("text") or "", ""
            deltas = events.text_delta(index, text) if text else b""
        case "thinking":
            thinking, block["thinking"] = block.get("thinking") or "", ""
            signature, block["signature"] = block.get("signature") or "", ""
            deltas = events.thinking_delta(index, thinking)
            deltas += events.signature_delta(index, signature)
        case kind if kind in TOOL_BLOCKS:
            arguments, block["input"] = block.get("input") or {}, {}
            deltas = events.input_delta(index, events.text_json(arguments).decode())
        case _:
            deltas = b""
    return events.block_start(index, block) + deltas + events.block_stop(index)
