"""Server-sent events: the standard's rules, wherever the socket cuts."""

from __future__ import annotations

import re
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.sse import MAX_FRAME_BYTES, Event, FrameTooLarge, Parser, Splitter, encode, parse

LINES = st.sampled_from(
    [b"data: a", b"data:b", b"data", b"data:  c ", b"event: x", b": no", b"id: 1", b"retry: 9"]
)
LINE_ENDS = st.sampled_from([b"\n", b"\r\n", b"\r"])
STREAMS = st.builds(
    lambda lines: b"".join(line + end for line, end in lines),
    st.lists(st.tuples(st.one_of(LINES, st.just(b"")), LINE_ENDS), max_size=30),
)
CUTS = st.lists(st.integers(0, 400), max_size=8)


def cut(stream: bytes, cuts: list[int]) -> list[bytes]:
    edges = [0, *sorted(place % (len(stream) + 1) for place in cuts), len(stream)]
    return [stream[begin:end] for begin, end in pairwise(edges)]


def by_the_book(stream: bytes) -> list[Event]:
    """Section 9.2.6 of the HTML standard, line by line."""
    events = []
    name, data = "", []
    for line in re.split(rb"\r\n|\n|\r", stream)[:-1]:
        field, _, value = line.partition(b":")
        if not line:
            if data:
                events.append(Event(name, b"\n".join(data)))
            name, data = "", []
        elif field == b"data":
            data.append(value.removeprefix(b" "))
        elif field == b"event":
            name = value.removeprefix(b" ").decode()
    return events


def parsed(pieces: list[bytes]) -> list[Event]:
    """What the last frame lacks in blank lines is not this test's matter."""
    parser = Parser()
    return [event for piece in [*pieces, b"\n\n"] for event in parser.feed(piece)]


@given(stream=STREAMS, cuts=CUTS)
def test_the_events_are_those_of_the_standard_wherever_it_is_cut(
    stream: bytes, cuts: list[int]
) -> None:
    assert parsed(cut(stream, cuts)) == by_the_book(stream + b"\n\n")


@given(stream=STREAMS, cuts=CUTS)
def test_the_frames_and_the_rest_are_the_bytes(stream: bytes, cuts: list[int]) -> None:
    splitter = Splitter()
    frames = [frame for piece in cut(stream, cuts) for frame in splitter.feed(piece)]
    assert b"".join(frames) + splitter.take_rest() == stream


@pytest.mark.parametrize(
    ("frame", "event"),
    [
        (b"data: x\n\n", Event("", b"x")),
        (b"event: n\ndata:x\n\n", Event("n", b"x")),
        (b"data: x\ndata:\ndata: y\n\n", Event("", b"x\n\ny")),
        (b"\xef\xbb\xbfdata: x\r\n\r\n", Event("", b"x")),
        (b'error: {"code":500}\n\n', Event("error", b'{"code":500}')),
        (b"event: n\n\n", None),
        (b": x\n\n", None),
        (b"\n\n", None),
    ],
)
def test_a_frame_is_one_event_or_none(frame: bytes, event: Event | None) -> None:
    assert parse(frame) == event


def test_what_is_encoded_is_parsed_again() -> None:
    assert Parser().feed(encode("ping", b"{}")) == [Event("ping", b"{}")]


def test_a_frame_without_end_is_given_up() -> None:
    parser = Parser()
    with pytest.raises(FrameTooLarge):
        for _ in range(MAX_FRAME_BYTES // 65536 + 1):
            parser.feed(b"data: " + b"x" * 65536)
