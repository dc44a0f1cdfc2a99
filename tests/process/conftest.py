"""Gateways in processes of their own, in front of the scripted upstream."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest

from tests.process.gateway_process import GatewayProcess, gateway_process
from tests.web.conftest import mapping
from tests.web.scripted import ScriptedUpstream, scripted_upstream

StartGateway = Callable[..., Awaitable[GatewayProcess]]


@pytest.fixture
async def upstream() -> AsyncIterator[ScriptedUpstream]:
    async with scripted_upstream() as upstream:
        yield upstream


@pytest.fixture
async def start_gateway(upstream: ScriptedUpstream, tmp_path: Path) -> AsyncIterator[StartGateway]:
    """``await start_gateway({...}, slots=2)``: more of the config, and the upstream's settings."""
    async with AsyncExitStack() as stack:

        async def start(
            config: dict[str, Any] | None = None,
            *options: str,
            environ: dict[str, str] | None = None,
            **settings: Any,
        ) -> GatewayProcess:
            whole = mapping(**{"url": upstream.url} | settings) | (config or {})
            folder = tmp_path / str(len(list(tmp_path.iterdir())))
            folder.mkdir()
            context = gateway_process(folder, whole, *options, **(environ or {}))
            return await stack.enter_async_context(context)

        yield start
