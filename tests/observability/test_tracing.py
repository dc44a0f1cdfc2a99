"""Traces: the right spans, the context passed on, and nothing at all when they are off."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from gateway.app import traces_are_wanted
from gateway.tracing import Tracing
from tests.process.gateway_process import gateway_process
from tests.web.clients import Surface, ask
from tests.web.conftest import mapping
from tests.web.scripted import ScriptedUpstream

TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"
TRACEPARENT = f"00-{TRACE}-00f067aa0ba902b7-01"


class Spans:
    """What has been exported, by name."""

    def __init__(self, surface: Surface) -> None:
        self._exporter = InMemorySpanExporter()
        provider = TracerProvider()
        provider.add_span_processor(SimpleSpanProcessor(self._exporter))
        tracing = Tracing(provider)
        surface.service.gateway.tracing = tracing
        surface.service.gateway.observers.add(tracing.see)

    def __call__(self) -> dict[str, ReadableSpan]:
        return {span.name: span for span in self._exporter.get_finished_spans()}


async def test_an_exchange_is_a_span_with_its_wait_and_its_answer_below(
    make_gateway: Any, upstream: ScriptedUpstream
) -> None:
    surface = await make_gateway()
    spans = Spans(surface)
    first = await surface.stream(ask())
    second = await surface.stream(ask())
    await surface.waits(1)
    (await upstream.arrival(1)).answer()
    await first.whole()
    spans._exporter.clear()
    (await upstream.arrival(2)).answer()
    await second.whole()
    await surface.until(lambda: "exchange" in spans())
    found = spans()
    assert set(found) == {"exchange", "queue.wait", "upstream.first_byte", "upstream.stream"}
    outer = found.pop("exchange")
    assert outer.attributes is not None
    assert outer.attributes["gateway.outcome"] == "completed"
    assert outer.attributes["gen_ai.usage.output_tokens"] == 1
    for part in found.values():
        assert part.parent is not None
        assert part.parent.span_id == outer.context.span_id
    parts = [found[name] for name in ("queue.wait", "upstream.first_byte", "upstream.stream")]
    assert all(one.end_time == other.start_time for one, other in pairwise(parts))
    assert parts[0].end_time > parts[0].start_time, "the second one has waited"


async def test_the_upstream_continues_the_clients_trace(
    make_gateway: Any, upstream: ScriptedUpstream
) -> None:
    surface = await make_gateway()
    spans = Spans(surface)
    stream = await surface.stream(ask(), traceparent=TRACEPARENT, tracestate="a=b")
    arrival = await upstream.arrival(1)
    arrival.answer()
    await stream.whole()
    await surface.until(lambda: "exchange" in spans())
    version, trace, span, _flags = arrival.request.headers["traceparent"].split("-")
    assert (version, trace) == ("00", TRACE)
    assert int(span, 16) == spans()["exchange"].context.span_id
    assert arrival.request.headers["tracestate"] == "a=b"


@pytest.mark.parametrize("broken", ["", "nonsense", "00-0-0-01"])
async def test_a_broken_context_begins_a_new_trace(
    make_gateway: Any, upstream: ScriptedUpstream, broken: str
) -> None:
    surface = await make_gateway()
    spans = Spans(surface)
    stream = await surface.stream(ask(), traceparent=broken)
    (await upstream.arrival(1)).answer()
    await stream.whole()
    await surface.until(lambda: "exchange" in spans())
    assert spans()["exchange"].parent is None


async def test_who_never_had_a_slot_has_only_waited(make_gateway: Any) -> None:
    surface = await make_gateway(queue={"max_waiting": 0})
    spans = Spans(surface)
    with surface.pool().join(model="m", client="c"):
        assert (await surface.post(ask())).status == 529
    await surface.post(ask(model="unknown"))
    names = [span.name for span in spans._exporter.get_finished_spans()]
    assert names == ["queue.wait", "exchange", "exchange"]


async def test_without_traces_the_upstream_is_told_none(
    make_gateway: Any, upstream: ScriptedUpstream
) -> None:
    surface = await make_gateway()
    stream = await surface.stream(ask(), traceparent=TRACEPARENT)
    arrival = await upstream.arrival(1)
    arrival.answer()
    await stream.whole()
    assert "traceparent" not in arrival.request.headers


@pytest.mark.parametrize(
    ("environ", "wanted"),
    [
        ({}, False),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": ""}, False),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://c:4318"}, True),
        ({"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://c:4318/v1/traces"}, True),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://c:4318", "OTEL_SDK_DISABLED": "true"}, False),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://c", "OTEL_TRACES_EXPORTER": "none"}, False),
    ],
)
def test_traces_are_wanted_where_there_is_somewhere_to_send_them(
    environ: dict[str, str], wanted: bool
) -> None:
    assert traces_are_wanted(environ) is wanted


# --- as users run it ----------------------------------------------------------------------------


class Collector:
    """Somewhere to send traces to."""

    def __init__(self) -> None:
        self.url = ""
        self.received = b""

    async def handle(self, request: web.Request) -> web.Response:
        self.received += await request.read()
        return web.Response(content_type="application/x-protobuf")


@asynccontextmanager
async def collector() -> AsyncIterator[Collector]:
    collector = Collector()
    app = web.Application()
    app.router.add_post("/v1/traces", collector.handle)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    collector.url = f"http://127.0.0.1:{site.port}"
    try:
        yield collector
    finally:
        await runner.cleanup()


async def test_spans_reach_a_collector_at_the_latest_when_the_gateway_ends(
    upstream: ScriptedUpstream, tmp_path: Path
) -> None:
    async with collector() as somewhere:
        environ = {
            "OTEL_EXPORTER_OTLP_ENDPOINT": somewhere.url,
            "OTEL_EXPORTER_OTLP_COMPRESSION": "none",
        }
        async with gateway_process(tmp_path, mapping(url=upstream.url), **environ) as gateway:
            stream = await gateway.stream(ask())
            (await upstream.arrival(1)).answer()
            await stream.whole()
            await end(gateway.process)
    for name in (b"exchange", b"queue.wait", b"upstream.first_byte", b"upstream.stream"):
        assert name in somewhere.received


async def test_a_collector_that_is_away_delays_nothing(
    upstream: ScriptedUpstream, tmp_path: Path
) -> None:
    environ = {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:9"}
    async with gateway_process(tmp_path, mapping(url=upstream.url), **environ) as gateway:
        stream = await gateway.stream(ask())
        (await upstream.arrival(1)).answer()
        await stream.whole()
        async with asyncio.timeout(5):
            await end(gateway.process)


async def end(process: asyncio.subprocess.Process | None) -> None:
    assert process is not None
    process.send_signal(signal.SIGTERM)
    assert await process.wait() == 0
