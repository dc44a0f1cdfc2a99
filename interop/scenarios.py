"""What each client is put through, and what a good client has in hand at the end."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import Any

MODEL = "interop"
TEXT = "Hello from the other side."
THOUGHT = "Let me see."
TOOL_CALL = 'weather({"city": "Paris"})'
"""As the clients' scripts write down a tool call."""


class Line(enum.Enum):
    """What the client finds at the gateway."""

    FREE = "both slots are free"
    THREE = "it is third in line"
    FULL = "the line is full until it has been refused once"
    CLOSING = "the gateway closes while it waits"


class Answer(enum.Enum):
    """How the upstream answers it."""

    TEXT = "text"
    TOOL = "tool"
    THINKING = "thinking"
    ERROR = "error"


@dataclass(frozen=True)
class Scenario:
    name: str
    line: Line
    answer: Answer = Answer.TEXT
    stream: bool = True

    @property
    def expected(self) -> str | None:
        """The text the client must have; None where it must report an error."""
        if self.answer is Answer.ERROR or self.line is Line.CLOSING:
            return None
        return TOOL_CALL if self.answer is Answer.TOOL else TEXT

    def order(self, url: str, mode: str, headers: dict[str, str]) -> dict[str, Any]:
        """What the client's script is told, as JSON."""
        return {
            "url": url,
            "mode": mode,
            "model": MODEL,
            "prompt": f"answer:{self.answer.value}",
            "stream": self.stream,
            "tools": self.answer is Answer.TOOL,
            "thinking": self.answer is Answer.THINKING,
            "headers": headers,
        }


SCENARIOS = (
    Scenario("free", Line.FREE),
    Scenario("queued", Line.THREE),
    Scenario("queued, tool", Line.THREE, Answer.TOOL),
    Scenario("queued, thinking", Line.THREE, Answer.THINKING),
    Scenario("queued, whole", Line.THREE, stream=False),
    Scenario("full", Line.FULL),
    Scenario("queued, error", Line.THREE, Answer.ERROR),
    Scenario("closing", Line.CLOSING),
)
