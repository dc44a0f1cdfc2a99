"""agno; it reports failures as events of its own, so the script looks for those."""

from __future__ import annotations

import os
from typing import Any

os.environ["AGNO_TELEMETRY"] = "false"

from agno.agent import Agent
from agno.models.anthropic import Claude
from agno.tools import tool
from order import HEADERS, MODE, ORDER, URL, call, report

calls: list[str] = []


@tool(stop_after_tool_call=True)
def weather(city: str) -> str:
    """The weather in a city."""
    calls.append(call("weather", {"city": city}))
    return "sunny"


given: dict[str, Any] = {"default_headers": HEADERS} if HEADERS else {}
if ORDER["thinking"]:
    given["thinking"] = {"type": "enabled", "budget_tokens": 1024}
model = Claude(
    id=ORDER["model"],
    api_key="none",
    max_tokens=ORDER.get("max_tokens", 2048),
    client_params={"base_url": URL},
    **given,
)
agent = Agent(
    model=model,
    telemetry=False,
    tools=[weather] if ORDER["tools"] else [],
)


def use() -> str:
    if MODE == "whole":
        return answer([agent.run(ORDER["prompt"])])
    return answer(list(agent.run(ORDER["prompt"], stream=True)))


def answer(events: list[Any]) -> str:
    for event in events:
        kind = str(getattr(event, "event", "")) + str(getattr(event, "status", ""))
        if "error" in kind.lower():
            raise RuntimeError(str(event.content))
    if calls:
        return calls[0]
    return "".join(event.content or "" for event in events if event_has_text(event))


def event_has_text(event: Any) -> bool:
    kind = getattr(event, "event", "RunContent")
    return kind == "RunContent" and isinstance(event.content, str)


report("agno", use)
