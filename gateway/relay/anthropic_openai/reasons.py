"""Why an answer stopped: from what was emitted first, then from what the server says.

The words are those of OpenAI and of the servers that add their own (vLLM and SGLang ``abort``,
Mistral ``model_length``, DeepSeek ``insufficient_system_resource``), in capitals or not.
"""

from __future__ import annotations

from collections.abc import Container
from typing import Final

LENGTH: Final = frozenset({"length", "max_tokens", "model_length"})
REFUSAL: Final = frozenset({"content_filter", "safety", "refusal"})
FAILURE: Final = frozenset(
    {
        "abort",
        "aborted",
        "cancelled",
        "canceled",
        "error",
        "insufficient_system_resource",
        "timeout",
    }
)
"""The server gave up: what it said until then is no answer."""


def is_failure(finish: str | None) -> bool:
    return finish is not None and finish.lower() in FAILURE


def stop_reason(
    finish: str | None,
    matched: str | None,
    stop_sequences: Container[str],
    *,
    refused: bool,
    has_tools: bool,
) -> tuple[str, str | None]:
    """Anthropic's ``stop_reason`` and ``stop_sequence``."""
    said = (finish or "").lower()
    if refused or said in REFUSAL:
        return "refusal", None
    if said in LENGTH:
        return "max_tokens", None
    if has_tools:
        return "tool_use", None
    if matched is not None and matched in stop_sequences:
        return "stop_sequence", matched
    return "end_turn", None
