"""Whole requests and what the upstream gets for them.

``cases/request_translation.jsonl`` holds one request per kind of fault that was publicly
reported of a comparable system.  Expectations are subsets: fields that are not named are free.
"""

from __future__ import annotations

import json
import re
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from gateway.relay.anthropic_openai.requests import to_openai
from gateway.relay.envelope import parse_envelope

CASES = [
    json.loads(line)
    for line in (Path(__file__).parent / "cases/request_translation.jsonl").read_text().splitlines()
]
TRANSLATED = [case for case in CASES if case["id"] != "B38"]  # count_tokens: test_counting.py
SERVERS = ["vllm", "sglang", "llama.cpp", "ollama", "other"]

Json = Any


def upstream_body(request: Json, server: str = "vllm", most: int | None = 8192) -> bytes:
    envelope = parse_envelope(json.dumps(request).encode())
    return to_openai(envelope, upstream_model="m", max_output_tokens=most, server=server)


def translated(request: Json, server: str = "vllm") -> Json:
    return json.loads(upstream_body(request, server))


def case(id: str) -> Json:
    found: Json = next(case for case in CASES if case["id"] == id)
    return json.loads(json.dumps(found["request"]))


def asking(*messages: Json, **fields: Json) -> Json:
    return {"model": "m", "max_tokens": 64, "messages": list(messages), **fields}


def user(*content: Json) -> Json:
    return {"role": "user", "content": content[0] if isinstance(content[0], str) else content}


def assistant(*content: Json) -> Json:
    return {"role": "assistant", "content": content[0] if isinstance(content[0], str) else content}


def text(text: str) -> Json:
    return {"type": "text", "text": text}


def call(id: str, **input: Json) -> Json:
    return {"type": "tool_use", "id": id, "name": "get_a", "input": input}


def result(id: str, *content: Json, **fields: Json) -> Json:
    return {"type": "tool_result", "tool_use_id": id, "content": content, **fields}


PIXEL = {"type": "base64", "media_type": "image/png", "data": "AAAA"}
IMAGE = {"type": "image", "source": PIXEL}
IMAGE_PART = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}
TOOL = {"name": "get_a", "input_schema": {"type": "object", "properties": {}}}


def assert_matches(wanted: Json, got: Json, place: str = "body") -> None:
    if isinstance(wanted, dict):
        assert isinstance(got, dict), place
        for name, value in wanted.items():
            assert name in got, f"{place}.{name}"
            assert_matches(value, got[name], f"{place}.{name}")
    elif isinstance(wanted, list):
        assert isinstance(got, list), place
        assert len(got) == len(wanted), f"{place}: {got}"
        for index, value in enumerate(wanted):
            assert_matches(value, got[index], f"{place}.{index}")
    elif isinstance(wanted, str) and wanted.startswith("<"):
        assert_is_like(wanted, got, place)
    else:
        assert got == wanted, place


def assert_is_like(pattern: str, got: Json, place: str) -> None:
    if pattern == '<"" or null>':
        assert got in ("", None), place
    elif pattern.startswith("<json:"):
        wanted = json.loads(pattern[len("<json:") : -1])
        assert repr(json.loads(got)) == repr(wanted), place
    else:
        parts = re.findall(r"<contains:(.*?)>", pattern)
        assert parts, pattern
        assert all(part in got for part in parts), f"{place}: {got}"


@pytest.mark.parametrize("server", SERVERS)
@pytest.mark.parametrize("case", TRANSLATED, ids=[case["id"] for case in TRANSLATED])
def test_given_case(case: Json, server: str) -> None:
    """The prefill of B33 is vLLM's; how the others are told has a test of its own."""
    body = upstream_body(case["request"], "vllm" if case["id"] == "B33" else server)
    assert_matches(case["expect"], json.loads(body))
    for word in case["absent"]:
        assert word not in body.decode()


# -- the same bytes every time --


def test_the_billing_line_changes_nothing() -> None:
    first, second = case("B02"), case("B02")
    second["system"][0]["text"] = second["system"][0]["text"].replace("0a1b2", "ffff0")
    assert second != first
    assert upstream_body(first) == upstream_body(second)


@pytest.mark.parametrize(
    "system",
    [
        "x-anthropic-billing-header: cch=1;\nYou help.",
        [text("x-anthropic-billing-header: cch=1;\n\nYou help.")],
        [text("x-anthropic-billing-header: cch=1;"), text("You help.")],
        [text(""), text("You help.")],
        "You help.",
    ],
)
def test_only_the_billing_line_is_dropped_from_the_system_prompt(system: Json) -> None:
    messages = translated(asking(user("hi"), system=system))["messages"]
    assert messages[0] == {"role": "system", "content": "You help."}


