"""What went wrong, in an upstream's own words, made one of our errors.

Every server has its own shape for an error, and most use it both as a body behind a failing
status and inside a stream that began with 200.  Seen in late 2026:

* Anthropic: ``{"type":"error","error":{"type","message"}}``
* vLLM, LM Studio, Ollama: ``{"error":{"message","type","code"}}``
* SGLang: the flat ``{"object":"error","message","type","code"}``
* llama.cpp: ``{"error":{"code","message","type"}}``, in native streams without the outer object
* TGI and older Ollama: ``{"error":"…"}``; FastAPI: ``{"detail":"…"}``, or a list of ``msg``
* Node's frameworks: ``{"statusCode":400,"error":"Bad Request","message":"…"}``;
  Google: a list of one
* behind a failing status also ``{"message":"…"}``, and plain text that is no page
"""

from __future__ import annotations

import re
from typing import Any, Final

import msgspec

from gateway.errors import TYPE_OF_STATUS, GatewayError, UpstreamFailed, of_upstream_status
from gateway.sse import encode

MAX_MESSAGE: Final = 4000
"""Characters of an upstream's message that a client gets to read."""

MAX_TEXT: Final = 500
"""Bytes of a body without any shape that are taken for a message."""

#: What tells of the servers behind the gateway: a URL, an address, a port of a host, a key.
INTERNAL: Final = re.compile(
    r"(?<![a-z0-9+.-])[a-z][a-z0-9+.-]*+://[^\s'\"]+"
    r"|\b\d{1,3}(?:\.\d{1,3}){3}\b(?::\d+)?"
    r"|(?<![a-z0-9.-])[a-z0-9][a-z0-9.-]*+:\d{2,5}\b"
    r"|\[[0-9a-f:]*:[0-9a-f:]*\](?::\d+)?"
    r"|\bBearer\s+\S+|\b(?:sk|hf|key)[-_][\w-]{4,}",
    re.IGNORECASE,
)

#: What an error's type or code, its letters only, says about its status.
STATUS_OF_WORD: Final = (
    ("overload", 503),
    ("unavailable", 503),
    ("ratelimit", 429),
    ("toomany", 429),
    ("quota", 429),
    ("exhausted", 429),
    ("authentic", 401),
    ("apikey", 401),
    ("unauthorized", 401),
    ("permission", 403),
    ("forbidden", 403),
    ("notfound", 404),
    ("toolarge", 413),
    ("timeout", 504),
    ("timedout", 504),
    ("deadline", 504),
    ("context", 400),
    ("invalid", 400),
    ("badrequest", 400),
    ("validation", 400),
    ("unprocessable", 422),
)
NAMES_OF_TEXT: Final = ("message", "msg", "error_msg", "error_message", "detail", "reason")
NAMES_OF_STATUS: Final = ("code", "http_status_code", "status", "status_code", "statusCode")
NAMES_OF_KIND: Final = ("type", "error_type", "error_code")
STATUS_OF_TYPE: Final = {type: status for status, type in TYPE_OF_STATUS.items() if status != 502}


def error_of_body(status: int, body: bytes, *, retry_after: int | None = None) -> GatewayError:
    """The error that an answer with a failing ``status`` means for the client."""
    said = read_error(decoded(body), in_body=True)
    if said is None and status < 500:
        said = read_text(body)
    message = said.message if said else f"The upstream answered with status {status}."
    return of_upstream_status(status, shown(status, message), retry_after=retry_after)


def error_of_document(document: object) -> GatewayError | None:
    """The error that a document from the inside of a stream reports; None if it is not one."""
    said = read_error(document)
    if said is None:
        return None
    return of_upstream_status(said.status, shown(said.status, said.message))


def error_of_event(data: bytes) -> GatewayError:
    """The error in data that stands for one, because its event or a field of it says so."""
    document = decoded(data)
    said = read_error(document, in_body=True)
    if isinstance(document, str):
        said = Said(document) if document else None
    elif document is None and data.strip() != b"null":
        said = read_text(data)
    if said is None:
        return garbage("an error without words")
    return of_upstream_status(said.status, shown(said.status, said.message))


def shown(status: int, message: str) -> str:
    """All of a message about the client's own request; of one about the servers' troubles all but
    where they are and what opens them."""
    return message if status < 500 else INTERNAL.sub("…", message)


