"""A bound on the request bodies that are held at one time."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from aiohttp import web
from aiohttp.http_exceptions import HttpProcessingError

BROKEN_BODY = (web.RequestPayloadError, HttpProcessingError)
"""What reading a body raises whose chunks or compression are broken; which of the two depends on
whether aiohttp parses in C."""


class BodyBudget:
    """The sum, in bytes, of what all requests hold of their bodies."""

    def __init__(self) -> None:
        self.held = 0

    @contextmanager
    def hold(self) -> Iterator[BodyHold]:
        """A share that is given back with the block, whatever happens inside."""
        hold = BodyHold(self)
        try:
            yield hold
        finally:
            hold.resize(0)


class BodyHold:
    """One request's share."""

    def __init__(self, budget: BodyBudget) -> None:
        self._budget = budget
        self._size = 0

    def resize(self, size: int) -> None:
        self._budget.held += size - self._size
        self._size = size
