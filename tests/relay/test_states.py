"""The table of the translator: complete where it must be, drawn as it is, open to be tried."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from gateway.relay.anthropic_openai.machine import (
    CLOSING,
    TABLE,
    Action,
    IllegalInput,
    Input,
    State,
    step,
)

ROOT = Path(__file__).resolve().parents[2]


def test_the_page_shows_the_table_as_it_is() -> None:
    command = [sys.executable, str(ROOT / "scripts" / "states.py")]
    printed = subprocess.run(command, cwd=ROOT, env={"PYTHONPATH": str(ROOT)}, capture_output=True)
    assert printed.stdout.decode() == (ROOT / "docs" / "states.md").read_text()


@pytest.mark.parametrize("state", CLOSING)
@pytest.mark.parametrize("input", [Input.TEXT, Input.THINKING, Input.TOOL, Input.END, Input.FAIL])
def test_an_open_message_takes_every_kind_of_input(state: State, input: Input) -> None:
    assert (state, input) in TABLE


@pytest.mark.parametrize("input", Input)
def test_nothing_follows_the_end(input: Input) -> None:
    with pytest.raises(IllegalInput):
        step(State.DONE, input)


def test_arguments_belong_to_an_open_call_only() -> None:
    assert [state for state, input in TABLE if input is Input.ARGUMENTS] == [State.TOOL]


def test_each_start_has_its_stop() -> None:
    for (state, _), (actions, to) in TABLE.items():
        opened = sum(action.value.startswith("start ") for action in actions)
        closed = actions.count(Action.STOP_BLOCK)
        was_open = state in (State.TEXT, State.THINKING, State.TOOL)
        is_open = to in (State.TEXT, State.THINKING, State.TOOL)
        if Action.SHOW_ERROR not in actions:
            assert was_open + opened - closed == is_open


@pytest.mark.parametrize(
    ("recorded", "code", "printed"),
    [
        (b'data: {"choices":[{"delta":{"content":"Hi"}}]}\n\ndata: [DONE]\n\n', 0, b'"Hi"'),
        (b'{"choices":[{"message":{"content":"Hi"}}]}', 0, b'"Hi"'),
        (b'data: {"error":{"message":"busy","code":503}}\n\n', 1, b"status 529"),
    ],
)
def test_a_recording_is_translated_on_the_command_line(
    recorded: bytes, code: int, printed: bytes
) -> None:
    command = [sys.executable, "-m", "gateway.relay.anthropic_openai", "--model", "m"]
    ended = subprocess.run(command, cwd=ROOT, input=recorded, capture_output=True)
    assert (ended.returncode, printed in ended.stdout + ended.stderr) == (code, True)
