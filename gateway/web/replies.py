"""Errors before a stream opens: status, headers and Anthropic's JSON body, whoever raised them."""

from __future__ import annotations

import logging
from collections.abc import Mapping

from aiohttp import web

from gateway.errors import (
    GatewayError,
    InternalError,
    InvalidRequest,
    MethodNotAllowed,
    NotFound,
    RequestTooLarge,
)
from gateway.web.frames import error_body
from gateway.web.identity import REQUEST_ID_HEADER

log = logging.getLogger("gateway")


def error_reply(error: GatewayError, request_id: str) -> web.Response:
    headers: dict[str, str] = {REQUEST_ID_HEADER: request_id}
    if error.retry_after is not None:
        headers["retry-after"] = str(max(1, error.retry_after))
    if isinstance(error, MethodNotAllowed):
        headers["allow"] = error.allowed
    return web.Response(
        status=error.status,
        body=error_body(error, request_id),
        content_type="application/json",
        headers=headers,
    )


def json_reply(body: bytes, headers: Mapping[str, str] | None = None) -> web.Response:
    return web.Response(body=body, content_type="application/json", headers=headers)


def of_framework(error: web.HTTPException, request: web.BaseRequest) -> GatewayError:
    """What aiohttp's own refusal means in the words of the surface."""
    if error.status == 404:
        return NotFound(f"Not found: {request.method} {request.path[:200]}")
    if isinstance(error, web.HTTPMethodNotAllowed):
        allowed = ", ".join(sorted(error.allowed_methods))
        message = f"{request.method} is not allowed here; try {allowed}."
        return MethodNotAllowed(message, allowed=allowed)
    if error.status == 413:
        return RequestTooLarge("The request's body is too large.")
    refusal = InvalidRequest(error.reason or "The request is not valid.")
    refusal.status = error.status
    return refusal


def of_exception(error: Exception, request: web.Request, request_id: str) -> GatewayError:
    """Any exception as an error that its client may see; an unexpected one goes to the log."""
    if isinstance(error, GatewayError):
        return error
    if isinstance(error, web.HTTPException):
        return of_framework(error, request)
    log.exception("%s: a fault of the gateway itself", request_id)
    return InternalError("The gateway failed to handle this request; its log says why.")
