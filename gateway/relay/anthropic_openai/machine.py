"""The order of an Anthropic stream as a table: in which state what may come, and what it takes.

Illegal input is a missing entry; it raises and leaves the state as it was.  ``docs/states.md`` is
drawn from this table by ``scripts/states``.
"""

from __future__ import annotations

import enum
from typing import Final, NamedTuple


class Word(enum.Enum):
    """One of the table's words.  Enum's own hash is written in Python, and asked twice a token."""

    __hash__ = object.__hash__


class State(Word):
    """What the client has been told last."""

    START = "start"
    """Nothing."""
    BETWEEN = "between"
    """``message_start``, and no block is open."""
    TEXT = "text"
    THINKING = "thinking"
    TOOL = "tool"
    DONE = "done"
    """``message_stop`` or ``error``."""


class Input(Word):
    """What an upstream can mean."""

    BEGIN = "begin"
    """The first sign of life."""
    TEXT = "text"
    THINKING = "thinking"
    TOOL = "tool"
    """A tool call whose turn has come."""
    ARGUMENTS = "arguments"
    """More of the open call's arguments."""
    END = "end"
    """The answer is complete."""
    FAIL = "fail"
    """It will never be."""


class Action(Word):
    """One frame each, in the order of the list they stand in."""

    START_MESSAGE = "message_start"
    START_TEXT = "start text"
    START_THINKING = "start thinking"
    START_TOOL = "start tool_use"
    ADD_TEXT = "text_delta"
    ADD_THINKING = "thinking_delta"
    ADD_ARGUMENTS = "input_json_delta"
    SIGN = "signature_delta"
    STOP_BLOCK = "content_block_stop"
    STOP_MESSAGE = "message_delta, message_stop"
    SHOW_ERROR = "error"


class Transition(NamedTuple):
    actions: tuple[Action, ...]
    to: State


class IllegalInput(Exception):
    """The caller asked for what the table does not know."""

    def __init__(self, state: State, input: Input) -> None:
        super().__init__(f"{input.value} in state {state.value}")


#: How each state's open block is closed.
CLOSING: Final[dict[State, tuple[Action, ...]]] = {
    State.BETWEEN: (),
    State.TEXT: (Action.STOP_BLOCK,),
    State.THINKING: (Action.SIGN, Action.STOP_BLOCK),
    State.TOOL: (Action.STOP_BLOCK,),
}

#: What begins a block, and what that takes.
OPENING: Final[dict[Input, Transition]] = {
    Input.TEXT: Transition((Action.START_TEXT, Action.ADD_TEXT), State.TEXT),
    Input.THINKING: Transition((Action.START_THINKING, Action.ADD_THINKING), State.THINKING),
    Input.TOOL: Transition((Action.START_TOOL,), State.TOOL),
}

#: What goes on with the open block.
CONTINUING: Final[dict[tuple[State, Input], Transition]] = {
    (State.TEXT, Input.TEXT): Transition((Action.ADD_TEXT,), State.TEXT),
    (State.THINKING, Input.THINKING): Transition((Action.ADD_THINKING,), State.THINKING),
    (State.TOOL, Input.ARGUMENTS): Transition((Action.ADD_ARGUMENTS,), State.TOOL),
}


def _table() -> dict[tuple[State, Input], Transition]:
    table = {
        (State.START, Input.BEGIN): Transition((Action.START_MESSAGE,), State.BETWEEN),
        (State.START, Input.FAIL): Transition((Action.SHOW_ERROR,), State.DONE),
    }
    for state, close in CLOSING.items():
        for input, opening in OPENING.items():
            table[state, input] = Transition(close + opening.actions, opening.to)
        table[state, Input.END] = Transition((*close, Action.STOP_MESSAGE), State.DONE)
        table[state, Input.FAIL] = Transition((Action.SHOW_ERROR,), State.DONE)
    return table | CONTINUING


TABLE: Final = _table()


def step(state: State, input: Input) -> Transition:
    """Raises IllegalInput."""
    try:
        return TABLE[state, input]
    except KeyError:
        raise IllegalInput(state, input) from None


def diagram() -> str:
    """The table as a Mermaid state diagram, one arrow per transition."""
    lines = ["stateDiagram-v2", "    [*] --> start"]
    for (state, input), (actions, to) in TABLE.items():
        frames = ", ".join(action.value for action in actions)
        lines.append(f"    {state.value} --> {to.value}: {input.value} / {frames}")
    return "\n".join([*lines, "    done --> [*]"])
