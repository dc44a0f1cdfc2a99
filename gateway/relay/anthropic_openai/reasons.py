"""Why an answer stopped: from what was emitted first, then from what the server says.

The words are those of OpenAI and of the servers that add their own: vLLM and SGLang ``abort``,
Mistral ``model_length``, DeepSeek ``insufficient_system_resource``, TGI ``eos_token``, GLM
``sensitive`` and ``network_error``, Gemini's in capitals.  Case and punctuation make no difference.
"""

from __future__ import annotations

import re
from collections.abc import Container
from typing import Final

NOT_YET: Final = frozenset({"", "null", "none"})
"""What some servers say in every chunk but the last."""
LENGTH: Final = frozenset(
    {
        *("length", "lengthlimit", "tokenlimit", "modellength", "contextlength", "maxlength"),
        *("maxtokens", "maxnewtokens", "maxoutputtokens", "maxcompletiontokens"),
        *("contextlengthexceeded", "modelcontextwindowexceeded"),
    }
)
REFUSAL: Final = frozenset(
    {
        *("contentfilter", "contentfiltered", "safety", "refusal", "sensitive", "moderation"),
        *("recitation", "blocklist", "prohibitedcontent", "spii", "guardrailintervened"),
    }
)
FAILURE: Final = frozenset(
    {
        *("abort", "aborted", "cancel", "cancelled", "canceled", "failed", "failure", "timeout"),
        *("error", "insufficientsystemresource", "overloaded", "unavailable"),
    }
)
"""The server gave up: what it said until then is no answer.  So is any word ending in ``error``."""

PUNCTUATION: Final = re.compile(r"[\W_]+")


def is_said(finish: str | None) -> bool:
    """Whether this is a reason at all."""
    return finish is not None and plain(finish) not in NOT_YET


def is_failure(finish: str | None) -> bool:
    said = plain(finish or "")
    return said in FAILURE or said.endswith("error")


def plain(finish: str) -> str:
    return PUNCTUATION.sub("", finish).lower()


def stop_reason(
    finish: str | None,
    matched: str | None,
    stop_sequences: Container[str],
    *,
    refused: bool,
    has_tools: bool,
) -> tuple[str, str | None]:
    """Anthropic's ``stop_reason`` and ``stop_sequence``."""
    said = plain(finish or "")
    if refused or said in REFUSAL:
        return "refusal", None
    if said in LENGTH:
        return "max_tokens", None
    if has_tools:
        return "tool_use", None
    if matched is not None and matched in stop_sequences:
        return "stop_sequence", matched
    return "end_turn", None
