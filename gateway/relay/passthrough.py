"""The relay of a native upstream: the client gets the very bytes, in whole frames.

A light observer follows along and mends what Anthropic's clients cannot digest: an end without
``message_stop``, an error in another shape, anything behind the end.  A frame is held back until
it is whole, which costs nothing where servers write whole frames and lets keep-alives, and an
error, go between frames at any time.  Only a frame larger than ``HOLD_BYTES`` passes as it comes.
"""

from __future__ import annotations

import re
from typing import Final

import msgspec

from gateway.errors import TYPE_OF_STATUS, GatewayError
from gateway.relay import Phase
from gateway.relay.failures import (
    decoded,
    ended_early,
    error_frame,
    error_of_document,
    error_of_event,
    garbage,
)
from gateway.relay.whole import native_unfolding
from gateway.sse import Event, Splitter, encode, parse, split

HOLD_BYTES: Final = 65536
HOLD_DOCUMENT_BYTES: Final = 8 << 20
"""The same for a whole message under another name."""

LIKE_A_FRAME: Final = re.compile(rb"(?:\xef\xbb\xbf)?[\r\n]*[A-Za-z_-]*(?:[:\r\n]|$)")
"""How a frame without data may begin: with a comment or some field; no page or text does."""

DONE: Final = b"[DONE]"
"""OpenAI's last word, which some native halves say too; Anthropic's clients take it for JSON."""

TELLING: Final = (b"message_", b"error", DONE)
"""One of these is in every event but content."""

MESSAGE_STOP: Final = encode("message_stop", b'{"type":"message_stop"}')
ANTHROPIC_TYPES: Final = frozenset(TYPE_OF_STATUS.values())


class Usage(msgspec.Struct):
    output_tokens: int | None = None


class Delta(msgspec.Struct):
    stop_reason: str | None = None


class Message(msgspec.Struct):
    usage: Usage | None = None


class Head(msgspec.Struct):
    """What the observer looks at in the few events that are not content."""

    type: str | None = None
    delta: Delta | None = None
    usage: Usage | None = None
    message: Message | str | None = None


HEAD: Final = msgspec.json.Decoder(Head)


