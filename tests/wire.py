"""The rules of an Anthropic stream, checked on every stream of every test.

From Anthropic's description of streaming and from what the SDKs' accumulators were seen to do
with each deviation.  ``check_wire`` takes the bytes a client got and gives back the events, with
the gateway's own frames left out.
"""

from __future__ import annotations

import json
import re
from typing import Any

DELTA_OF_BLOCK = {
    "text": {"text_delta", "citations_delta"},
    "tool_use": {"input_json_delta"},
    "thinking": {"thinking_delta", "signature_delta"},
}
QUEUE_FIELDS = ["type", "position", "queue_length", "waited_seconds", "estimated_wait_seconds"]
CONSTRAINED = {"max_tokens", "refusal"}
TYPES = {
    "invalid_request_error",
    "authentication_error",
    "billing_error",
    "permission_error",
    "not_found_error",
    "conflict_error",
    "request_too_large",
    "rate_limit_error",
    "api_error",
    "timeout_error",
    "overloaded_error",
}

Event = dict[str, Any]


class NotDigestible(AssertionError):
    """A stream that some client cannot read."""


def require(condition: object, what: str, about: object = "") -> None:
    if not condition:
        raise NotDigestible(f"{what}: {about!r}" if about != "" else what)


def frames(stream: bytes) -> list[tuple[str, str]]:
    """(event name, data) of each frame that is no comment; LF only, as the gateway writes."""
    require(b"\r" not in stream or b"\r\n" in stream, "a bare CR")
    text = stream.decode()
    require(text == "" or text.endswith(("\n\n", "\r\n\r\n")), "torn last frame", text[-200:])
    found = []
    for frame in re.split(r"\n\n|\r\n\r\n", text):
        lines = [line.rstrip("\r") for line in frame.split("\n")]
        lines = [line for line in lines if line and not line.startswith(":")]
        if not lines:
            continue
        fields = [line.partition(":") for line in lines]
        names = [value.strip() for name, _, value in fields if name == "event"]
        data = "\n".join(value.removeprefix(" ") for name, _, value in fields if name == "data")
        require(len(names) == 1, "not exactly one event line", frame[:200])
        require(all(name in ("event", "data") for name, _, _ in fields), "odd field", frame[:200])
        found.append((names[0], data))
    return found


def check_wire(stream: bytes, *, model: str | None = None) -> list[Event]:
    """The events of a stream that every known client can digest.  Raises NotDigestible."""
    events: list[Event] = []
    for name, data in frames(stream):
        require(data.strip() != "[DONE]", "[DONE] does not belong here")
        event = json.loads(data)
        require(isinstance(event, dict) and isinstance(event.get("type"), str), "no type", data)
        if name == "queue":
            check_queue(event, events)
        elif name == "ping":
            require(event == {"type": "ping"}, "an odd ping", data)
        else:
            require(name == event["type"], "event line and type differ", (name, event["type"]))
            events.append(event)
    check_order(events, model)
    return events


def check_queue(frame: Event, before: list[Event]) -> None:
    require(not before, "a queue frame behind the stream's beginning", frame)
    require(list(frame) == QUEUE_FIELDS, "a queue frame with other fields", frame)
    require(frame["type"] == "ping" and frame["position"] >= 1, "a wrong queue frame", frame)


def check_order(events: list[Event], model: str | None) -> None:
    require(events, "an empty stream")
    if events[0]["type"] == "error":
        check_error(events)
        return
    check_start(events[0], model)
    rest = check_blocks(events[1:])
    if rest and rest[0]["type"] == "error":
        check_error(rest)
        return
    require([e["type"] for e in rest] == ["message_delta", "message_stop"], "no proper end", rest)
    check_end(rest[0], events)


def check_error(rest: list[Event]) -> None:
    require(len(rest) == 1, "something behind the error", rest[1:])
    error = rest[0].get("error")
    require(isinstance(error, dict), "an error of the wrong shape", rest[0])
    assert isinstance(error, dict)
    require(error.get("type") in TYPES, "an unknown error type", error)
    require(isinstance(error.get("message"), str), "an error without a message", error)


def check_start(event: Event, model: str | None) -> None:
    require(event["type"] == "message_start", "does not begin with message_start", event)
    message = event["message"]
    fixed = {
        "type": "message",
        "role": "assistant",
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
    }
    require(message.get("id"), "message without id")
    require(all(message[name] == value for name, value in fixed.items()), "odd message", message)
    require(model is None or message["model"] == model, "another model", message["model"])
    for name in ("input_tokens", "output_tokens"):
        require(is_count(message["usage"].get(name)), f"usage without {name}", message["usage"])


