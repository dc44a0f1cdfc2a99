"""One chat completions chunk, taken apart into inputs that each mean one thing.

Servers differ in where they put what (``docs/translation.md``); behind this file they are alike.
A whole JSON answer is a chunk too: its ``message`` stands where a stream has a ``delta``.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, Final, TypeVar

import msgspec

from gateway.relay.anthropic_openai.halves import without_halves
from gateway.relay.anthropic_openai.lenient import read
from gateway.relay.failures import garbage

S = TypeVar("S", bound=msgspec.Struct)


class Function(msgspec.Struct):
    name: str | None = None
    arguments: Any = None


class Call(Function):
    """A piece of a tool call; most servers send ``index`` always and ``id`` once.  Some leave
    ``function`` out and put what belongs there beside the id."""

    index: int | None = None
    id: str | None = None
    function: Function | None = None


class Delta(msgspec.Struct):
    content: Any = None
    reasoning: Any = None
    reasoning_content: Any = None
    thinking: Any = None
    reasoning_details: Any = None
    refusal: Any = None
    tool_calls: list[Call] | None = None
    function_call: Function | None = None


class Details(msgspec.Struct):
    """What of the prompt came from a cache, and what went into one."""

    cached_tokens: int | None = None
    cache_write_tokens: int | None = None
    cache_creation_tokens: int | None = None


class Usage(msgspec.Struct):
    """OpenAI's names first, then those of its newer API; the rest is what ``usage`` tells."""

    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    prompt_tokens_details: Details | None = None
    input_tokens: int | None = None
    output_tokens: int | None = None
    input_tokens_details: Details | None = None
    cached_tokens: int | None = None
    prompt_cache_hit_tokens: int | None = None
    cache_read_input_tokens: int | None = None
    cache_creation_input_tokens: int | None = None


class Choice(msgspec.Struct):
    index: int | None = 0
    delta: Delta | None = None
    message: Delta | None = None
    finish_reason: str | None = None
    stop_reason: Any = None
    matched_stop: Any = None
    usage: Usage | None = None
    error: Any = None

    @property
    def matched(self) -> str | None:
        """The stop sequence that ended the answer: vLLM's word for it, or SGLang's."""
        for word in (self.stop_reason, self.matched_stop):
            if isinstance(word, str):
                return word
        return None


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

#: Fields that hold structs or, in MANY, lists of them.
INNER: Final[dict[str, type[msgspec.Struct]]] = {
    "choices": Choice,
    "delta": Delta,
    "message": Delta,
    "tool_calls": Call,
    "function": Function,
    "function_call": Function,
    "usage": Usage,
    "prompt_tokens_details": Details,
    "input_tokens_details": Details,
}
MANY: Final = frozenset({"choices", "tool_calls"})


def decode(data: bytes) -> Chunk:
    """Raises UpstreamFailed for what is not a chunk.

    The slow way round is for JSON that is not quite JSON, for fields of another shape, and for lone
    surrogates, which are no text yet: a character that was cut in two by the server's tokens
    (``\\ud83d`` in one chunk, ``\\ude42`` in the next).  ``null`` and the like say nothing.
    """
    try:
        return CHUNK.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        pass
    try:
        document = read(data) or {}
        if isinstance(document, dict):
            return mended(document, OddChunk)
    except (ValueError, RecursionError) as error:
        raise garbage("a chunk is not JSON") from error
    raise garbage("a chunk is not an object")


def mended(document: dict[str, Any], kind: type[S]) -> S:
    """As much of the document as fits.  Numbers that came as text are read, what has another
    shape is left out: one odd field is no reason to lose an answer.  Only texts that come in many
    pieces, declared as ``Any``, may keep a half of a character."""
    result = kind()
    for field in msgspec.structs.fields(kind):
        if field.name in document:
            setattr(result, field.name, fitting(document[field.name], field))
    return result


def fitting(value: Any, field: msgspec.structs.FieldInfo) -> Any:
    inner = INNER.get(field.name)
    if inner is None:
        try:
            fits = msgspec.convert(value, field.type, strict=False)
        except (msgspec.ValidationError, UnicodeError):
            return field.default
        return without_halves(fits) if isinstance(fits, str) and field.type is not Any else fits
    if field.name in MANY:
        items = value if isinstance(value, list) else [value]
        return [mended(item, inner) for item in items if isinstance(item, dict)]
    return mended(value, inner) if isinstance(value, dict) else field.default


def calls_of(delta: Delta) -> Iterator[Call]:
    """The pieces of tool calls, the legacy single ``function_call`` among them."""
    yield from delta.tool_calls or ()
    if delta.function_call is not None:
        yield Call(index=0, function=delta.function_call)


def arguments_of(function: Function) -> str:
    """A piece of the arguments' JSON; some servers send the object itself."""
    arguments = function.arguments
    if isinstance(arguments, str):
        return arguments
    try:
        return "" if arguments is None else msgspec.json.encode(arguments).decode()
    except UnicodeEncodeError:
        return without_halves(json.dumps(arguments, ensure_ascii=False))
