"""Whether the gateway lives, is ready, and how its lines stand."""

from __future__ import annotations

import time

import msgspec
from aiohttp import web

import gateway as package
from gateway.slots.base import SlotStatistics
from gateway.web.directory import Upstream
from gateway.web.gateway import GATEWAY, Gateway
from gateway.web.replies import json_reply


async def healthz(request: web.Request) -> web.Response:
    return json_reply(b'{"status":"ok"}')


async def readyz(request: web.Request) -> web.Response:
    """Ready means: config loaded, not closing, slots reachable.  A stalled upstream is named, but
    leaves the gateway ready: another replica could not do better."""
    gateway = request.app[GATEWAY]
    answer = {
        "status": "closing" if gateway.closing else "ready" if gateway.ready else "not ready",
        "stalled": [upstream.name for upstream in gateway.directory if upstream.stalled],
    }
    response = json_reply(msgspec.json.encode(answer))
    response.set_status(200 if gateway.ready else 503)
    return response


async def status_json(request: web.Request) -> web.Response:
    return json_reply(msgspec.json.encode(snapshot(request.app[GATEWAY])))


def snapshot(gateway: Gateway) -> dict[str, object]:
    """The data of ``/status.json``; seconds are rounded for reading."""
    return {
        "upstreams": {upstream.name: _upstream(upstream) for upstream in gateway.directory},
        "version": package.__version__,
        "uptime_seconds": round(time.monotonic() - gateway.started_at, 1),
    }


def _upstream(upstream: Upstream) -> dict[str, object]:
    statistics = upstream.pool.statistics()
    return {
        "dialect": upstream.config.dialect.value,
        "slots": statistics.limit,
        "running": statistics.running,
        "waiting": statistics.waiting,
        "oldest_wait_seconds": round(statistics.oldest_wait_seconds, 1),
        "stalled": upstream.stalled,
        "tickets": _tickets(statistics),
        "leases": [
            {
                "model": lease.model,
                "client": lease.client,
                "held_seconds": round(lease.held_seconds, 1),
            }
            for lease in statistics.leases
        ],
    }


def _tickets(statistics: SlotStatistics) -> list[dict[str, object]]:
    return [
        {
            "position": ticket.position,
            "model": ticket.model,
            "client": ticket.client,
            "waited_seconds": round(ticket.waited_seconds, 1),
            "estimated_wait_seconds": ticket.estimated_wait_seconds,
        }
        for ticket in statistics.tickets
    ]
