"""What servers do besides the given cases: each line is a habit that some server has."""

from __future__ import annotations

import json

import pytest

from gateway.config import Dialect
from gateway.errors import GatewayError
from gateway.relay.dialects import answer_step, stream_step
from gateway.relay.failures import error_frame
from tests.relay.stream_language import DONE, call, calls, chunk, data, text, told

X1, X2 = '{"x": 1}', '{"x": 2}'
STOP = chunk({}, "stop") + DONE
CALLED = chunk({}, "tool_calls") + DONE
EARLY = "api_error: The upstream ended its answer too early."
GAVE_UP = "api_error: The upstream gave up on its answer."
UNREADABLE = "api_error: The upstream's answer cannot be read: "

TOOL_CALLS = {
    "two whole calls of one index": (
        calls(call(X1, "get_a", index=0)) + calls(call(X2, "get_a", index=0)),
        f"get_a | '{X1}' | get_a | '{X2}'",
    ),
    "two whole calls of one index, told apart by id": (
        calls(call(X1, "get_a", index=0, id="a")) + calls(call(X2, "get_a", index=0, id="b")),
        f"get_a | '{X1}' | get_a | '{X2}'",
    ),
    "all calls with one id": (
        calls(call(X1, "get_a", index=0, id="0"), call(X2, "get_b", index=0, id="0")),
        f"get_a | '{X1}' | get_b | '{X2}'",
    ),
    "one id at two indexes": (
        calls(call(X1, "get_a", index=0, id="c")) + calls(call(X2, "get_b", index=1, id="c")),
        f"get_a | '{X1}' | get_b | '{X2}'",
    ),
    "an id of its own for every piece": (
        calls(call('{"x":', "get_a", index=0, id="r1")) + calls(call(" 1}", index=0, id="r2")),
        f"get_a | '{X1}'",
    ),
    "neither index nor id nor parameters": (
        calls(call(name="get_a"), call(name="get_b")),
        "get_a | get_b",
    ),
    "the same tool twice, without index, id and parameters": (
        calls(call(name="get_a"), call(name="get_a")),
        "get_a | get_a",
    ),
    "interleaved by id, without index": (
        calls(call('{"x":', "get_a", id="a"), call('{"x":', "get_b", id="b"))
        + calls(call(" 1}", id="a"), call(" 2}", id="b")),
        f"get_a | '{X1}' | get_b | '{X2}'",
    ),
    "indexes that begin at 1 and skip": (
        calls(call(X1, "get_a", index=1)) + calls(call(X2, "get_b", index=7)),
        f"get_a | '{X1}' | get_b | '{X2}'",
    ),
    "the name in pieces": (
        calls(call("", "get_", index=0)) + calls(call("", "a", index=0)) + calls(call(X1, index=0)),
        f"get_a | '{X1}'",
    ),
    "the name again and longer": (
        calls(call(name="get_", index=0)) + calls(call(X1, name="get_a", index=0)),
        f"get_a | '{X1}'",
    ),
    "arguments before the name": (
        calls(call('{"x":', index=0)) + calls(call(" 1}", "get_a", index=0)),
        f"get_a | '{X1}'",
    ),
    "an empty object before the real one": (
        calls(call("{}", "get_a", index=0)) + calls(call(X1, index=0)),
        f"get_a | '{X1}'",
    ),
    "an empty object and nothing else": (
        calls(call("{}", "get_a", index=0)) + calls(call("{}", "get_b", index=1)),
        "get_a | '{}' | get_b | '{}'",
    ),
    "two empty objects before the real ones": (
        calls(call("{}", "get_a", index=0))
        + calls(call("{}", "get_b", index=1))
        + calls(call(X1, index=0))
        + calls(call(X2, index=1)),
        f"get_a | '{X1}' | get_b | '{X2}'",
    ),
    "the same tool twice, first without parameters, without index and id": (
        calls(call("{}", "get_a")) + calls(call(X2, "get_a")),
        f"get_a | '{{}}' | get_a | '{X2}'",
    ),
    "the word null for no arguments": (calls(call("null", "get_a", index=0)), "get_a"),
    "null as a token of the arguments": (
        calls(call('{"x":', "get_a", index=0)) + calls(call("null", index=0), call("}", index=0)),
        "get_a | '{\"x\":null}'",
    ),
    "arguments as an object": (calls(call({"x": 1}, "get_a", index=0)), "get_a | '{\"x\":1}'"),
    "half a character in a name": (calls(call(X1, "get_\ud83d", index=0)), f"get_\ufffd | '{X1}'"),
    "half a character in an object": (
        calls(call({"x": "\ud83d"}, "get_a", index=0)),
        'get_a | \'{"x": "\ufffd"}\'',
    ),
    "numbers for ids, texts for indexes": (
        calls(call(X1, "get_a", index="0", id=7)) + calls(call(X2, "get_b", index="1", id=8)),
        f"get_a | '{X1}' | get_b | '{X2}'",
    ),
    "text between two calls": (
        calls(call(X1, "get_a", index=0)) + text("and") + calls(call(X2, "get_b", index=1)),
        f"get_a | '{X1}' | text | 'and' | get_b | '{X2}'",
    ),
    "text inside a call": (
        calls(call('{"x":', "get_a", index=0)) + text("hm") + calls(call(" 1}", index=0)),
        f"get_a | '{X1}' | text | 'hm'",
    ),
    "a closing bracket inside a string": (
        calls(call('{"x": "}', "get_a", index=0), call(X2, "get_b", index=1))
        + calls(call('\\"}"', index=0), call("}", index=0)),
        """get_a | '{"x": "}\\\\"}"}' | get_b | '{"x": 2}'""",
    ),
    "thinking, text and a call": (
        chunk({"reasoning": "hm"}) + text("so") + calls(call(X1, "get_a", index=0)),
        f"thinking | 'hm' | text | 'so' | get_a | '{X1}'",
    ),
    "one call that is no list": (
        chunk({"tool_calls": call(X1, "get_a", index=0)}),
        f"get_a | '{X1}'",
    ),
    "a call without its inner object": (
        chunk({"tool_calls": [{"index": 0, "id": "a", "name": "get_a", "arguments": X1}]}),
        f"get_a | '{X1}'",
    ),
    "blanks for no arguments": (
        calls(call(" ", "get_a", index=0)) + calls(call("\n", index=0)),
        "get_a",
    ),
    "an empty list for no arguments": (
        calls(call("[", "get_a", index=0))
        + calls(call("]", index=0))
        + calls(call(X2, "get_b", index=1)),
        f"get_a | '{{}}' | get_b | '{X2}'",
    ),
    "arguments encoded twice": (
        calls(call('"{', "get_a", index=0)) + calls(call('}"', index=0)),
        "get_a | '{}'",
    ),
    "the same tool twice, encoded twice, without index and id": (
        calls(call('"{}"', "get_a")) + calls(call(json.dumps(X2), "get_a")),
        f"get_a | '{{}}' | get_a | '{X2}'",
    ),
    "a character cut in two in a call that waits": (
        calls(call('{"x":', "get_a", index=0), call('{"y":"\ud83d', "get_b", index=1))
        + calls(call('\ude42"}', index=1))
        + calls(call(" 1}", index=0)),
        f"get_a | '{X1}' | get_b | '{{\"y\":\"\U0001f642\"}}'",
    ),
    "half a character at the end of a call that was cut off": (
        calls(call('{"x":"', "get_a", index=0), call(X2, "get_b", index=1))
        + calls(call("\ud83d", index=0)),
        f"get_a | '{{\"x\":\"\ufffd' | get_b | '{X2}'",
    ),
    "arguments that no client could read": (
        calls(call("No", "get_a", index=0)) + calls(call("ne\ud83d", index=0)),
        'get_a | \'{"_raw": "None\ufffd"}\'',
    ),
    "the arguments once more at the end": (
        calls(call('{"x":', "get_a", index=0))
        + calls(call(" 1}", index=0))
        + calls(call(X1, index=0)),
        f"get_a | '{X1}'",
    ),
    "the whole call once more at the end": (
        calls(call('{"x":', "get_a", index=0, id="a"))
        + calls(call(" 1}", index=0))
        + calls(call(X1, "get_a", index=0, id="a")),
        f"get_a | '{X1}'",
    ),
    "a legacy call": (
        chunk({"function_call": {"name": "get_a", "arguments": '{"x":'}})
        + chunk({"function_call": {"arguments": " 1}"}}),
        f"get_a | '{X1}'",
    ),
}

