"""One exception tree; each class carries its HTTP status and its Anthropic error type.

The types are those of Anthropic's error page (platform.claude.com, "Errors"); which situation
gets which one is the table in ``docs/errors.md``.  The same error becomes a JSON body before a
stream opens (``web/replies.py``) and an ``event: error`` frame after (``web/frames.py``).
"""

from __future__ import annotations

from typing import ClassVar


class GatewayError(Exception):
    """A request that ends badly, in words its sender may read.

    ``message`` never holds a credential, an internal address or a stack trace.
    ``retry_after`` is in whole seconds and becomes the ``retry-after`` header.
    """

    status: int = 500
    type: str = "api_error"

    def __init__(self, message: str, *, retry_after: int | None = None) -> None:
        # What somebody else has said may hold half characters, which nobody could encode.
        message = message.encode("utf-8", "replace").decode()
        super().__init__(message)
        self.message = message
        self.retry_after = retry_after

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.status} {self.type}: {self.message}>"

    def document(self, request_id: str) -> dict[str, object]:
        """Anthropic's error shape: a JSON body, or the data of an ``event: error`` frame."""
        return {
            "type": "error",
            "error": {"type": self.type, "message": self.message},
            "request_id": request_id,
        }


class InternalError(GatewayError):
    """A fault of the gateway itself; the log has the details, the client does not."""


class InvalidRequest(GatewayError):
    """The request is wrong and repeating it unchanged is pointless."""

    status = 400
    type = "invalid_request_error"


class NotAuthenticated(GatewayError):
    status = 401
    type = "authentication_error"


class NotFound(GatewayError):
    """Unknown path or unknown model."""

    status = 404
    type = "not_found_error"


class MethodNotAllowed(GatewayError):
    """``allowed`` becomes the ``allow`` header, which RFC 9110 (15.5.6) demands."""

    status = 405
    type = "invalid_request_error"

    def __init__(self, message: str, *, allowed: str) -> None:
        super().__init__(message)
        self.allowed = allowed


class RequestTooLarge(GatewayError):
    status = 413
    type = "request_too_large"


class RequestStalled(GatewayError):
    """The rest of a request has not come; SDKs send it again."""

    status = 408
    type = "timeout_error"


class RateLimited(GatewayError):
    """One client has too much in the line."""

    status = 429
    type = "rate_limit_error"


class Overloaded(GatewayError):
    """Worth trying again later: line full, waited too long, closing, upstream busy.

    529 is Anthropic's own status for it; every SDK retries it.
    """

    status = 529
    type = "overloaded_error"


class UpstreamFailed(GatewayError):
    """The upstream could not be reached, broke off, or answered what nobody can read.

    ``kind`` is one of a small fixed set and labels ``gateway_upstream_errors_total``.
    """

    status = 502
    type = "api_error"

    def __init__(self, message: str, *, kind: str, retry_after: int | None = None) -> None:
        super().__init__(message, retry_after=retry_after)
        self.kind = kind


class UpstreamTimeout(UpstreamFailed):
    """No first byte, or silence for too long."""

    status = 504
    type = "timeout_error"


class UpstreamBusy(UpstreamFailed):
    """The upstream said 429 or 503, as a status or inside its stream."""

    status = 529
    type = "overloaded_error"


#: Anthropic's error type for a status, where the status alone must decide.
TYPE_OF_STATUS: dict[int, str] = {
    400: "invalid_request_error",
    401: "authentication_error",
    402: "billing_error",
    403: "permission_error",
    404: "not_found_error",
    409: "conflict_error",
    413: "request_too_large",
    429: "rate_limit_error",
    500: "api_error",
    502: "api_error",
    504: "timeout_error",
    529: "overloaded_error",
}


class UpstreamRefused(UpstreamFailed):
    """The upstream said 4xx about this very request: its status and its message are kept."""

    def __init__(self, message: str, *, status: int, type: str | None = None) -> None:
        super().__init__(message, kind="refused_request")
        self.status = status
        self.type = type or TYPE_OF_STATUS.get(status, "invalid_request_error")


def of_upstream_status(
    status: int, message: str, *, retry_after: int | None = None, type: str | None = None
) -> UpstreamFailed:
    """The error that an upstream's failing ``status`` means for our client.

    The table is section 3 of the documentation's error page: a 4xx about the request keeps its
    status and message; 401 and 403 are between the gateway and the upstream, and their text may
    hold a key, so neither reaches the client; 429 and 503 mean "later"; all else is a bad gateway.
    """
    if status in (401, 403):
        return UpstreamFailed("The upstream refused the gateway's credentials.", kind="credentials")
    if status in (429, 503, 529):
        return UpstreamBusy(message, kind="busy", retry_after=retry_after)
    if status in (408, 504):
        return UpstreamTimeout(message, kind="timeout")
    if 400 <= status < 500:
        return UpstreamRefused(message, status=status, type=type)
    if 300 <= status < 400:
        return UpstreamFailed("The upstream answered with a redirect.", kind="redirect")
    return UpstreamFailed(message, kind="status_5xx")


class ConfigError(Exception):
    """The configuration is unusable; ``problems`` names every offending path."""

    problems: tuple[str, ...]
    exit_code: ClassVar[int] = 2

    def __init__(self, *problems: str) -> None:
        super().__init__("\n".join(problems))
        self.problems = problems
