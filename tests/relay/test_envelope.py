"""The outer part of a request: what is refused, in which words, and what is left untouched."""

from __future__ import annotations

import json
import time
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.errors import InvalidRequest
from gateway.relay.envelope import parse_count_envelope, parse_envelope

GOOD: dict[str, Any] = {
    "model": "m",
    "max_tokens": 64,
    "messages": [{"role": "user", "content": "hi"}],
}


def body(**changes: Any) -> bytes:
    return json.dumps(GOOD | changes).encode()


def without(name: str) -> bytes:
    return json.dumps({key: value for key, value in GOOD.items() if key != name}).encode()


def test_a_good_request_is_read() -> None:
    envelope = parse_envelope(body(stream=True, stop_sequences=["END"], anything={"else": [1]}))
    assert (envelope.model, envelope.max_tokens, envelope.stream) == ("m", 64, True)
    assert envelope.stop_sequences == ("END",)


@pytest.mark.parametrize("value", [None, False])
def test_stream_is_off_unless_it_is_true(value: object) -> None:
    assert parse_envelope(body(stream=value)).stream is False


REFUSED = {
    "nothing": (b"", "The request body is empty."),
    "blanks": (b" \r\n\t", "The request body is empty."),
    "half of it": (body()[:-1], "The request body is not valid JSON: Input data was truncated"),
    "two of it": (body() * 2, "The request body is not valid JSON"),
    "a list": (b"[]", "body: Input should be an object"),
    "a string": (b'"hi"', "body: Input should be an object"),
    "null": (b"null", "body: Input should be an object"),
    "0xff in a name": (b'{"\xff": 1}', "The request body is not UTF-8 at byte 2."),
    "0xff deep inside": (body().replace(b"hi", b"\xff"), "The request body is not UTF-8"),
    "utf-16": (body().decode().encode("utf-16"), "The request body is not UTF-8 at byte 0."),
    "a byte order mark": (b"\xef\xbb\xbf" + body(), "The request body is not valid JSON"),
    "a bare bomb": (b"[" * 100_000, "body: Input should be an object"),
    "a bomb inside": (b'{"a":' + b"[" * 100_000, "The request body is not usable: nested too deep"),
    "a closed bomb": (
        body(a=0).replace(b'"a": 0', b'"a":' + b"[" * 50_000 + b"]" * 50_000),
        "The request body is not usable: nested too deep",
    ),
    "NaN": (body(max_tokens=float("nan")), "The request body is not valid JSON"),
    "NaN elsewhere": (body(temperature=float("nan")), "The request body is not valid JSON"),
    "no model": (without("model"), "model: Field required"),
    "a number for model": (body(model=1), "model: Input should be a string"),
    "only a wrong model": (b'{"model":1}', "model: Input should be a string"),
    "an empty model": (body(model=""), "model: Input should be a string that is not empty"),
    "no max_tokens": (without("max_tokens"), "max_tokens: Field required"),
    "null max_tokens": (body(max_tokens=None), "max_tokens: Input should be a whole number"),
    "text for max_tokens": (body(max_tokens="9"), "max_tokens: Input should be a whole number"),
    "true for max_tokens": (body(max_tokens=True), "max_tokens: Input should be a whole number"),
    "a fraction": (body(max_tokens=1.5), "max_tokens: Input should be a whole number"),
    "a float": (body(max_tokens=64.0), "max_tokens: Input should be a whole number"),
    "zero": (body(max_tokens=0), "max_tokens: Input should be a whole number greater than or eq"),
    "below zero": (body(max_tokens=-1), "max_tokens: Input should be a whole number greater than"),
    "no messages": (without("messages"), "messages: Field required"),
    "empty messages": (body(messages=[]), "messages: Input should be a list that is not empty"),
    "messages as text": (body(messages="hi"), "messages: Input should be a list"),
    "messages as object": (body(messages={}), "messages: Input should be a list"),
    "a message as text": (body(messages=["hi"]), "messages.0: Input should be an object"),
    "no role": (body(messages=[{"content": "hi"}]), "messages.0.role: Field required"),
    "role as number": (
        body(messages=[GOOD["messages"][0], {"role": 1, "content": ""}]),
        "messages.1.role: Input should be a string",
    ),
    "no content": (body(messages=[{"role": "user"}]), "messages.0.content: Field required"),
    "stream as number": (body(stream=1), "stream: Input should be true or false"),
    "stops as text": (body(stop_sequences="END"), "stop_sequences: Input should be a list"),
    "a stop as number": (body(stop_sequences=[1]), "stop_sequences.0: Input should be a string"),
}


