"""How the lines stand, as plain data: what ``/status.json`` and the status page show.

``docs/operations.md`` documents every field.  Seconds are rounded for reading.
"""

from __future__ import annotations

import time

import gateway as package
from gateway.slots.base import SlotStatistics
from gateway.web.directory import Upstream
from gateway.web.gateway import Gateway
from gateway.web.record import ExchangeRecord


def snapshot(gateway: Gateway, *, most_tickets: int | None = None) -> dict[str, object]:
    """With ``most_tickets``, only the first ones of each line."""
    return {
        "upstreams": {
            upstream.name: upstream_view(upstream, most_tickets)
            for upstream in gateway.directory.with_removed()
        },
        "version": package.__version__,
        "uptime_seconds": seconds(time.monotonic() - gateway.started_at),
        "state": state_of(gateway),
    }


def state_of(gateway: Gateway) -> str:
    if gateway.closing:
        return "closing"
    return "ready" if gateway.ready else "not ready"


def upstream_view(upstream: Upstream, most_tickets: int | None) -> dict[str, object]:
    statistics = upstream.pool.statistics(most_tickets)
    return {
        "dialect": upstream.config.dialect.value,
        "models": list(upstream.config.models),
        "slots": statistics.limit,
        "running": statistics.running,
        "waiting": statistics.waiting,
        "max_waiting": upstream.config.queue.max_waiting,
        "oldest_wait_seconds": seconds(statistics.oldest_wait_seconds),
        "seconds_since_release": seconds(statistics.seconds_since_release),
        "stalled": upstream.stalled,
        "reachable": upstream.pool.reachable,
        "removed": upstream.removed,
        "tickets": tickets_view(statistics),
        "leases": [
            {
                "model": lease.model,
                "client": lease.client,
                "held_seconds": seconds(lease.held_seconds),
            }
            for lease in statistics.leases
        ],
    }


def tickets_view(statistics: SlotStatistics) -> list[dict[str, object]]:
    return [
        {
            "position": ticket.position,
            "model": ticket.model,
            "client": ticket.client,
            "waited_seconds": seconds(ticket.waited_seconds),
            "estimated_wait_seconds": seconds(ticket.estimated_wait_seconds),
        }
        for ticket in statistics.tickets
    ]


def exchange_view(record: ExchangeRecord, ended_at: float) -> dict[str, object]:
    """``ended_at`` is in seconds since 1970, for people's clocks."""
    return {
        "ended_at": round(ended_at, 3),
        "request_id": record.request_id,
        "client": record.client,
        "model": record.model[:200],
        "upstream": record.upstream,
        "stream": record.stream,
        "outcome": record.outcome.value,
        "error": record.error.type if record.error else None,
        "waited_seconds": seconds(record.waited),
        "first_byte_seconds": seconds(record.time_to_first_byte, 3),
        "duration_seconds": seconds(record.duration, 3),
        "output_tokens": record.output_tokens,
    }


def seconds(value: float | None, digits: int = 1) -> float | None:
    return None if value is None else round(value, digits)
