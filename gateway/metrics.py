"""What Prometheus reads: gauges taken from the pools at each scrape, counters fed by exchanges.

A registry of its own, so that nothing another library registers globally shows up here.  The
names are an interface: dashboards and alerts depend on them (``docs/operations.md``).

With Redis, the gauges of each gateway show the whole line; take their maximum, not their sum.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple, TypeVar

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Histogram,
    Info,
    disable_created_metrics,
    generate_latest,
)
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.process_collector import ProcessCollector
from prometheus_client.registry import Collector

from gateway.slots.base import Outcome, SlotStatistics

# Nobody reads when a counter began, and it would double the number of series.
disable_created_metrics()  # type: ignore[no-untyped-call]

Metered = TypeVar("Metered", Counter, Histogram)

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

WAITS = (0.1, 0.25, 0.5, 1, 2.5, 5, 10, 20, 30, 60, 120, 180, 300, 600)
"""Seconds in line: from a slot that was free at once to the longest wait anybody configures."""

FIRST_BYTES = (0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 20, 30, 60, 120, 300, 600)
DURATIONS = (0.1, 0.25, 0.5, 1, 2.5, 5, 10, 20, 30, 60, 120, 300, 600, 1800)


@functools.lru_cache(maxsize=4096)
def series(metric: Metered, *labels: str) -> Metered:
    """The one series with these labels; the library's own search takes a lock and a while."""
    return metric.labels(*labels)


class Line(NamedTuple):
    """One upstream at the moment of a scrape."""

    upstream: str
    models: Sequence[str]
    statistics: SlotStatistics
    max_waiting: int
    stalled: bool
    reachable: bool
    """Whether slots can be granted: a shared line may have lost its store."""


class Gauge(NamedTuple):
    name: str
    help: str
    value: Callable[[Line], float]


GAUGES = (
    Gauge(
        "gateway_requests_waiting",
        "Requests that wait in line for a slot.",
        lambda line: line.statistics.waiting,
    ),
    Gauge(
        "gateway_requests_running",
        "Requests that hold a slot.",
        lambda line: line.statistics.running,
    ),
    Gauge(
        "gateway_slots_limit",
        "Requests that may run at once.",
        lambda line: line.statistics.limit,
    ),
    Gauge(
        "gateway_queue_limit",
        "Requests that may wait at once; one more is refused.",
        lambda line: line.max_waiting,
    ),
    Gauge(
        "gateway_queue_oldest_wait_seconds",
        "How long the first request in line has waited; 0 when nobody waits.",
        lambda line: line.statistics.oldest_wait_seconds,
    ),
    Gauge(
        "gateway_upstream_stalled",
        "1 while all slots are taken, somebody waits, and no slot has been given back for longer"
        " than a first byte may take.",
        lambda line: line.stalled,
    ),
    Gauge(
        "gateway_slots_reachable",
        "0 while nobody can be granted a slot because the shared store is away.",
        lambda line: line.reachable,
    ),
)


class Lines(Collector):
    """Reads the pools when somebody scrapes, and never otherwise."""

    def __init__(self, lines: Callable[[], Iterable[Line]]) -> None:
        self._lines = lines

    def describe(self) -> Iterable[Metric]:
        """Nothing: otherwise registering would collect before there are any pools."""
        return ()

    def collect(self) -> Iterator[Metric]:
        lines = list(self._lines())
        for gauge in GAUGES:
            family = GaugeMetricFamily(gauge.name, gauge.help, labels=["upstream"])
            for line in lines:
                family.add_metric([line.upstream], float(gauge.value(line)))
            yield family
        yield self._tickets(lines)
        yield self._leases_lost(lines)

    def _tickets(self, lines: list[Line]) -> Metric:
        family = CounterMetricFamily(
            "gateway_tickets",
            "Tickets by how their wait ended.",
            labels=["upstream", "outcome"],
        )
        for line in lines:
            for outcome in Outcome:
                count = line.statistics.outcomes.get(outcome, 0)
                family.add_metric([line.upstream, outcome.value], count)
        return family

    def _leases_lost(self, lines: list[Line]) -> Metric:
        family = CounterMetricFamily(
            "gateway_leases_lost",
            "Slots that this gateway lost while it held them, with a shared line only.",
            labels=["upstream"],
        )
        for line in lines:
            family.add_metric([line.upstream], line.statistics.leases_lost)
        return family


class Ended(NamedTuple):
    """An exchange that has ended.  Durations are seconds; None where it never came so far.

    ``upstream`` and ``model`` are empty for requests that were refused before a model was found:
    a label never holds what a client made up.
    """

    upstream: str
    model: str
    outcome: str
    waited: float | None
    first_byte: float | None
    duration: float
    output_tokens: int | None
    upstream_error: str | None


class Metrics:
    """All that is exported.  ``lines`` is asked at each scrape; ``outcomes`` are those that an
    exchange can have."""

    def __init__(
        self, version: str, lines: Callable[[], Iterable[Line]], *, outcomes: Sequence[str]
    ) -> None:
        self._lines = lines
        self._outcomes = outcomes
        self.registry = registry = CollectorRegistry(auto_describe=False)
        labels = ("upstream", "model")
        Info("gateway_build", "The version that runs.", registry=registry).info(
            {"version": version}
        )
        self._exchanges = Counter(
            "gateway_exchanges",
            "Exchanges by how they ended.",
            (*labels, "outcome"),
            registry=registry,
        )
        self._waits = Histogram(
            "gateway_queue_wait_seconds",
            "Time in line of exchanges that were granted a slot.",
            labels,
            buckets=WAITS,
            registry=registry,
        )
        self._first_bytes = Histogram(
            "gateway_time_to_first_byte_seconds",
            "From the grant of a slot to the first byte of the upstream's answer.",
            labels,
            buckets=FIRST_BYTES,
            registry=registry,
        )
        self._durations = Histogram(
            "gateway_exchange_seconds",
            "From a request's arrival to the end of its answer, the wait included.",
            labels,
            buckets=DURATIONS,
            registry=registry,
        )
        self._upstream_errors = Counter(
            "gateway_upstream_errors",
            "Exchanges that an upstream failed, by kind of failure.",
            ("upstream", "kind"),
            registry=registry,
        )
        self._output_tokens = Counter(
            "gateway_output_tokens",
            "Tokens generated, as the upstreams count them.",
            labels,
            registry=registry,
        )
        registry.register(Lines(lines))
        ProcessCollector(registry=registry)

    def count(self, ended: Ended) -> None:
        labels = (ended.upstream, ended.model)
        series(self._exchanges, *labels, ended.outcome).inc()
        if not ended.upstream:
            return
        series(self._durations, *labels).observe(ended.duration)
        if ended.waited is not None:
            series(self._waits, *labels).observe(ended.waited)
        if ended.first_byte is not None:
            series(self._first_bytes, *labels).observe(ended.first_byte)
        if ended.upstream_error is not None:
            series(self._upstream_errors, ended.upstream, ended.upstream_error).inc()
        if ended.output_tokens:
            series(self._output_tokens, *labels).inc(ended.output_tokens)

    def expose(self) -> bytes:
        """In Prometheus's text format."""
        self._begin_at_zero()
        return generate_latest(self.registry)

    def _begin_at_zero(self) -> None:
        """A counter that first shows up as 1 has not increased, as far as Prometheus can see."""
        for line in self._lines():
            for model in line.models:
                for outcome in self._outcomes:
                    self._exchanges.labels(line.upstream, model, outcome)