def check_blocks(events: list[Event]) -> list[Event]:
    """Checks the blocks and gives back what is behind them."""
    open_block: Event | None = None
    deltas: list[Event] = []
    ids: set[str] = set()
    index = -1
    for place, event in enumerate(events):
        kind = event["type"]
        if kind == "content_block_start":
            require(open_block is None, "two open blocks", event)
            index += 1
            require(event["index"] == index, "a gap in the indexes", event)
            open_block, deltas = event["content_block"], []
            check_block_start(open_block, ids)
        elif kind == "content_block_delta":
            require(open_block is not None, "a delta outside a block", event)
            assert open_block is not None
            require(event["index"] == index, "a delta of another block", event)
            allowed = DELTA_OF_BLOCK[open_block["type"]]
            require(event["delta"]["type"] in allowed, "a delta of another kind", event)
            deltas.append(event["delta"])
        elif kind == "content_block_stop":
            require(open_block is not None and event["index"] == index, "a stop too many", event)
            assert open_block is not None
            check_block_stop(open_block, deltas)
            open_block = None
        else:
            require(open_block is None or kind == "error", "a block without stop", event)
            return events[place:]
    raise NotDigestible("a truncated stream")


def check_block_start(block: Event, ids: set[str]) -> None:
    require(block["type"] in DELTA_OF_BLOCK, "an unknown block", block)
    if block["type"] == "tool_use":
        require(block.get("input") == {}, "a tool call that does not begin with input {}", block)
        require(block.get("name"), "a tool call without name", block)
        id = block.get("id")
        require(id and re.fullmatch(r"[a-zA-Z0-9_-]+", id), "a tool call without proper id", block)
        require(id not in ids, "a tool call's id twice", id)
        ids.add(id)


def check_block_stop(block: Event, deltas: list[Event]) -> None:
    if block["type"] == "text":
        require(any(delta.get("text") for delta in deltas), "a text block without text")
    if block["type"] == "thinking":
        require(deltas and deltas[-1]["type"] == "signature_delta", "thinking without signature")


def check_end(delta: Event, events: list[Event]) -> None:
    reason = delta["delta"]["stop_reason"]
    require(isinstance(reason, str), "no stop reason", delta)
    require(is_count(delta.get("usage", {}).get("output_tokens")), "no output_tokens", delta)
    starts = [e["content_block"] for e in events if e["type"] == "content_block_start"]
    has_tool = any(block["type"] == "tool_use" for block in starts)
    if reason not in CONSTRAINED:
        require(has_tool == (reason == "tool_use"), "stop reason and blocks differ", reason)


def is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


# --- comparing with what is expected ------------------------------------------------------------


def joined(events: list[Event]) -> list[Event]:
    """Neighbouring deltas of one block and kind as one: their number is free."""
    result: list[Event] = []
    for event in events:
        last = result[-1] if result else None
        if last is not None and is_more_of(event, last):
            for name, value in event["delta"].items():
                if name != "type":
                    last["delta"][name] += value
        else:
            result.append(json.loads(json.dumps(event)))
    return result


def is_more_of(event: Event, last: Event) -> bool:
    if event["type"] != "content_block_delta" or last["type"] != "content_block_delta":
        return False
    same = event["index"] == last["index"] and event["delta"]["type"] == last["delta"]["type"]
    return same and event["delta"]["type"] != "signature_delta"


def check_expected(events: list[Event], expected: list[Event]) -> None:
    """``expected`` is a subset, event by event; see ``matches`` for its wildcards."""
    left = joined(events)
    seen: list[str] = []
    for wanted in expected:
        wanted = dict(wanted)
        optional = wanted.pop("optional", False)
        wanted["type"] = wanted.pop("event")
        if left and matches(left[0], wanted, seen):
            left.pop(0)
        else:
            require(optional, f"expected {wanted}, got", left[:1])
    require(not left, "more than expected", left)


def matches(value: Any, wanted: Any, seen: list[str]) -> bool:
    """``<str>`` any text, ``<uniq>`` a new non-empty one, ``<nat>`` a whole number >= 0."""
    if wanted == "<str>":
        return isinstance(value, str)
    if wanted == "<nat>":
        return is_count(value)
    if wanted == "<uniq>":
        new = isinstance(value, str) and value != "" and value not in seen
        seen.append(value)
        return new
    if isinstance(wanted, dict):
        return isinstance(value, dict) and all(
            same_json(value.get(name), part)
            if name == "partial_json"
            else name in value and matches(value[name], part, seen)
            for name, part in wanted.items()
        )
    return bool(value == wanted)


def same_json(value: Any, wanted: str) -> bool:
    try:
        return bool(json.loads(value) == json.loads(wanted))
    except (ValueError, TypeError):
        return bool(value == wanted)
