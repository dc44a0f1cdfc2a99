"""Claims about the whole process: memory, parsers, many at once."""

from __future__ import annotations

import asyncio
import json
import socket
import sys

import pytest

from tests.process.conftest import StartGateway
from tests.process.gateway_process import ROOT
from tests.web.clients import Stream, ask
from tests.web.scripted import ScriptedUpstream, native_start
from tests.web.test_surface import SMUGGLING, raw
from tests.wire import check_wire

SOAK_SECONDS = 60


async def test_a_stalled_reader_of_a_large_stream_costs_little_memory(
    start_gateway: StartGateway, upstream: ScriptedUpstream
) -> None:
    """Two hundred megabytes come from the upstream, less than twenty stay in the gateway."""
    gateway = await start_gateway({"client": {"write_timeout_seconds": 2}})
    warm = await gateway.stream(ask())
    (await upstream.arrival()).answer()
    await warm.whole()
    before = gateway.resident_bytes()
    connection = socket.socket()
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    connection.setblocking(False)
    await asyncio.get_running_loop().sock_connect(connection, ("127.0.0.1", gateway.port))
    stalled = Stream(*await asyncio.open_connection(sock=connection))
    stalled.send(json.dumps(ask()).encode(), {})
    arrival = (await upstream.arrival(2)).open().write(native_start())
    await stalled.seen(b"Hi")
    stalled.writer.transport.pause_reading()
    flood = native_start("x" * 65_000).split(b"\n\n", 2)[2]
    for _ in range(3200):
        arrival.write(flood)
    most = 0
    async with asyncio.timeout(20):
        while not arrival.left.is_set():
            most = max(most, gateway.resident_bytes())
            await asyncio.sleep(0.05)
    assert most - before < 20 << 20
    stalled.writer.transport.abort()
    await gateway.free()


@pytest.mark.parametrize("extensions", ["with", "without"])
async def test_smuggling_is_refused_with_and_without_the_parser_in_c(
    start_gateway: StartGateway, upstream: ScriptedUpstream, extensions: str
) -> None:
    environ = {"AIOHTTP_NO_EXTENSIONS": "1"} if extensions == "without" else {}
    gateway = await start_gateway(environ=environ)
    for name, attempt in SMUGGLING.items():
        answer = await (await raw(gateway.port, attempt)).read()
        head, _, body = answer.partition(b"\r\n\r\n")
        assert b" 400 " in head.split(b"\r\n")[0], name
        assert json.loads(body)["error"]["type"] == "invalid_request_error", name
    assert not upstream.arrivals


async def test_more_slots_than_a_connection_pool_has_by_default_all_run(
    start_gateway: StartGateway, upstream: ScriptedUpstream
) -> None:
    gateway = await start_gateway(slots=120)
    streams = [await gateway.stream(ask(str(number))) for number in range(120)]
    await upstream.arrival(120)
    assert upstream.most_at_once == 120
    for arrival in upstream.arrivals:
        arrival.answer()
    for stream in streams:
        check_wire(await stream.whole())


async def test_nothing_is_lost_in_a_minute_of_bad_manners_and_bad_days() -> None:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "soak", "--seconds", str(SOAK_SECONDS)),
        cwd=ROOT,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    output, _ = await process.communicate()
    assert process.returncode == 0, output.decode()
