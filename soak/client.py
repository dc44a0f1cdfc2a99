"""The clients of the soak: raw sockets, since no library leaves as rudely as they do."""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
import socket
import struct
import time
from dataclasses import dataclass, field

from soak.plan import TOKENS, Client, Plan

PATIENCE_SECONDS = 60.0
QUEUE_FRAME = re.compile(rb"event: queue\ndata: (\{.*?\})\n\n")


@dataclass
class Seen:
    """What one client saw."""

    plan: Plan
    status: int = 0
    positions: list[int] = field(default_factory=list)
    first_queued: float | None = None
    problem: str | None = None
    """What is wrong with it, in words; None if all is as it must be."""


async def act(plan: Plan, port: int) -> Seen:
    seen = Seen(plan)
    try:
        async with asyncio.timeout(PATIENCE_SECONDS):
            await _act(plan, port, seen)
    except TimeoutError:
        seen.problem = "nothing came to an end"
    except OSError as error:
        if plan.complete:
            seen.problem = f"the connection broke: {error!r}"
    return seen


async def _act(plan: Plan, port: int, seen: Seen) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        body = plan.body()
        head = f"POST /llm/v1/messages HTTP/1.1\r\nHost: soak\r\nContent-Length: {len(body)}\r\n"
        writer.write(head.encode() + b"Connection: close\r\n\r\n" + body)
        if plan.client in (Client.LEAVE_AT_ONCE, Client.LEAVE_WHOLE):
            await asyncio.sleep(plan.number % 7 / 100)
            return
        if plan.client is Client.STALL:
            await stall(reader, writer)
            return
        answer = await read(plan, reader, seen)
        if answer is not None:
            seen.problem = verdict(plan, answer, seen)
        if plan.client is Client.RESET_IN_STREAM:
            reset(writer)
    finally:
        writer.close()
        with contextlib.suppress(OSError):
            await writer.wait_closed()


async def stall(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Takes a little and nothing more until the gateway has had enough."""
    connection = writer.get_extra_info("socket")
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    await reader.read(1000)
    writer.transport.pause_reading()
    await asyncio.sleep(8)


def reset(writer: asyncio.StreamWriter) -> None:
    connection = writer.get_extra_info("socket")
    if connection is not None:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    writer.transport.abort()


async def read(plan: Plan, reader: asyncio.StreamReader, seen: Seen) -> bytes | None:
    """The whole answer, or None for a client that left before its end."""
    answer = bytearray()
    while data := await reader.read(8000 if plan.client is Client.READ_SLOWLY else 65536):
        answer += data
        note_queue(data, seen)
        if plan.client is Client.READ_SLOWLY:
            await asyncio.sleep(0.002)
        if plan.client is Client.LEAVE_IN_LINE and seen.positions:
            return None
        leaves = plan.client in (Client.LEAVE_IN_STREAM, Client.RESET_IN_STREAM)
        if leaves and b"text_delta" in answer:
            return None
    return bytes(answer)


def note_queue(data: bytes, seen: Seen) -> None:
    for match in QUEUE_FRAME.finditer(data):
        seen.positions.append(json.loads(match[1])["position"])
        seen.first_queued = seen.first_queued or time.monotonic()


def verdict(plan: Plan, answer: bytes, seen: Seen) -> str | None:
    head, _, raw = answer.partition(b"\r\n\r\n")
    seen.status = int(head.split(b" ", 2)[1]) if head else 0
    chunked = b"transfer-encoding: chunked" in head.lower()
    body = unchunked(raw) if chunked else raw
    if body is None:
        return "the body has no end"
    if sorted(seen.positions, reverse=True) != seen.positions:
        return f"positions rose: {seen.positions}"
    if plan.client in (Client.BAD_JSON, Client.BAD_MODEL):
        wanted = 404 if plan.client is Client.BAD_MODEL else 400
        return None if seen.status == wanted else f"status {seen.status} instead of {wanted}"
    if not plan.upstream.good:
        bad = seen.status >= 400 or body.count(b"event: error") == 1
        return None if bad else f"a failure looks like success: {body[-200:]!r}"
    return complete(plan, body, seen.status)


def complete(plan: Plan, body: bytes, status: int) -> str | None:
    if status != 200:
        return f"status {status}: {body[:200]!r}"
    if not plan.stream:
        words = json.loads(body)["content"][0]["text"].count(" ")
        return None if words >= TOKENS else f"{words} words"
    if body.count(b"event: message_start") != 1 or body.count(b"event: message_stop") != 1:
        return f"not one whole message: {body[-300:]!r}"
    return None if body.count(b"event: content_block_delta") >= 1 else "no words"


def unchunked(raw: bytes) -> bytes | None:
    body = bytearray()
    while raw:
        size, _, raw = raw.partition(b"\r\n")
        length = int(size, 16)
        if length == 0:
            return bytes(body)
        body += raw[:length]
        raw = raw[length + 2 :]
    return None
