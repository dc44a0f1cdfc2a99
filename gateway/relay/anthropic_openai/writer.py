"""The machine's hand: the frames that a transition takes, with the open block's index."""

from __future__ import annotations

from gateway.relay.anthropic_openai import events
from gateway.relay.anthropic_openai.calls import ToolCall
from gateway.relay.anthropic_openai.machine import Action, Input, State, step


class Writer:
    """Inputs in, frames out.  The frames that begin and end a message come ready-made."""

    __slots__ = ("_frames", "index", "state")

    def __init__(self) -> None:
        self.state = State.START
        self.index = -1
        """Of the latest block."""
        self._frames: list[bytes] = []

    def take(
        self, input: Input, text: str = "", *, call: ToolCall | None = None, frame: bytes = b""
    ) -> None:
        """Raises IllegalInput."""
        actions, self.state = step(self.state, input)
        for action in actions:
            self._frames.append(self._frame(action, text, call) or frame)

    def taken(self) -> bytes:
        """The frames since the last time."""
        frames = b"".join(self._frames)
        self._frames.clear()
        return frames

    def _frame(self, action: Action, text: str, call: ToolCall | None) -> bytes:
        match action:
            case Action.ADD_TEXT:
                return events.text_delta(self.index, text)
            case Action.ADD_THINKING:
                return events.thinking_delta(self.index, text)
            case Action.ADD_ARGUMENTS:
                return events.input_delta(self.index, text)
            case Action.SIGN:
                return events.signature_delta(self.index)
            case Action.STOP_BLOCK:
                return events.block_stop(self.index)
            case Action.START_MESSAGE | Action.STOP_MESSAGE | Action.SHOW_ERROR:
                return b""
        self.index += 1
        return events.block_start(self.index, new_block(action, call))


def new_block(action: Action, call: ToolCall | None) -> dict[str, object]:
    if action is Action.START_TEXT:
        return {"type": "text", "text": ""}
    if action is Action.START_THINKING:
        return {"type": "thinking", "thinking": "", "signature": ""}
    assert call is not None
    return {"type": "tool_use", "id": call.public_id, "name": call.name, "input": {}}
