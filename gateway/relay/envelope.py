"""The outer part of a Messages request: what the gateway itself must know, and no more.

A body is checked once and kept as the bytes it came in.  Messages are only counted and their
roles looked at: for an upstream that speaks Anthropic their content is its own affair, and a
prompt of many megabytes is never unpacked.  Unknown fields are nobody's fault: Anthropic adds
some every month (platform.claude.com, "Messages").
"""

from __future__ import annotations

from typing import Annotated, Final

import msgspec
from msgspec import Meta, Raw

from gateway.errors import InvalidRequest
from gateway.relay.decoding import decode

WHITESPACE: Final = b" \t\r\n"
ENOUGH_TO_FIND: Final = 64


class MessageHead(msgspec.Struct, frozen=True):
    role: str
    content: Raw


Model = Annotated[str, Meta(min_length=1)]
Messages = Annotated[list[MessageHead], Meta(min_length=1)]


class MessagesHead(msgspec.Struct, frozen=True):
    """What ``POST /v1/messages`` must have; the order is the order in which it is missed."""

    model: Model
    max_tokens: Annotated[int, Meta(ge=1)]
    messages: Messages
    stream: bool | None = None
    stop_sequences: list[str] | None = None


class CountHead(msgspec.Struct, frozen=True):
    """What ``POST /v1/messages/count_tokens`` must have."""

    model: Model
    messages: Messages


MESSAGES = msgspec.json.Decoder(MessagesHead)
COUNT = msgspec.json.Decoder(CountHead)
FIELDS = msgspec.json.Decoder(dict[str, Raw])

READ: Final = frozenset(MessagesHead.__struct_fields__)
"""What has been decided upon; its upstream must not read it from another field."""


class Envelope(msgspec.Struct, frozen=True):
    """A request whose outer part is valid.  ``max_tokens`` is None in a count_tokens request."""

    body: bytes
    model: str
    max_tokens: int | None = None
    stream: bool = False
    stop_sequences: tuple[str, ...] = ()

    def __repr__(self) -> str:
        return f"<Envelope {self.model!r} stream={self.stream} {len(self.body)} bytes>"

    def for_native(self, upstream_model: str, max_output_tokens: int | None) -> bytes:
        """The body for an upstream that speaks Anthropic.

        The client's own bytes where nothing has to change; otherwise only the outermost object
        is written anew, and every value but the changed ones keeps its bytes and its place.
        ``max_output_tokens`` lowers ``max_tokens`` and never raises it.
        """
        fields = decode(FIELDS, self.body)
        unambiguous = has_each_name_once(self.body, fields)
        for name in [name for name in fields if is_taken_for_another(name)]:
            del fields[name]
            unambiguous = False
        most = capped(self.max_tokens, max_output_tokens)
        if upstream_model == self.model and most == self.max_tokens and unambiguous:
            return self.body
        fields["model"] = Raw(msgspec.json.encode(upstream_model))
        if most is not None:
            fields["max_tokens"] = Raw(msgspec.json.encode(most))
        return msgspec.json.encode(fields)


def parse_envelope(body: bytes) -> Envelope:
    """The envelope of a Messages request.  Raises InvalidRequest, whatever the bytes are."""
    head = decode(MESSAGES, checked_text(body))
    return Envelope(
        body=body,
        model=head.model,
        max_tokens=head.max_tokens,
        stream=bool(head.stream),
        stop_sequences=tuple(head.stop_sequences or ()),
    )


def parse_count_envelope(body: bytes) -> Envelope:
    """The envelope of a count_tokens request.  Raises InvalidRequest."""
    return Envelope(body=body, model=decode(COUNT, checked_text(body)).model)


def capped(max_tokens: int | None, most: int | None) -> int | None:
    if max_tokens is None or most is None:
        return max_tokens
    return min(max_tokens, most)


def checked_text(body: bytes) -> bytes:
    """The body if it is UTF-8 all through: the decoder does not look into what it skips."""
    if not body.strip(WHITESPACE):
        raise InvalidRequest("The request body is empty.")
    if not body.isascii():
        try:
            body.decode()
        except UnicodeDecodeError as error:
            raise InvalidRequest(f"The request body is not UTF-8 at byte {error.start}.") from None
    return body


def has_each_name_once(body: bytes, fields: dict[str, Raw]) -> bool:
    """Whether every reader sees the same fields in ``body``.

    Where a name is there twice some servers take the first and others, like us, the last; a
    request could then be admitted as one model and run as another.  What we read, written anew,
    is shorter than such a body, once the blanks are left out on both sides.  Few clients write
    any, and without them it is as long as the body.
    """
    if len(body) == length_without_blanks(fields):
        return True
    prompt = bytes(fields.get("messages", b""))
    written = msgspec.json.encode(fields | {"messages": Raw(b"")})
    return solid(without(prompt, body)) == solid(written)


def is_taken_for_another(name: str) -> bool:
    """Whether some servers read one of our fields from this one: Go's ignore the case of a name,
    and the last one counts (pkg.go.dev/encoding/json, "Unmarshal").  Ollama is written in Go."""
    return name not in READ and name.casefold() in READ


def length_without_blanks(fields: dict[str, Raw]) -> int:
    """The length of an object with these fields: braces and commas, and ``"name":value``."""
    length = 1
    for name, value in fields.items():
        length += len(name.encode()) + len('"":,') + memoryview(value).nbytes
    return length


def without(part: bytes, whole: bytes) -> bytes:
    """``whole`` with ``part`` left out once: nobody needs to count the blanks of a long prompt.

    Found by its beginning, since searching for something long is slow.
    """
    begin = whole.find(part[:ENOUGH_TO_FIND])
    if not whole.startswith(part, begin):
        begin = whole.find(part)
    return whole[:begin] + whole[begin + len(part) :]


def solid(text: bytes) -> int:
    """The length of ``text`` without its blanks."""
    return len(text.translate(None, WHITESPACE))
