"""Whatever a model says and however its server words it, every client gets the same message.

Answers and habits are generated (``server_dialects``); the official SDK accumulates the streams.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from itertools import pairwise
from typing import Any

import httpx2  # the SDK's own client library
from anthropic import Anthropic
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gateway.config import Dialect
from gateway.relay.anthropic_openai.folding import fold
from gateway.relay.dialects import answer_step, stream_step
from tests.relay.server_dialects import (
    COUNTED,
    HABITS,
    Answer,
    Habit,
    answers,
    body_of,
    stream_of,
)
from tests.wire import check_wire

SETTINGS = settings(max_examples=400, deadline=None, suppress_health_check=[HealthCheck.too_slow])
CUTS = st.lists(st.integers(0, 6000), max_size=6)
QUESTION: Any = {"model": "m", "max_tokens": 1, "messages": [{"role": "user", "content": "hi"}]}


class Frames(httpx2.BaseTransport):
    """A gateway that answers everything with the same stream."""

    def handle_request(self, request: httpx2.Request) -> httpx2.Response:
        headers = {"content-type": "text/event-stream"}
        return httpx2.Response(200, headers=headers, content=self.stream)

    stream = b""


GATEWAY = Frames()
SDK = Anthropic(
    api_key="any",
    base_url="http://gateway",
    max_retries=0,
    http_client=httpx2.Client(transport=GATEWAY),
)


def streamed(upstream: bytes, cuts: Iterable[int]) -> bytes:
    step = stream_step(Dialect.OPENAI, "text/event-stream", model="m")
    edges = [0, *sorted(cut % (len(upstream) + 1) for cut in cuts), len(upstream)]
    frames = [step.feed(upstream[begin:end]) for begin, end in pairwise(edges)]
    return b"".join([*frames, step.finish()])


def accumulated(frames: bytes) -> dict[str, Any]:
    GATEWAY.stream = frames
    with SDK.messages.stream(**QUESTION) as stream:
        return stream.get_final_message().model_dump(mode="json", exclude_none=True)


def answered(body: bytes, content_type: str) -> dict[str, Any]:
    answer = answer_step(Dialect.OPENAI, content_type, model="m")
    answer.feed(body)
    return dict(json.loads(answer.finish()))


def said(message: dict[str, Any]) -> tuple[list[dict[str, Any]], str, dict[str, int]]:
    content = [
        {name: value for name, value in block.items() if name != "id"}
        for block in message["content"]
    ]
    return content, message["stop_reason"], message["usage"]


@SETTINGS
@given(answer=answers(), habit=HABITS, cuts=CUTS)
def test_every_server_is_understood(answer: Answer, habit: Habit, cuts: list[int]) -> None:
    frames = streamed(stream_of(answer, habit), cuts)
    check_wire(frames)
    expected = answer.content, answer.stop, COUNTED
    assert said(accumulated(frames)) == expected
    assert said(fold(frames)) == expected


@SETTINGS
@given(answer=answers(), habit=HABITS)
def test_asking_for_the_whole_gives_the_same(answer: Answer, habit: Habit) -> None:
    expected = answer.content, answer.stop, COUNTED
    assert said(answered(body_of(answer, habit), "application/json")) == expected
    assert said(answered(stream_of(answer, habit), "text/event-stream")) == expected