@pytest.mark.parametrize("system", [None, "", [], [text("")]])
def test_an_empty_system_prompt_is_no_message(system: Json) -> None:
    assert translated(asking(user("hi"), system=system))["messages"] == [user("hi")]


def test_a_longer_conversation_begins_with_the_same_bytes() -> None:
    first = upstream_body(asking(user("one"), system="S"))
    longer = upstream_body(asking(user("one"), assistant("two"), user("three"), system="S"))
    same = first.index(b"]")
    assert longer[:same] == first[:same]


# -- system messages among the turns --

SYSTEM = {"role": "system", "content": "A"}
SYSTEM_BLOCK = {"role": "system", "content": [text("B")]}


@pytest.mark.parametrize(
    ("sent", "got"),
    [
        ([SYSTEM, user("hi")], ["system:A", "user:hi"]),
        ([SYSTEM, SYSTEM_BLOCK, user("hi")], ["system:A\n\nB", "user:hi"]),
        ([user("1"), SYSTEM], ["user:1\n\nA"]),
        ([user("1"), SYSTEM, user("2")], ["user:1\n\nA\n\n2"]),
        ([user("1"), assistant("2"), SYSTEM], ["user:1", "assistant:2", "user:A"]),
        (
            [user("1"), assistant("2"), SYSTEM, SYSTEM_BLOCK, user("3")],
            ["user:1", "assistant:2", "user:A\n\nB\n\n3"],
        ),
        (
            [user("1"), SYSTEM, assistant("2"), user("3")],
            ["user:1\n\nA", "assistant:2", "user:3"],
        ),
    ],
)
def test_a_system_message_keeps_its_place(sent: list[Json], got: list[str]) -> None:
    messages = translated(asking(*sent))["messages"]
    assert [f"{message['role']}:{message['content']}" for message in messages] == got


def test_a_leading_system_message_follows_the_system_prompt() -> None:
    messages = translated(asking(SYSTEM, user("hi"), system="S"))["messages"]
    assert messages[0] == {"role": "system", "content": "S\n\nA"}


def test_a_system_message_between_call_and_result_comes_after_the_result() -> None:
    sent = asking(user("go"), assistant(call("t1")), SYSTEM, user(result("t1", text("ok"))))
    messages = translated(sent)["messages"]
    assert [message["role"] for message in messages] == ["user", "assistant", "tool", "user"]
    assert messages[-1]["content"] == "A"


# -- turns --


@pytest.mark.parametrize(
    ("sent", "got"),
    [
        ([user("1"), user("2")], ["user:1\n\n2"]),
        ([user("1"), assistant("2"), assistant("3"), user("4")], ["user:1", "assistant:2\n\n3"]),
        ([user(text("1"), text(""), text("2"))], ["user:1\n\n2"]),
        ([user("1"), assistant(text("2"), text("3")), user("4")], ["user:1", "assistant:23"]),
        ([user("1"), assistant(""), user("2")], ["user:1\n\n2"]),
        ([user("1"), assistant(text("")), user("2")], ["user:1\n\n2"]),
        ([user("1"), {"role": "assistant", "content": []}, user("2")], ["user:1\n\n2"]),
        ([user("1"), assistant("")], ["user:1"]),
    ],
)
def test_turns_alternate_and_say_something(sent: list[Json], got: list[str]) -> None:
    messages = translated(asking(*sent))["messages"]
    assert [f"{message['role']}:{message['content']}" for message in messages[: len(got)]] == got
    roles = [message["role"] for message in messages]
    assert all(one != next for one, next in pairwise(roles))


# -- tool calls and results --


def with_result(*blocks: Json) -> Json:
    return translated(asking(user("go"), assistant(call("t1")), user(*blocks)))["messages"][2:]


@pytest.mark.parametrize("content", ["missing", None, [], "", [text("")]])
def test_a_result_without_content_is_an_empty_one(content: Json) -> None:
    block = {"type": "tool_result", "tool_use_id": "t1"}
    if content != "missing":
        block["content"] = content
    assert with_result(block) == [{"role": "tool", "tool_call_id": "t1", "content": ""}]


@pytest.mark.parametrize("content", [None, "", []])
def test_a_failed_result_says_so_even_when_it_says_nothing_else(content: Json) -> None:
    block = {"type": "tool_result", "tool_use_id": "t1", "is_error": True, "content": content}
    assert with_result(block)[0]["content"] == "Error"


def test_what_is_said_before_a_result_comes_after_it() -> None:
    messages = with_result(text("before"), result("t1", text("ok")), text("after"))
    assert [message["content"] for message in messages] == ["ok", "before\n\nafter"]


