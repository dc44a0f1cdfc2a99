"""Listens in between a client and the gateway: what the wire carried, whoever shows it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager


class Tap:
    """Passes every byte on; ``received`` is all that the gateway sent."""

    def __init__(self, port: int) -> None:
        self.port = port
        self.url = ""
        self.received = b""
        self._passing: set[asyncio.Task[None]] = set()

    async def connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        from_gateway, to_gateway = await asyncio.open_connection("127.0.0.1", self.port)
        there = asyncio.create_task(self._pass(reader, to_gateway, keep=False))
        back = asyncio.create_task(self._pass(from_gateway, writer, keep=True))
        self._passing |= {there, back}

    async def _pass(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, keep: bool
    ) -> None:
        try:
            while data := await reader.read(65536):
                if keep:
                    self.received += data
                writer.write(data)
                await writer.drain()
        except ConnectionError:
            pass
        finally:
            writer.close()

    async def stop(self) -> None:
        for task in self._passing:
            task.cancel()
        await asyncio.gather(*self._passing, return_exceptions=True)


@asynccontextmanager
async def tap(port: int) -> AsyncIterator[Tap]:
    listening = Tap(port)
    server = await asyncio.start_server(listening.connected, "127.0.0.1", 0)
    listening.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/llm"
    try:
        yield listening
    finally:
        server.close()
        await listening.stop()
