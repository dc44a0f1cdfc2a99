"""One process, from its start to its end: what each signal does.

Signals are heard before the service starts, SIGHUP held back from the first line of ``__main__``
until then, and obeyed one after another.  So none is lost while it starts, no reload runs into
another, and SIGHUP never ends a gateway that is not ready yet.
"""

from __future__ import annotations

import asyncio
import logging
import signal
import sys
from collections.abc import Callable

from gateway import memory
from gateway.app import Service, running
from gateway.config import Config, changes
from gateway.errors import ConfigError
from gateway.files import explain_exhaustion

log = logging.getLogger("gateway")

TAKE_A_RESTART = ("listen.host", "listen.port", "listen.workers", "admin", "slots.")
"""Beginnings of the settings that a reload cannot change."""


async def serve(config: Config, read: Callable[[], Config], *, supervised: bool = False) -> None:
    """Runs until SIGTERM or SIGINT; SIGHUP calls ``read`` for a new configuration.

    A SIGINT while it closes cuts the grace short. A second SIGTERM does not: some supervisors,
    ``timeout`` among them, send it twice.

    ``supervised`` says that standard input is a pipe from the supervisor: its end is the
    supervisor's.  Raises OSError for a port.
    """
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(explain_exhaustion)
    signals: asyncio.Queue[signal.Signals] = asyncio.Queue()
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        loop.add_signal_handler(number, signals.put_nowait, number)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGHUP})
    if supervised:
        loop.add_reader(sys.stdin, end_with_supervisor, loop, signals)
    async with running(config) as service:
        memory.settle()
        log.info("listening on %s", service.addresses)
        while await signals.get() is signal.SIGHUP:
            await reload(service, config, read)
        loop.add_signal_handler(signal.SIGINT, service.interrupt_running)
        log.info("closing%s", who_runs(service))


def who_runs(service: Service) -> str:
    count, grace = len(service.gateway.running), service.config.shutdown.grace_seconds
    if not count:
        return ""
    return f": {count} running, for {grace:g} s at most; SIGINT (Ctrl-C) ends them at once"


def end_with_supervisor(
    loop: asyncio.AbstractEventLoop, signals: asyncio.Queue[signal.Signals]
) -> None:
    loop.remove_reader(sys.stdin)
    if signals.empty():
        log.warning("the supervisor is gone, so this worker ends too")
    signals.put_nowait(signal.SIGTERM)


async def reload(service: Service, started: Config, read: Callable[[], Config]) -> None:
    """Reads the configuration again and says what has changed; a broken one is logged and changes
    nothing.  ``started`` is what the process began with: where it listens, among others."""
    try:
        config = read()
        differences = changes(service.config, config)
        await service.reload(config)
    except ConfigError as error:
        for problem in error.problems:
            log.error("reload: %s", problem)
        log.error("reload: the old configuration stays in force")
        return
    except Exception:
        log.exception("reload: a fault of the gateway itself")
        return
    for difference in differences:
        log.info("reload: %s", difference)
    for difference in changes(started, config):
        if difference.startswith(TAKE_A_RESTART):
            log.warning("reload: %s, which takes a restart", difference)
    unchanged = "the configuration has not changed"
    log.info("reload: %s", "the new configuration is in force" if differences else unchanged)