TEXTS = {
    "content as parts": (text([{"type": "text", "text": "H"}, {"text": "i"}]), "text | 'Hi'"),
    "Mistral's thinking": (
        text([{"type": "thinking", "thinking": [{"type": "text", "text": "hm"}]}]) + text("Hi"),
        "thinking | 'hm' | text | 'Hi'",
    ),
    "details of reasoning": (
        chunk({"reasoning_details": [{"type": "reasoning.text", "text": "hm"}]}) + text("Hi"),
        "thinking | 'hm' | text | 'Hi'",
    ),
    "a summary of reasoning": (
        chunk({"reasoning_details": [{"type": "reasoning.summary", "summary": "hm"}]}),
        "thinking | 'hm'",
    ),
    "reasoning said twice": (
        chunk({"reasoning": "hm", "reasoning_content": "hm"}),
        "thinking | 'hm'",
    ),
    "thinking by another name": (
        chunk({"thinking": "hm"}) + text("Hi"),
        "thinking | 'hm' | text | 'Hi'",
    ),
    "thinking in an object": (
        chunk({"reasoning": {"content": "hm"}}) + text("Hi"),
        "thinking | 'hm' | text | 'Hi'",
    ),
    "content as one part": (text({"type": "text", "text": "Hi"}), "text | 'Hi'"),
    "content as a list of texts": (text(["H", "i"]), "text | 'Hi'"),
    "parts of OpenAI's newer kinds": (
        text(
            [{"type": "output_text", "text": {"value": "H"}}, {"type": "refusal", "refusal": "i"}]
        ),
        "text | 'Hi'",
    ),
    "a bare tab in a string": (
        'data: {"choices":[{"delta":{"content":"H\ti"}}]}\n\n',
        "text | 'H\\ti'",
    ),
    "a number too long for Python": (
        f'data: {{"choices":[{{"delta":{{"content":"Hi"}}}}],"a":NaN,"b":{"9" * 5000}}}\n\n',
        "text | 'Hi'",
    ),
    "null for nothing": (data(None) + text("Hi") + data([]), "text | 'Hi'"),
    "events for other readers": (
        "event: progress\ndata: 50 %\n\n" + text("Hi") + "event: timing\ndata: 3 s\n\n",
        "text | 'Hi'",
    ),
    "single newlines between the chunks": (
        text("H").replace("\n\n", "\n") + text("i"),
        "text | 'Hi'",
    ),
    "nulls everywhere": (
        chunk({"role": "assistant", "content": None, "tool_calls": None, "refusal": None})
        + data({"choices": None, "usage": None, "error": None})
        + data({"choices": [{"index": None, "delta": None, "finish_reason": None}]})
        + text("Hi"),
        "text | 'Hi'",
    ),
    "fields of odd shapes": (
        chunk("hi") + chunk({"content": "Hi", "tool_calls": {}}) + data({"choices": "none"}),
        "text | 'Hi'",
    ),
    "other choices": (
        data({"choices": [{"index": 1, "delta": {"content": "B"}}]})
        + data({"choices": [{"index": 1, "delta": {"content": "B"}}, {"delta": {"content": "A"}}]}),
        "text | 'A'",
    ),
    "log probabilities": (chunk({"content": "Hi"}, logprobs={"content": []}), "text | 'Hi'"),
    "blanks and nothing else": (text(" ") + text("\n"), "text | ' \\n'"),
    "signs of life": (
        "event: ping\ndata: now\n\n: comment\n\n" + text("Hi") + "retry: 5\n\nid: 1\n\n",
        "text | 'Hi'",
    ),
    "a byte order mark": ("\ufeff" + text("Hi"), "text | 'Hi'"),
    "old line ends": (text("Hi").replace("\n", "\r"), "text | 'Hi'"),
    "messages where deltas should be": (
        data({"choices": [{"message": {"content": "H"}}]})
        + data({"choices": [{"message": {"content": "i"}}]}),
        "text | 'Hi'",
    ),
    "all of it once more in a message": (
        text("H") + text("i") + data({"choices": [{"message": {"content": "Hi"}}]}),
        "text | 'Hi'",
    ),
    "a whole message where a delta should be": (
        data({"choices": [{"index": 0, "message": {"content": "Hi"}}]}),
        "text | 'Hi'",
    ),
}

