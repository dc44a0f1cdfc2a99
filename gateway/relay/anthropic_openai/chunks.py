"""One chat completions chunk, taken apart into inputs that each mean one thing.

Servers differ in where they put what (``docs/translation.md``); behind this file they are alike.
A whole JSON answer is a chunk too: its ``message`` stands where a stream has a ``delta``.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, Final

import msgspec

from gateway.relay.failures import garbage


class Function(msgspec.Struct):
    name: str | None = None
    arguments: Any = None


class Call(msgspec.Struct):
    """A piece of a tool call; most servers send ``index`` always and ``id`` once."""

    index: int | None = None
    id: str | None = None
    function: Function | None = None


class Delta(msgspec.Struct):
    content: Any = None
    reasoning: Any = None
    reasoning_content: Any = None
    reasoning_details: Any = None
    refusal: Any = None
    tool_calls: list[Call] | None = None
    function_call: Function | None = None


class Choice(msgspec.Struct):
    index: int | None = 0
    delta: Delta | None = None
    message: Delta | None = None
    finish_reason: str | None = None
    stop_reason: Any = None
    matched_stop: Any = None

    @property
    def matched(self) -> str | None:
        """The stop sequence that ended the answer: vLLM's word for it, or SGLang's."""
        for word in (self.stop_reason, self.matched_stop):
            if isinstance(word, str):
                return word
        return None


class Cached(msgspec.Struct):
    cached_tokens: int | None = None


class Usage(msgspec.Struct):
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    prompt_tokens_details: Cached | None = None


class Chunk(msgspec.Struct):
    choices: list[Choice] | msgspec.UnsetType | None = msgspec.UNSET
    usage: Usage | None = None
    error: Any = None

    @property
    def choice(self) -> Choice | None:
        """The first choice: Anthropic knows no others."""
        for choice in self.choices or ():
            if not choice.index:
                return choice
        return None


class OddChunk(Chunk):
    """A chunk in whose texts may be halves of characters; see ``halves``."""


CHUNK: Final = msgspec.json.Decoder(Chunk)


def decode(data: bytes) -> Chunk:
    """Raises UpstreamFailed for what is not a chunk.

    The slow way round is for lone surrogates, which are no text yet: a character that was cut in
    two by the server's tokens (``\\ud83d`` in one chunk, ``\\ude42`` in the next).
    """
    try:
        return CHUNK.decode(data)
    except msgspec.ValidationError as error:
        raise garbage("a chunk has an unknown shape") from error
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        pass
    try:
        return msgspec.convert(json.loads(data), OddChunk)
    except (ValueError, RecursionError) as error:
        raise garbage("a chunk is not JSON") from error


def text_of(content: Any) -> str:
    """Content as text: a string, or a list of parts with text in them."""
    if isinstance(content, str):
        return content
    if isinstance(content, list):
        return "".join(map(part_text, content))
    return ""


def part_text(part: object) -> str:
    text = part.get("text") if isinstance(part, dict) else None
    return text if isinstance(text, str) else ""


def reasoning_of(delta: Delta) -> str:
    """Some servers say the same twice, under both names; one of them is enough."""
    for said in (delta.reasoning_content, delta.reasoning, delta.reasoning_details):
        if text := text_of(said):
            return text
    return ""


def calls_of(delta: Delta) -> Iterator[Call]:
    """The pieces of tool calls, the legacy single ``function_call`` among them."""
    yield from delta.tool_calls or ()
    if delta.function_call is not None:
        yield Call(index=0, function=delta.function_call)


def arguments_of(function: Function | None) -> str:
    """A piece of the arguments' JSON; some servers send the object itself."""
    arguments = function.arguments if function else None
    if isinstance(arguments, str):
        return arguments
    return "" if arguments is None else msgspec.json.encode(arguments).decode()
