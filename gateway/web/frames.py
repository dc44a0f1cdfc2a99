"""The gateway's own frames: queue positions and keep-alives; and the body of an error.  Pure.

Everything variable goes through a JSON encoder or is a number, so nothing can break a frame.
"""

from __future__ import annotations

import enum

import msgspec

from gateway.errors import GatewayError
from gateway.slots.base import Place

KEEP_ALIVE = b": keep-alive\n\n"
"""Bridges silence before ``message_start``; every SSE parser skips comments."""

PING = b'event: ping\ndata: {"type": "ping"}\n\n'
"""Anthropic's own keep-alive, for silence after ``message_start``."""


class QueueEvents(enum.Enum):
    """How a waiting client hears of its place; ``x-gateway-queue-events`` chooses."""

    EVENT = "event"
    COMMENT = "comment"
    OFF = "off"


def queue_frame(place: Place, form: QueueEvents) -> bytes:
    """One frame that tells ``place``.

    ``data.type`` is ``ping`` so that clients which dispatch on it, and refuse types they do not
    know, take the frame for a keep-alive; the event's *name* says what it is.
    """
    if form is QueueEvents.OFF:
        return KEEP_ALIVE
    waited = round(place.waited_seconds, 1)
    estimate = place.estimated_wait_seconds
    if form is QueueEvents.COMMENT:
        about = "" if estimate is None else f" estimated_wait_seconds={round(estimate)}"
        return (
            f": queue position={place.position} queue_length={place.queue_length}"
            f" waited_seconds={waited}{about}\n\n"
        ).encode()
    return (
        f'event: queue\ndata: {{"type":"ping","position":{place.position},'
        f'"queue_length":{place.queue_length},"waited_seconds":{waited},'
        f'"estimated_wait_seconds":{"null" if estimate is None else round(estimate)}}}\n\n'
    ).encode()


def error_body(error: GatewayError, request_id: str) -> bytes:
    return msgspec.json.encode(error.document(request_id))
