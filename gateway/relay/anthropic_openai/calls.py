"""Tool calls in single file: OpenAI streams may interleave them, Anthropic's blocks may not.

The first call that has a name is the open one and streams; pieces of the others wait for their
turn.  The open call makes way once its arguments are a whole JSON document and another call, or
text, is there to follow; at the latest when the answer ends.
"""

from __future__ import annotations

import re
import secrets
from dataclasses import dataclass, field
from typing import Final

import msgspec

from gateway.relay.anthropic_openai.chunks import Call, arguments_of

#: What Anthropic allows in a tool call's id; its SDKs and its API check that.
FORBIDDEN: Final = re.compile(r"[^a-zA-Z0-9_-]")


@dataclass(eq=False)
class ToolCall:
    """One call: what has come of it, and what of that has been passed on."""

    id: str = ""
    """The upstream's, which may come late."""
    public_id: str = ""
    """What the client was told."""
    name: str = ""
    pieces: list[str] = field(default_factory=list)
    told: int = 0
    """How many of the pieces have been passed on."""
    _looked_at: int = 0
    _whole: bool = False

    @property
    def arguments(self) -> str:
        return "".join(self.pieces)

    def is_whole(self) -> bool:
        """Whether the arguments are complete.  Looks closer only after another piece."""
        if self._looked_at != len(self.pieces):
            self._looked_at = len(self.pieces)
            ends = bool(self.pieces) and self.pieces[-1].rstrip().endswith("}")
            self._whole = ends and is_json(self.arguments)
        return self._whole

    def news(self) -> str:
        """What has not been passed on yet."""
        news = "".join(self.pieces[self.told :])
        self.told = len(self.pieces)
        return news


def is_json(text: str) -> bool:
    try:
        msgspec.json.decode(text, type=msgspec.Raw)
    except (msgspec.DecodeError, UnicodeEncodeError):
        return False
    return True


class Calls:
    """The calls of one answer, in the order in which they began."""

    def __init__(self) -> None:
        self._by_index: dict[int, ToolCall] = {}
        self._last: ToolCall | None = None
        self._ids: set[str] = set()
        self.waiting: list[ToolCall] = []
        """Begun, but not open yet; those that never get a name are never opened."""

    def take(self, piece: Call) -> ToolCall:
        """Adds one piece to the call it belongs to, which may be a new one."""
        name = (piece.function and piece.function.name) or ""
        call = self._known(piece, name) or self._begin(piece)
        call.id = call.id or piece.id or ""
        call.name = call.name or name
        if arguments := arguments_of(piece.function):
            call.pieces.append(arguments)
        self._last = call
        return call

    def _known(self, piece: Call, name: str) -> ToolCall | None:
        """By index, else by id, else the last one, unless the piece looks like a beginning."""
        call = self._last if piece.index is None else self._by_index.get(piece.index)
        if call is None:
            return None
        if piece.id and call.id:
            return call if piece.id == call.id else self._by_id(piece)
        begins_anew = bool(name and call.name and piece.index is None and call.pieces)
        return None if begins_anew or (piece.index is None and piece.id and name) else call

    def _by_id(self, piece: Call) -> ToolCall | None:
        known = [*self._by_index.values(), *self.waiting]
        return next((call for call in known if call.id == piece.id), None)

    def _begin(self, piece: Call) -> ToolCall:
        call = ToolCall()
        self._by_index[len(self._by_index) if piece.index is None else piece.index] = call
        self.waiting.append(call)
        return call

    @property
    def any_named(self) -> bool:
        return any(call.name for call in self.waiting)

    def next(self) -> ToolCall | None:
        """Takes the next call with a name out of those that wait, and gives it an id for the
        client."""
        for place, call in enumerate(self.waiting):
            if call.name:
                del self.waiting[place]
                call.public_id = self._proper_id(call.id)
                return call
        return None

    def _proper_id(self, id: str) -> str:
        proper = FORBIDDEN.sub("_", id)
        if not proper or proper in self._ids:
            proper = f"toolu_{secrets.token_hex(12)}"
        self._ids.add(proper)
        return proper
