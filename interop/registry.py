"""The clients: which package in which version, which script drives it, in which modes."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Client:
    name: str
    script: str
    packages: tuple[str, ...] = ()
    """As pip or npm take them, in an environment of their own; none: a program of the system."""
    modes: tuple[str, ...] = ("stream",)
    agent: bool = False
    """Whether it has tools of its own and always streams."""
    headers: bool = True
    """Whether its user can set a header."""
    core: bool = False
    """Whether the ordinary test suite runs it."""

    @property
    def node(self) -> bool:
        return self.script.endswith(".mjs")


SDK_MODES = ("create", "stream", "text_stream")
ASYNC_MODES = ("acreate", "astream", "atext_stream")
TYPESCRIPT_MODES = ("create", "stream", "on_text")

CLIENTS = (
    Client("curl", "curl.py", core=True),
    Client("anthropic-py", "anthropic_py.py", ("anthropic",), SDK_MODES + ASYNC_MODES, core=True),
    Client("anthropic-py 1.17", "anthropic_py.py", ("anthropic==1.17.0",), SDK_MODES),
    Client("anthropic-py 0.125", "anthropic_py.py", ("anthropic==0.125.0",), SDK_MODES),
    Client(
        "anthropic-py 0.39",
        "anthropic_py.py",
        ("anthropic==0.39.0", "httpx<0.28"),  # it passes an argument that httpx 0.28 dropped
        SDK_MODES,
    ),
    Client(
        "anthropic-ts",
        "anthropic_ts.mjs",
        ("@anthropic-ai/sdk@latest",),
        TYPESCRIPT_MODES,
        core=True,
    ),
    Client(
        "anthropic-ts 0.137", "anthropic_ts.mjs", ("@anthropic-ai/sdk@0.137.0",), TYPESCRIPT_MODES
    ),
    Client(
        "anthropic-ts 0.71", "anthropic_ts.mjs", ("@anthropic-ai/sdk@0.71.2",), TYPESCRIPT_MODES
    ),
    Client("ai 7", "ai_sdk.mjs", ("ai@7", "@ai-sdk/anthropic@4", "zod@4"), core=True),
    Client("ai 6", "ai_sdk.mjs", ("ai@6", "@ai-sdk/anthropic@3", "zod@4")),
    Client(
        "langchain-py",
        "langchain_py.py",
        ("langchain-anthropic",),
        ("stream", "astream"),
        core=True,
    ),
    Client(
        "langchain-js",
        "langchain_js.mjs",
        ("@langchain/anthropic@latest", "@langchain/core@latest"),
        core=True,
    ),
    Client("litellm", "litellm_py.py", ("litellm",), ("stream", "astream")),
    Client("pydantic-ai", "pydantic_ai_py.py", ("pydantic-ai-slim[anthropic]",)),
    Client("agno", "agno_py.py", ("agno", "anthropic")),
    Client("llm", "llm_py.py", ("llm", "llm-anthropic"), headers=False),
    Client("httpx-sse", "httpx_sse_py.py", ("httpx-sse", "httpx")),
    Client("eventsource-parser", "eventsource_parser.mjs", ("eventsource-parser@3",)),
    Client("fetch-event-source", "fetch_event_source.mjs", ("@microsoft/fetch-event-source@2",)),
    Client("claude-code", "claude_code.py", ("npm:@anthropic-ai/claude-code@latest",), agent=True),
    Client("opencode", "opencode.py", ("npm:opencode-ai@latest",), agent=True),
)
