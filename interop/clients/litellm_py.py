"""LiteLLM as a library."""

from __future__ import annotations

import os
from typing import Any

os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "true"  # it would fetch a price list

import litellm
from order import HEADERS, MODE, ORDER, URL, WEATHER, call, report

asked: dict[str, Any] = {
    "model": f"anthropic/{ORDER['model']}",
    "api_base": URL,
    "api_key": "none",
    "max_tokens": ORDER.get("max_tokens", 2048),
    "messages": [{"role": "user", "content": ORDER["prompt"]}],
    "extra_headers": HEADERS,
}
if ORDER["tools"]:
    function = {"name": WEATHER["name"], "parameters": WEATHER["input_schema"]}
    asked["tools"] = [{"type": "function", "function": function}]
if ORDER["thinking"]:
    asked["thinking"] = {"type": "enabled", "budget_tokens": 1024}
    asked["allowed_openai_params"] = ["thinking"]  # it refuses it for a model it does not know


class Fold:
    def __init__(self) -> None:
        self.text, self.name, self.arguments = "", "", ""

    def take(self, delta: Any) -> None:
        self.text += delta.content or ""
        for tool in getattr(delta, "tool_calls", None) or []:
            self.name += tool.function.name or ""
            self.arguments += tool.function.arguments or ""

    @property
    def result(self) -> str:
        return call(self.name, self.arguments) if self.name else self.text


def use() -> str:
    if MODE == "whole":
        return litellm.completion(**asked).choices[0].message.content
    fold = Fold()
    for chunk in litellm.completion(**asked, stream=True):
        fold.take(chunk.choices[0].delta)
    return fold.result


async def ause() -> str:
    fold = Fold()
    async for chunk in await litellm.acompletion(**asked, stream=True):
        fold.take(chunk.choices[0].delta)
    return fold.result


report("litellm", ause if MODE == "astream" else use)
