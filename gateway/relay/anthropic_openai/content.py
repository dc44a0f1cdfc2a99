"""What a user says or a tool returns, as text and image parts."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import msgspec
from msgspec import Raw

from gateway.relay.anthropic_openai.prompt import (
    Base64Image,
    Document,
    Image,
    ImageAddress,
    Parts,
    PlainText,
    SearchResult,
    Text,
    ToolResult,
)
from gateway.relay.decoding import compact, decode, decode_any

Part = dict[str, Any]


class Kind(msgspec.Struct, frozen=True):
    type: str


KIND = msgspec.json.Decoder(Kind)
#: Kinds that are read inside a tool result; all others are passed on as the JSON they are.
READABLE = frozenset({"text", "image", "document", "search_result"})
RESULT_BLOCK = msgspec.json.Decoder(Text | Image | Document | SearchResult)


def said(blocks: Iterable[object], first: Sequence[Part] = ()) -> str | list[Part] | None:
    """The content of a user's message, after the parts in ``first``.

    A plain string where all is text, since not every template takes a list; None for nothing.
    """
    parts = list(first)
    for block in blocks:
        parts += parts_of(block)
    if all(part["type"] == "text" for part in parts):
        return "\n\n".join(part["text"] for part in parts) or None
    return parts


def parts_of(block: object) -> list[Part]:
    match block:
        case Text(text):
            return [text_part(text)] if text else []
        case Image(source):
            return [image_part(source)]
        case Document(PlainText(data), title, context):
            return [text_part(document_text(data, title, context))]
        case Document(Parts(content), title, context):
            return document_parts(content, title, context)
        case SearchResult(content, source, title):
            texts = "\n".join(text.text for text in content)
            return [text_part(document_text(texts, title, source))]
    raise TypeError(block)


def text_part(text: str) -> Part:
    return {"type": "text", "text": text}


def image_part(source: Base64Image | ImageAddress) -> Part:
    if isinstance(source, Base64Image):
        url = f"data:{source.media_type};base64,{source.data}"
    else:
        url = source.url
    return {"type": "image_url", "image_url": {"url": url}}


def document_text(data: str, title: str | None, context: str | None) -> str:
    return "\n".join(filter(None, ("<document>", title, context, data, "</document>")))


def document_parts(
    content: str | list[Text | Image], title: str | None, context: str | None
) -> list[Part]:
    if isinstance(content, str):
        return [text_part(document_text(content, title, context))]
    opening = "\n".join(filter(None, ("<document>", title, context)))
    inner = [part for block in content for part in parts_of(block)]
    return [text_part(opening), *inner, text_part("</document>")]


def text_of_result(result: ToolResult, place: str) -> tuple[str, list[Part]]:
    """A tool's result: its text, and its images apart.  Raises InvalidRequest."""
    if result.content is None or isinstance(result.content, str):
        parts = [text_part(result.content or "")]
    else:
        parts = []
        for index, raw in enumerate(result.content):
            parts += parts_of_result(raw, f"{place}.content.{index}")
    text = "\n".join(part["text"] for part in parts if part["type"] == "text" and part["text"])
    if result.is_error:
        text = f"Error: {text}" if text else "Error"
    return text, [part for part in parts if part["type"] != "text"]


def parts_of_result(raw: Raw, place: str) -> list[Part]:
    if decode(KIND, raw, place).type in READABLE:
        return parts_of(decode(RESULT_BLOCK, raw, place))
    value = decode_any(raw, place)
    value.pop("cache_control", None)
    return [text_part(compact(value))]
