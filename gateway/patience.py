"""``asyncio.timeout`` whose deadline moves ahead for the price of an assignment.

``Timeout.reschedule`` cancels a timer and starts another, which costs more than relaying a token.
Here the timer is left alone; when it fires too early it looks at ``until`` and goes to sleep
again.  The hard part, turning a cancellation into TimeoutError, stays the standard library's.
"""

from __future__ import annotations

import asyncio
from types import TracebackType
from typing import Self


class Patience:
    """Raises TimeoutError out of its block once ``until`` (loop time, seconds) has passed.

    Assigning ``until`` moves it ahead; ``bring_forward`` moves it back.
    """

    __slots__ = ("_loop", "_timeout", "_timer", "until")

    def __init__(self, loop: asyncio.AbstractEventLoop, until: float) -> None:
        self._loop = loop
        self._timeout = asyncio.Timeout(None)
        self._timer: asyncio.TimerHandle | None = None
        self.until = until

    def bring_forward(self, until: float) -> None:
        """Sets ``until`` to an earlier time, which an assignment does not: the timer would sleep
        through it."""
        self.until = until
        if self._timer is not None and until < self._timer.when():
            self._timer.cancel()
            self._timer = self._loop.call_at(until, self._look)

    async def __aenter__(self) -> Self:
        await self._timeout.__aenter__()
        self._timer = self._loop.call_at(self.until, self._look)
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        await self._timeout.__aexit__(exc_type, exc, traceback)

    def _look(self) -> None:
        if self._loop.time() >= self.until:
            self._timer = None
            self._timeout.reschedule(self._loop.time())
        else:
            self._timer = self._loop.call_at(self.until, self._look)