@pytest.mark.parametrize(("sent", "message"), REFUSED.values(), ids=REFUSED)
def test_what_is_wrong_is_named_with_its_place(sent: bytes, message: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        parse_envelope(sent)
    assert refused.value.message.startswith(message)


def test_a_count_needs_no_max_tokens_but_the_rest() -> None:
    assert parse_count_envelope(without("max_tokens")).max_tokens is None
    with pytest.raises(InvalidRequest, match="model: Field required"):
        parse_count_envelope(without("model"))


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    ),
    st.sampled_from(["model", "max_tokens", "messages", "stream", "stop_sequences", "other"]),
)
@settings(deadline=None)
def test_any_value_anywhere_is_read_or_refused(value: Any, name: str) -> None:
    for sent in (json.dumps(value), json.dumps(GOOD | {name: value})):
        for parse in (parse_envelope, parse_count_envelope):
            try:
                parse(sent.encode())
            except InvalidRequest as refused:
                assert refused.message


@given(st.binary(max_size=200))
@settings(deadline=None)
def test_any_bytes_are_refused_in_our_words(sent: bytes) -> None:
    with pytest.raises(InvalidRequest):
        parse_envelope(sent)


# -- for an upstream that speaks Anthropic --


def test_a_native_upstream_gets_the_clients_own_bytes() -> None:
    sent = b' { "messages" : [ {"role":"user", "content":"\\u00fc \xc3\xbc"} ],\n "x": 1.0,'
    sent += b' "max_tokens":64, "model": "m" } '
    assert parse_envelope(sent).for_native("m", None) is sent
    assert parse_envelope(sent).for_native("m", 64) is sent


def test_another_model_name_changes_that_value_and_nothing_else() -> None:
    sent = body(system=[{"type": "text", "text": "S"}], future={"b": 1.0, "a": [1, 2]})
    native = parse_envelope(sent).for_native("m-upstream", None)
    fields = msgspec.json.decode(native, type=dict[str, msgspec.Raw])
    before = msgspec.json.decode(sent, type=dict[str, msgspec.Raw])
    assert list(fields) == list(before)
    assert bytes(fields.pop("model")) == b'"m-upstream"'
    assert all(bytes(value) == bytes(before[name]) for name, value in fields.items())


@pytest.mark.parametrize(("most", "sent"), [(None, 64), (100, 64), (64, 64), (8, 8)])
def test_max_tokens_is_lowered_and_never_raised(most: int | None, sent: int) -> None:
    assert json.loads(parse_envelope(body()).for_native("m", most))["max_tokens"] == sent


@pytest.mark.parametrize("second", [b'"model"', b'"mod\\u0065l"'])
def test_a_name_given_twice_reaches_the_upstream_once(second: bytes) -> None:
    sent = body(model="dear")[:-1] + b"," + second + b':"cheap"}'
    envelope = parse_envelope(sent)
    assert envelope.model == "cheap"
    pairs = json.loads(envelope.for_native("cheap", None), object_pairs_hook=list)
    assert [value for name, value in pairs if name == "model"] == ["cheap"]


@pytest.mark.parametrize("other", ["Model", "MAX_TOKENS", "max_to\u212aens", "me\u017fsages"])
def test_a_name_in_other_letters_does_not_reach_an_upstream_that_would_read_it(other: str) -> None:
    """Like one that is written in Go; it would get a model or a number that nobody has allowed."""
    native = parse_envelope(body(**{other: 1, "Other": 2})).for_native("m", None)
    assert json.loads(native) == GOOD | {"Other": 2}


NAMES = st.sampled_from(['"model"', '"mod\\u0065l"', '"x"', '"\\u00fc"', '"ü"', '"messages2"'])
VALUES = st.sampled_from(['"m"', '"a, b"', "1", "1e3", "[1, 2]", '{"model":"m"}', "null"])
BLANKS = st.sampled_from(["", " ", "\n  "])


@given(st.lists(st.tuples(NAMES, VALUES, BLANKS)), BLANKS)
def test_no_spelling_of_a_double_name_reaches_the_upstream(
    extra: list[tuple[str, str, str]], blank: str
) -> None:
    """However it is escaped, whatever blanks stand around it."""
    fields = [f'"messages":{blank}[{{"role":"user","content":"hi"}}]', '"max_tokens":64']
    fields += [f"{name}:{between}{value}" for name, value, between in extra]
    sent = ("{" + f",{blank}".join([*fields, '"model":"m"']) + blank + "}").encode()
    try:
        native = parse_envelope(sent).for_native("m", None)
    except InvalidRequest:
        return  # a model that is no text does not reach anybody
    names = [name for name, _ in json.loads(native, object_pairs_hook=list)]
    assert sorted(names) == sorted(
        {json.loads(field.partition(":")[0]) for field in fields} | {"model"}
    )
    if len(names) == len(fields) + 1 and not any("\\" in name for name, _, _ in extra):
        assert native is sent


def test_a_long_prompt_is_not_unpacked() -> None:
    """A thousand blocks cost little more than reading over them once."""
    blocks = [{"type": "text", "text": "word " * 200, "n": [1, 2, 3]} for _ in range(1000)]
    sent = body(messages=[{"role": "user", "content": blocks}])
    start = time.process_time()
    for _ in range(10):
        parse_envelope(sent).for_native("m", None)
    skimmed = time.process_time() - start
    start = time.process_time()
    for _ in range(10):
        json.loads(sent)
    assert skimmed < 2 * (time.process_time() - start)
