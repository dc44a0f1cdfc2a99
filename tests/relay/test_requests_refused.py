"""What no chat completion can carry is refused with its place, and never dropped silently."""

from __future__ import annotations

import json
from typing import Any

import pytest

from gateway.errors import InvalidRequest
from gateway.relay.anthropic_openai.requests import to_openai
from gateway.relay.envelope import parse_envelope

Json = Any

CALL = {"type": "tool_use", "id": "t1", "name": "get_a", "input": {}}
RESULT = {"type": "tool_result", "tool_use_id": "t1", "content": "ok"}
PDF = {"type": "base64", "media_type": "application/pdf", "data": "AAAA"}


def document(**source: Json) -> Json:
    return {"type": "document", "source": source}


def user(*blocks: Json) -> Json:
    return {"role": "user", "content": list(blocks)}


def assistant(*blocks: Json) -> Json:
    return {"role": "assistant", "content": list(blocks)}


GO = {"role": "user", "content": "go"}


def message(*blocks: Json, role: str = "user") -> Json:
    return {"messages": [GO, {"role": role, "content": list(blocks)}]}


def in_result(block: Json) -> Json:
    return {"messages": [GO, assistant(CALL), user(RESULT | {"content": [block]})]}


UNPAIRED = {
    "a result without any call": (
        [user(RESULT)],
        "messages.0.content.0: `tool_result` for 't1' has no `tool_use`",
    ),
    "a result of another call": (
        [GO, assistant(CALL), user(RESULT, RESULT | {"tool_use_id": "t2"})],
        "messages.2.content.1: `tool_result` for 't2' has no `tool_use`",
    ),
    "a result that comes too late": (
        [GO, assistant(CALL), user(RESULT), assistant({"type": "text", "text": "a"}), user(RESULT)],
        "messages.4.content.0: `tool_result` for 't1' has no `tool_use`",
    ),
    "a call that ends the conversation": (
        [GO, assistant(CALL)],
        "messages.1.content.0: `tool_use` id 't1' has no `tool_result`",
    ),
    "a call that is passed over": (
        [GO, assistant({"type": "text", "text": "a"}, CALL), GO],
        "messages.1.content.1: `tool_use` id 't1' has no `tool_result`",
    ),
    "one call of two": (
        [GO, assistant(CALL, CALL | {"id": "t2"}), user(RESULT)],
        "messages.1.content.1: `tool_use` id 't2' has no `tool_result`",
    ),
    "two calls of one id": (
        [GO, assistant(CALL, CALL), user(RESULT)],
        "messages.1.content.1: a second tool_use with the id 't1'",
    ),
    "two results of one call": (
        [GO, assistant(CALL), user(RESULT), user(RESULT)],
        "messages.3.content.0: a second tool_result with the id 't1'",
    ),
}

CONTENT = {
    "a PDF": (message(document(**PDF)), "messages.1.content.0.source.type: 'base64' is not"),
    "a document by URL": (
        message(document(type="url", url="https://x/a.pdf")),
        "messages.1.content.0.source.type: 'url' is not supported here",
    ),
    "a document by file": (
        message(document(type="file", file_id="f")),
        "messages.1.content.0.source.type: 'file' is not supported here",
    ),
    "an image by file": (
        message({"type": "image", "source": {"type": "file", "file_id": "f"}}),
        "messages.1.content.0.source.type: 'file' is not supported here",
    ),
    "an image without data": (
        message({"type": "image", "source": {"type": "base64", "media_type": "image/png"}}),
        "messages.1.content.0.source.data: Field required",
    ),
    "a kind unknown here": (
        message({"type": "text", "text": "a"}, {"type": "container_upload", "file_id": "f"}),
        "messages.1.content.1.type: 'container_upload' is not supported here",
    ),
    "a block without type": (message({"text": "a"}), "messages.1.content.0.type: Field required"),
    "a block as text": (message("a"), "messages.1.content.0: Input should be an object"),
    "a text without text": (
        message({"type": "text"}),
        "messages.1.content.0.text: Field required",
    ),
    "content as null": (
        {"messages": [{"role": "user", "content": None}]},
        "messages.0.content: Input should be a string or a list",
    ),
    "an image of the assistant's": (
        message({"type": "image", "source": {"type": "url", "url": "u"}}, role="assistant"),
        "messages.1.content.0.type: 'image' is not supported here",
    ),
    "a call of the user's": (message(CALL), "messages.1.content.0.type: 'tool_use' is not"),
    "a server tool's history": (
        message({"type": "server_tool_use", "id": "s", "name": "n"}, role="assistant"),
        "messages.1.content.0.type: 'server_tool_use' is not supported here",
    ),
    "a call with a list": (
        message(CALL | {"input": []}, role="assistant"),
        "messages.1.content.0.input: Input should be an object",
    ),
    "a PDF in a result": (
        in_result(document(**PDF)),
        "messages.2.content.0.content.0.source.type: 'base64' is not supported here",
    ),
    "a result's block without type": (
        in_result({"text": "a"}),
        "messages.2.content.0.content.0.type: Field required",
    ),
    "a result's block as text": (
        in_result("a"),
        "messages.2.content.0.content.0: Input should be an object",
    ),
    "another role": (message(role="tool"), "messages.1.role: 'tool' is not supported here"),
    "an image in the system prompt": (
        {"system": [{"type": "image"}]},
        "system.0.type: 'image' is not supported here",
    ),
    "nothing said at all": (
        {"messages": [{"role": "user", "content": ""}]},
        "messages: at least one message must have content",
    ),
    "only a system message": (
        {"messages": [{"role": "system", "content": "S"}]},
        "messages: at least one message must have content",
    ),
}

