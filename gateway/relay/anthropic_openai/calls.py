"""Tool calls in single file: OpenAI streams may interleave them, Anthropic's blocks may not.

The first call that has a name is the open one and streams; pieces of the others wait for their
turn.  The open call makes way once its arguments are a whole JSON document and another call, or
text, is there to follow; at the latest when the answer ends.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

from gateway.relay.anthropic_openai.chunks import Call, arguments_of
from gateway.relay.anthropic_openai.nesting import Nesting
from gateway.relay.anthropic_openai.objects import as_object

#: What Anthropic allows in a tool call's id; its SDKs and its API check that.
FORBIDDEN: Final = re.compile(r"[^a-zA-Z0-9_-]")

PLACEHOLDER: Final = ["{}"]
"""What some servers say first, whatever the arguments will be."""

NO_ARGUMENTS: Final = frozenset({"", "null"})


@dataclass(eq=False)
class ToolCall:
    """One call: what has come of it, and what of that has been passed on."""

    id: str = ""
    """The upstream's, which may come late."""
    public_id: str = ""
    """What the client was told."""
    name: str = ""
    pieces: list[str] = field(default_factory=list)
    _told: int = 0
    """How many of the pieces have been passed on."""
    _looked_at: int = 0
    _nesting: Nesting = field(default_factory=Nesting)

    def add(self, arguments: str) -> None:
        if not self._told and self.is_placeholder and arguments.lstrip().startswith("{"):
            self.pieces.clear()
            self._looked_at, self._nesting = 0, Nesting()
        if not self.pieces:
            arguments = arguments.lstrip()
            if arguments in NO_ARGUMENTS:
                return
        elif self._is_object and not self.is_placeholder and self.is_whole():
            return  # said again, or noise
        self.pieces.append(arguments)

    @property
    def is_placeholder(self) -> bool:
        """Whether all that is known of the arguments may be no more than their place."""
        return self.pieces == PLACEHOLDER

    @property
    def _is_object(self) -> bool:
        return self.pieces[0].startswith("{")

    def is_whole(self) -> bool:
        """Whether the arguments are complete.  Looks at each piece once, and only when asked."""
        while self._looked_at < len(self.pieces):
            self._nesting.feed(self.pieces[self._looked_at])
            self._looked_at += 1
        return self._nesting.closed

    def news(self, *, is_all: bool) -> str:
        """What has not been passed on yet.  ``is_all``: nothing more is to come."""
        if self._told == len(self.pieces):
            return ""
        if not self._told and not is_all and (self.is_placeholder or not self._is_object):
            return ""
        news = "".join(self.pieces[self._told :])
        if not self._told and not self._is_object:
            news = as_object(news)
        self._told = len(self.pieces)
        return news


class Calls:
    """The calls of one answer, in the order in which they began."""

    def __init__(self) -> None:
        self._by_index: dict[int, ToolCall] = {}
        self._by_id: dict[str, ToolCall] = {}
        self._last: ToolCall | None = None
        self._public_ids: set[str] = set()
        self._waiting: list[ToolCall] = []
        """Begun, but not open yet; those that never get a name are never opened."""

    def take(self, pieces: Iterable[Call]) -> None:
        """Adds each piece of one chunk to the call it belongs to, which may be a new one."""
        for place, piece in enumerate(pieces):
            function = piece.function or piece
            name = function.name or ""
            arguments = arguments_of(function)
            call = self._known(piece, name, arguments)
            if call is None or (place and name and piece.index is None and not piece.id):
                call = self._begin(piece)
            self._add(call, piece.id or "", name, arguments)

    def _add(self, call: ToolCall, id: str, name: str, arguments: str) -> None:
        if id:
            call.id = call.id or id
            self._by_id[id] = call
        if name:
            call.name = name if name.startswith(call.name) else call.name + name
        if arguments:
            call.add(arguments)
        self._last = call

    def _known(self, piece: Call, name: str, arguments: str) -> ToolCall | None:
        """By index, else by id, else the last one; None where the piece begins another call."""
        call = self._last if piece.index is None else self._by_index.get(piece.index)
        if piece.id and call is not None and call.id not in ("", piece.id):
            call = self._by_another_id(piece, name, call)
        elif call is None and piece.id and not name:
            call = self._by_id.get(piece.id)
        if call is None or not name or not call.name:
            return call
        return None if begins_anew(call, piece, name, arguments) else call

    def _by_another_id(self, piece: Call, name: str, call: ToolCall) -> ToolCall | None:
        """Some servers give every piece an id of its own, so one that is new begins a call only
        together with a name or without an index."""
        known = self._by_id.get(piece.id or "")
        return known or (None if name or piece.index is None else call)

    def _begin(self, piece: Call) -> ToolCall:
        call = ToolCall()
        self._by_index[len(self._by_index) if piece.index is None else piece.index] = call
        self._waiting.append(call)
        return call

    @property
    def any_named(self) -> bool:
        return any(call.name for call in self._waiting)

    @property
    def any_has_arguments(self) -> bool:
        return any(call.pieces and not call.is_placeholder for call in self._waiting)

    def next(self, *, is_all: bool) -> ToolCall | None:
        """Takes the next call with a name out of those that wait, and gives it an id for the
        client.  ``is_all``: nothing more is to come; before that the name itself may."""
        for place, call in enumerate(self._waiting):
            if call.name and (is_all or call.pieces or call is not self._last):
                del self._waiting[place]
                call.public_id = self._proper_id(call.id)
                return call
        return None

    def _proper_id(self, id: str) -> str:
        proper = FORBIDDEN.sub("_", id)
        if not proper or proper in self._public_ids:
            proper = f"toolu_{secrets.token_hex(12)}"
        self._public_ids.add(proper)
        return proper


def begins_anew(call: ToolCall, piece: Call, name: str, arguments: str) -> bool:
    """Whether a piece with a name is another call than ``call``, to which its index and id point.

    Servers that repeat the name in every piece, that cut it in pieces, and that give all calls
    one index or one id are told apart by what of the arguments has come.  A call that is said
    once more as a whole, id and all, is not another one: nobody wants a tool to run twice.
    """
    has_place = piece.index is not None or bool(piece.id)
    is_placeholder = call.is_placeholder and has_place
    if arguments and call.is_whole() and not is_placeholder:
        is_same = bool(piece.id) and name == call.name and arguments == "".join(call.pieces)
        return not is_same
    is_part = not call.pieces and has_place
    return name != call.name and not is_part
