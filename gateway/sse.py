"""Server-sent events, both ways.  Pure.

The format is the HTML standard's ("Server-sent events", section 9.2): lines end in LF, CRLF or
CR, a blank line ends a frame, comments begin with a colon.  One thing is added for llama.cpp,
whose servers report failures in a field named ``error`` instead of ``data``.
"""

from __future__ import annotations

import re
from itertools import pairwise
from typing import Final, NamedTuple

MAX_FRAME_BYTES: Final = 16 << 20
"""More than any model says at once; an upstream that sends no blank line is stopped here."""

BLANK_LINE: Final = re.compile(rb"(?>\r\n|\n|\r)(?>\r\n|\n|\r)+")
BYTE_ORDER_MARK: Final = b"\xef\xbb\xbf"


class FrameTooLarge(ValueError):
    """A frame did not end within MAX_FRAME_BYTES."""


class Event(NamedTuple):
    """``name`` is empty where the frame has no ``event`` field."""

    name: str
    data: bytes


class Splitter:
    """Bytes, cut anywhere, to whole frames with the blank lines behind them.

    The joined frames and what is left in ``rest`` are the bytes that were fed.
    """

    __slots__ = ("_returns", "_searched", "rest")

    def __init__(self) -> None:
        self.rest = bytearray()
        self._searched = 0
        self._returns = False
        """Whether there has been a CR: few servers write any, and LF alone is found much faster."""

    def feed(self, data: bytes) -> list[bytes]:
        """The frames that are whole now.  Raises FrameTooLarge."""
        return split(self.feed_joined(data))

    def feed_joined(self, data: bytes) -> bytes:
        """The same as ``feed``, in one piece."""
        if b"\r" in data:
            self._returns = True
        if not self.rest and not self._returns and data.endswith(b"\n\n"):
            return data
        self.rest += data
        end = self._end_of_whole_frames()
        whole = bytes(self.rest[:end])
        del self.rest[:end]
        self._searched = len(self.rest)
        if self._searched > MAX_FRAME_BYTES:
            raise FrameTooLarge
        return whole

    def _end_of_whole_frames(self) -> int:
        begin = max(0, self._searched - 3)
        if not self._returns:
            found = self.rest.rfind(b"\n\n", begin)
            return found + 2 if found >= 0 else 0
        end = 0
        for match in BLANK_LINE.finditer(self.rest, begin):
            if match.end() == len(self.rest) and self.rest.endswith(b"\r"):
                break  # perhaps half a CRLF
            end = match.end()
        return end

    def let_go(self) -> bytes:
        """Gives up the beginning of an unfinished frame, but for what may be half a blank line."""
        part = bytes(self.rest[:-3])
        del self.rest[:-3]
        self._searched = len(self.rest)
        return part

    def take_rest(self) -> bytes:
        """What stands behind the last blank line."""
        rest, self.rest = bytes(self.rest), bytearray()
        self._searched = 0
        return rest


def split(whole: bytes) -> list[bytes]:
    """Whole frames, one by one."""
    if not whole:
        return []
    if b"\r" not in whole:
        if whole.find(b"\n\n") == len(whole) - 2:
            return [whole]  # the common case
        return [frame + b"\n\n" for frame in whole[:-2].split(b"\n\n")]
    ends = [match.end() for match in BLANK_LINE.finditer(whole)]
    return [whole[begin:end] for begin, end in pairwise([0, *ends])]


def parse(frame: bytes) -> Event | None:
    """The event in one frame; None for comments and frames without data."""
    if b"\r" in frame:
        frame = frame.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
    if frame.startswith(b"data: ") and frame.find(b"\n") == len(frame) - 2:
        return Event("", frame[6:-2])
    name = ""
    data: list[bytes] = []
    for line in frame.removeprefix(BYTE_ORDER_MARK).split(b"\n"):
        field, _, value = line.partition(b":")
        if field == b"data":
            data.append(value.removeprefix(b" "))
        elif field == b"event":
            name = value.removeprefix(b" ").decode("utf-8", "replace")
        elif field == b"error":
            name = "error"
            data.append(value.removeprefix(b" "))
    return Event(name, b"\n".join(data)) if data else None


class Parser:
    """Bytes, cut anywhere, to events."""

    __slots__ = ("_splitter",)

    def __init__(self) -> None:
        self._splitter = Splitter()

    def feed(self, data: bytes) -> list[Event]:
        """Raises FrameTooLarge."""
        frames = self._splitter.feed(data)
        return [event for frame in frames if (event := parse(frame)) is not None]

    def take_rest(self) -> bytes:
        """What stands behind the last blank line."""
        return self._splitter.take_rest()


def encode(name: str, data: bytes) -> bytes:
    """One frame.  ``name`` comes from our code, ``data`` is one line of JSON."""
    return b"event: %s\ndata: %s\n\n" % (name.encode(), data)