def test_results_spread_over_messages_stay_one_turn() -> None:
    sent = asking(
        user("go"),
        assistant(call("t1"), text("and"), call("t2")),
        user(result("t2", text("two"))),
        user(result("t1", text("one")), text("now")),
    )
    messages = translated(sent)["messages"]
    assert [call["id"] for call in messages[1]["tool_calls"]] == ["t1", "t2"]
    assert [message.get("tool_call_id") for message in messages[2:]] == ["t2", "t1", None]


def test_images_of_a_result_follow_as_the_users() -> None:
    messages = with_result(result("t1", text("see"), IMAGE), text("what is it?"))
    assert messages == [
        {"role": "tool", "tool_call_id": "t1", "content": "see"},
        {"role": "user", "content": [IMAGE_PART, text("what is it?")]},
    ]


@pytest.mark.parametrize(
    ("block", "words"),
    [
        ({"type": "tool_reference", "tool_name": "Read"}, ["Read"]),
        ({"type": "from_the_future", "deep": {"x": [1, "ü"]}}, ["from_the_future", '[1,"ü"]']),
        (
            {
                "type": "search_result",
                "source": "https://x",
                "title": "T",
                "content": [text("hit")],
            },
            ["https://x", "T", "hit"],
        ),
        (
            {
                "type": "document",
                "source": {"type": "text", "media_type": "text/plain", "data": "D"},
            },
            ["D"],
        ),
    ],
)
def test_any_kind_of_block_in_a_result_is_still_read(block: Json, words: list[str]) -> None:
    marked = block | {"cache_control": {"type": "ephemeral"}}
    (message,) = with_result(result("t1", marked, text("end")))
    assert all(word in message["content"] for word in [*words, "\nend"])
    assert "cache_control" not in message["content"]


@pytest.mark.parametrize(
    "input", [{}, {"n": 1.0}, {"n": 10**30}, {"deep": {"a": [None, True, {"b": 'ü\n"q" \u2028'}]}}]
)
def test_arguments_are_the_input_as_json(input: Json) -> None:
    sent = asking(user("go"), assistant(call("t1", **input)), user(result("t1")))
    arguments = translated(sent)["messages"][1]["tool_calls"][0]["function"]["arguments"]
    assert repr(json.loads(arguments)) == repr(input)


def test_the_same_id_may_come_back_in_a_later_turn() -> None:
    """Some upstreams number their calls from 0 in every answer."""
    round = [assistant(call("call_0")), user(result("call_0", text("ok")))]
    assert len(translated(asking(user("go"), *round, *round))["messages"]) == 5


# -- thinking --

THOUGHT = {"type": "thinking", "thinking": "hm", "signature": "s"}


@pytest.mark.parametrize(
    ("server", "field"),
    [("vllm", "reasoning"), ("ollama", "reasoning")]
    + [(server, "reasoning_content") for server in ("sglang", "llama.cpp")],
)
def test_former_thinking_goes_where_the_server_reads_it(server: str, field: str) -> None:
    sent = asking(user("1"), assistant(THOUGHT, text("2")), user("3"))
    assert translated(sent, server)["messages"][1] == assistant("2") | {field: "hm"}


@pytest.mark.parametrize("thought", [THOUGHT, {"type": "redacted_thinking", "data": "AAAA"}])
def test_a_turn_of_nothing_but_thinking_leaves_no_gap(thought: Json) -> None:
    sent = asking(user("1"), assistant(thought), user("3"))
    assert translated(sent, "other")["messages"] == [user("1\n\n3")]
    assert translated(asking(user("1"), assistant(thought)))["messages"] == [user("1")]


@pytest.mark.parametrize(
    ("server", "mode", "got"),
    [
        *((server, "enabled", True) for server in ("vllm", "sglang", "llama.cpp")),
        *((server, "disabled", False) for server in ("vllm", "sglang", "llama.cpp")),
        *((server, "adaptive", None) for server in SERVERS),
        *(("other", mode, None) for mode in ("enabled", "disabled")),
    ],
)
def test_thinking_is_switched_the_servers_way(server: str, mode: str, got: bool | None) -> None:
    body = translated(asking(user("hi"), thinking={"type": mode, "budget_tokens": 2048}), server)
    assert body.get("chat_template_kwargs", {}).get("enable_thinking") == got
    assert "budget_tokens" not in json.dumps(body)
    assert '"thinking"' not in json.dumps(body)


def test_ollama_is_told_not_to_think_by_effort() -> None:
    body = translated(asking(user("hi"), thinking={"type": "disabled"}), "ollama")
    assert body["reasoning_effort"] == "none"


# -- prefill --

CONTINUE = {"continue_final_message": True, "add_generation_prompt": False}
STREAM = {"stream": True, "stream_options": {"include_usage": True}}


