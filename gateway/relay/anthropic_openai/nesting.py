"""Whether JSON that comes in pieces is complete, without reading any of it twice."""

from __future__ import annotations

import re
from typing import Final

BODY: Final = r'[^"\\]*+(?:\\.[^"\\]*+)*+'
STRINGS: Final = re.compile(rf'"{BODY}"|("){BODY}\\?\Z', re.DOTALL)
"""Strings, and as group 1 the quote of one that goes on in the next piece."""
END_OF_STRING: Final = re.compile(rf'{BODY}"', re.DOTALL)


class Nesting:
    """How deep inside brackets, and whether inside a string, the pieces so far have led."""

    __slots__ = ("_begun", "_depth", "_escape", "_in_string")

    def __init__(self) -> None:
        self._begun = False
        self._depth = 0
        self._in_string = False
        self._escape = ""
        """A backslash at the very end of a piece; it belongs to the next character."""

    @property
    def closed(self) -> bool:
        """Whether an object, an array or a string has begun and ended."""
        return self._begun and self._depth <= 0 and not self._in_string

    def feed(self, piece: str) -> None:
        if self._in_string:
            piece = self._escape + piece
            end = END_OF_STRING.match(piece)
            if end is None:
                self._escape = cut_escape(piece)
                return
            piece = piece[end.end() :]
        outside = STRINGS.sub(r"\1", piece)
        self._in_string = outside.endswith('"')
        self._escape = cut_escape(piece) if self._in_string else ""
        opened = outside.count("{") + outside.count("[")
        self._begun = self._begun or opened > 0 or '"' in piece
        self._depth += opened - outside.count("}") - outside.count("]")


def cut_escape(piece: str) -> str:
    backslashes = len(piece) - len(piece.rstrip("\\"))
    return "\\" if backslashes % 2 else ""
