"""opencode, asked once without a terminal."""

from __future__ import annotations

import json

from agents import release, run, workshop
from order import HEADERS, ORDER, URL, report


def config() -> dict:
    model = {"name": ORDER["model"], "tool_call": True, "limit": {"context": 32000, "output": 2048}}
    options = {"baseURL": f"{URL}/v1", "apiKey": "none", "headers": HEADERS}
    return {
        "$schema": "https://opencode.ai/config.json",
        "autoupdate": False,
        "share": "disabled",
        "model": f"gateway/{ORDER['model']}",
        "small_model": f"gateway/{ORDER['model']}",
        "permission": {
            "edit": "allow",
            "read": "allow",
            "bash": "deny",
            "external_directory": "allow",
        },
        "provider": {
            "gateway": {
                "npm": "@ai-sdk/anthropic",
                "name": "gateway",
                "options": options,
                "models": {ORDER["model"]: model},
            }
        },
    }


def use() -> str:
    with workshop() as (work, prompt, environ):
        (work / "opencode.json").write_text(json.dumps(config()))
        environ |= {"OPENCODE_DISABLE_MODELS_FETCH": "1", "OPENCODE_DISABLE_AUTOUPDATE": "1"}
        # With a title of its own it does not ask the model for one.
        command = ["opencode", "run", "--title", "interop", "--format", "json", prompt]
        return answer(run(command, work, environ))


def answer(output: str) -> str:
    """The last text among the events it prints."""
    text = ""
    for line in output.splitlines():
        event = json.loads(line)
        if event["type"] == "error":
            raise RuntimeError(json.dumps(event["error"]))
        if event["type"] == "text":
            text = event["part"]["text"]
    return text


report("opencode", use, release("opencode"))
