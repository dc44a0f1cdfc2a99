"""Native streams: the very bytes, and only what clients cannot digest is mended."""

from __future__ import annotations

import json
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.errors import GatewayError, Overloaded
from gateway.relay import Phase
from gateway.relay.failures import error_of_body
from gateway.relay.passthrough import HOLD_BYTES, MESSAGE_STOP, Passthrough
from tests.wire import check_wire

START = {
    "type": "message_start",
    "message": {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": "m",
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
        "usage": {"input_tokens": 3, "output_tokens": 0},
    },
}
BLOCK = {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}}
DELTA = {
    "type": "content_block_delta",
    "index": 0,
    "delta": {"type": "text_delta", "text": "Zürich 🙂"},
}
STOP = {"type": "content_block_stop", "index": 0}
END = {
    "type": "message_delta",
    "delta": {"stop_reason": "end_turn", "stop_sequence": None},
    "usage": {"output_tokens": 7},
}


def frame(data: dict[str, object], name: str | None = None) -> bytes:
    text = json.dumps(data, ensure_ascii=False)
    return f"event: {name or data['type']}\ndata: {text}\n\n".encode()


BEGUN = frame(START) + frame(BLOCK) + frame(DELTA)
WHOLE = BEGUN + frame(STOP) + frame(END) + MESSAGE_STOP
ODD = (
    b": a comment\n\n"
    + BEGUN
    + b'event: ping\ndata: {"type": "ping"}\n\n'
    + b'event: from_the_future\ndata:{"type":"from_the_future","x":[1,2]}\n\n'
    + b": another\n\n"
    + frame(STOP)
    + frame(END)
    + MESSAGE_STOP
)
SPACED = ODD.replace(b"\n\n", b"\n\n\n").removesuffix(b"\n")
STREAMS = [WHOLE, ODD, SPACED, b"\n" + SPACED, WHOLE.replace(b"\n", b"\r\n")]


def relayed(data: bytes, cuts: list[int] = []) -> bytes:  # noqa: B006
    step = Passthrough()
    edges = [0, *sorted(cut % (len(data) + 1) for cut in cuts), len(data)]
    out = b"".join(step.feed(data[a:b]) for a, b in pairwise(edges))
    return out + step.finish()


@given(cuts=st.lists(st.integers(0, 5000), max_size=8))
@pytest.mark.parametrize("stream", STREAMS)
def test_the_bytes_are_the_upstreams_wherever_they_are_cut(stream: bytes, cuts: list[int]) -> None:
    assert relayed(stream, cuts) == stream


@pytest.mark.parametrize("stream", STREAMS)
def test_single_bytes_add_up_to_the_same(stream: bytes) -> None:
    assert relayed(stream, list(range(len(stream)))) == stream


def test_blank_lines_before_anything_else_are_nothing() -> None:
    step = Passthrough()
    assert step.feed(b": busy\n\n\n") + step.feed(b"\n\n\n") == b": busy" + b"\n" * 6
    assert step.phase is Phase.EMPTY


def test_nothing_follows_the_end() -> None:
    assert relayed(WHOLE + b"data: [DONE]\n\n" + frame(DELTA)) == WHOLE


@pytest.mark.parametrize("begun", [BEGUN, BEGUN.replace(b"\n", b"\r\n")])
def test_done_is_no_word_of_anthropics_wherever_it_stands(begun: bytes) -> None:
    delta = frame(DELTA)
    step = Passthrough()
    step.feed(begun)
    assert step.feed(delta + b"data: [DONE]\n\n" + delta) == delta + delta


def test_a_missing_end_becomes_an_error() -> None:
    events = check_wire(relayed(BEGUN))
    assert events[-1]["error"]["type"] == "api_error"


def test_only_message_stop_is_missing_once_the_reason_is_told() -> None:
    step = Passthrough()
    step.feed(BEGUN + frame(STOP) + frame(END))
    assert step.phase is Phase.ENDING
    assert step.finish() == MESSAGE_STOP
    assert step.output_tokens == 7


def test_a_torn_last_frame_is_left_out() -> None:
    torn = BEGUN + frame(DELTA)[:-30]
    assert check_wire(relayed(torn))[-1]["type"] == "error"


def test_a_last_frame_without_its_blank_line_counts() -> None:
    assert check_wire(relayed(WHOLE.rstrip(b"\n")))[-1]["type"] == "message_stop"


@pytest.mark.parametrize(
    ("error", "type"),
    [
        ({"code": 500, "message": "boom", "type": "server_error"}, "api_error"),
        ({"type": "error", "error": {"type": "internal_error", "message": "boom"}}, "api_error"),
        ({"error": {"type": "overloaded_error", "message": "b"}}, "overloaded_error"),
        ({"error": {"message": "boom", "code": 503}}, "overloaded_error"),
        ({"type": "error", "error": "boom"}, "api_error"),
    ],
)  # fmt: skip
def test_an_error_of_any_shape_is_one_that_clients_know(error: dict, type: str) -> None:
    events = check_wire(relayed(BEGUN + frame(error, "error") + MESSAGE_STOP))
    assert events[-1]["error"]["type"] == type


