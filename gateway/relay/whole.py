"""Whole JSON answers: collected for a client that does not stream, taken apart for one that does.

A stream is collected where the client asked for none, a JSON body is unfolded where it asked for
a stream; either way by the same machine, so that both ways of asking give the same message.  Some
servers call the one by the other's name, so a body that is said to be JSON is looked at first.
"""

from __future__ import annotations

import re
from typing import Any, Final, Protocol

import msgspec

from gateway.errors import GatewayError
from gateway.relay import Phase, Step
from gateway.relay.anthropic_openai.folding import fold, unfold
from gateway.relay.anthropic_openai.stream import OpenAIStream
from gateway.relay.failures import decoded, error_frame, error_of_document, garbage

MAX_ANSWER_BYTES: Final = 64 << 20

EVENT_LINE: Final = re.compile(rb"^(?:data|event):", re.MULTILINE)
ENOUGH_TO_TELL: Final = 4096


class Unfolding(Protocol):
    """A whole body as a complete stream.  Raises GatewayError."""

    def __call__(self, body: bytes) -> bytes: ...


class Body:
    """Bytes up to a bound."""

    def __init__(self) -> None:
        self._parts: list[bytes] = []
        self._size = 0

    def add(self, data: bytes) -> None:
        """Raises UpstreamFailed."""
        self._parts.append(data)
        self._size += len(data)
        if self._size > MAX_ANSWER_BYTES:
            raise garbage("it is too large")

    def all(self) -> bytes:
        return b"".join(self._parts)


def native_message(body: bytes) -> dict[str, Any]:
    """The message in a native body.  Raises GatewayError for an error, and for anything else."""
    document = decoded(body)
    if isinstance(document, dict) and document.get("type") == "message":
        return document
    raise error_of_document(document) or garbage("it is not a message")


def native_unfolding(body: bytes) -> bytes:
    try:
        return unfold(native_message(body))
    except (LookupError, TypeError, ValueError, AttributeError) as error:
        raise garbage("the message has an unknown shape") from error


def is_stream(body: bytes) -> bool:
    """Whether a body that should be JSON is a stream all the same."""
    return EVENT_LINE.search(body, 0, ENOUGH_TO_TELL) is not None and body.lstrip()[:1] != b"{"


def collected(body: bytes, step: Step) -> bytes:
    """The frames of a stream that has come as one body.  Raises GatewayError."""
    frames = step.feed(body) + step.finish()
    if step.error is not None:
        raise step.error
    return frames


class WholeAsStream:
    """A JSON body for a client that asked for a stream; see ``relay.Step``.

    ``step`` takes what turns out to be a stream.
    """

    at_boundary = True

    def __init__(self, unfolding: Unfolding, step: Step, *, request_id: str) -> None:
        self._step = step
        self._request_id = request_id
        self._unfolding = unfolding
        self._body = Body()
        self.phase = Phase.EMPTY
        self.output_tokens: int | None = None
        self.error: GatewayError | None = None

    def feed(self, data: bytes) -> bytes:
        self._body.add(data)
        return b""

    def finish(self) -> bytes:
        if self.phase is Phase.COMPLETE:
            return b""
        body = self._body.all()
        frames = collected(body, self._step) if is_stream(body) else self._unfolding(body)
        self.output_tokens = fold(frames)["usage"]["output_tokens"]
        self.phase = Phase.COMPLETE
        return frames

    def abort(self, error: GatewayError) -> bytes:
        if self.phase is Phase.COMPLETE:
            return b""
        self.phase = Phase.COMPLETE
        self.error = error
        return error_frame(error, self._request_id)


class WholeAnswer(Protocol):
    """One answer for a client that did not ask for a stream."""

    @property
    def complete(self) -> bool:
        """Whether nothing more is needed, even if the upstream goes on."""

    @property
    def output_tokens(self) -> int | None: ...

    def feed(self, data: bytes) -> None:
        """Raises GatewayError."""

    def finish(self) -> bytes:
        """The JSON body.  Raises GatewayError."""


class NativeBody:
    """A native message: its bytes, once they have proved to be one."""

    complete = False

    def __init__(self, step: Step) -> None:
        self._step = step
        self._body = Body()
        self.output_tokens: int | None = None

    def feed(self, data: bytes) -> None:
        self._body.add(data)

    def finish(self) -> bytes:
        body = self._body.all()
        if is_stream(body):
            body = msgspec.json.encode(fold(collected(body, self._step)))
        usage = native_message(body).get("usage")
        tokens = usage.get("output_tokens") if isinstance(usage, dict) else None
        self.output_tokens = tokens if isinstance(tokens, int) else None
        return body


class ChatBody:
    """A chat completion: translated whole."""

    complete = False

    def __init__(self, stream: OpenAIStream) -> None:
        self._stream = stream
        self._body = Body()

    @property
    def output_tokens(self) -> int | None:
        return self._stream.output_tokens

    def feed(self, data: bytes) -> None:
        self._body.add(data)

    def finish(self) -> bytes:
        body = self._body.all()
        take = self._stream.take_whole
        return msgspec.json.encode(
            fold(collected(body, self._stream) if is_stream(body) else take(body))
        )


class Collected:
    """A stream that nobody asked for, collected into one message."""

    def __init__(self, step: Step) -> None:
        self._step = step
        self._frames = Body()

    @property
    def complete(self) -> bool:
        return self._step.phase is Phase.COMPLETE

    @property
    def output_tokens(self) -> int | None:
        return self._step.output_tokens

    def feed(self, data: bytes) -> None:
        self._frames.add(self._step.feed(data))
        self._raise_error()

    def finish(self) -> bytes:
        self._frames.add(self._step.finish())
        self._raise_error()
        return msgspec.json.encode(fold(self._frames.all()))

    def _raise_error(self) -> None:
        if self._step.error is not None:
            raise self._step.error
