"""What bodies may cost: a bound on those held at one time, and large ones beside the event loop."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from types import TracebackType
from typing import Self, TypeVar

from aiohttp import web
from aiohttp.http_exceptions import HttpProcessingError

T = TypeVar("T")

LARGE_BYTES = 1 << 19

BROKEN_BODY = (web.RequestPayloadError, HttpProcessingError)
"""What reading a body raises whose chunks or compression are broken; which of the two depends on
whether aiohttp parses in C."""


class BodyBudget:
    """The sum, in bytes, of what all requests hold of their bodies."""

    def __init__(self) -> None:
        self.held = 0

    def hold(self) -> BodyHold:
        return BodyHold(self)


class BodyHold:
    """One request's share, given back with its block, whatever happens inside."""

    __slots__ = ("_budget", "_size")

    def __init__(self, budget: BodyBudget) -> None:
        self._budget = budget
        self._size = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.resize(0)

    def resize(self, size: int) -> None:
        self._budget.held += size - self._size
        self._size = size


async def worked_out(work: Callable[[], T], size: int) -> T:
    """``work()``; about a large body of ``size`` bytes in a thread.

    One made of nothing but tiny messages takes a quarter of a second per megabyte to translate,
    in which no stream would move.
    """
    return work() if size < LARGE_BYTES else await asyncio.to_thread(work)
