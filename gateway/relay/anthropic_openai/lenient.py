"""JSON as careless servers write it.

Python's own takes ``NaN`` and lone surrogates, which strict readers refuse.  Three things more are
taken here, since none is a reason to lose an answer: bare control characters inside strings, bytes
that are not UTF-8, and numbers longer than Python likes to read.
"""

from __future__ import annotations

import json
from typing import Any, Final

from gateway.relay.failures import decoded

LONGEST_NUMBER: Final = 300
"""Digits; more are infinite, as ``1e999`` is."""


def whole_number(digits: str) -> int | float:
    return int(digits) if len(digits) <= LONGEST_NUMBER else float(digits)


DECODER: Final = json.JSONDecoder(strict=False, parse_int=whole_number)


def read(data: bytes) -> Any:
    """Raises ValueError, RecursionError."""
    return DECODER.decode(data.decode("utf-8", "replace"))


def documents(data: bytes) -> list[bytes]:
    """The JSON documents of one frame, and its other lines.

    Several lines of data are one document in pieces, says the standard; servers that put one
    newline instead of two between their chunks send a whole document on each.
    """
    return [data] if is_whole(data) else data.split(b"\n")


def is_whole(data: bytes) -> bool:
    """Whether ``data`` is a JSON document, and not a torn one."""
    if decoded(data) is not None:
        return True
    try:
        read(data)
    except (ValueError, RecursionError):
        return False
    return True
