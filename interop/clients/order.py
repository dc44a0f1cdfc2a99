"""What every script for a Python client shares: its order, and the one JSON line it prints."""

from __future__ import annotations

import asyncio
import inspect
import json
import sys
from collections.abc import Callable
from importlib.metadata import version
from typing import Any

ORDER: dict[str, Any] = json.loads(sys.argv[1])
URL: str = ORDER["url"]
MODE: str = ORDER["mode"] if ORDER["stream"] else "whole"
HEADERS: dict[str, str] = ORDER["headers"]
WEATHER = {
    "name": "weather",
    "description": "The weather in a city.",
    "input_schema": {
        "type": "object",
        "properties": {"city": {"type": "string"}},
        "required": ["city"],
    },
}
positions: list[Any] = []
"""What the caller's code was handed of the line."""


def body() -> dict[str, Any]:
    """The request, for clients that take Anthropic's own parameters."""
    made: dict[str, Any] = {
        "model": ORDER["model"],
        "max_tokens": ORDER.get("max_tokens", 2048),
        "messages": [{"role": "user", "content": ORDER["prompt"]}],
    }
    if ORDER["tools"]:
        made["tools"] = [WEATHER]
    if ORDER["thinking"]:
        made["thinking"] = {"type": "enabled", "budget_tokens": 1024}
    return made


def call(name: str, arguments: Any) -> str:
    """A tool call, written down."""
    if isinstance(arguments, str):
        arguments = json.loads(arguments)
    return f"{name}({json.dumps(arguments)})"


def report(client: str, use: Callable[[], Any], release: str = "") -> None:
    """Runs ``use`` and prints what came of it; ``use`` returns the text."""
    said: dict[str, Any] = {"client": client, "ok": True, "text": "", "error": ""}
    try:
        text = use()
        said["text"] = asyncio.run(text) if inspect.iscoroutine(text) else text
    except Exception as error:
        said |= {"ok": False, "error": f"{type(error).__name__}: {error}"[:300]}
    said |= {"version": release or version(client), "events": positions}
    print(json.dumps(said), flush=True)
