"""The metrics' side of the web room: what the pools are at a scrape, and each exchange's end."""

from __future__ import annotations

from collections.abc import Iterator

from aiohttp import web

import gateway as package
from gateway.metrics import CONTENT_TYPE, Ended, Line, Metrics
from gateway.web.gateway import Gateway
from gateway.web.record import ExchangeOutcome, ExchangeRecord

METRICS = web.AppKey("METRICS", Metrics)


def metrics_of(gateway: Gateway) -> Metrics:
    """The metrics of ``gateway``, told of every exchange from now on."""
    outcomes = [outcome.value for outcome in ExchangeOutcome]
    metrics = Metrics(package.__version__, lambda: lines_of(gateway), outcomes=outcomes)
    gateway.observers.add(lambda record: metrics.count(ended(record)))
    return metrics


def lines_of(gateway: Gateway) -> Iterator[Line]:
    for upstream in gateway.directory.with_removed():
        yield Line(
            upstream.name,
            list(upstream.config.models),
            upstream.pool.statistics(most_tickets=0),
            upstream.config.queue.max_waiting,
            upstream.stalled,
            upstream.pool.reachable,
        )


def ended(record: ExchangeRecord) -> Ended:
    return Ended(
        upstream=record.upstream,
        model=record.model if record.upstream else "",
        outcome=record.outcome.value,
        waited=record.waited,
        first_byte=record.time_to_first_byte,
        duration=record.duration,
        output_tokens=record.output_tokens,
        upstream_error=record.upstream_error,
    )


async def metrics(request: web.Request) -> web.Response:
    return web.Response(body=request.app[METRICS].expose(), headers={"content-type": CONTENT_TYPE})
