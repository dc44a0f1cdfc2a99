"""Clients of a gateway under test: a polite one, and raw sockets that leave as they please."""

from __future__ import annotations

import asyncio
import contextlib
import io
import json
import socket
import struct
import time
from dataclasses import dataclass, field
from typing import Any

from aiohttp import ClientSession

from gateway.app import Service
from tests.web.scripted import SECONDS


def ask(text: str = "hi", *, stream: bool = True, **fields: Any) -> dict[str, Any]:
    message = {"role": "user", "content": text}
    return {"model": "m", "max_tokens": 16, "stream": stream, "messages": [message]} | fields


@dataclass
class Reply:
    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def error(self) -> dict[str, str]:
        assert self.json["type"] == "error"
        assert self.json["request_id"] == self.headers["request-id"]
        return self.json["error"]


class Surface:
    """The gateway as its clients reach it."""

    def __init__(self, service: Service) -> None:
        self.service = service
        self.port = service.port
        self.admin_port = service.admin_port
        self.streams: list[Stream] = []

    async def hang_up(self) -> None:
        """Closes what the test has left open."""
        for stream in self.streams:
            stream.close()
            with contextlib.suppress(OSError):
                await stream.writer.wait_closed()

    async def request(
        self, method: str, path: str, *, admin: bool = False, **options: Any
    ) -> Reply:
        port = self.admin_port if admin else self.port
        async with (
            asyncio.timeout(SECONDS),
            ClientSession() as session,
            session.request(method, f"http://127.0.0.1:{port}{path}", **options) as response,
        ):
            headers = {name.lower(): value for name, value in response.headers.items()}
            return Reply(response.status, headers, await response.read())

    async def post(self, body: dict[str, Any] | bytes, **headers: str) -> Reply:
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        return await self.request("POST", "/llm/v1/messages", data=io.BytesIO(data), headers=named)

    async def stream(self, body: dict[str, Any] | bytes, **headers: str) -> Stream:
        """Sends a request over a raw socket; returns without waiting for an answer."""
        stream = Stream(*await asyncio.open_connection("127.0.0.1", self.port))
        self.streams.append(stream)
        stream.send(body if isinstance(body, bytes) else json.dumps(body).encode(), headers)
        return stream

    def pool(self) -> Any:
        return next(iter(self.service.gateway.directory)).pool

    async def waits(self, count: int) -> None:
        """Until so many wait in line."""
        await self.until(lambda: self.pool().statistics().waiting == count)

    async def free(self) -> None:
        """Until no slot is held and nobody waits."""

        def nothing() -> bool:
            statistics = self.pool().statistics()
            return statistics.running == statistics.waiting == 0

        await self.until(nothing)

    async def until(self, condition: Any) -> None:
        async with asyncio.timeout(SECONDS):
            while not condition():
                await asyncio.sleep(0.001)


@dataclass
class Stream:
    """One request over a socket of its own, and what has come back so far."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    raw: bytearray = field(default_factory=bytearray)
    arrived: list[tuple[float, bytes]] = field(default_factory=list)

    def send(self, body: bytes, headers: dict[str, str]) -> None:
        head = f"POST /llm/v1/messages HTTP/1.1\r\nHost: test\r\nContent-Length: {len(body)}\r\n"
        lines = "".join(f"{n.replace('_', '-')}: {value}\r\n" for n, value in headers.items())
        self.writer.write(f"{head}{lines}\r\n".encode() + body)

    async def more(self) -> bool:
        async with asyncio.timeout(SECONDS):
            data = await self.reader.read(65536)
        self.raw += data
        self.arrived.append((time.monotonic(), data))
        return bool(data)

    async def seen(self, what: bytes, count: int = 1) -> None:
        """Until ``what`` has come ``count`` times."""
        while self.raw.count(what) < count:
            assert await self.more(), f"ended without {what!r}: {bytes(self.raw)!r}"

    async def whole(self) -> bytes:
        """Until the body has ended properly, and the body."""
        while not self.raw.endswith(b"\r\n0\r\n\r\n"):
            assert await self.more(), f"no proper end: {bytes(self.raw[-300:])!r}"
        self.close()
        return self.body

    async def ended(self) -> None:
        """Until the connection is closed from the other side."""
        while await self.more():
            pass

    @property
    def status(self) -> int:
        return int(self.raw.split(b" ", 2)[1])

    @property
    def head(self) -> dict[str, str]:
        lines = self.raw.partition(b"\r\n\r\n")[0].decode().split("\r\n")[1:]
        pairs = (line.partition(": ") for line in lines)
        return {name.lower(): value for name, _, value in pairs}

    @property
    def body(self) -> bytes:
        """What has come of the body, out of its chunks."""
        rest = bytes(self.raw.partition(b"\r\n\r\n")[2])
        body = b""
        while rest:
            size, _, rest = rest.partition(b"\r\n")
            length = int(size or b"0", 16)
            body += rest[:length]
            rest = rest[length + 2 :]
        return body

    @property
    def places(self) -> list[int]:
        """The positions this client has been told."""
        frames = self.body.split(b"\n\n")
        queue = (f for f in frames if f.startswith(b"event: queue\ndata: ") and f.endswith(b"}"))
        return [json.loads(f.partition(b"data: ")[2])["position"] for f in queue]

    def close(self) -> None:
        self.writer.close()

    def reset(self) -> None:
        connection = self.writer.get_extra_info("socket")
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.writer.transport.abort()
