"""pydantic-ai over the official SDK; a tool ends the run by being written down."""

from __future__ import annotations

from typing import Any

from order import HEADERS, MODE, ORDER, URL, call, report
from pydantic_ai import Agent
from pydantic_ai.models.anthropic import AnthropicModel, AnthropicModelSettings
from pydantic_ai.providers.anthropic import AnthropicProvider


class Called(Exception):
    """The tool was called, which is all that is asked here."""


settings = AnthropicModelSettings(max_tokens=ORDER.get("max_tokens", 2048), extra_headers=HEADERS)
if ORDER["thinking"]:
    settings["anthropic_thinking"] = {"type": "enabled", "budget_tokens": 1024}
provider = AnthropicProvider(base_url=URL, api_key="none")
agent: Any = Agent(AnthropicModel(ORDER["model"], provider=provider), model_settings=settings)

if ORDER["tools"]:

    @agent.tool_plain
    def weather(city: str) -> str:
        raise Called(call("weather", {"city": city}))


async def use() -> str:
    try:
        if MODE == "whole":
            return (await agent.run(ORDER["prompt"])).output
        async with agent.run_stream(ORDER["prompt"]) as result:
            return "".join([part async for part in result.stream_text(delta=True)])
    except Called as called:
        return str(called)


report("pydantic-ai-slim", use)