class Passthrough:
    """See ``relay.Step``."""

    def __init__(self, *, request_id: str = "") -> None:
        self._request_id = request_id
        self.phase = Phase.EMPTY
        self.output_tokens: int | None = None
        self.error: GatewayError | None = None
        self._splitter = Splitter()
        self._large = False
        """Inside a frame that is too large to hold: its beginning has been passed on."""

    @property
    def complete(self) -> bool:
        return self.phase is Phase.COMPLETE

    @property
    def at_boundary(self) -> bool:
        return not self._large

    def feed(self, data: bytes) -> bytes:
        """Raises UpstreamFailed while nothing but an error has been said."""
        if self.phase is Phase.COMPLETE:
            return b""
        splitter = self._splitter
        whole = splitter.feed_joined(data)
        if self.phase is Phase.OPEN and not self._large and not is_telling(whole):
            passed = whole
        else:
            passed = self._pass_all(whole)
        if len(splitter.rest) > HOLD_BYTES and not self.complete:
            if self.phase is Phase.EMPTY:
                hold_document(splitter.rest)
                return passed
            passed += splitter.let_go()
            self._large = True
        return passed

    def finish(self) -> bytes:
        if self.complete:
            return b""
        rest = self._splitter.take_rest()
        last = self._last_frame(rest)
        if self.complete:
            return last
        if self.phase is Phase.EMPTY and is_document(rest):
            self.phase = Phase.COMPLETE
            return native_unfolding(rest)
        if self.phase is Phase.EMPTY:
            raise ended_early()
        return last + self.abort(ended_early())

    def abort(self, error: GatewayError) -> bytes:
        """A message that has told why it stopped is whole: it gets its end instead of the error,
        which no client expects there."""
        if self.complete:
            return b""
        cut = b"\n\n" if self._large else b""
        is_whole = self.phase is Phase.ENDING
        self.phase = Phase.COMPLETE
        if is_whole:
            return cut + MESSAGE_STOP
        self.error = error
        return cut + error_frame(error, self._request_id)

    # --- frames --------------------------------------------------------------------------------

    def _pass_all(self, whole: bytes) -> bytes:
        """Whole frames; once the stream is open, only those are looked at that may end it."""
        if self._large or b"\r" in whole:
            return b"".join([self._pass(frame) for frame in split(whole)])
        passed = []
        begin = 0
        while self.phase is Phase.EMPTY and (found := whole.find(b"\n\n", begin)) >= 0:
            passed.append(self._pass(whole[begin : found + 2]))
            begin = found + 2
        for first, last in telling_frames(whole, begin):
            if self.complete:
                break
            passed += (whole[begin:first], self._pass(whole[first:last]))
            begin = last
        if not self.complete:
            passed.append(whole[begin:])
        return b"".join(passed)

    def _last_frame(self, rest: bytes) -> bytes:
        """What stood behind the last blank line: a whole event without one, or a torn frame that
        the client is better off without."""
        if self._large or not rest:
            return rest
        event = parse(rest + b"\n\n")
        whole = event is not None and decoded(event.data) is not None
        return self._pass(rest.rstrip(b"\r\n") + b"\n\n") if whole else b""

    def _pass(self, frame: bytes) -> bytes:
        """One whole frame, as it is or mended."""
        if self.complete:
            return b""
        if self._large:
            self._large = False
            return frame
        event = parse(frame)
        if event is None:
            if self.phase is Phase.EMPTY and not LIKE_A_FRAME.match(frame):
                raise garbage("it is not an event stream")
            return frame
        return b"" if event.data.strip() == DONE else self._observe(event, frame)

    def _observe(self, event: Event, frame: bytes) -> bytes:
        try:
            head = HEAD.decode(event.data)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            head = Head()
        kind = head.type or event.name
        nameless = not event.name and is_nameless_error(event)
        if event.name == "error" or kind == "error" or nameless:
            return self._observe_error(event, frame)
        if kind == "message_start":
            self.phase = Phase.OPEN
            if isinstance(head.message, Message):
                self._note(head.message.usage)
        elif kind == "message_delta":
            self._note(head.usage)
            if head.delta is not None and head.delta.stop_reason:
                self.phase = Phase.ENDING
        elif kind == "message_stop":
            self.phase = Phase.COMPLETE
        return frame

    def _observe_error(self, event: Event, frame: bytes) -> bytes:
        document = decoded(event.data)
        error = error_of_event(event.data)
        if self.phase is Phase.EMPTY:
            raise error
        as_it_is = event.name == "error" and is_anthropic_error(document, error.message)
        if self.phase is Phase.ENDING or not as_it_is:
            return self.abort(error)
        self.phase = Phase.COMPLETE
        self.error = error
        return frame

    def _note(self, usage: Usage | None) -> None:
        if usage is not None and usage.output_tokens is not None:
            self.output_tokens = usage.output_tokens


def is_document(rest: bytes | bytearray) -> bool:
    return rest.lstrip().startswith(b"{")


def hold_document(rest: bytearray) -> None:
    """Raises UpstreamFailed for what is neither a stream nor a JSON document."""
    if not is_document(rest[:HOLD_BYTES]) or len(rest) > HOLD_DOCUMENT_BYTES:
        raise garbage("it is not an event stream")


def is_telling(whole: bytes) -> bool:
    """Whether one of the TELLING words is there; spelled out, since this is asked per token."""
    return b"message_" in whole or b"error" in whole or DONE in whole


def telling_frames(whole: bytes, begin: int) -> list[tuple[int, int]]:
    """Where the frames are, among whole ones with LF, that hold one of the TELLING words.

    Searching for them costs a tenth of looking into every frame.  Where a model says such a word
    itself, the closer look costs a little and finds nothing.
    """
    found = set()
    for word in TELLING:
        at = whole.find(word, begin)
        while at >= 0:
            before = whole.rfind(b"\n\n", begin, at)
            end = whole.index(b"\n\n", at) + 2
            found.add((begin if before < 0 else before + 2, end))
            at = whole.find(word, end)
    return sorted(found)


def is_nameless_error(event: Event) -> bool:
    """vLLM's and other servers' OpenAI half reports errors without naming the event."""
    return error_of_document(decoded(event.data)) is not None


def is_anthropic_error(document: object, shown: str) -> bool:
    """Whether clients understand this error as it is, and may read all of its message."""
    if not isinstance(document, dict) or document.get("type") != "error":
        return False
    error = document.get("error")
    return (
        isinstance(error, dict)
        and isinstance(error.get("type"), str)
        and error["type"] in ANTHROPIC_TYPES
        and error.get("message") == shown
    )
