"""The exchanges that hold a slot, so that closing can wait for them and, in the end, end them."""

from __future__ import annotations

import asyncio
from types import TracebackType
from typing import Self

from gateway.errors import GatewayError


class Running:
    """All exchanges that hold a slot."""

    def __init__(self) -> None:
        self.loop = asyncio.get_running_loop()
        self._interruptions: set[Interruption] = set()
        self._idle = asyncio.Event()
        self._idle.set()

    def __len__(self) -> int:
        return len(self._interruptions)

    def add(self, interruption: Interruption) -> None:
        self._interruptions.add(interruption)
        self._idle.clear()

    def discard(self, interruption: Interruption) -> None:
        self._interruptions.discard(interruption)
        if not self._interruptions:
            self._idle.set()

    async def idle(self) -> None:
        """Returns once nothing runs."""
        await self._idle.wait()

    def interrupt_all(self, error: GatewayError) -> None:
        for interruption in list(self._interruptions):
            interruption.interrupt(error)


class Interruption:
    """The running part of one exchange, which others may end with an error its client will see.

    Used as an async context manager around that part: after ``interrupt`` its innermost await
    stops and the block raises the error.
    """

    def __init__(self, running: Running) -> None:
        self._running = running
        self._timeout = asyncio.Timeout(None)
        self._loop = running.loop
        self.error: GatewayError | None = None

    def interrupt(self, error: GatewayError) -> None:
        """Takes effect with the next turn of the loop.  Only the first error counts."""
        if self.error is None:
            self.error = error
            self._timeout.reschedule(self._loop.time())

    async def __aenter__(self) -> Self:
        await self._timeout.__aenter__()
        self._running.add(self)
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._running.discard(self)
        try:
            await self._timeout.__aexit__(exc_type, exc, traceback)
        except TimeoutError:
            assert self.error is not None
            raise self.error from None
