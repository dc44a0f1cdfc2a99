"""A bound on the request bodies that are held at one time."""

from __future__ import annotations

from types import TracebackType
from typing import Self

from aiohttp import web
from aiohttp.http_exceptions import HttpProcessingError

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
