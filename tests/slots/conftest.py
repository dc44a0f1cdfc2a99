"""Pools to test, each made by a factory that also ends them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Protocol

import pytest

from gateway.slots.base import LineLimits, SlotPool
from gateway.slots.local import LocalPool

AMPLE = LineLimits(max_waiting=10_000, max_wait_seconds=60)


class OpenPool(Protocol):
    async def __call__(self, slots: int, limits: LineLimits = AMPLE) -> SlotPool: ...


@pytest.fixture(params=["local"])
async def open_pool(request: pytest.FixtureRequest) -> AsyncIterator[OpenPool]:
    """Opens a pool of each kind; the same claims hold for all of them."""
    pools: list[SlotPool] = []

    async def open_(slots: int, limits: LineLimits = AMPLE) -> SlotPool:
        pool = LocalPool(slots=slots, limits=limits)
        pools.append(pool)
        await pool.start()
        return pool

    yield open_
    for pool in pools:
        await pool.stop()
