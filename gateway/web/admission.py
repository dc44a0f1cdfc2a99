"""What happens before the line: who asks, what for, and is it well-formed?

Everything that can be refused is refused here, so that a refusal has an HTTP status, takes no
slot and costs the upstream nothing.
"""

from __future__ import annotations

import asyncio
import functools
from typing import NamedTuple

from aiohttp import web

from gateway.config import Dialect
from gateway.errors import InvalidRequest, Overloaded, RequestStalled, RequestTooLarge
from gateway.relay.anthropic_openai.requests import to_openai
from gateway.relay.envelope import Envelope, parse_envelope
from gateway.web.bodies import BROKEN_BODY, BodyHold, worked_out
from gateway.web.directory import Upstream
from gateway.web.frames import QueueEvents
from gateway.web.gateway import Gateway
from gateway.web.identity import client_of
from gateway.web.record import ExchangeRecord

QUEUE_EVENTS_HEADER = "x-gateway-queue-events"


class Admitted(NamedTuple):
    """A request that may join the line, with the body its upstream will get."""

    model: str
    stream: bool
    stop_sequences: tuple[str, ...]
    client: str
    upstream: Upstream
    body: bytes
    queue_events: QueueEvents


async def admit(
    request: web.Request, gateway: Gateway, record: ExchangeRecord, hold: BodyHold
) -> Admitted:
    """Raises GatewayError for everything that must not join the line."""
    config = gateway.config
    record.client = client_of(request, config.auth.keys, config.listen.trusted_proxies)
    gateway.refuse_if_closing()
    queue_events = queue_events_of(request, QueueEvents(config.queue_events.mode.value))
    envelope = parse_envelope(await read_body(request, gateway, hold))
    record.model, record.stream = envelope.model, envelope.stream
    upstream, upstream_model = gateway.directory.find(envelope.model)
    record.upstream = upstream.name
    body = await upstream_body(gateway, envelope, upstream, upstream_model)
    hold.resize(len(body))
    return Admitted(
        model=envelope.model,
        stream=envelope.stream,
        stop_sequences=tuple(envelope.stop_sequences),
        client=record.client,
        upstream=upstream,
        body=body,
        queue_events=queue_events,
    )


def queue_events_of(request: web.Request, default: QueueEvents) -> QueueEvents:
    asked = request.headers.get(QUEUE_EVENTS_HEADER)
    if asked is None:
        return default
    try:
        return QueueEvents(asked.strip().lower())
    except ValueError:
        raise InvalidRequest(f"{QUEUE_EVENTS_HEADER}: expected event, comment or off") from None


async def read_body(request: web.Request, gateway: Gateway, hold: BodyHold) -> bytes:
    """The whole body, before the line: a client's leaving can only be seen once nothing of its
    request is left unread.

    Raises RequestTooLarge, RequestStalled, Overloaded, InvalidRequest.
    """
    limits = gateway.config.client
    refuse_large(request.content_length or 0, gateway)
    content = request.content
    pieces: list[bytes] = []
    size = 0
    try:
        while not content.at_eof():
            pieces.append(data := await next_piece(request, limits.write_timeout_seconds))
            size += len(data)
            hold.resize(size)
            refuse_large(size, gateway)
            if gateway.bodies.held > limits.max_queued_body_bytes:
                raise Overloaded("Too many large requests are waiting; try again.", retry_after=10)
    except BROKEN_BODY:
        content.feed_eof()  # so that nobody tries to read the rest of it
        raise InvalidRequest(
            "The request's body cannot be read: its chunks or its compression are broken."
        ) from None
    return b"".join(pieces)


async def next_piece(request: web.Request, seconds: float) -> bytes:
    """Raises RequestStalled: what has come of a body counts against everybody's bound, and a
    client that has lost its network may be gone for hours without a word."""
    content = request.content
    if content.is_eof():
        return await content.readany()
    try:
        async with asyncio.timeout(seconds):
            return await content.readany()
    except TimeoutError:
        content.set_exception(web.RequestPayloadError("The body has stalled"))
        content.feed_eof()
        raise RequestStalled(f"Nothing of the body came for {seconds:g} seconds.") from None


def refuse_large(size: int, gateway: Gateway) -> None:
    most = gateway.config.client.max_body_bytes
    if size > most:
        raise RequestTooLarge(f"The request's body is larger than {most} bytes.")


async def upstream_body(
    gateway: Gateway, envelope: Envelope, upstream: Upstream, upstream_model: str
) -> bytes:
    """The request in the upstream's dialect.  Raises InvalidRequest for what it cannot express."""
    most = upstream.config.max_output_tokens
    if upstream.config.dialect is Dialect.ANTHROPIC:
        return envelope.for_native(upstream_model, most)
    server = await gateway.server_of(upstream)
    translate = functools.partial(
        to_openai, envelope, upstream_model=upstream_model, max_output_tokens=most, server=server
    )
    return await worked_out(translate, len(envelope.body))
