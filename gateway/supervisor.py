"""Several gateway processes behind one port: starts them, keeps them running, ends them together.

Each worker is a gateway of its own that listens on the same port (``SO_REUSEPORT``: the kernel
spreads the connections); what makes them one is the line in Redis.  The supervisor itself serves
nothing.  A worker that dies is replaced.  If one cannot start at all, the beginning has failed and
all end; later, when others serve, it is tried again until it can.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import signal
import sys
from collections.abc import Sequence

log = logging.getLogger("gateway")

START_SECONDS = 2.0
"""A worker that ends of its own accord sooner than this has not been able to start."""

RETRY_SECONDS = 5.0
"""Until a worker that could not start is tried again, while others serve."""


class Supervisor:
    """``command`` starts one worker; its number, from 0, is added as ``--worker N``."""

    def __init__(self, command: Sequence[str], workers: int) -> None:
        self._command = command
        self._workers = workers
        self._children: dict[int, asyncio.subprocess.Process] = {}
        self._closing = asyncio.Event()
        self._code = 0

    async def run(self) -> int:
        """Until SIGTERM or SIGINT, or until a worker cannot start; the exit code."""
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGTERM, self.close)
        loop.add_signal_handler(signal.SIGINT, self._interrupt)
        loop.add_signal_handler(signal.SIGHUP, self._pass_on, signal.SIGHUP)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGHUP})
        async with asyncio.TaskGroup() as group:
            for index in range(self._workers):
                group.create_task(self._keep_running(index))
        return self._code

    def close(self) -> None:
        self._closing.set()
        self._pass_on(signal.SIGTERM)

    def _interrupt(self) -> None:
        """The first one closes, another one makes the workers hurry."""
        if self._closing.is_set():
            self._pass_on(signal.SIGINT)
        else:
            self.close()

    def _pass_on(self, number: signal.Signals) -> None:
        for child in self._children.values():
            with contextlib.suppress(ProcessLookupError):
                child.send_signal(number)

    async def _keep_running(self, index: int) -> None:
        loop = asyncio.get_running_loop()
        has_served = False
        while not self._closing.is_set():
            started = loop.time()
            code = await self._one(index)
            could_start = code < 0 or loop.time() - started >= START_SECONDS
            has_served |= could_start
            if self._closing.is_set():
                self._code = self._code or max(code, 0)
            elif could_start:
                log.error("worker %d has ended with %d; starting another one", index, code)
            elif has_served:
                log.error(
                    "worker %d cannot start (%d); next try in %g s", index, code, RETRY_SECONDS
                )
                await self._pause(RETRY_SECONDS)
            else:
                self._code = code or 1
                self.close()

    async def _one(self, index: int) -> int:
        """A worker from its start to its end; its exit code, negative for a signal."""
        child = await asyncio.create_subprocess_exec(
            *self._command,
            *("--worker", str(index)),
            # It reads the end of this pipe should the supervisor be killed.
            stdin=asyncio.subprocess.PIPE,
            # In a process group of its own: Ctrl-C comes here, and from here to all of them.
            process_group=0,
        )
        self._children[index] = child
        if self._closing.is_set():
            self._pass_on(signal.SIGTERM)
        return await child.wait()

    async def _pause(self, seconds: float) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._closing.wait()


def supervise(arguments: Sequence[str], workers: int) -> int:
    """Runs ``python -m gateway`` with ``arguments`` so many times."""
    command = (sys.executable, "-m", "gateway", *arguments)
    log.info("starting %d workers", workers)
    return asyncio.run(Supervisor(command, workers).run())
