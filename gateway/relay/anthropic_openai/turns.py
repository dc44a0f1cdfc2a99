"""The conversation as turns that alternate, and the tool calls in it as pairs.

Anthropic merges neighbouring messages of one role; chat templates often refuse them, so they are
merged here.  A system message among the turns becomes part of the user's turn at that place:
moved to the front it would change the beginning of the prompt and cost the upstream its cache.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final

from gateway.errors import InvalidRequest
from gateway.relay.anthropic_openai.prompt import (
    AssistantBlock,
    Prompt,
    RedactedThinking,
    SystemMessage,
    Text,
    Thinking,
    ToolResult,
    ToolUse,
    UserBlock,
    UserMessage,
    text_blocks,
)

#: Claude Code's first system block names the version and a checksum of the request; left in, no
#: two prompts would begin alike and no cached prefix would ever be found (vllm issue 36829).
BILLING_LINE: Final = "x-anthropic-billing-header:"


@dataclass(frozen=True)
class Placed:
    """A block and where in the request it stands, such as ``messages.3.content.0``."""

    place: str
    block: UserBlock | AssistantBlock


@dataclass
class Turn:
    """What one side says before the other one does."""

    by_user: bool
    parts: list[list[Placed]] = field(default_factory=list)
    """One list per message that was merged into the turn."""

    @property
    def blocks(self) -> Iterator[Placed]:
        return (placed for part in self.parts for placed in part)

    @property
    def is_only_thinking(self) -> bool:
        return all(isinstance(placed.block, Thinking) for placed in self.blocks)

    def tool_uses(self) -> dict[str, str]:
        """Id -> place of every call made in this turn."""
        calls = ((b.block.id, b.place) for b in self.blocks if isinstance(b.block, ToolUse))
        return unique(calls, "tool_use")

    def tool_results(self) -> dict[str, str]:
        """Id of the call -> place of its result, of every result in this turn."""
        results = (
            (b.block.tool_use_id, b.place) for b in self.blocks if isinstance(b.block, ToolResult)
        )
        return unique(results, "tool_result")


def unique(placed: Iterable[tuple[str, str]], kind: str) -> dict[str, str]:
    found: dict[str, str] = {}
    for id, place in placed:
        if id in found:
            raise InvalidRequest(f"{place}: a second {kind} with the id {id[:100]!r} in one turn")
        found[id] = place
    return found


def system_text(prompt: Prompt) -> str:
    """The system prompt, with the system messages that come before the first turn."""
    texts = list(text_blocks(prompt.system or []))
    for message in leading_system_messages(prompt):
        texts += text_blocks(message.content)
    return "\n\n".join(filter(None, (without_billing_line(text.text) for text in texts)))


def without_billing_line(text: str) -> str:
    return text.partition("\n")[2].lstrip("\n") if text.startswith(BILLING_LINE) else text


def leading_system_messages(prompt: Prompt) -> list[SystemMessage]:
    leading: list[SystemMessage] = []
    for message in prompt.messages:
        if not isinstance(message, SystemMessage):
            break
        leading.append(message)
    return leading


def turns_of(prompt: Prompt, *, keep_thinking: bool) -> list[Turn]:
    """The turns in order, alternating, none of them empty.

    Without ``keep_thinking`` former thinking counts as nothing said.  Raises InvalidRequest if
    nothing is left, or if tool calls and results do not pair up.
    """
    turns: list[Turn] = []
    for index in range(len(leading_system_messages(prompt)), len(prompt.messages)):
        message = prompt.messages[index]
        by_user = isinstance(message, UserMessage | SystemMessage)
        placed = placed_blocks(message.content, f"messages.{index}.content")
        blocks = [b for b in placed if says_something(b.block, keep_thinking)]
        if not blocks:
            continue
        if not turns or turns[-1].by_user != by_user:
            turns.append(Turn(by_user))
        turns[-1].parts.append(blocks)
    if turns and turns[-1].is_only_thinking:
        turns.pop()
    if not turns:
        raise InvalidRequest("messages: at least one message must have content")
    check_pairs(turns)
    return turns


def placed_blocks(
    content: str | list[UserBlock] | list[AssistantBlock] | list[Text], place: str
) -> Iterator[Placed]:
    if isinstance(content, str):
        yield Placed(place, Text(content))
        return
    for index, block in enumerate(content):
        yield Placed(f"{place}.{index}", block)


def says_something(block: UserBlock | AssistantBlock, keep_thinking: bool) -> bool:
    """Templates choke on empty texts, and nobody but Anthropic can read redacted thinking."""
    match block:
        case Text(text):
            return bool(text)
        case Thinking(thinking):
            return keep_thinking and bool(thinking)
        case RedactedThinking():
            return False
    return True


def check_pairs(turns: list[Turn]) -> None:
    """Every call has its result in the turn after it, and every result its call before it."""
    calls: dict[str, str] = {}
    for turn in turns:
        results = turn.tool_results()
        for id, place in calls.items():
            if id not in results:
                raise InvalidRequest(
                    f"{place}: `tool_use` id {id[:100]!r} has no `tool_result` in the next turn"
                )
        for id, place in results.items():
            if id not in calls:
                raise InvalidRequest(
                    f"{place}: `tool_result` for {id[:100]!r} has no `tool_use` in the turn before"
                )
        calls = turn.tool_uses()
    for id, place in calls.items():
        raise InvalidRequest(f"{place}: `tool_use` id {id[:100]!r} has no `tool_result`")
