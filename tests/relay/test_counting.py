"""Counting a prompt: what each kind of server is asked, what is read, what is guessed."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.errors import InvalidRequest
from gateway.relay.counting import Question, count_requests, read_count
from gateway.relay.envelope import Envelope, parse_count_envelope
from gateway.relay.tokens import estimate_tokens

Json = Any

TOOL = {"name": "get_a", "description": "d", "input_schema": {"type": "object"}}
PROMPT: dict[str, Json] = {
    "model": "m",
    "system": [{"type": "text", "text": "S"}],
    "messages": [{"role": "user", "content": "hi"}],
    "tools": [TOOL],
}


def envelope(**changes: Json) -> Envelope:
    return parse_count_envelope(json.dumps(PROMPT | changes).encode())


def paths(server: str) -> list[str]:
    return [question.path for question in count_requests(server, envelope(), "m-up")]


def test_each_server_is_asked_its_own_way() -> None:
    assert paths("vllm") == ["/tokenize", "/v1/messages/count_tokens"]
    assert paths("sglang") == ["/v1/messages/count_tokens"]
    assert paths("llama.cpp") == ["/apply-template", "/v1/messages/count_tokens"]
    assert paths("ollama") == paths("other") == paths("unheard of") == []


def test_a_tokenizer_gets_the_very_prompt_that_would_be_sent() -> None:
    question = count_requests("vllm", envelope(tool_choice={"type": "any"}), "m-up")[0]
    body = json.loads(question.body)
    assert body.keys() == {"model", "messages", "tools"}
    assert body["model"] == "m-up"
    assert body["messages"][0] == {"role": "system", "content": "S"}
    prefilled = [*PROMPT["messages"], {"role": "assistant", "content": "{"}]
    question = count_requests("vllm", envelope(messages=prefilled), "m-up")[0]
    assert json.loads(question.body)["add_generation_prompt"] is False


def test_a_native_counter_gets_the_clients_own_request() -> None:
    (question,) = count_requests("sglang", envelope(), "m-up")
    assert json.loads(question.body) == PROMPT | {"model": "m-up"}


def test_a_prompt_that_cannot_be_sent_has_no_count() -> None:
    orphan = [{"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t"}]}]
    for server in ("vllm", "other"):
        with pytest.raises(InvalidRequest, match="has no `tool_use`"):
            count_requests(server, envelope(messages=orphan), "m")


@pytest.mark.parametrize(
    ("answer", "count"),
    [
        (b'{"input_tokens":12}', 12),
        (b'{"input_tokens":0,"context_management":{"original_input_tokens":0}}', 0),
        (b'{"count":12,"max_model_len":4096,"tokens":[1,2],"token_strs":null}', 12),
        (b'{"tokens":[1,{"id":2,"piece":"a"},3]}', 3),
        (b'{"tokens":[]}', 0),
    ],
)
def test_every_servers_answer_is_read(answer: bytes, count: int) -> None:
    assert read_count(answer) == count


def test_a_rendered_prompt_is_sent_back_to_be_cut_into_tokens() -> None:
    question = read_count(b'{"prompt":"<s>hi"}')
    assert isinstance(question, Question)
    assert question.path == "/tokenize"
    assert json.loads(question.body)["content"] == "<s>hi"


@pytest.mark.parametrize(
    "answer",
    [
        *(b"", b"Not Found", b"[]", b"12", b"{}", b'{"error":{"code":404}}', b"[" * 9999),
        *(b'{"input_tokens":"12"}', b'{"input_tokens":-1}', b'{"input_tokens":1.5}', b"\xff"),
    ],
)
def test_anything_else_is_no_count(answer: bytes) -> None:
    assert read_count(answer) is None


# -- the estimate --


@pytest.mark.parametrize(
    "more",
    [
        {"messages": [*PROMPT["messages"], {"role": "assistant", "content": "a"}]},
        {"messages": [{"role": "user", "content": "hi, and some more of it"}]},
        {"system": [*PROMPT["system"], {"type": "text", "text": "T"}]},
        {"tools": [TOOL, TOOL | {"name": "get_b"}]},
    ],
)
def test_the_estimate_rises_with_every_part(more: Json) -> None:
    assert estimate_tokens(envelope(**more)) > estimate_tokens(envelope())


def test_the_estimate_counts_an_image_by_its_size_on_screen_not_in_base64() -> None:
    def with_image(data: str) -> Envelope:
        source = {"type": "base64", "media_type": "image/png", "data": data}
        blocks = [{"type": "image", "source": source}]
        return envelope(messages=[{"role": "user", "content": blocks}])

    assert estimate_tokens(with_image("A" * 100_000)) == estimate_tokens(with_image("A"))


def test_what_no_model_reads_is_not_counted() -> None:
    marked = [{"type": "text", "text": "S", "cache_control": {"type": "ephemeral"}}]
    assert estimate_tokens(envelope(system=marked)) == estimate_tokens(envelope())
    assert estimate_tokens(envelope(metadata={"a": "b" * 99})) == estimate_tokens(envelope())


def test_the_estimate_of_a_page_of_prose_is_about_right() -> None:
    """1000 common English words are about 1300 tokens in every current vocabulary."""
    prose = "the quick brown fox jumps over a lazy dog and " * 100
    count = estimate_tokens(envelope(messages=[{"role": "user", "content": prose}]))
    assert 900 < count < 1800


anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)


@given(anything, st.sampled_from(["system", "tools"]))
@settings(deadline=None)
def test_anything_has_an_estimate(value: Json, name: str) -> None:
    assert estimate_tokens(envelope(**{name: value})) >= 1