ENDS = {
    "in capitals": (text("x") + chunk({}, "MAX_TOKENS") + DONE, "text | 'x' | max_tokens"),
    "with another dash": (text("x") + chunk({}, "Content-Filter") + DONE, "text | 'x' | refusal"),
    "by the context's length": (
        text("x") + chunk({}, "context_length_exceeded") + DONE,
        "text | 'x' | max_tokens",
    ),
    "by the word null in every chunk": (
        chunk({"content": "x"}, "null")
        + chunk({"content": "y"}, "None")
        + chunk({}, "length")
        + DONE,
        "text | 'xy' | max_tokens",
    ),
    "the word null and no end": (chunk({"content": "x"}, "null"), f"text | 'x' | {EARLY}"),
    "noise behind the reason": (
        text("x") + chunk({}, "stop") + "data: DONE\n\n" + data("[DONE]") + "data: 1\n\n",
        "text | 'x' | end_turn",
    ),
    "single newlines and no blank line at all": (
        (text("x") + STOP).replace("\n\n", "\n"),
        "text | 'x' | end_turn",
    ),
    "single newlines, and the last chunk torn": (
        (text("x") + text("y") + 'data: {"choi').replace("\n\n", "\n"),
        f"text | 'xy' | {EARLY}",
    ),
    "by SGLang's word": (
        text("x") + chunk({}, "stop", matched_stop="END") + DONE,
        "text | 'x' | stop_sequence END",
    ),
    "by the number of a token": (
        text("x") + chunk({}, "stop", matched_stop=151645) + DONE,
        "text | 'x' | end_turn",
    ),
    "by a word that was not asked for": (
        text("x") + chunk({}, "stop", stop_reason="</s>") + DONE,
        "text | 'x' | end_turn",
    ),
    "by length after a call": (
        calls(call(X1, "get_a", index=0)) + chunk({}, "length") + DONE,
        f"get_a | '{X1}' | max_tokens",
    ),
    "calls announced and none made": (text("x") + CALLED, "text | 'x' | end_turn"),
    "more text behind the reason": (
        text("x") + chunk({}, "stop") + text("y") + DONE,
        "text | 'xy' | end_turn",
    ),
    "the rest of a call behind the reason": (
        calls(call('{"x":', "get_a", index=0)) + chunk({}, "stop") + calls(call(" 1}", index=0)),
        f"get_a | '{X1}' | tool_use",
    ),
    "more behind the end": (text("x") + STOP + text("y") + STOP, "text | 'x' | end_turn"),
    "the last blank line missing": (text("x") + STOP.rstrip("\n"), "text | 'x' | end_turn"),
    "usage torn behind the reason": (
        text("x") + chunk({}, "stop") + 'data: {"usage":{"prom',
        "text | 'x' | end_turn",
    ),
    "torn": (text("x") + 'data: {"choi', f"text | 'x' | {EARLY}"),
    "done inside a call": (
        calls(call('{"x":', "get_a", index=0)) + DONE,
        f"get_a | '{{\"x\":' | {EARLY}",
    ),
    "nothing at all": ("", EARLY),
    "nothing but comments": (": keep-alive\n\n", EARLY),
    "a page": ("<html>\n<body>Bad gateway</body></html>\n", EARLY),
    "a JSON body under another name": (
        json.dumps({"choices": [{"message": {"content": "Hi"}, "finish_reason": "stop"}]}),
        "text | 'Hi' | end_turn",
    ),
}

