"""LangChain for Python."""

from __future__ import annotations

from typing import Any

from langchain_anthropic import ChatAnthropic
from order import HEADERS, MODE, ORDER, URL, WEATHER, call, report

given: dict[str, Any] = {"default_headers": HEADERS}
if ORDER["thinking"]:
    given["thinking"] = {"type": "enabled", "budget_tokens": 1024}
model: Any = ChatAnthropic(
    model=ORDER["model"],
    base_url=URL,
    api_key="none",
    max_tokens=ORDER.get("max_tokens", 2048),
    **given,
)
if ORDER["tools"]:
    model = model.bind_tools([WEATHER])


def written(message: Any) -> str:
    if message.tool_calls:
        return call(message.tool_calls[0]["name"], message.tool_calls[0]["args"])
    if isinstance(message.content, str):
        return message.content
    return "".join(block.get("text", "") for block in message.content)


def use() -> str:
    if MODE == "whole":
        return written(model.invoke(ORDER["prompt"]))
    chunks = list(model.stream(ORDER["prompt"]))
    return written(sum(chunks[1:], chunks[0]))


async def ause() -> str:
    chunks = [chunk async for chunk in model.astream(ORDER["prompt"])]
    return written(sum(chunks[1:], chunks[0]))


report("langchain-anthropic", ause if MODE == "astream" else use)
