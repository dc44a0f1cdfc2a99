"""A whole Messages request as a chat completions request: bytes in, bytes out.

What has no words in the other dialect is refused with its place in the request; what only
Anthropic's own service could use (metadata, betas, caching marks, unknown fields) is left out.
``docs/translation.md`` has the list.  The same request always gives the same bytes, and requests
that begin alike give bodies that begin alike, so the upstream's prompt cache works.
"""

from __future__ import annotations

from typing import Any

import msgspec

from gateway.errors import InvalidRequest
from gateway.relay.anthropic_openai.messages import chat_messages
from gateway.relay.anthropic_openai.prompt import (
    AssistantMessage,
    OutputFormat,
    Prompt,
    Thinking,
    read_prompt,
)
from gateway.relay.anthropic_openai.servers import STREAM, Fields, ServerTraits, traits_of
from gateway.relay.anthropic_openai.tools import tool_fields
from gateway.relay.anthropic_openai.turns import Turn, system_text, turns_of
from gateway.relay.envelope import Envelope, capped


def to_openai(
    envelope: Envelope,
    *,
    upstream_model: str,
    max_output_tokens: int | None = None,
    server: str | None = None,
    prompt: Prompt | None = None,
) -> bytes:
    """The body for ``POST /v1/chat/completions``.

    ``prompt`` is what ``read_prompt`` made of the envelope, for a caller that has it already.

    ``max_output_tokens`` lowers ``max_tokens`` and never raises it; ``server`` is the kind of
    server as in the configuration.  Raises InvalidRequest.
    """
    prompt = prompt or read_prompt(envelope.body)
    fields: dict[str, Any] = {"model": upstream_model}
    fields |= prompt_fields(prompt, traits_of(server))
    if envelope.max_tokens is not None:
        fields["max_tokens"] = capped(envelope.max_tokens, max_output_tokens)
    fields |= sampling_fields(prompt)
    if envelope.stream:
        fields |= STREAM
    return msgspec.json.encode(fields)


def depends_on_server(prompt: Prompt) -> bool:
    """Whether what the server is makes a difference to its translation; for most it does not."""
    last = prompt.messages[-1] if prompt.messages else None
    return (
        isinstance(last, AssistantMessage)
        or (prompt.thinking is not None and prompt.thinking.type != "adaptive")
        or any(
            isinstance(block, Thinking)
            for message in prompt.messages
            if isinstance(message, AssistantMessage) and not isinstance(message.content, str)
            for block in message.content
        )
    )


def prompt_fields(prompt: Prompt, traits: ServerTraits) -> dict[str, Any]:
    """The part of a request that becomes the model's prompt, and so its token count."""
    turns = turns_of(prompt, keep_thinking=traits.reasoning is not None)
    fields: dict[str, Any] = {
        "messages": chat_messages(system_text(prompt), turns, traits.reasoning)
    }
    return fields | tool_fields(prompt) | dict(thinking_fields(prompt, turns, traits))


def thinking_fields(prompt: Prompt, turns: list[Turn], traits: ServerTraits) -> Fields:
    """The server's switches for thinking and for a prefilled answer.

    A budget for thinking has no common word, so a server keeps its own.  With a prefilled answer
    there is nothing left to think about before it, so its switches win, as they do at Anthropic,
    which refuses the two together.
    """
    mode = prompt.thinking.type if prompt.thinking else None
    fields = {"enabled": traits.think, "disabled": traits.do_not_think}.get(mode or "", {})
    return fields if turns[-1].by_user else {**fields, **traits.prefill}


def sampling_fields(prompt: Prompt) -> dict[str, Any]:
    fields: dict[str, Any] = {
        "temperature": prompt.temperature,
        "top_p": prompt.top_p,
        "top_k": prompt.top_k,
        "stop": stop_sequences(prompt) or None,
        "response_format": response_format(prompt),
    }
    return {name: value for name, value in fields.items() if value is not None}


def stop_sequences(prompt: Prompt) -> list[str]:
    for index, sequence in enumerate(prompt.stop_sequences or []):
        if not sequence:
            raise InvalidRequest(f"stop_sequences.{index}: Input should not be empty")
    return prompt.stop_sequences or []


def response_format(prompt: Prompt) -> dict[str, Any] | None:
    """Structured output: today's ``output_config.format``, or the older ``output_format``."""
    for place, wanted in (
        ("output_config.format", prompt.output_config and prompt.output_config.format),
        ("output_format", prompt.output_format),
    ):
        if wanted:
            return json_schema(wanted, place)
    return None


def json_schema(wanted: OutputFormat, place: str) -> dict[str, Any]:
    if wanted.type != "json_schema":
        raise InvalidRequest(f"{place}.type: {wanted.type[:100]!r} is not supported here")
    if wanted.schema is None:
        raise InvalidRequest(f"{place}.schema: Field required")
    schema = {"name": "output", "schema": wanted.schema, "strict": True}
    return {"type": "json_schema", "json_schema": schema}