FAILURES = {
    "aborted": (text("x") + chunk({}, "abort") + DONE, f"text | 'x' | {GAVE_UP}"),
    "failed in one choice": (
        text("x") + chunk({}, "error", error={"code": 503, "message": "busy"}),
        "text | 'x' | overloaded_error: busy",
    ),
    "by a word": (text("x") + data({"error": "boom"}), "text | 'x' | api_error: boom"),
    "without a word": (
        text("x") + data({"error": True}) + STOP,
        f"text | 'x' | {UNREADABLE}an error without words.",
    ),
    "flat": (
        text("x") + data({"object": "error", "message": "boom", "code": 500}),
        "text | 'x' | api_error: boom",
    ),
    "after the reason": (
        text("x") + chunk({}, "stop") + data({"error": {"message": "boom"}}) + DONE,
        "text | 'x' | api_error: boom",
    ),
    "beside choices": (
        text("x") + data({"choices": [], "error": {"message": "boom", "code": 500}}),
        "text | 'x' | api_error: boom",
    ),
    "in an event of its own": (
        text("x") + 'event: error\ndata: {"message":"boom"}\n\n',
        "text | 'x' | api_error: boom",
    ),
    "in plain words": (
        text("x") + "event: error\ndata: it broke\n\n",
        "text | 'x' | api_error: it broke",
    ),
    "in a list": (
        text("x") + data([{"error": {"message": "long", "status": "INVALID_ARGUMENT"}}]),
        "text | 'x' | invalid_request_error: long",
    ),
    "several, of which one is told": (
        text("x") + data({"errors": [{"message": "boom"}, {"message": "bang"}]}),
        "text | 'x' | api_error: boom",
    ),
    "wrapped twice": (
        text("x") + data({"error": {"error": {"message": {"text": "boom"}}}}),
        "text | 'x' | api_error: boom",
    ),
    "as a yes and words beside it": (
        text("x") + data({"error": True, "msg": "boom"}),
        "text | 'x' | api_error: boom",
    ),
    "as Node's frameworks say it": (
        text("x") + data({"statusCode": 429, "error": "Too Many Requests", "message": "boom"}),
        "text | 'x' | overloaded_error: boom",
    ),
    "by a status without the word error": (
        text("x") + data({"status": 503, "message": "boom"}) + DONE,
        "text | 'x' | overloaded_error: boom",
    ),
    "as no success": (
        text("x") + data({"success": False, "msg": "boom"}) + DONE,
        "text | 'x' | api_error: boom",
    ),
    "as an object of details": (
        text("x") + data({"detail": {"message": "boom"}}),
        "text | 'x' | api_error: boom",
    ),
    "of TGI's kind": (
        text("x") + data({"error": "too long", "error_type": "validation"}),
        "text | 'x' | invalid_request_error: too long",
    ),
    "whose words sound like another kind": (
        text("x") + data({"error": "CUDA: invalid device"}),
        "text | 'x' | api_error: CUDA: invalid device",
    ),
    "by a network's word": (text("x") + chunk({}, "network_error"), f"text | 'x' | {GAVE_UP}"),
    "with a code in words": (
        text("x") + data({"error": {"message": "long", "code": "context_length_exceeded"}}),
        "text | 'x' | invalid_request_error: long",
    ),
    "with a status as text": (
        text("x") + data({"error": {"message": "busy", "code": "503"}}),
        "text | 'x' | overloaded_error: busy",
    ),
    "about the gateway's key": (
        text("x") + data({"error": {"message": "bad key sk-1", "code": "invalid_api_key"}}),
        "text | 'x' | api_error: The upstream refused the gateway's credentials.",
    ),
    "as no JSON": (text("x") + "data: Internal Server Error\n\n", "text | 'x' | " + UNREADABLE),
    "first of all": (
        data({"error": {"message": "The request queue is full.", "code": 503}}),
        "overloaded_error: The request queue is full.",
    ),
}

