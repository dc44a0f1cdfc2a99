"""Publicly reported upstream streams and the events that must come of them, cut everywhere."""

from __future__ import annotations

import json
import random
import re
from pathlib import Path
from typing import Any

import pytest

from gateway.config import Dialect
from gateway.errors import GatewayError
from gateway.relay import Phase
from gateway.relay.anthropic_openai.folding import fold
from gateway.relay.anthropic_openai.requests import to_openai
from gateway.relay.dialects import stream_step
from gateway.relay.envelope import parse_envelope
from gateway.relay.failures import error_frame
from tests.wire import check_expected, check_wire

CASES = [
    json.loads(line)
    for line in (Path(__file__).parent / "cases" / "stream_translation.jsonl")
    .read_text()
    .splitlines()
]
BIG = json.dumps({"x": "a" * 700_000})


def upstream_bytes(case: dict[str, Any]) -> bytes:
    text = case["upstream"]
    if "@@BIG@@" in text:
        call = {"index": 0, "id": "call_a", "function": {"name": "get_a", "arguments": BIG}}
        deltas = [({"tool_calls": [call]}, None), ({}, "tool_calls")]
        chunks = [
            {"id": "c", "choices": [{"index": 0, "delta": delta, "finish_reason": reason}]}
            for delta, reason in deltas
        ]
        text = "".join(f"data: {json.dumps(chunk)}\n\n" for chunk in chunks) + "data: [DONE]\n\n"
    how = case["bytes"] or ""
    if "\\r\\n" in how:
        text = text.replace("\n", "\r\n")
    if "`data: ` by `data:`" in how:
        text = text.replace("data: ", "data:")
    return text.encode()


def expected(case: dict[str, Any]) -> list[dict[str, Any]]:
    return json.loads(json.dumps(case["expect"]).replace('"@@BIGARG@@"', json.dumps(BIG)))


def stop_sequences(case: dict[str, Any]) -> list[str]:
    """Those of the case's request; its note says them as JSON."""
    said = re.search(r"stop_sequences (\[.*?\])", case["note"])
    return json.loads(said[1]) if said else []


def translate(case: dict[str, Any], pieces: list[bytes]) -> bytes:
    stops = stop_sequences(case)
    step = stream_step(Dialect.OPENAI, case["content_type"], model="m", stop_sequences=stops)
    out = bytearray()
    try:
        for piece in pieces:
            out += step.feed(piece)
            if step.phase is Phase.COMPLETE:
                break
        out += step.finish()
    except GatewayError as error:
        assert not out and step.phase is Phase.EMPTY
        out += error_frame(error, "req_1")
    return bytes(out)


def check(case: dict[str, Any], stream: bytes) -> None:
    check_expected(check_wire(stream, model="m"), expected(case))


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["id"])
def test_a_whole_stream_becomes_the_expected_events(case: dict[str, Any]) -> None:
    check(case, translate(case, [upstream_bytes(case)]))


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["id"])
def test_a_stream_of_single_bytes_becomes_the_same(case: dict[str, Any]) -> None:
    data = upstream_bytes(case)
    size = 1 if len(data) < 100_000 else 997
    check(case, translate(case, [data[i : i + size] for i in range(0, len(data), size)]))


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["id"])
def test_a_stream_cut_anywhere_becomes_the_same(case: dict[str, Any]) -> None:
    data = upstream_bytes(case)
    chance = random.Random(case["id"])
    for _ in range(20 if len(data) < 100_000 else 2):
        cuts = sorted(chance.sample(range(len(data)), min(len(data), 6)))
        pieces = [data[a:b] for a, b in zip([0, *cuts], [*cuts, len(data)], strict=True)]
        check(case, translate(case, pieces))


def test_a_tool_result_goes_back_under_the_id_that_the_call_goes_back_under() -> None:
    """A22's second step: the client knows the rewritten id only, and so does the upstream then."""
    case = next(case for case in CASES if "functions.get_a:0" in case["upstream"])
    answer = fold(translate(case, [upstream_bytes(case)]))
    result = {"type": "tool_result", "tool_use_id": answer["content"][0]["id"], "content": "1"}
    request = {
        "model": "m",
        "max_tokens": 9,
        "messages": [
            {"role": "user", "content": "hi"},
            {"role": "assistant", "content": answer["content"]},
            {"role": "user", "content": [result]},
        ],
    }
    sent = to_openai(parse_envelope(json.dumps(request).encode()), upstream_model="m")
    _, call, result = json.loads(sent)["messages"]
    assert call["tool_calls"][0]["id"] == result["tool_call_id"] != ""
