"""Arguments that are no JSON object, made one: clients call tools with objects and nothing else.

The Python SDK gives up a stream whose arguments it cannot read; ``_raw`` shows a tool, and the
model that reads its complaint, what had been said.
"""

from __future__ import annotations

import json

import msgspec

from gateway.relay.anthropic_openai.halves import without_halves
from gateway.relay.failures import decoded


def as_object(arguments: str) -> str:
    """``arguments`` as the JSON of an object: what a text holds where it was encoded twice, ``{}``
    for nothing (``[]`` is PHP's empty object), otherwise ``{"_raw": "…"}``."""
    arguments = without_halves(arguments)
    try:
        value = msgspec.json.decode(arguments)
    except (msgspec.DecodeError, RecursionError):
        return raw(arguments)
    if isinstance(value, str) and isinstance(decoded(value.encode()), dict):
        return value
    return raw(arguments) if value else "{}"


def raw(arguments: str) -> str:
    return json.dumps({"_raw": arguments}, ensure_ascii=False)