COMPLETED = {
    name: (stream + (CALLED if group is TOOL_CALLS else STOP), expected + end)
    for group, end in ((TOOL_CALLS, " | tool_use"), (TEXTS, " | end_turn"))
    for name, (stream, expected) in group.items()
}
EVERY = COMPLETED | ENDS | FAILURES


def translated(stream: str, size: int) -> bytes:
    step = stream_step(Dialect.OPENAI, "text/event-stream", model="m", stop_sequences=["END"])
    upstream = stream.encode()
    try:
        frames = [step.feed(upstream[i : i + size]) for i in range(0, len(upstream), size)]
        return b"".join([*frames, step.finish()])
    except GatewayError as error:
        return error_frame(error, "req_1")


@pytest.mark.parametrize("size", [1 << 20, 1, 7])
@pytest.mark.parametrize(("stream", "expected"), EVERY.values(), ids=list(EVERY))
def test_every_habit_comes_out_as_anthropic_would_say_it(
    stream: str, expected: str, size: int
) -> None:
    line = told(translated(stream, size))
    assert line.startswith(expected) if expected.endswith(UNREADABLE) else line == expected


@pytest.mark.parametrize(
    ("usage", "counts"),
    [
        ([None], (None, 1)),
        ([{}], (None, 1)),
        (["n/a"], (None, 1)),
        ([{"prompt_tokens": "3", "completion_tokens": 2.0}], (3, 2)),
        ([{"prompt_tokens": -1, "completion_tokens": -1}], (0, 0)),
        ([{"prompt_tokens": 10**30, "completion_tokens": 1}], (2**53 - 1, 1)),
        ([{"prompt_tokens": 5}, {"completion_tokens": 7}, {}], (5, 7)),
        ([{"prompt_tokens": 5, "prompt_tokens_details": {"cached_tokens": 9}}], (0, 1)),
        ([{"prompt_tokens": 5, "prompt_tokens_details": []}], (5, 1)),
    ],
)
def test_whatever_is_said_of_usage_the_client_gets_numbers(
    usage: list[object], counts: tuple[int | None, int]
) -> None:
    stream = text("Hi") + "".join(chunk({}, usage=said) for said in usage) + STOP
    last = translated(stream, 1 << 20).split(b"\n\n")[-3]
    said = json.loads(last.split(b"data: ")[1])["usage"]
    assert (said.get("input_tokens"), said["output_tokens"]) == counts


