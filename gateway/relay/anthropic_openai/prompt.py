"""A Messages request as the client wrote it, typed: only the fields that a translation reads.

The kinds of content are those of Anthropic's Messages reference.  Which kinds may stand in whose
turn is part of the types, so a block that cannot be translated is refused by the decoder, with
its place; fields that are not named here (``cache_control``, ``citations``, …) are skipped.
"""

from __future__ import annotations

import msgspec
from msgspec import Raw

from gateway.relay.decoding import decode


class Block(msgspec.Struct, frozen=True, tag_field="type"):
    """One piece of content, told apart by its ``type``."""


class Text(Block, frozen=True, tag="text"):
    text: str


class Base64Image(Block, frozen=True, tag="base64"):
    media_type: str
    data: str


class ImageAddress(Block, frozen=True, tag="url"):
    url: str


class Image(Block, frozen=True, tag="image"):
    source: Base64Image | ImageAddress


class PlainText(Block, frozen=True, tag="text"):
    data: str


class Parts(Block, frozen=True, tag="content"):
    content: str | list[Text | Image]


class Document(Block, frozen=True, tag="document"):
    """Only what is text or images already; nothing here unpacks a PDF."""

    source: PlainText | Parts
    title: str | None = None
    context: str | None = None


class SearchResult(Block, frozen=True, tag="search_result"):
    content: list[Text]
    source: str = ""
    title: str = ""


class Thinking(Block, frozen=True, tag="thinking"):
    thinking: str


class RedactedThinking(Block, frozen=True, tag="redacted_thinking"):
    """Readable by Anthropic's own models only."""


class ToolUse(Block, frozen=True, tag="tool_use"):
    id: str
    name: str
    input: dict[str, object]


class ToolResult(Block, frozen=True, tag="tool_result"):
    """Its blocks stay raw: of a kind unknown to us they still are the tool's words."""

    tool_use_id: str
    content: str | list[Raw] | None = None
    is_error: bool | None = None


UserBlock = Text | Image | Document | SearchResult | ToolResult
AssistantBlock = Text | Thinking | RedactedThinking | ToolUse


class Message(msgspec.Struct, frozen=True, tag_field="role"):
    """One turn, told apart by its ``role``."""


class UserMessage(Message, frozen=True, tag="user"):
    content: str | list[UserBlock]


class AssistantMessage(Message, frozen=True, tag="assistant"):
    content: str | list[AssistantBlock]


class SystemMessage(Message, frozen=True, tag="system"):
    content: str | list[Text]


class Tool(msgspec.Struct, frozen=True):
    """``input_schema`` is missing where Anthropic knows the tool by its ``type``."""

    name: str = ""
    type: str | None = None
    description: str | None = None
    input_schema: dict[str, Raw] | None = None
    strict: bool | None = None


class ToolChoice(msgspec.Struct, frozen=True):
    type: str
    name: str | None = None
    disable_parallel_tool_use: bool | None = None


class ThinkingMode(msgspec.Struct, frozen=True):
    type: str


class OutputFormat(msgspec.Struct, frozen=True):
    type: str
    schema: dict[str, Raw] | None = None


class OutputConfig(msgspec.Struct, frozen=True):
    format: OutputFormat | None = None


class Prompt(msgspec.Struct, frozen=True):
    messages: list[UserMessage | AssistantMessage | SystemMessage]
    system: str | list[Text] | None = None
    tools: list[Tool] | None = None
    tool_choice: ToolChoice | None = None
    thinking: ThinkingMode | None = None
    stop_sequences: list[str] | None = None
    temperature: int | float | None = None
    top_p: int | float | None = None
    top_k: int | None = None
    output_config: OutputConfig | None = None
    output_format: OutputFormat | None = None


PROMPT = msgspec.json.Decoder(Prompt)


def read_prompt(body: bytes) -> Prompt:
    """Raises InvalidRequest, also for content that no chat completion can carry."""
    return decode(PROMPT, body)


def text_blocks(content: str | list[Text]) -> list[Text]:
    return [Text(content)] if isinstance(content, str) else content