NAMELESS = [
    {"type": "error", "error": {"type": "overloaded_error", "message": "boom"}},
    {"error": {"message": "boom", "code": 500}},
    {"code": 500, "message": "boom", "type": "server_error"},
]


@pytest.mark.parametrize("error", NAMELESS)
def test_an_error_without_a_name_gets_one_since_sdks_overlook_it_otherwise(error: dict) -> None:
    stream = BEGUN + f"data: {json.dumps(error)}\n\n".encode()
    assert check_wire(relayed(stream))[-1]["error"]["message"] == "boom"


@pytest.mark.parametrize("type", ["authentication_error", "permission_error"])
def test_what_is_said_of_the_gateways_credentials_is_not_shown(type: str) -> None:
    error = {"type": "error", "error": {"type": type, "message": "bad key sk-secret"}}
    stream = relayed(BEGUN + frame(error))
    assert check_wire(stream)[-1]["error"]["type"] == "api_error" and b"sk-secret" not in stream


TROUBLES = [
    "cannot connect to http://vllm-0.models.svc:8000/v1/chat/completions",
    "host='10.0.0.7', port 80: refused",
    "Cannot connect to host vllm-0:8000 ssl:default",
    "[::1]:8000 and 10.0.0.7:8000 are down",
    "401 for Bearer abcdef, sk-secret-1234 is wrong",
]


@pytest.mark.parametrize("trouble", TROUBLES)
def test_where_the_servers_are_and_what_opens_them_is_not_shown(trouble: str) -> None:
    frames = frame({"type": "error", "error": {"type": "api_error", "message": trouble}})
    body = json.dumps({"error": {"message": trouble}}).encode()
    for said in (relayed(BEGUN + frames).decode(), error_of_body(500, body).message):
        assert not any(word in said for word in ("8000", "10.0.0.7", "vllm-0", "abcdef", "secret"))
    assert error_of_body(400, body).message == trouble


def test_an_error_behind_the_reason_is_no_error_any_more() -> None:
    error = {"type": "error", "error": {"type": "api_error", "message": "boom"}}
    stream = BEGUN + frame(STOP) + frame(END)
    assert relayed(stream + frame(error)) == stream + MESSAGE_STOP
    step = Passthrough()
    assert step.feed(stream) + step.abort(Overloaded("closing")) == stream + MESSAGE_STOP


def test_an_error_before_anything_else_can_still_be_a_status() -> None:
    error = {"type": "error", "error": {"type": "overloaded_error", "message": "busy"}}
    with pytest.raises(GatewayError) as caught:
        Passthrough().feed(frame(error))
    assert (caught.value.status, caught.value.message) == (529, "busy")


def test_an_empty_answer_is_a_failure() -> None:
    with pytest.raises(GatewayError):
        Passthrough().finish()


def test_half_a_frame_waits_so_that_keep_alives_never_cut_one() -> None:
    step = Passthrough()
    step.feed(BEGUN)
    whole = frame(DELTA)
    assert step.feed(whole[:40]) == b""
    assert step.at_boundary
    assert step.feed(whole[40:]) == whole


def test_a_frame_too_large_to_hold_passes_as_it_comes_and_nothing_goes_in_between() -> None:
    text = "x" * (3 * HOLD_BYTES)
    large = frame({**DELTA, "delta": {"type": "text_delta", "text": text}})
    step = Passthrough()
    step.feed(BEGUN)
    out = step.feed(large[: 2 * HOLD_BYTES])
    assert len(out) > HOLD_BYTES and not step.at_boundary
    out += step.feed(large[2 * HOLD_BYTES :])
    assert out == large and step.at_boundary


def test_aborting_inside_a_large_frame_sets_the_error_apart() -> None:
    step = Passthrough()
    step.feed(BEGUN)
    step.feed(b"event: content_block_delta\ndata: " + b"x" * (2 * HOLD_BYTES))
    frames = step.abort(Overloaded("closing"))
    assert frames.startswith(b"\n\nevent: error\n") and frames.endswith(b"\n\n")
    assert step.abort(Overloaded("again")) == b"" == step.finish()


def test_a_model_that_writes_about_events_is_relayed_like_any_other() -> None:
    said = frame({**DELTA, "delta": {"type": "text_delta", "text": "event: error message_stop"}})
    assert relayed(BEGUN + said + frame(STOP) + frame(END) + MESSAGE_STOP).count(said) == 1