@pytest.mark.parametrize(
    "cached",
    [
        {"prompt_tokens_details": {"cached_tokens": 4, "cache_write_tokens": 1}},
        {"prompt_tokens_details": {"cached_tokens": 4, "cache_creation_tokens": 1}},
        {"prompt_cache_hit_tokens": 4, "cache_creation_input_tokens": 1},
        {"cached_tokens": 4, "cache_creation_input_tokens": 1},
        {"cache_read_input_tokens": 4, "cache_creation_input_tokens": 1},
    ],
)
def test_the_cache_is_counted_apart_by_whatever_name(cached: dict[str, object]) -> None:
    expected = {
        "input_tokens": 5,
        "cache_read_input_tokens": 4,
        "cache_creation_input_tokens": 1,
        "output_tokens": 3,
    }
    usage = {"prompt_tokens": 10, "completion_tokens": 3} | cached
    assert answered({"content": "Hi"}, usage=usage)["usage"] == expected


@pytest.mark.parametrize(
    "usage",
    [
        {"input_tokens": 10, "output_tokens": 3, "input_tokens_details": {"cached_tokens": 4}},
        {"input_tokens": 6, "output_tokens": 3, "cache_read_input_tokens": 4},
    ],
)
def test_newer_names_count_as_their_own_api_does(usage: dict[str, object]) -> None:
    expected = {"input_tokens": 6, "cache_read_input_tokens": 4, "output_tokens": 3}
    assert answered({"content": "Hi"}, usage=usage)["usage"] == expected


