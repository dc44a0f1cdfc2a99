"""As little HTTP/1.1 as the two ends of a measurement need."""

from __future__ import annotations

import asyncio
import importlib.util
import re
from collections.abc import Callable, Coroutine

LENGTH = re.compile(rb"\r\ncontent-length: *(\d+)", re.IGNORECASE)


class Requests:
    """Bytes of one connection to whole (head, body) pairs; only Content-Length framing."""

    def __init__(self) -> None:
        self._buffer = b""

    def feed(self, data: bytes) -> list[tuple[bytes, bytes]]:
        self._buffer += data
        whole = []
        while (end := self._buffer.find(b"\r\n\r\n")) >= 0:
            head = self._buffer[:end]
            found = LENGTH.search(head)
            size = int(found[1]) if found else 0
            if len(self._buffer) < end + 4 + size:
                break
            whole.append((head, self._buffer[end + 4 : end + 4 + size]))
            self._buffer = self._buffer[end + 4 + size :]
        return whole


def chunk(data: bytes) -> bytes:
    return b"%x\r\n%s\r\n" % (len(data), data)


def run(main: Callable[[], Coroutine[None, None, None]]) -> None:
    """On uvloop where there is one: the ends should cost less than what they measure."""
    if importlib.util.find_spec("uvloop"):
        import uvloop

        uvloop.run(main())
    else:
        asyncio.run(main())
