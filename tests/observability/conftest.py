"""Gateways in front of the scripted upstream, and one Chromium for all tests of a module."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from tests.observability.browser import Browser, chromium
from tests.web.conftest import make_gateway, upstream

__all__ = ["make_gateway", "upstream"]


@pytest.fixture
async def browser(program: Callable[[str], str], tmp_path: Path) -> AsyncIterator[Browser]:
    async with AsyncExitStack() as stack:
        yield await stack.enter_async_context(chromium(program("chromium"), tmp_path / "profile"))
