"""The clients of the measurements: ``python -m bench.load JSON``, which prints JSON.

Options: ``port``, ``path``, ``headers``, ``body`` (the request), ``streams`` at one time, ``total``
of them; ``group``: so many begin together, the next ones 50 ms later, otherwise all at once.
"""

from __future__ import annotations

import asyncio
import json
import re
import sys
import time
from typing import cast

from bench.http import LENGTH, run

STAMP = re.compile(rb'"text": ?"(\d+) |"content": ?"(\d+) ')
SAMPLES = 20_000


class Tally:
    """What all streams of one run saw together."""

    def __init__(self) -> None:
        self.words = 0
        self.done = 0
        self.failed = 0
        self.first_ns: list[int] = []
        self.latency_ns: list[int] = []


class Client(asyncio.Protocol):
    """One request on a connection of its own."""

    def __init__(self, request: bytes, tally: Tally, over: asyncio.Future[None]) -> None:
        self._request = request
        self._tally = tally
        self._over = over
        self._tail = b""
        self._begun = time.monotonic_ns()
        self._sized = False
        self._ended = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._transport.write(self._request)

    def data_received(self, data: bytes) -> None:
        now = time.monotonic_ns()
        if not self._tail:
            self._tally.first_ns.append(now - self._begun)
            self._sized = LENGTH.search(data) is not None  # servers write their head in one piece
        data = self._tail[-400:] + data if len(data) < 400 else data
        found = STAMP.findall(data)
        if found and len(self._tally.latency_ns) < SAMPLES and data is not self._tail:
            self._tally.latency_ns.append(now - int(found[-1][0] or found[-1][1]))
        self._tail = data
        if data.endswith(b"0\r\n\r\n") or (self._sized and data.endswith(b"}")):
            self._ended = True
            self._transport.close()

    def connection_lost(self, exc: Exception | None) -> None:
        self._tally.done += 1
        self._tally.failed += not self._ended
        if not self._over.done():
            self._over.set_result(None)


async def main() -> None:
    options = json.loads(sys.argv[1])
    body = json.dumps(options["body"], separators=(",", ":")).encode()  # as SDKs write it
    head = f"POST {options['path']} HTTP/1.1\r\nHost: bench\r\nContent-Type: application/json\r\n"
    head += "".join(f"{name}: {value}\r\n" for name, value in options.get("headers", {}).items())
    request = f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body
    loop = asyncio.get_running_loop()
    tally = Tally()
    left = iter(range(options["total"]))
    begun = time.monotonic()

    async def one_after_another(number: int) -> None:
        await asyncio.sleep(number // options.get("group", options["streams"]) * 0.05)
        for _ in left:
            over = loop.create_future()
            await loop.create_connection(
                lambda over=over: Client(request, tally, over),  # type: ignore[misc]
                "127.0.0.1",
                options["port"],
            )
            await over

    await asyncio.gather(*(one_after_another(number) for number in range(options["streams"])))
    print(
        json.dumps(
            {
                "seconds": time.monotonic() - begun,
                "done": tally.done,
                "failed": tally.failed,
                "first_ms": middle(tally.first_ns) / 1e6,
                "latency_us": middle(tally.latency_ns) / 1e3,
            }
        )
    )


def middle(values: list[int]) -> float:
    return sorted(values)[len(values) // 2] if values else 0.0


if __name__ == "__main__":
    run(main)
