"""The llm command's library with its plugin for Anthropic."""

from __future__ import annotations

import llm
from llm_anthropic import ClaudeMessages
from order import MODE, ORDER, URL, call, report

calls: list[str] = []


def weather(city: str) -> str:
    """The weather in a city."""
    calls.append(call("weather", {"city": city}))
    return "sunny"


def use() -> str:
    model = ClaudeMessages(
        ORDER["model"], supports_thinking=True, default_max_tokens=ORDER.get("max_tokens", 2048)
    )
    model.base_url = URL
    model.key = "none"
    options = {"thinking": True} if ORDER["thinking"] else {}
    tools = [llm.Tool.function(weather)] if ORDER["tools"] else []
    response = model.prompt(
        ORDER["prompt"], stream=MODE != "whole", key="none", tools=tools, **options
    )
    text = "".join(response)
    if ORDER["tools"]:
        asked = response.tool_calls()[0]
        return call(asked.name, asked.arguments)
    return text


report("llm-anthropic", use)
