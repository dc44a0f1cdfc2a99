"""What to ask an upstream so that it counts a prompt itself, and how to read what it says.

Only servers that speak OpenAI to us are asked here; one that speaks Anthropic gets the client's
own request.  Sources, read in late 2026:

* vLLM 0.33: ``POST /tokenize`` takes a chat's messages and tools and answers ``count``; this is
  the very prompt that our translation makes.  ``POST /v1/messages/count_tokens`` since early 2026.
* SGLang 0.5.23: ``POST /v1/messages/count_tokens``; its ``/tokenize`` takes plain text only.
* llama.cpp of October 2026, tried: ``POST /apply-template`` makes the ``prompt`` of a chat and
  ``/tokenize`` lists its ``tokens``, as many as the chat's usage then says.
  ``POST /v1/messages/count_tokens`` since late 2025 overlooks documents.
* Ollama and servers unknown to us have nothing of the kind.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any, Final, NamedTuple

import msgspec

from gateway.relay.anthropic_openai.prompt import read_prompt
from gateway.relay.anthropic_openai.requests import prompt_fields
from gateway.relay.anthropic_openai.servers import traits_of
from gateway.relay.envelope import Envelope

NATIVE_PATH: Final = "/v1/messages/count_tokens"
#: Of a chat completions request, what shapes the prompt.
TEMPLATE_FIELDS: Final = (
    *("messages", "tools", "chat_template_kwargs"),
    *("continue_final_message", "add_generation_prompt"),
)


class Question(NamedTuple):
    """One ``POST`` of JSON, its path below the upstream's base URL."""

    path: str
    body: bytes


Asking = Callable[[Envelope, str, dict[str, Any]], Question]


def natively(envelope: Envelope, upstream_model: str, fields: dict[str, Any]) -> Question:
    return Question(NATIVE_PATH, envelope.for_native(upstream_model, None))


def of_chat(path: str) -> Asking:
    def asking(envelope: Envelope, upstream_model: str, fields: dict[str, Any]) -> Question:
        shaping = {name: fields[name] for name in TEMPLATE_FIELDS if name in fields}
        return Question(path, msgspec.json.encode({"model": upstream_model, **shaping}))

    return asking


#: In the order in which to try them; the next one if the answer is not a 200 that can be read.
WAYS: Final[dict[str, tuple[Asking, ...]]] = {
    "vllm": (of_chat("/tokenize"), natively),
    "sglang": (natively,),
    "llama.cpp": (of_chat("/apply-template"), natively),
}


def count_requests(server: str | None, envelope: Envelope, upstream_model: str) -> list[Question]:
    """What to ask a server of this kind, best first; empty where only an estimate is left.

    Raises InvalidRequest for a prompt that could not be sent to the upstream either.
    """
    fields = prompt_fields(read_prompt(envelope.body), traits_of(server))
    return [asking(envelope, upstream_model, fields) for asking in WAYS.get(server or "", ())]


class CountAnswer(msgspec.Struct, frozen=True):
    """All the answers in one: each server fills its own fields."""

    input_tokens: Annotated[int, msgspec.Meta(ge=0)] | None = None
    count: Annotated[int, msgspec.Meta(ge=0)] | None = None
    tokens: list[msgspec.Raw] | None = None
    prompt: str | None = None


COUNT_ANSWER: Final = msgspec.json.Decoder(CountAnswer)


def read_count(answer: bytes) -> int | Question | None:
    """The count in a 200's body, or what to ask next to get it, or None for anything else."""
    try:
        said = COUNT_ANSWER.decode(answer)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    if said.prompt is not None:
        asked = {"content": said.prompt, "add_special": True, "parse_special": True}
        return Question("/tokenize", msgspec.json.encode(asked))
    if said.input_tokens is not None:
        return said.input_tokens
    if said.count is not None:
        return said.count
    return None if said.tokens is None else len(said.tokens)
