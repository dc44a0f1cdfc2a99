"""What went wrong, in an upstream's own words, made one of our errors.

Every server has its own shape for an error, and most use it both as a body behind a failing
status and inside a stream that began with 200.  Seen in late 2026:

* Anthropic: ``{"type":"error","error":{"type","message"}}``
* vLLM, LM Studio, Ollama: ``{"error":{"message","type","code"}}``
* SGLang: the flat ``{"object":"error","message","type","code"}``
* llama.cpp: ``{"error":{"code","message","type"}}``, in native streams without the outer object
* TGI and older Ollama: ``{"error":"…"}``; FastAPI: ``{"detail":"…"}``
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

from gateway.errors import TYPE_OF_STATUS, GatewayError, UpstreamFailed, of_upstream_status
from gateway.sse import encode

MAX_MESSAGE: Final = 4000
"""Characters of an upstream's message that a client gets to read."""

#: What an error's type, whatever its spelling, says about its status.
STATUS_OF_WORD: Final = (
    ("overload", 503),
    ("unavailable", 503),
    ("rate_limit", 429),
    ("ratelimit", 429),
    ("too_many", 429),
    ("authentication", 401),
    ("permission", 403),
    ("not_found", 404),
    ("notfound", 404),
    ("too_large", 413),
    ("timeout", 504),
    ("exceed_context", 400),
    ("invalid", 400),
    ("bad_request", 400),
    ("badrequest", 400),
)
STATUS_OF_TYPE: Final = {type: status for status, type in TYPE_OF_STATUS.items() if status != 502}


def error_of_body(status: int, body: bytes, *, retry_after: int | None = None) -> GatewayError:
    """The error that an answer with a failing ``status`` means for the client."""
    said = read_error(decoded(body)) or Said(f"The upstream answered with status {status}.")
    return of_upstream_status(status, said.message, retry_after=retry_after)


def error_of_document(document: object) -> GatewayError | None:
    """The error that a document from the inside of a stream reports; None if it is not one."""
    said = read_error(document)
    if said is None:
        return None
    return of_upstream_status(said.status, said.message)


def garbage(what: str) -> UpstreamFailed:
    return UpstreamFailed(f"The upstream's answer cannot be read: {what}.", kind="garbage")


def ended_early() -> UpstreamFailed:
    return UpstreamFailed("The upstream ended its answer too early.", kind="incomplete")


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
        self._code = code

    @property
    def status(self) -> int:
        """The HTTP status it would have had, had it come before the stream."""
        if isinstance(self._code, int) and 400 <= self._code < 600:
            return self._code
        if status := STATUS_OF_TYPE.get(self._type):
            return status
        return next((status for word, status in STATUS_OF_WORD if word in self._type), 500)


def read_error(document: object) -> Said | None:
    if not isinstance(document, dict):
        return None
    inner = document.get("error")
    if isinstance(inner, dict):
        return said_by(inner)
    if isinstance(inner, str) and inner:
        return Said(inner, document.get("error_type"))
    is_flat = document.get("object") == "error" or document.get("type") == "error"
    if is_flat or ("message" in document and "code" in document and "choices" not in document):
        return said_by(document)
    detail = document.get("detail")
    return Said(detail) if isinstance(detail, str) and "choices" not in document else None


def said_by(error: dict[str, Any]) -> Said:
    message = error.get("message")
    text = message if isinstance(message, str) and message else "The upstream reported an error."
    code = error.get("code", error.get("http_status_code"))
    return Said(text, error.get("type"), code)
