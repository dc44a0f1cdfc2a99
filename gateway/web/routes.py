"""The URL tables of both listeners, and handlers of three lines."""

from __future__ import annotations

from aiohttp import web

from gateway.web.catalog import count_tokens, list_models, one_model
from gateway.web.demo import demo_module, demo_page
from gateway.web.exchange import Exchange
from gateway.web.gateway import GATEWAY
from gateway.web.identity import REQUEST_ID
from gateway.web.metering import metrics
from gateway.web.middleware import expect_continue
from gateway.web.status import (
    healthz,
    readyz,
    status_events,
    status_json,
    status_page,
    to_status_page,
)

PROBES = ("/llm", "/llm/", "/llm/api/hello")
"""Clients look here to see whether their base URL lives."""


async def messages(request: web.Request) -> web.StreamResponse:
    return await Exchange(request, request.app[GATEWAY], request[REQUEST_ID]).run()


async def probe(request: web.Request) -> web.Response:
    return web.Response()


def surface() -> list[web.RouteDef]:
    """What nginx exposes, and the health checks beside it."""
    return [
        web.post("/llm/v1/messages", messages, expect_handler=expect_continue),
        web.post("/llm/v1/messages/count_tokens", count_tokens, expect_handler=expect_continue),
        web.get("/llm/v1/models", list_models),
        web.get("/llm/v1/models/{model:.+}", one_model),
        *(web.get(path, probe) for path in PROBES),
        web.head("/", probe),
        web.get("/healthz", healthz),
        web.get("/readyz", readyz),
    ]


def admin(*, demo: bool = False) -> list[web.RouteDef]:
    """What only operators reach; with ``demo`` also the chat page and what it talks to."""
    table = [
        web.get("/", to_status_page),
        web.get("/healthz", healthz),
        web.get("/readyz", readyz),
        web.get("/metrics", metrics),
        web.get("/status", status_page),
        web.get("/status.json", status_json),
        web.get("/status/events", status_events),
    ]
    if demo:
        table += [
            web.get("/demo", demo_page),
            web.get("/demo/stream.js", demo_module),
            web.post("/llm/v1/messages", messages, expect_handler=expect_continue),
            web.get("/llm/v1/models", list_models),
        ]
    return table
