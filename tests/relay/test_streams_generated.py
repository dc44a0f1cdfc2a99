"""Streams nobody recorded: whatever an upstream sends, the rules of the wire hold.

Streams are generated from a grammar of what servers do, then cut, and mutated.
"""

from __future__ import annotations

import json
from contextlib import suppress
from itertools import pairwise
from typing import Any

import msgspec
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gateway.config import Dialect
from gateway.errors import GatewayError
from gateway.relay import Phase
from gateway.relay.anthropic_openai.folding import fold
from gateway.relay.anthropic_openai.stream import OpenAIStream
from gateway.relay.dialects import answer_step
from gateway.relay.failures import error_frame
from gateway.relay.passthrough import Passthrough
from tests.wire import check_wire

TEXT = st.text(st.characters(codec="utf-8"), min_size=1, max_size=8)
FAST = settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])


def drop_none(fields: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if value is not None}


def call_piece(index: Any, id: Any, name: Any, arguments: Any) -> dict[str, Any]:
    function = drop_none({"name": name, "arguments": arguments})
    return drop_none({"index": index, "id": id, "function": function})


PIECES = st.builds(
    call_piece,
    st.sampled_from([0, 0, 1, 2, None, "1", -1]),
    st.sampled_from(["call_a", "call_b", "", None, None, "functions.x:0", 7]),
    st.sampled_from(["get_a", "get_b", "get_", None, None, ""]),
    st.sampled_from(
        ["", None, "{", "{}", '{"x":', '"1"}', '{"x":1}', "}", "null", '{"x":"\\', {"x": 1}]
    ),
)
ODD = st.sampled_from([None, 0, "odd", [], {}, [None], [{}], {"text": "x"}, True])
HALVES = st.sampled_from(["\ud83d", "\ude42", "a\ud83d", "\ude42b"])
THOUGHT = {"type": "thinking", "thinking": [{"type": "text", "text": "hm"}]}
DELTAS = st.one_of(
    st.builds(lambda text: {"content": text}, TEXT),
    st.builds(lambda text: {"content": text}, st.sampled_from(["", " ", "\n", None])),
    st.builds(lambda kind, text: {kind: text}, st.sampled_from(["content", "reasoning"]), HALVES),
    st.builds(lambda text: {"content": [{"type": "text", "text": text}, THOUGHT]}, TEXT),
    st.builds(lambda text: {"reasoning_content": text}, TEXT),
    st.builds(lambda text: {"reasoning": text, "content": text}, TEXT),
    st.builds(lambda text: {"refusal": text}, TEXT),
    st.just({}),
    st.just({"role": "assistant", "content": ""}),
    st.builds(lambda pieces: {"tool_calls": pieces}, st.lists(PIECES, max_size=3)),
    st.builds(lambda piece: {"function_call": piece["function"]}, PIECES),
    st.dictionaries(
        st.sampled_from(["content", "reasoning", "refusal", "tool_calls", "function_call"]), ODD
    ),
    ODD,
)
COUNTS = st.one_of(st.integers(-9, 99), st.sampled_from([None, "5", 2.0, 10**30, {}]))
USAGE = st.one_of(
    st.none(),
    st.builds(
        lambda prompt, answer: {"prompt_tokens": prompt, "completion_tokens": answer},
        st.integers(0, 99),
        st.integers(0, 99),
    ),
)
ODD_USAGE = st.one_of(
    USAGE,
    ODD,
    st.builds(
        lambda prompt, answer, cached: {
            "prompt_tokens": prompt,
            "completion_tokens": answer,
            "prompt_tokens_details": {"cached_tokens": cached},
        },
        *(COUNTS, COUNTS, COUNTS),
    ),
)
FINISH = st.sampled_from(["stop", "length", "tool_calls", "content_filter", "function_call"])
ODD_FINISH = st.one_of(st.none(), FINISH, st.sampled_from(["abort", "MAX_TOKENS", "", 5]))


def chunk(delta: Any, finish: Any = None, usage: Any = None, index: Any = 0) -> bytes:
    choice = {"index": index, "delta": delta, "finish_reason": finish}
    return f"data: {json.dumps({'id': 'c', 'choices': [choice], 'usage': usage})}\n\n".encode()


ASIDE = st.sampled_from(
    [
        b": keep-alive\n\n",
        b"event: ping\ndata: now\n\n",
        b'data: {"choices":[]}\n\n',
        b'data: {"choices":null,"usage":{}}\n\n',
        b'event: message\nid: 1\ndata: {"choices":\ndata: []}\n\n',
        b'data: {"error":{"message":"x"}}\n\n',
        b"data: null\n\n",
        b"event: progress\ndata: 50 %\n\n",
        b"\n".join([b'data: {"choices":[{"delta":{"content":"a"}}]}'] * 2) + b"\n\n",
        b'data: {"choices":[{"delta":{"content":"a\tb\x01"},"logprobs":{"p":NaN}}]}\n\n',
        b'data: {"choices":[{"delta":{"content":"a\xf0\x9f"}}]}\n\n',
        b'data: {"choices":[{"message":{"content":"a"}}]}\n\n',
        b'data: {"choices":[],"usage":{"prompt_tokens":1e999,"cached_tokens":3}}\n\n',
    ]
)
FRAMES = st.one_of(
    st.builds(chunk, DELTAS),
    st.builds(chunk, DELTAS),
    st.builds(chunk, DELTAS, ODD_FINISH, ODD_USAGE, st.sampled_from([0, 0, 1, None])),
    ASIDE,
)
ENDS = st.sampled_from(
    [
        *(b"", b"data: [DONE]\n\n", b"data: [DONE]", b"data: DONE\n\n", b"data: {"),
        *(b'data: {"error":{"message":"x"}}\n\n', b"event: error\ndata: it broke\n\n"),
    ]
)
STREAMS = st.builds(
    lambda frames, finish, usage, end, newline: (
        b"".join([*frames, chunk({}, finish, usage) if finish else b"", end])
    ).replace(b"\n", newline),
    st.lists(FRAMES, max_size=8),
    st.one_of(st.none(), FINISH),
    USAGE,
    ENDS,
    st.sampled_from([b"\n", b"\n", b"\r\n", b"\r"]),
)


