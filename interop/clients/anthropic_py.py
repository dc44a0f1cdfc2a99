"""The official SDK for Python, in all its ways to read a stream."""

from __future__ import annotations

import inspect
from typing import Any

from anthropic import Anthropic, AsyncAnthropic
from anthropic.resources import Messages
from order import HEADERS, MODE, ORDER, URL, body, call, positions, report

GIVEN: dict[str, Any] = {"base_url": URL, "api_key": "none", "default_headers": HEADERS}


def asked() -> dict[str, Any]:
    """The request; what an old release has no argument for goes into its body all the same."""
    known = inspect.signature(Messages.create).parameters
    made = body()
    unknown = {name: made.pop(name) for name in list(made) if name not in known}
    return made | ({"extra_body": unknown} if unknown else {})


def deltas(event: Any) -> tuple[str, str, str]:
    """An event's part of the text, a tool's name, a tool's arguments."""
    if getattr(event, "position", None) is not None:
        positions.append(event.position)
    if event.type == "content_block_start":
        return "", field(event.content_block, "name"), ""
    if event.type == "content_block_delta":
        return field(event.delta, "text"), "", field(event.delta, "partial_json")
    return "", "", ""


def field(part: Any, name: str) -> str:
    """Empty too where an old release reads a part as one of another kind."""
    return getattr(part, name, None) or ""


def joined(parts: list[tuple[str, str, str]]) -> str:
    text, name, arguments = ("".join(column) for column in zip(*parts, strict=True))
    return call(name, arguments) if name else text


def whole(message: Any) -> str:
    for block in message.content:
        if block.type == "tool_use":
            return call(block.name, block.input)
    return "".join(block.text for block in message.content if block.type == "text")


def use() -> str:
    client = Anthropic(**GIVEN)
    if MODE == "whole":
        surface(client)
        return whole(client.messages.create(**asked()))
    if MODE == "create":
        return joined([deltas(event) for event in client.messages.create(**asked(), stream=True)])
    with client.messages.stream(**asked()) as stream:
        if MODE == "stream":
            return joined([deltas(event) for event in stream])
        text = "".join(stream.text_stream)
        return text or whole(stream.get_final_message())


def surface(client: Anthropic) -> None:
    """Beside messages: counting and models, where the release has them."""
    if hasattr(client.messages, "count_tokens"):
        counted = client.messages.count_tokens(model=ORDER["model"], messages=body()["messages"])
        assert counted.input_tokens == 7, counted
    if hasattr(client, "models"):
        assert ORDER["model"] in [model.id for model in client.models.list()]
        assert client.models.retrieve(ORDER["model"]).id == ORDER["model"]


async def ause() -> str:
    client = AsyncAnthropic(**GIVEN)
    if MODE == "acreate":
        stream = await client.messages.create(**asked(), stream=True)
        return joined([deltas(event) async for event in stream])
    async with client.messages.stream(**asked()) as manager:
        if MODE == "astream":
            return joined([deltas(event) async for event in manager])
        text = "".join([part async for part in manager.text_stream])
        return text or whole(await manager.get_final_message())


# `text_stream` leaves tools out by design: then the final message has them.
report("anthropic", ause if MODE.startswith("a") else use)
