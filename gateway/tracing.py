"""OpenTelemetry traces, the extra ``[otel]``.  Imported only when traces are wanted.

Each exchange is a span; ``queue.wait``, ``upstream.first_byte`` and ``upstream.stream`` lie below
it.  Only the outer span exists while the exchange runs, for the upstream's ``traceparent``; the
parts are written at its end, from the times that its record keeps anyway.

What is sent where is OpenTelemetry's own business, by its standard variables.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Mapping

from opentelemetry import trace
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import SERVICE_NAME, Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter
from opentelemetry.trace import Span, SpanKind, StatusCode
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

import gateway as package
from gateway.web.record import ExchangeOutcome, ExchangeRecord

W3C = TraceContextTextMapPropagator()
LAST_SPANS_SECONDS = 1.0

BAD_ENDS = {
    ExchangeOutcome.UPSTREAM_FAILED,
    ExchangeOutcome.INTERRUPTED,
    ExchangeOutcome.FAILED,
}


class ExchangeTrace:
    """The span of one exchange, and what its upstream is to be told of it."""

    def __init__(self, span: Span) -> None:
        self.span = span
        self.context = trace.set_span_in_context(span)
        self.headers: dict[str, str] = {}
        W3C.inject(self.headers, self.context)


class Tracing:
    """See ``web.record.Tracing``.  ``see`` is an observer of exchanges."""

    def __init__(self, provider: TracerProvider, exporter: SpanExporter | None = None) -> None:
        self._provider = provider
        self._exporter = exporter
        self._tracer = provider.get_tracer("gateway", package.__version__)

    def begin(self, headers: Mapping[str, str]) -> ExchangeTrace:
        """A span that continues the client's trace, if its headers name one."""
        known = {name: headers[name] for name in W3C.fields if name in headers}
        span = self._tracer.start_span("exchange", W3C.extract(known), kind=SpanKind.SERVER)
        return ExchangeTrace(span)

    def see(self, record: ExchangeRecord) -> None:
        if not isinstance(record.trace, ExchangeTrace):
            return
        clock = Clock()
        for name, start, end in parts_of(record):
            part = self._tracer.start_span(name, record.trace.context, start_time=clock.at(start))
            part.end(clock.at(end))
        describe(record.trace.span, record)
        record.trace.span.end(clock.at(record.ended_at or record.started_at))

    async def stop(self) -> None:
        """Sends what is left.  A collector that is away would be tried again for ten seconds; the
        exporter gives up when it is closed itself."""
        ending = asyncio.create_task(asyncio.to_thread(self._provider.shutdown))
        await asyncio.wait((ending,), timeout=LAST_SPANS_SECONDS)
        if not ending.done() and self._exporter is not None:
            self._exporter.shutdown()
        await ending


class Clock:
    """From the event loop's seconds to nanoseconds since 1970."""

    def __init__(self) -> None:
        self._ahead = time.time() - asyncio.get_running_loop().time()

    def at(self, loop_time: float) -> int:
        return int((loop_time + self._ahead) * 1e9)


def parts_of(record: ExchangeRecord) -> list[tuple[str, float, float]]:
    """Name, start and end in loop time, of each part that the exchange came to."""
    end = record.ended_at or record.started_at
    if not record.upstream:
        return []
    if record.granted_at is None:
        return [("queue.wait", record.started_at, end)]
    joined_at = record.granted_at - (record.waited or 0.0)
    first_byte_at = end if record.first_byte_at is None else record.first_byte_at
    parts = [
        ("queue.wait", joined_at, record.granted_at),
        ("upstream.first_byte", record.granted_at, first_byte_at),
    ]
    if record.first_byte_at is not None:
        parts.append(("upstream.stream", record.first_byte_at, end))
    return parts


def describe(span: Span, record: ExchangeRecord) -> None:
    """Never a prompt, never a key."""
    about = {
        "gateway.request_id": record.request_id,
        "gateway.client": record.client,
        "gateway.upstream": record.upstream,
        "gateway.outcome": record.outcome.value,
        "gateway.stream": record.stream,
        "gen_ai.request.model": record.model[:200],
        "gen_ai.usage.output_tokens": record.output_tokens,
        "error.type": record.error.type if record.error else None,
    }
    span.set_attributes({name: value for name, value in about.items() if value is not None})
    if record.outcome in BAD_ENDS:
        span.set_status(StatusCode.ERROR)


def from_environment() -> Tracing:
    """Sends to wherever the standard ``OTEL_…`` variables say."""
    named = {} if os.environ.get("OTEL_SERVICE_NAME") else {SERVICE_NAME: "gateway"}
    provider = TracerProvider(resource=Resource.create(named))
    exporter = OTLPSpanExporter()
    provider.add_span_processor(BatchSpanProcessor(exporter))
    return Tracing(provider, exporter)
