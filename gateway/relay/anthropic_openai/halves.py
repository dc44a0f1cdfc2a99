"""Characters that a server's tokens have cut in two.

Some servers escape the two UTF-16 halves of one character in two chunks: ``\\ud83d``, then
``\\ude42``.  Alone neither is text that could be encoded.
"""

from __future__ import annotations

from gateway.relay.anthropic_openai.machine import Input

REPLACEMENT = "\ufffd"


def without_halves(text: str) -> str:
    """``text`` fit to be encoded: two halves become their character, a lone one no character."""
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


class Halves:
    """Keeps a first half until its second one comes, for each kind of text."""

    def __init__(self) -> None:
        self._first: dict[Input, str] = {}

    def __bool__(self) -> bool:
        return bool(self._first)

    def joined(self, kind: Input, text: str) -> str:
        """``text`` with what was kept in front, fit to be encoded."""
        if not text:
            return text
        text = self._first.pop(kind, "") + text
        if "\ud800" <= text[-1] <= "\udbff":
            self._first[kind] = text[-1]
            text = text[:-1]
        return without_halves(text)

    def rest(self, kind: Input) -> str:
        """What becomes of a first half whose second one never came."""
        return REPLACEMENT if self._first.pop(kind, "") else ""
