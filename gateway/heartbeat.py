"""Something to be done every few seconds while something else is awaited.

There is no task before the first beat, so whoever gets what it waits for at once pays for one
timer.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from types import TracebackType
from typing import Self


class Heartbeat:
    """Awaits ``beat`` again and again while its block runs; what that raises ends the block.

    ``pause`` says each time how many seconds are left until the next beat.
    """

    __slots__ = ("_beat", "_beating", "_error", "_loop", "_pause", "_timeout", "_timer")

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        pause: Callable[[], float],
        beat: Callable[[], Awaitable[None]],
    ) -> None:
        self._loop = loop
        self._pause = pause
        self._beat = beat
        self._timeout = asyncio.Timeout(None)
        self._timer: asyncio.TimerHandle | None = None
        self._beating: asyncio.Task[None] | None = None
        self._error: Exception | None = None

    async def __aenter__(self) -> Self:
        await self._timeout.__aenter__()
        self._timer = self._loop.call_later(self._pause(), self._begin)
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        assert self._timer is not None
        self._timer.cancel()
        if self._beating is not None:
            self._beating.cancel()
        try:
            await self._timeout.__aexit__(exc_type, exc, traceback)
        except TimeoutError:
            assert self._error is not None
            raise self._error from None

    def _begin(self) -> None:
        self._beating = self._loop.create_task(self._go_on())

    async def _go_on(self) -> None:
        try:
            while True:
                await self._beat()
                await asyncio.sleep(self._pause())
        except Exception as error:
            self._error = error
            self._timeout.reschedule(self._loop.time())