def translate(data: bytes, cuts: list[int]) -> bytes:
    step = OpenAIStream(model="m")
    edges = [0, *sorted(cut % (len(data) + 1) for cut in cuts), len(data)]
    out = bytearray()
    try:
        for begin, end in pairwise(edges):
            out += step.feed(data[begin:end])
        out += step.finish()
    except GatewayError as error:
        assert not out and step.phase is Phase.EMPTY
        return error_frame(error, "req_1")
    assert step.phase is Phase.COMPLETE
    assert step.feed(data) == b"" == step.finish()
    return bytes(out)


def told(stream: bytes) -> list[dict[str, Any]]:
    """The events without what is random: the ids that the gateway makes up."""
    events = check_wire(stream)
    for event in events:
        event.get("message", {}).pop("id", None)
        block = event.get("content_block", {})
        if str(block.get("id", "")).startswith("toolu_"):
            del block["id"]
    return events


CUTS = st.lists(st.integers(0, 4000), max_size=6)


@FAST
@given(stream=STREAMS, cuts=CUTS)
def test_every_stream_keeps_the_rules_however_it_is_cut(stream: bytes, cuts: list[int]) -> None:
    assert told(translate(stream, cuts)) == told(translate(stream, []))


@FAST
@given(stream=STREAMS, cuts=CUTS, place=st.integers(0, 4000), noise=st.binary(max_size=4))
def test_a_mutated_stream_keeps_them_too(
    stream: bytes, cuts: list[int], place: int, noise: bytes
) -> None:
    place %= len(stream) + 1
    check_wire(translate(stream[:place] + noise + stream[place + len(noise) :], cuts))


@FAST
@given(data=st.binary(max_size=200))
def test_noise_is_an_error_and_nothing_worse(data: bytes) -> None:
    check_wire(translate(data, []))


EVENTS = [
    *("message_start", "content_block_start", "content_block_delta", "content_block_stop"),
    *("message_delta", "message_stop", "error", "ping"),
]
NATIVE = st.lists(
    st.builds(
        lambda name, fields: (
            f"event: {name}\ndata: {json.dumps({'type': name} | fields)}\n\n".encode()
        ),
        st.sampled_from(EVENTS),
        st.dictionaries(
            st.sampled_from(["message", "index", "content_block", "delta", "usage", "error"]),
            st.one_of(ODD, st.dictionaries(st.sampled_from(["type", "content", "usage"]), ODD)),
        ),
    ),
    max_size=6,
)


@FAST
@given(frames=NATIVE, noise=st.binary(max_size=4))
def test_native_nonsense_is_relayed_or_an_error_and_nothing_worse(
    frames: list[bytes], noise: bytes
) -> None:
    """Relayed it ends with an end; collected it is a message or an error."""
    step = Passthrough()
    with suppress(GatewayError):
        relayed = b"".join(map(step.feed, [*frames, noise])) + step.finish()
        assert step.phase is Phase.COMPLETE
        assert relayed.endswith((b"\n\n", b"\r"))
    answer = answer_step(Dialect.ANTHROPIC, "text/event-stream", model="m")
    with suppress(GatewayError):
        for frame in [*frames, noise]:
            answer.feed(frame)
        assert json.loads(answer.finish())["content"] is not None


MESSAGES = st.builds(
    lambda text, reasoning, calls: drop_none(
        {
            "role": "assistant",
            "content": text,
            "reasoning_content": reasoning,
            "tool_calls": [
                {
                    "id": f"call_{n}",
                    "type": "function",
                    "function": {"name": "get_a", "arguments": json.dumps({"x": n})},
                }
                for n in range(calls)
            ]
            or None,
        }
    ),
    st.one_of(st.none(), TEXT),
    st.one_of(st.none(), TEXT),
    st.integers(0, 3),
)


@FAST
@given(message=MESSAGES, finish=FINISH, usage=USAGE)
def test_folding_the_stream_gives_what_asking_without_one_gives(
    message: dict[str, Any], finish: str, usage: Any
) -> None:
    choice = {"index": 0, "message": message, "finish_reason": finish}
    body = json.dumps({"id": "c", "choices": [choice], "usage": usage}).encode()
    answer = answer_step(Dialect.OPENAI, "application/json", model="m")
    answer.feed(body)
    whole = msgspec.json.decode(answer.finish())
    pieces = (
        [{"reasoning_content": message["reasoning_content"]}]
        if "reasoning_content" in message
        else []
    )
    pieces += [{"content": character} for character in message.get("content") or ""]
    pieces += [
        {"tool_calls": [{"index": index, **call}]}
        for index, call in enumerate(message.get("tool_calls", []))
    ]
    stream = b"".join(map(chunk, pieces)) + chunk({}, finish, usage) + b"data: [DONE]\n\n"
    folded = fold(translate(stream, []))
    for one in (whole, folded):
        assert one.pop("id").startswith("msg_")
    assert whole == folded
