"""The gateway's own frames: their bytes, and that nothing variable can break them."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.errors import GatewayError, NotFound, Overloaded
from gateway.relay.failures import error_frame
from gateway.slots.base import Place
from gateway.web.frames import KEEP_ALIVE, QueueEvents, queue_frame

PLACE = Place(position=3, queue_length=7, waited_seconds=4.21, estimated_wait_seconds=31.4)


def data_of(frame: bytes) -> dict[str, object]:
    name, data, *rest = frame.decode().split("\n")
    assert name.startswith("event: ") and data.startswith("data: ") and rest == ["", ""]
    return json.loads(data.removeprefix("data: "))


def test_a_queue_frame_carries_the_documented_payload_in_its_order() -> None:
    assert queue_frame(PLACE, QueueEvents.EVENT) == (
        b'event: queue\ndata: {"type":"ping","position":3,"queue_length":7,'
        b'"waited_seconds":4.2,"estimated_wait_seconds":31}\n\n'
    )


def test_an_unknown_wait_is_null() -> None:
    frame = queue_frame(PLACE._replace(estimated_wait_seconds=None), QueueEvents.EVENT)
    assert data_of(frame)["estimated_wait_seconds"] is None


def test_the_comment_form_says_the_same_in_a_line_every_parser_skips() -> None:
    frame = queue_frame(PLACE, QueueEvents.COMMENT)
    assert frame == (
        b": queue position=3 queue_length=7 waited_seconds=4.2 estimated_wait_seconds=31\n\n"
    )


def test_the_off_form_is_a_keep_alive() -> None:
    assert queue_frame(PLACE, QueueEvents.OFF) == KEEP_ALIVE


@given(message=st.text())
def test_no_message_can_break_an_error_frame(message: str) -> None:
    try:
        message.encode()
    except UnicodeEncodeError:
        return
    frame = error_frame(Overloaded(message), "req_1")
    data = data_of(frame)
    assert data["type"] == "error"
    assert data["error"] == {"type": "overloaded_error", "message": message}
    assert data["request_id"] == "req_1"


@pytest.mark.parametrize("waited", [0.0, 0.04, 59.96, 12345.678])
def test_waited_seconds_are_a_plain_json_number(waited: float) -> None:
    data = data_of(queue_frame(PLACE._replace(waited_seconds=waited), QueueEvents.EVENT))
    assert data["waited_seconds"] == pytest.approx(waited, abs=0.06)


def test_an_error_shows_itself_in_domain_words() -> None:
    assert repr(Overloaded("full")) == "<Overloaded 529 overloaded_error: full>"
    assert isinstance(Overloaded("full"), GatewayError)


def test_an_error_about_half_a_character_can_be_said() -> None:
    assert b"'?'" in error_frame(NotFound("'\ud83d'"), "r")