def test_usage_inside_the_last_choice_counts() -> None:
    stream = text("Hi") + chunk({}, "stop").replace(
        '"index"', '"usage": {"prompt_tokens": 5, "completion_tokens": 7}, "index"'
    )
    assert b'"usage":{"input_tokens":5,"output_tokens":7}' in translated(stream + DONE, 1 << 20)


def test_bytes_that_are_no_text_cost_a_character_and_not_the_answer() -> None:
    step = stream_step(Dialect.OPENAI, "text/event-stream", model="m")
    odd = step.feed(text("café").replace("\\u00e9", "\xe9").encode("latin-1"))
    assert "caf\ufffd" in odd.decode()


def test_one_more_token_costs_the_same_however_long_the_call_is() -> None:
    """Every piece ends like a whole document: looking at all of it each time would take hours."""
    step = stream_step(Dialect.OPENAI, "text/event-stream", model="m")
    step.feed(calls(call('{"x": "', "get_a", index=0), call("{", "get_b", index=1)).encode())
    piece = calls(call('}} abc}"}', index=0)).encode()
    for _ in range(100_000):
        step.feed(piece)


# --- whole answers ------------------------------------------------------------------------------


def answered(message: object, finish: object = "stop", **more: object) -> dict[str, object]:
    answer = answer_step(Dialect.OPENAI, "application/json", model="m")
    choice = {"index": 0, "message": message, "finish_reason": finish}
    answer.feed(json.dumps({"id": "c", "choices": [choice]} | more).encode())
    return dict(json.loads(answer.finish()))


def test_a_whole_answer_has_thinking_calls_and_numbers() -> None:
    pieces = [call(X1, "get_a", id="a"), call("{bad", "get_b", id="b")]
    message = answered({"content": None, "reasoning": "hm", "tool_calls": pieces})
    assert message["content"] == [
        {"type": "thinking", "thinking": "hm", "signature": ""},
        {"type": "tool_use", "id": "a", "name": "get_a", "input": {"x": 1}},
        {"type": "tool_use", "id": "b", "name": "get_b", "input": {"_raw": "{bad"}},
    ]
    assert message["stop_reason"] == "tool_use"
    assert message["usage"] == {"input_tokens": 0, "output_tokens": 4}


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (b'{"choices":[]}', 502),
        (b'{"choices":null}', 502),
        (b'{"id":"c"}', 502),
        (b"<html></html>", 502),
        (b"", 502),
        (b"[]", 502),
        (b'{"error":{"message":"busy","code":503}}', 529),
        (b'{"choices":[{"message":{"content":"x"},"finish_reason":"abort"}]}', 502),
    ],
)
def test_a_whole_answer_without_a_message_is_a_failure(body: bytes, status: int) -> None:
    answer = answer_step(Dialect.OPENAI, "application/json", model="m")
    answer.feed(body)
    with pytest.raises(GatewayError) as caught:
        answer.finish()
    assert caught.value.status == status
