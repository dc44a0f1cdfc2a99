"""A model that can do one small task: read a file, change a word in it, say so.

It follows the tools the agent offers, by the names Claude Code and opencode give them, and reads
from the conversation how far it has come; it keeps nothing between requests.
"""

from __future__ import annotations

import json
import re
from typing import Any

DONE = "The greeting is fixed."
TASK = "Fix the greeting in the file {path}: it must say Hello. Read it, edit it, then answer."
WRONG, RIGHT = "Helo", "Hello"


def next_answer(body: dict[str, Any]) -> list[dict[str, Any]]:
    """The content of the next answer; a request without tools is for a title and such."""
    tools = {tool["name"].lower(): tool for tool in body.get("tools", []) if "name" in tool}
    if "read" not in tools or "edit" not in tools:
        return [{"type": "text", "text": "Fixing a greeting"}]
    results = sum(is_result(block) for message in body["messages"] for block in parts(message))
    if results >= 2:
        return [{"type": "text", "text": DONE}]
    path = re.search(r"the file (\S+?): it must", json.dumps(body["messages"]))
    assert path is not None, "the task is not in the conversation"
    tool = tools["read" if results == 0 else "edit"]
    given = arguments(tool["input_schema"]["properties"], path[1])
    return [
        {"type": "tool_use", "id": f"toolu_{results + 1}", "name": tool["name"], "input": given}
    ]


def arguments(properties: dict[str, Any], path: str) -> dict[str, str]:
    """For read and edit alike: what the tool's schema has a place for."""
    known = {
        "file_path": path,
        "filePath": path,
        "old_string": WRONG,
        "oldString": WRONG,
        "new_string": RIGHT,
        "newString": RIGHT,
    }
    return {name: value for name, value in known.items() if name in properties}


def parts(message: dict[str, Any]) -> list[dict[str, Any]]:
    content = message["content"]
    return content if isinstance(content, list) else []


def is_result(block: dict[str, Any]) -> bool:
    return block.get("type") == "tool_result"
