"""What a reload makes of the directory."""

from __future__ import annotations

import asyncio
from typing import Any

from gateway.config import Config, UpstreamConfig, from_mapping
from gateway.slots.local import LocalPool
from gateway.web.directory import Directory, line_limits


class SlowPool(LocalPool):
    """Starts as slowly as one whose store is away."""

    def __init__(self, upstream: UpstreamConfig, ready: asyncio.Event) -> None:
        super().__init__(slots=upstream.slots, limits=line_limits(upstream))
        self._ready = ready

    async def start(self) -> None:
        await self._ready.wait()


def config_of(*names: str) -> Config:
    upstreams: dict[str, Any] = {
        name: {"url": "http://h", "dialect": "openai", "slots": 1, "models": [f"model-{name}"]}
        for name in names
    }
    return from_mapping({"upstreams": upstreams}, {})


async def test_the_directory_is_whole_while_a_reload_waits_for_a_new_pool() -> None:
    ready = asyncio.Event()
    directory = Directory(lambda upstream: SlowPool(upstream, ready))
    ready.set()
    await directory.apply(config_of("one", "two"))
    ready.clear()
    applying = asyncio.create_task(directory.apply(config_of("new", "one")))
    await asyncio.sleep(0)
    assert [upstream.name for upstream in directory] == ["one", "two"]
    ready.set()
    await applying
    assert [upstream.name for upstream in directory] == ["new", "one"]
    assert directory.models == ["model-new", "model-one"]
    await directory.stop()
