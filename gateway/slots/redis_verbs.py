"""The verbs that Redis executes, each one atomic script, and how they are called and answer.

``lua/line.lua`` is the first half of every script and explains the data.  Names and clients travel
as arguments; only the upstream's name is part of a key, percent-encoded, and all keys of an
upstream share one hash tag, so that they live on one node of a cluster.
"""

from __future__ import annotations

import enum
import hashlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TypeVar
from urllib.parse import quote

LUA = Path(__file__).parent / "lua"

KEYS = (
    *("state", "line", "leases", "tickets", "granted"),
    *("owned", "clients", "replicas", "awaited"),
)
"""In the order in which ``lua/line.lua`` unpacks them."""

BATCH = 500
"""Tickets in one call at most: a script keeps everybody else waiting while it runs."""

MICROSECONDS = 1_000_000

T = TypeVar("T")

Argument = str | int | bytes
Answer = Callable[["Reply"], None]


class Verb(enum.Enum):
    """One script each; its file says what it does."""

    HELLO = "hello"
    CLAIM = "claim"
    JOIN = "join"
    LEAVE = "leave"
    BEAT = "beat"
    RESIZE = "resize"
    QUIT = "quit"
    PAGE = "page"

    def __init__(self, name: str) -> None:
        self.source = "".join((LUA / f"{part}.lua").read_text() for part in ("line", name))
        self.sha = hashlib.sha1(self.source.encode(), usedforsecurity=False).hexdigest()


class Reply(NamedTuple):
    """What every verb answers.  Times and durations are microseconds of Redis's clock."""

    status: str
    """``ok``, the outcome of a refused join, or ``unknown``: the caller must say hello."""
    version: int
    now: int
    hold: int
    """How long nobody is granted yet, because replicas have still to say what they hold."""
    more: bool
    """Whether a dead replica's tickets are left to be removed."""
    rest: list[Any]


class Command(NamedTuple):
    """One verb to be executed, and who wants to know."""

    verb: Verb
    keys: Sequence[str]
    arguments: Sequence[Argument]
    answer: Answer


def tag_of(upstream: str) -> str:
    """The beginning of every key; the number is that of this layout."""
    return f"gateway:1:{{{quote(upstream, safe='')}}}"


def keys_of(upstream: str) -> tuple[str, ...]:
    return tuple(f"{tag_of(upstream)}:{key}" for key in KEYS)


def channel_of(upstream: str) -> str:
    return f"{tag_of(upstream)}:events"


def reply_of(answer: list[Any]) -> Reply:
    status, version, now, hold, more, *rest = answer
    return Reply(status.decode(), version, now, hold, bool(more), rest)


def batches(items: Sequence[T]) -> list[Sequence[T]]:
    return [items[start : start + BATCH] for start in range(0, len(items), BATCH)]


def data(text: str) -> bytes:
    """``text`` as Redis may have it: valid UTF-8, whatever a client's address header held."""
    return text.encode("utf-8", "backslashreplace")
