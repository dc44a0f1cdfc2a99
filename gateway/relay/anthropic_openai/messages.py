"""Turns into the messages of a chat completions request.

A user's turn becomes the tool results first, each its own ``tool`` message right after the calls
it answers, then what the user says.  An assistant's turn becomes one message: its text, its
calls, and its former thinking where the server has a field for that.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from gateway.relay.anthropic_openai.content import said, text_of_result
from gateway.relay.anthropic_openai.prompt import Text, Thinking, ToolResult, ToolUse
from gateway.relay.anthropic_openai.turns import Placed, Turn
from gateway.relay.decoding import compact

ChatMessage = dict[str, Any]


def chat_messages(system: str, turns: Iterable[Turn], reasoning: str | None) -> list[ChatMessage]:
    """``reasoning`` names the field for former thinking; None leaves thinking out."""
    messages: list[ChatMessage] = [{"role": "system", "content": system}] if system else []
    for turn in turns:
        if turn.by_user:
            messages += user_messages(turn)
        else:
            messages.append(assistant_message(turn, reasoning))
    return messages


def user_messages(turn: Turn) -> list[ChatMessage]:
    """Images of a tool result follow in the user's message: a ``tool`` message is text only."""
    messages: list[ChatMessage] = []
    shown: list[ChatMessage] = []
    for placed in turn.blocks:
        if isinstance(placed.block, ToolResult):
            text, images = text_of_result(placed.block, placed.place)
            call = placed.block.tool_use_id
            messages.append({"role": "tool", "tool_call_id": call, "content": text})
            shown += images
    spoken = [placed.block for placed in turn.blocks if not isinstance(placed.block, ToolResult)]
    if content := said(spoken, shown):
        messages.append({"role": "user", "content": content})
    return messages


def assistant_message(turn: Turn, reasoning: str | None) -> ChatMessage:
    """The texts of one answer are joined as they were cut, so the upstream finds its own words
    again; those of merged messages are paragraphs.  ``content`` is there even when it is empty:
    templates print a missing one as ``None``.
    """
    message: ChatMessage = {"role": "assistant"}
    message["content"] = "\n\n".join(filter(None, map(text_of, turn.parts)))
    thoughts = "\n\n".join(b.block.thinking for b in turn.blocks if isinstance(b.block, Thinking))
    if thoughts and reasoning:
        message[reasoning] = thoughts
    calls = [tool_call(b.block) for b in turn.blocks if isinstance(b.block, ToolUse)]
    if calls:
        message["tool_calls"] = calls
    return message


def text_of(part: Iterable[Placed]) -> str:
    return "".join(placed.block.text for placed in part if isinstance(placed.block, Text))


def tool_call(call: ToolUse) -> ChatMessage:
    """The id goes up as the client has it, here and in the result, so the two always agree."""
    function = {"name": call.name, "arguments": compact(call.input)}
    return {"id": call.id, "type": "function", "function": function}