def garbage(what: str) -> UpstreamFailed:
    return UpstreamFailed(f"The upstream's answer cannot be read: {what}.", kind="garbage")


def ended_early() -> UpstreamFailed:
    return UpstreamFailed("The upstream ended its answer too early.", kind="incomplete")


def gave_up() -> UpstreamFailed:
    return UpstreamFailed("The upstream gave up on its answer.", kind="incomplete")


def error_frame(error: GatewayError, request_id: str) -> bytes:
    """The last frame of a stream that ends badly."""
    return encode("error", msgspec.json.encode(error.document(request_id)))


def decoded(body: bytes) -> object:
    try:
        return msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None


class Said:
    """An upstream's error as far as it can be read: its text, and the words that tell its kind."""

    def __init__(self, message: str, *words: object) -> None:
        self.message = message[:MAX_MESSAGE]
        self._words = [str(word).lower() for word in words if isinstance(word, str | int)]

    @property
    def status(self) -> int:
        """The HTTP status it would have had, had it come before the stream."""
        for word in self._words:
            if len(word) == 3 and word[0] in "45" and word.isdecimal():
                return int(word)
        for word in self._words:
            if status := STATUS_OF_TYPE.get(word):
                return status
        words = " ".join(re.sub("[^a-z]", "", word) for word in self._words)
        return next((status for word, status in STATUS_OF_WORD if word in words), 500)


def read_error(document: object, *, in_body: bool = False) -> Said | None:
    """``in_body``: the document is known to report an error, so less has to prove it."""
    if isinstance(document, list) and len(document) == 1:
        document = document[0]  # as Google does
    if not isinstance(document, dict):
        return None
    inner = first(document.get("error")) or first(document.get("errors"))
    if isinstance(inner, dict):
        return said_by(inner)
    if isinstance(inner, str) and inner:
        return said_by(document, inner)
    if "choices" in document:
        return None
    is_error = document.get("object") == "error" or document.get("type") == "error"
    if is_error or (text_in(document) and (in_body or inner or has_failed(document))):
        return said_by(document)
    return said_in_detail(document.get("detail"))


def first(found: object) -> object:
    return found[0] if isinstance(found, list) and found else found


def has_failed(document: dict[str, Any]) -> bool:
    """Whether a document with a text in it means a failure by that."""
    if "code" in document or "error_code" in document or document.get("success") is False:
        return True
    status = [document.get(name) for name in NAMES_OF_STATUS]
    return any(word in ("error", "failed") or is_failing(word) for word in status)


def is_failing(status: object) -> bool:
    return isinstance(status, int) and 400 <= status <= 599


def said_by(error: dict[str, Any], word: str = "") -> Said:
    """``word``: what stands where others have an object; it is the text unless there is another."""
    while isinstance(error.get("error"), dict):
        error = error["error"]
    kinds = [error.get(name) for name in NAMES_OF_STATUS + NAMES_OF_KIND]
    if text := text_in(error):
        return Said(text, *kinds, word)
    return Said(word or "The upstream reported an error.", *kinds)


def text_in(error: dict[str, Any]) -> str:
    """The words of an error, by any name; some wrap them once more."""
    for name in NAMES_OF_TEXT:
        text = error.get(name)
        if isinstance(text, dict):
            text = text.get("message") or text.get("text")
        if text and isinstance(text, str):
            return text
    return ""


def said_in_detail(detail: object) -> Said | None:
    """FastAPI's: a text, an object, or what is wrong with each field."""
    if isinstance(detail, dict):
        return said_by(detail)
    if isinstance(detail, list):
        faults = [fault.get("msg") for fault in detail if isinstance(fault, dict)]
        detail = "; ".join(fault for fault in faults if isinstance(fault, str))
    return Said(detail) if isinstance(detail, str) and detail else None


def read_text(body: bytes) -> Said | None:
    """A short text about a request is a message; a page, or what stands for one, is not."""
    text = body[: MAX_TEXT + 1].decode("utf-8", "replace").strip()
    is_message = text.isprintable() and len(body) <= MAX_TEXT and text[:1] not in "<{["
    return Said(text) if text and is_message else None
