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
from gateway.relay.failures import garbage

S = TypeVar("S", bound=msgspec.Struct)


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
    error: Any = None

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

#: Fields that hold structs or, in MANY, lists of them.
INNER: Final[dict[str, type[msgspec.Struct]]] = {
    "choices": Choice,
    "delta": Delta,
    "message": Delta,
    "tool_calls": Call,
    "function": Function,
    "function_call": Function,
    "usage": Usage,
    "prompt_tokens_details": Cached,
}
MANY: Final = frozenset({"choices", "tool_calls"})


def decode(data: bytes) -> Chunk:
    """Raises UpstreamFailed for what is not a chunk.

    The slow way round is for fields of another shape, and for lone surrogates, which are no text
    yet: a character that was cut in two by the server's tokens (``\\ud83d`` in one chunk,
    ``\\ude42`` in the next).
    """
    try:
        return CHUNK.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        pass
    try:
        document = json.loads(data)
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
    if field.name in MANY and isinstance(value, list):
        return [mended(item, inner) for item in value if isinstance(item, dict)]
    if field.name not in MANY and isinstance(value, dict):
        return mended(value, inner)
    return field.default


def text_of(content: Any) -> str:
    """Content as text: a string, or a list of parts with text in them."""
    if isinstance(content, str):
        return content
    if isinstance(content, list):
        return "".join(part_text(part) for part in content if not is_thought(part))
    return ""


def part_text(part: object) -> str:
    """The text of a part of content, or of a part of reasoning in full or in short."""
    if not isinstance(part, dict):
        return ""
    text = part.get("text") or part.get("summary")
    return text if isinstance(text, str) else ""


def is_thought(part: object) -> bool:
    """Whether a part of the content is thinking, as Mistral's servers send it."""
    return isinstance(part, dict) and part.get("type") in ("thinking", "reasoning")


def reasoning_of(delta: Delta) -> str:
    """Some servers say the same twice, under both names; one of them is enough."""
    for said in (delta.reasoning_content, delta.reasoning, delta.reasoning_details):
        if said and (text := text_of(said)):
            return text
    if isinstance(delta.content, list):
        return "".join(map(thought_text, filter(is_thought, delta.content)))
    return ""


def thought_text(part: dict[str, Any]) -> str:
    return text_of(part.get("thinking")) or part_text(part)


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
    try:
        return "" if arguments is None else msgspec.json.encode(arguments).decode()
    except UnicodeEncodeError:
        return without_halves(json.dumps(arguments, ensure_ascii=False))
