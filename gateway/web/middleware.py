"""Around every handler: the request's id, and Anthropic's shape for whatever goes wrong."""

from __future__ import annotations

from aiohttp import hdrs, web
from aiohttp.http_writer import HttpVersion11
from aiohttp.typedefs import Handler

from gateway.errors import GatewayError, InvalidRequest
from gateway.web.admission import refuse_large
from gateway.web.gateway import GATEWAY
from gateway.web.identity import REQUEST_ID, REQUEST_ID_HEADER, client_of, request_id_of
from gateway.web.replies import error_reply, of_exception


@web.middleware
async def identify_and_explain(request: web.Request, handler: Handler) -> web.StreamResponse:
    config = request.app[GATEWAY].config
    request_id = request[REQUEST_ID] = request_id_of(request, config.listen.trusted_proxies)
    try:
        response = await handler(request)
    except Exception as error:
        response = error_reply(of_exception(error, request, request_id), request_id)
    if not response.prepared:
        response.headers.setdefault(REQUEST_ID_HEADER, request_id)
        if request.content.exception() is not None:
            response.force_close()
    return response


async def expect_continue(request: web.Request) -> web.StreamResponse | None:
    """Answers ``Expect: 100-continue`` itself, after refusing what would be refused anyway.

    aiohttp asks this before any middleware, so the refusal is made here.  HTTP/1.0 knows no such
    expectation (RFC 9110, 10.1.1).
    """
    if request.version < HttpVersion11:
        return None
    config = request.app[GATEWAY].config
    request_id = request_id_of(request, config.listen.trusted_proxies)
    try:
        if request.headers.get(hdrs.EXPECT, "").lower() != "100-continue":
            raise InvalidRequest("expect: only 100-continue is understood")
        client_of(request, config.auth.keys, config.listen.trusted_proxies)
        refuse_large(request.content_length or 0, request.app[GATEWAY])
    except GatewayError as error:
        reply = error_reply(error, request_id)
        reply.force_close()
        return reply
    assert request.transport is not None
    request.transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")
    return None
