"""Claude Code, asked once without a terminal."""

from __future__ import annotations

import json

from agents import release, run, workshop
from order import HEADERS, ORDER, URL, report


def use() -> str:
    with workshop() as (work, prompt, environ):
        environ |= {
            "ANTHROPIC_BASE_URL": URL,
            "ANTHROPIC_API_KEY": "none",
            "ANTHROPIC_MODEL": ORDER["model"],
            "ANTHROPIC_CUSTOM_HEADERS": "\n".join(f"{n}: {v}" for n, v in HEADERS.items()),
            "CLAUDE_CODE_MAX_RETRIES": "2",
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
            "DISABLE_AUTOUPDATER": "1",
        }
        flags = ["--output-format", "json", "--permission-mode", "acceptEdits"]
        said = json.loads(run(["claude", "-p", prompt, *flags], work, environ))
        if said["is_error"]:
            raise RuntimeError(said["result"])
        return said["result"]


report("claude-code", use, release("claude"))
