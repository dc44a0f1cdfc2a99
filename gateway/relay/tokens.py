"""How long a prompt is, guessed: for upstreams that cannot say.

Rough on purpose.  A token is taken as four bytes of UTF-8, which is about right for English and
code, a little high for JSON and a little low for Chinese; the names around the text (``role``,
``content``, ``type``, …) stand for the marks that a chat template puts in their place.  Expect
to be off by a third either way, and never use it as a limit.  What it does promise: it rises
with every message, every tool and every block of the system prompt.
"""

from __future__ import annotations

from typing import Any, Final

from msgspec import Raw

from gateway.relay.decoding import decode, decode_any
from gateway.relay.envelope import FIELDS, Envelope

BYTES_PER_TOKEN: Final = 4
#: What Anthropic counts at most for one image ("Vision", platform.claude.com).
TOKENS_PER_IMAGE: Final = 1600
#: The fields that become the prompt.
COUNTED: Final = ("system", "messages", "tools")
#: Fields inside them that no model reads.
UNREAD: Final = frozenset({"cache_control", "signature", "citations"})


def estimate_tokens(envelope: Envelope) -> int:
    """Input tokens, at least 1.  Raises InvalidRequest if the prompt is not JSON all through."""
    fields = decode(FIELDS, envelope.body)
    return max(1, sum(weight(fields[name], name) for name in COUNTED if name in fields))


def weight(document: Raw, name: str) -> int:
    """Tokens of one field, without recursion: a client decides how deep this goes."""
    tokens = 0
    left: list[Any] = [decode_any(document, name)]
    while left:
        value = left.pop()
        if isinstance(value, str):
            tokens += tokens_of(value)
        elif isinstance(value, list):
            left += value
        elif isinstance(value, dict):
            if value.get("type") == "image":
                tokens += TOKENS_PER_IMAGE
            elif value.get("type") != "redacted_thinking":
                named = {key: part for key, part in value.items() if key not in UNREAD}
                left += named.keys()
                left += named.values()
        else:
            tokens += 1
    return tokens


def tokens_of(text: str) -> int:
    return -(-len(text.encode()) // BYTES_PER_TOKEN)
