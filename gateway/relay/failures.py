"""What went wrong, in an upstream's own words, made one of our errors.

Every server has its own shape for an error, and most use it both as a body behind a failing
status and inside a stream that began with 200.  Seen in late 2026:

* Anthropic: ``{"type":"error","error":{"type","message"}}``
* vLLM, LM Studio, Ollama: ``{"error":{"message","type","code"}}``
* SGLang: the flat ``{"object":"error","message","type","code"}``
* llama.cpp: ``{"error":{"code","message","type"}}``, in native streams without the outer object
* TGI and older Ollama: ``{"error":"…"}``; FastAPI: ``{"detail":"…"}``, or a list of ``msg``
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

#: What an error's type or code, without blanks and underscores, says about its status.
STATUS_OF_WORD: Final = (
    ("overload", 503),
    ("unavailable", 503),
    ("ratelimit", 429),
    ("toomany", 429),
    ("authentication", 401),
    ("apikey", 401),
    ("unauthorized", 401),
    ("permission", 403),
    ("forbidden", 403),
    ("notfound", 404),
    ("toolarge", 413),
    ("timeout", 504),
    ("context", 400),
    ("invalid", 400),
    ("badrequest", 400),
)
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
    """An upstream's error as far as it can be read."""

    def __init__(self, message: str, type: object = None, code: object = None) -> None:
        self.message = message[:MAX_MESSAGE]
        self._type = str(type or "").lower()
        self._code = str(code or "").lower()

    @property
    def status(self) -> int:
        """The HTTP status it would have had, had it come before the stream."""
        if len(self._code) == 3 and self._code[0] in "45" and self._code.isdecimal():
            return int(self._code)
        if status := STATUS_OF_TYPE.get(self._type):
            return status
        words = f"{self._type} {self._code}".replace("_", "")
        return next((status for word, status in STATUS_OF_WORD if word in words), 500)


def read_error(document: object, *, in_body: bool = False) -> Said | None:
    """``in_body``: the document is known to report an error, so less has to prove it."""
    if not isinstance(document, dict):
        return None
    inner = document.get("error")
    if isinstance(inner, dict):
        return said_by(inner)
    if isinstance(inner, str) and inner:
        return Said(inner, document.get("error_type"))
    if "choices" in document:
        return None
    is_flat = document.get("object") == "error" or document.get("type") == "error"
    if is_flat or ("message" in document and (in_body or "code" in document)):
        return said_by(document)
    return said_in_detail(document.get("detail"))


def said_by(error: dict[str, Any]) -> Said:
    message = error.get("message")
    text = message if isinstance(message, str) and message else "The upstream reported an error."
    code = error.get("code") or error.get("http_status_code")
    return Said(text, error.get("type"), code)


def said_in_detail(detail: object) -> Said | None:
    """FastAPI's: a text, or what is wrong with each field."""
    if isinstance(detail, list):
        faults = [fault.get("msg") for fault in detail if isinstance(fault, dict)]
        detail = "; ".join(fault for fault in faults if isinstance(fault, str))
    return Said(detail) if isinstance(detail, str) and detail else None


def read_text(body: bytes) -> Said | None:
    """A short text about a request is a message; a page, or what stands for one, is not."""
    text = body[: MAX_TEXT + 1].decode("utf-8", "replace").strip()
    is_message = text.isprintable() and len(body) <= MAX_TEXT and text[:1] not in "<{["
    return Said(text) if text and is_message else None
