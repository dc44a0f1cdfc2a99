"""A gateway in the test's own loop, made as ``python -m gateway`` makes it, and its neighbours."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from typing import Any

import pytest

from gateway.app import Service, running
from gateway.config import from_mapping
from tests.web.clients import Surface
from tests.web.scripted import ScriptedUpstream, scripted_upstream


@pytest.fixture
async def upstream() -> AsyncIterator[ScriptedUpstream]:
    async with scripted_upstream() as upstream:
        yield upstream


MakeGateway = Callable[..., Awaitable[Surface]]


@pytest.fixture
async def make_gateway(upstream: ScriptedUpstream) -> AsyncIterator[MakeGateway]:
    """Starts gateways in front of ``upstream``: ``await make_gateway(slots=2, dialect="openai")``.

    Each is closed at the end, and must then hold nothing.
    """
    services: list[Service] = []
    async with AsyncExitStack() as stack:

        async def make(config: dict[str, Any] | None = None, **settings: Any) -> Surface:
            parsed = from_mapping(mapping(**{"url": upstream.url} | settings) | (config or {}))
            service = await stack.enter_async_context(running(parsed))
            services.append(service)
            surface = Surface(service)
            stack.push_async_callback(surface.hang_up)
            return surface

        yield make
    for service in services:
        assert service.gateway.bodies.held == 0
        assert len(service.gateway.running) == 0


def mapping(**settings: Any) -> dict[str, Any]:
    upstream = {"dialect": "anthropic", "slots": 1, "models": ["m"], "server": "other"}
    return {
        "listen": {"port": 0},
        "admin": {"port": 0},
        "upstreams": {"one": upstream | settings},
        "queue_events": {"keepalive_seconds": 0.2},
        "client": {"write_timeout_seconds": 1},
        "shutdown": {"grace_seconds": 1},
    }
