"""Requests nobody thought of: valid ones become well-formed chats, all others are refused."""

from __future__ import annotations

import json
from itertools import pairwise
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.errors import InvalidRequest
from gateway.relay.anthropic_openai.requests import to_openai
from gateway.relay.envelope import parse_envelope

Json = Any
SERVERS = st.sampled_from(["vllm", "sglang", "llama.cpp", "ollama", "other"])

words = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
anything = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | words,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(words, inner, max_size=4),
    max_leaves=12,
)


def block(type: str, **fields: st.SearchStrategy[Json]) -> st.SearchStrategy[Json]:
    return st.fixed_dictionaries({"type": st.just(type), **fields})


texts = block("text", text=words)
images = st.just({"type": "image", "source": {"type": "url", "url": "https://x/a.png"}})
thoughts = block("thinking", thinking=words, signature=words)
redacted = block("redacted_thinking", data=words)
documents = block("document", source=block("text", data=words))
of_user = st.lists(texts | images | documents, max_size=3)
of_assistant = st.lists(texts | thoughts | redacted, max_size=3)
result_contents = words | st.lists(texts | images | block("unheard_of", x=anything), max_size=3)


@st.composite
def conversations(draw: st.DrawFn) -> list[Json]:
    """Turns in which every call has its result, cut into messages anywhere."""
    messages: list[Json] = [{"role": "user", "content": "go"}]
    for _ in range(draw(st.integers(0, 4))):
        ids = draw(st.lists(words, max_size=3, unique=True))
        calls = [{"type": "tool_use", "id": id, "name": "f", "input": {"id": id}} for id in ids]
        results = [
            {"type": "tool_result", "tool_use_id": id, "content": draw(result_contents)}
            for id in draw(st.permutations(ids))
        ]
        messages += in_messages(draw, "assistant", draw(of_assistant) + calls)
        if draw(st.booleans()):
            messages.append({"role": "system", "content": draw(words)})
        messages += in_messages(draw, "user", draw(st.permutations(draw(of_user) + results)))
    if draw(st.booleans()):
        messages += in_messages(draw, "assistant", draw(of_assistant))
    return messages


def in_messages(draw: st.DrawFn, role: str, blocks: list[Json]) -> list[Json]:
    cut = draw(st.integers(0, len(blocks)))
    return [{"role": role, "content": part} for part in (blocks[:cut], blocks[cut:])]


def chat(messages: list[Json], server: str) -> list[Json]:
    body = json.dumps({"model": "m", "max_tokens": 1, "messages": messages}).encode()
    sent = to_openai(parse_envelope(body), upstream_model="m", server=server)
    assert sent == to_openai(parse_envelope(body), upstream_model="m", server=server)
    translated: list[Json] = json.loads(sent)["messages"]
    return translated


@given(conversations(), SERVERS)
@settings(max_examples=200, deadline=None)
def test_a_valid_conversation_becomes_a_well_formed_chat(messages: list[Json], server: str) -> None:
    translated = chat(messages, server)
    open_calls: set[str] = set()
    for message in translated:
        match message["role"]:
            case "tool":
                assert isinstance(message["content"], str)
                open_calls.remove(message["tool_call_id"])
            case "assistant":
                assert not open_calls
                open_calls = {call["id"] for call in message.get("tool_calls", [])}
                assert message["content"] or len(message) > 2
            case "user":
                assert not open_calls
                assert message["content"]
    assert not open_calls
    sides = [message["role"] for message in translated]
    assert all(one != next or one == "tool" for one, next in pairwise(sides))


@given(conversations(), SERVERS)
@settings(max_examples=100, deadline=None)
def test_nothing_that_was_said_is_lost(messages: list[Json], server: str) -> None:
    everything = json.dumps(chat(messages, server), ensure_ascii=False)
    for message in messages:
        blocks = message["content"] if isinstance(message["content"], list) else []
        for said in blocks:
            if said["type"] == "text":
                assert json.dumps(said["text"], ensure_ascii=False)[1:-1] in everything


PLACES = st.sampled_from(
    [
        *("system", "tools", "tool_choice", "thinking", "stop_sequences", "temperature"),
        *("top_k", "output_config", "output_format", "messages", "metadata"),
    ]
)


@given(PLACES, anything, SERVERS)
@settings(max_examples=300, deadline=None)
def test_any_value_in_any_field_is_translated_or_refused(
    place: str, value: Json, server: str
) -> None:
    request = {"model": "m", "max_tokens": 1, "messages": [{"role": "user", "content": "go"}]}
    body = json.dumps(request | {place: value}).encode()
    try:
        json.loads(to_openai(parse_envelope(body), upstream_model="m", server=server))
    except InvalidRequest as refused:
        assert refused.message


@given(
    st.sampled_from(["text", "image", "document", "tool_use", "tool_result", "search_result", "?"]),
    st.dictionaries(
        st.sampled_from(["text", "source", "content", "id", "tool_use_id", "input", "name"]),
        anything | st.lists(texts | images | documents),
    ),
    st.sampled_from(["user", "assistant", "system"]),
)
@settings(max_examples=300, deadline=None)
def test_any_block_is_translated_or_refused(type: str, fields: Json, role: str) -> None:
    messages = [{"role": role, "content": [{"type": type} | fields]}]
    try:
        chat(messages, "vllm")
    except InvalidRequest as refused:
        assert refused.message
