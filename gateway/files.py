"""Open files: every connection is one, so a long line needs many of them."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import logging
import resource
from typing import Any

log = logging.getLogger("gateway")

SAY_AGAIN_SECONDS = 10.0
_said_at = float("-inf")


def allow_many() -> None:
    """Lifts the soft limit to the hard one: the usual 1024 is a line of some 500 clients."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        with contextlib.suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def explain_exhaustion(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """A loop's exception handler: when files run out, one line with what to do.

    asyncio itself logs a traceback for each place of the listening socket's backlog, a thousand
    at a time.
    """
    global _said_at
    error = context.get("exception")
    if not isinstance(error, OSError) or error.errno not in (errno.EMFILE, errno.ENFILE):
        loop.default_exception_handler(context)
    elif loop.time() - _said_at >= SAY_AGAIN_SECONDS:
        _said_at = loop.time()
        limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
        log.error(
            "no more files can be opened (%d are allowed), so new connections wait: raise the"
            " limit (LimitNOFILE of systemd, ulimit -n)",
            limit,
        )