TOOL = {"name": "get_a", "input_schema": {"type": "object"}}

FIELDS = {
    "a tool without schema": (
        {"tools": [TOOL, {"name": "b"}]},
        "tools.1.input_schema: Field required",
    ),
    "a tool in OpenAI's form": (
        {"tools": [{"type": "function", "function": {"name": "b"}}]},
        "tools.0.input_schema: Field required",
    ),
    "a tool without name": (
        {"tools": [{"input_schema": {}}]},
        "tools.0.name: Field required",
    ),
    "a schema as list": (
        {"tools": [{"name": "b", "input_schema": []}]},
        "tools.0.input_schema: Input should be an object",
    ),
    "a tool only Anthropic's models know": (
        {"tools": [{"type": "bash_20250124", "name": "bash"}]},
        "tools.0: 'bash_20250124' is known to Anthropic's models only",
    ),
    "an unknown choice": (
        {"tools": [TOOL], "tool_choice": {"type": "required"}},
        "tool_choice.type: Input should be 'auto', 'any', 'tool' or 'none'",
    ),
    "any of no tools": (
        {"tool_choice": {"type": "any"}},
        "tool_choice: 'any' needs a tool that can be called here",
    ),
    "a choice without name": (
        {"tools": [TOOL], "tool_choice": {"type": "tool"}},
        "tool_choice.name: Field required",
    ),
    "a choice of what is not there": (
        {
            "tools": [TOOL, {"type": "web_search_20250305", "name": "web_search"}],
            "tool_choice": {"type": "tool", "name": "web_search"},
        },
        "tool_choice.name: there is no tool 'web_search' to call here",
    ),
    "an empty stop sequence": (
        {"stop_sequences": ["a", ""]},
        "stop_sequences.1: Input should not be empty",
    ),
    "a temperature as text": ({"temperature": "hot"}, "temperature: Input should be a number"),
    "a top_k with a fraction": ({"top_k": 0.5}, "top_k: Input should be a whole number"),
    "an unknown output format": (
        {"output_config": {"format": {"type": "grammar"}}},
        "output_config.format.type: 'grammar' is not supported here",
    ),
}


def refusal(fields: Json) -> str:
    request = {"model": "m", "max_tokens": 64, "messages": [GO]} | fields
    envelope = parse_envelope(json.dumps(request).encode())
    with pytest.raises(InvalidRequest) as refused:
        to_openai(envelope, upstream_model="m")
    return refused.value.message


@pytest.mark.parametrize(("messages", "words"), UNPAIRED.values(), ids=UNPAIRED)
def test_calls_and_results_must_pair_up(messages: Json, words: str) -> None:
    assert refusal({"messages": messages}).startswith(words)


@pytest.mark.parametrize(("fields", "words"), CONTENT.values(), ids=CONTENT)
def test_content_that_cannot_be_said_upstream(fields: Json, words: str) -> None:
    assert refusal(fields).startswith(words)


@pytest.mark.parametrize(("fields", "words"), FIELDS.values(), ids=FIELDS)
def test_fields_that_cannot_be_said_upstream(fields: Json, words: str) -> None:
    assert refusal(fields).startswith(words)


@pytest.mark.parametrize("depth", [900, 970, 980, 990, 1000, 100_000])
def test_input_nested_however_deep_is_translated_or_refused(depth: int) -> None:
    request = {"model": "m", "max_tokens": 64, "messages": [GO, assistant(CALL), user(RESULT)]}
    nested = b'{"a":' + b"[" * depth + b"]" * depth + b"}"
    body = json.dumps(request).encode().replace(b'"input": {}', b'"input": ' + nested)
    try:
        to_openai(parse_envelope(body), upstream_model="m")
    except InvalidRequest as refused:
        assert refused.message == "The request body is not usable: nested too deeply"