@pytest.mark.parametrize(
    ("server", "switches"),
    [
        ("vllm", CONTINUE),
        ("sglang", CONTINUE),
        ("llama.cpp", CONTINUE | {"chat_template_kwargs": {"enable_thinking": False}} | STREAM),
        ("ollama", {}),
        ("other", {}),
    ],
)
def test_a_prefilled_answer_is_continued_the_servers_way(server: str, switches: Json) -> None:
    body = translated(asking(user("JSON"), assistant('{"a":')), server)
    assert body["messages"][-1] == assistant('{"a":')
    assert body == translated(asking(user("JSON")), server) | switches | {
        "messages": body["messages"]
    }


# -- images and documents --


def test_a_message_is_plain_text_unless_it_has_an_image() -> None:
    assert translated(asking(user(text("a"), text("b"))))["messages"] == [user("a\n\nb")]
    assert translated(asking(user(text("a"), IMAGE)))["messages"][0]["content"] == [
        text("a"),
        IMAGE_PART,
    ]


def test_a_document_of_blocks_keeps_its_text_and_images() -> None:
    source = {"type": "content", "content": [text("D"), IMAGE]}
    content = translated(asking(user({"type": "document", "source": source, "title": "T"})))
    parts = content["messages"][0]["content"]
    assert IMAGE_PART in parts
    assert [word for word in ("T", "D") if word in json.dumps(parts)] == ["T", "D"]


# -- tools --


@pytest.mark.parametrize(
    ("choice", "got"),
    [
        ({"type": "auto"}, "auto"),
        ({"type": "any"}, "required"),
        ({"type": "none"}, "none"),
        ({"type": "tool", "name": "get_a"}, {"type": "function", "function": {"name": "get_a"}}),
    ],
)
def test_tool_choice(choice: Json, got: Json) -> None:
    body = translated(asking(user("hi"), tools=[TOOL], tool_choice=choice))
    assert body["tool_choice"] == got
    assert "parallel_tool_calls" not in body
    choice = choice | {"disable_parallel_tool_use": True}
    body = translated(asking(user("hi"), tools=[TOOL], tool_choice=choice))
    assert body["parallel_tool_calls"] is False


@pytest.mark.parametrize("tools", [None, [], [{"type": "web_fetch_20250910", "name": "web_fetch"}]])
@pytest.mark.parametrize("choice", [None, {"type": "auto"}, {"type": "none"}])
def test_without_tools_nothing_is_said_about_them(tools: Json, choice: Json) -> None:
    body = translated(asking(user("hi"), tools=tools, tool_choice=choice))
    assert not {"tools", "tool_choice", "parallel_tool_calls"} & body.keys()


@pytest.mark.parametrize(
    ("schema", "got"),
    [
        ({}, {"type": "object", "properties": {}}),
        ({"type": "object"}, {"type": "object", "properties": {}}),
        ({"properties": {"x": {}}}, {"properties": {"x": {}}, "type": "object"}),
        ({"type": "object", "properties": {}, "$defs": {"a": 1.0}}, None),
    ],
)
def test_a_schema_is_an_object_with_properties(schema: Json, got: Json) -> None:
    body = translated(asking(user("hi"), tools=[{"name": "t", "input_schema": schema}]))
    assert body["tools"][0]["function"]["parameters"] == (got or schema)


# -- all the rest --


def test_structured_output_is_asked_for() -> None:
    wanted = {"type": "json_schema", "schema": {"type": "object"}}
    for fields in ({"output_config": {"format": wanted}}, {"output_format": wanted}):
        asked = translated(asking(user("hi"), **fields))["response_format"]
        assert asked["type"] == "json_schema"
        assert asked["json_schema"]["schema"] == {"type": "object"}


def test_what_is_not_given_is_not_sent() -> None:
    fields = ("system", "tools", "tool_choice", "thinking", "stop_sequences", "temperature")
    nothing = dict.fromkeys((*fields, "top_p", "top_k", "stream", "output_config", "metadata"))
    assert upstream_body(asking(user("hi"), **nothing)) == upstream_body(asking(user("hi")))
    assert set(translated(asking(user("hi"), stop_sequences=[]))) == {
        *("model", "messages", "max_tokens")
    }


@pytest.mark.parametrize(("most", "got"), [(None, 64), (8, 8), (64, 64), (8192, 64)])
def test_max_tokens_is_lowered_and_never_raised(most: int | None, got: int) -> None:
    assert json.loads(upstream_body(asking(user("hi")), most=most))["max_tokens"] == got


@pytest.mark.parametrize("server", ["vllm", "auto", "", "brand new"])
def test_the_upstreams_name_for_the_model_goes_up(server: str) -> None:
    envelope = parse_envelope(json.dumps(asking(user("hi"))).encode())
    body = to_openai(envelope, upstream_model="org/Model\n", server=server)
    assert json.loads(body)["model"] == "org/Model\n"
