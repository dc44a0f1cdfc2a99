"""What is text, and what is thinking, in the many shapes that servers give to content.

A string is the rule.  Lists of parts, single parts, and parts whose text has another name come
from servers that follow OpenAI's newer API, Mistral's or Ollama's own.
"""

from __future__ import annotations

from typing import Any, Final

from gateway.relay.anthropic_openai.chunks import Delta

NAMES_OF_TEXT: Final = ("text", "summary", "content", "refusal")


def text_of(content: Any) -> str:
    """Content as text: a string, a part with text in it, or a list of both."""
    if isinstance(content, str):
        return content
    if isinstance(content, list):
        return "".join(part_text(part) for part in content if not is_thought(part))
    return "" if is_thought(content) else part_text(content)


def part_text(part: object) -> str:
    """The text of a part of content, or of a part of reasoning in full or in short."""
    if isinstance(part, str):
        return part
    if not isinstance(part, dict):
        return ""
    for name in NAMES_OF_TEXT:
        said = part.get(name)
        if isinstance(said, dict):
            said = said.get("value")
        if said and isinstance(said, str):
            return said
    return ""


def is_thought(part: object) -> bool:
    """Whether a part of the content is thinking, as Mistral's servers send it."""
    return isinstance(part, dict) and part.get("type") in ("thinking", "reasoning")


def thought_text(part: dict[str, Any]) -> str:
    return text_of(part.get("thinking")) or part_text(part)


def reasoning_of(delta: Delta) -> str:
    """Some servers say the same twice, under two names; one of them is enough."""
    for said in (delta.reasoning_content, delta.reasoning, delta.thinking, delta.reasoning_details):
        if said and (text := reasoning_text(said)):
            return text
    if isinstance(delta.content, list):
        return "".join(map(thought_text, filter(is_thought, delta.content)))
    return thought_text(delta.content) if is_thought(delta.content) else ""


def reasoning_text(said: Any) -> str:
    """Like ``text_of``, but here every part is a thought, whatever it is called."""
    if isinstance(said, str):
        return said
    return "".join(map(part_text, said)) if isinstance(said, list) else part_text(said)
