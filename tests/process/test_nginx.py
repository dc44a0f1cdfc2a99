"""Behind a real nginx, with the very file that the documentation recommends."""

from __future__ import annotations

import asyncio
import json
import re
import ssl
import subprocess
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest
from aiohttp import ClientSession

from tests.process.conftest import StartGateway
from tests.process.gateway_process import ROOT, GatewayProcess, free_port
from tests.web.clients import SECONDS, Stream, ask
from tests.web.scripted import ScriptedUpstream, native_end, native_start
from tests.wire import check_wire

RECOMMENDED = (ROOT / "deploy" / "nginx" / "llm.conf").read_text()

MAIN = """
user root; daemon off; pid {folder}/nginx.pid;
error_log {folder}/error.log info; worker_processes 1;
events {{ worker_connections 256; }}
http {{
    access_log off;
    client_body_temp_path {folder}/body; proxy_temp_path {folder}/proxy;
    fastcgi_temp_path {folder}/fastcgi; uwsgi_temp_path {folder}/uwsgi;
    scgi_temp_path {folder}/scgi;
    server {{
        listen 127.0.0.1:{port};
        listen 127.0.0.1:{tls_port} ssl http2;
        ssl_certificate {folder}/cert.pem; ssl_certificate_key {folder}/key.pem;
        include {folder}/llm.conf;
    }}
}}
"""

BARE = "location /llm {{ proxy_pass http://127.0.0.1:{gateway}; {more} }}"
"""nginx's defaults, buffering and all."""


class Nginx:
    """The proxy's two ports."""

    def __init__(self, port: int, tls_port: int) -> None:
        self.port = port
        self.tls_port = tls_port

    async def stream(self, body: dict) -> Stream:
        stream = Stream(*await asyncio.open_connection("127.0.0.1", self.port))
        stream.send(json.dumps(body).encode(), {})
        return stream


StartNginx = Callable[..., "asyncio.Future[Nginx]"]


@pytest.fixture
async def start_nginx(program: Callable[[str], str], tmp_path: Path) -> AsyncIterator[StartNginx]:
    """``await start_nginx(gateway)``; with ``conf`` another location than the recommended one."""
    processes: list[asyncio.subprocess.Process] = []

    async def start(gateway: GatewayProcess, conf: str | None = None) -> Nginx:
        binary, folder = program("nginx"), tmp_path / "nginx"
        folder.mkdir()
        certify(folder)
        located = conf or RECOMMENDED.replace("127.0.0.1:8080", f"127.0.0.1:{gateway.port}")
        (folder / "llm.conf").write_text(located)
        nginx = Nginx(free_port(), free_port())
        main = MAIN.format(folder=folder, port=nginx.port, tls_port=nginx.tls_port)
        (folder / "nginx.conf").write_text(main)
        command = [binary, "-p", str(folder), "-c", str(folder / "nginx.conf")]
        processes.append(
            await asyncio.create_subprocess_exec(*command, stderr=asyncio.subprocess.DEVNULL)
        )
        async with asyncio.timeout(SECONDS):
            while not await answers(nginx.port):
                assert processes[0].returncode is None, f"nginx -t -c {folder}/nginx.conf"
        return nginx

    yield start
    for process in processes:
        if process.returncode is None:
            process.terminate()
        await process.wait()


async def answers(port: int) -> bool:
    try:
        _, writer = await asyncio.open_connection("127.0.0.1", port)
    except ConnectionRefusedError:
        await asyncio.sleep(0.01)
        return False
    writer.close()
    await writer.wait_closed()
    return True


def certify(folder: Path) -> None:
    subprocess.run(
        [
            *("openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "1"),
            *("-subj", "/CN=localhost", "-keyout", folder / "key.pem", "-out", folder / "cert.pem"),
        ],
        check=True,
        capture_output=True,
    )


async def test_the_first_queue_frame_and_each_word_arrive_at_once(
    start_gateway: StartGateway, start_nginx: StartNginx, upstream: ScriptedUpstream
) -> None:
    gateway = await start_gateway()
    nginx = await start_nginx(gateway)
    running = await nginx.stream(ask())
    first = await upstream.arrival()
    begun = time.monotonic()
    waiting = await nginx.stream(ask())
    await waiting.seen(b"event: queue")
    assert time.monotonic() - begun < 1
    first.answer()
    second = (await upstream.arrival(2)).open().write(native_start("one"))
    await waiting.seen(b"one")
    second.write(native_start("two").split(b"\n\n", 2)[2])
    await waiting.seen(b"two")
    second.write(native_end()).end()
    check_wire(await waiting.whole())
    check_wire(await running.whole())


async def test_frames_pass_at_once_even_where_nginx_buffers(
    start_gateway: StartGateway, start_nginx: StartNginx, upstream: ScriptedUpstream
) -> None:
    """nginx's defaults: buffering on, HTTP/1.0 to the gateway, gzip for everything."""
    gateway = await start_gateway()
    more = "gzip on; gzip_types *; gzip_min_length 1;"
    nginx = await start_nginx(gateway, BARE.format(gateway=gateway.port, more=more))
    running = await nginx.stream(ask())
    first = (await upstream.arrival()).open().write(native_start("word"))
    await running.seen(b"word")
    waiting = await nginx.stream(ask())
    await waiting.seen(b"event: queue")
    first.write(native_end()).end()
    (await upstream.arrival(2)).answer()
    check_wire(await waiting.whole())
    check_wire(await running.whole())


@pytest.mark.parametrize("leave", ["close", "reset"])
@pytest.mark.parametrize("phase", ["waiting", "running"])
async def test_leaving_reaches_the_gateway_through_nginx_at_once(
    start_gateway: StartGateway,
    start_nginx: StartNginx,
    upstream: ScriptedUpstream,
    phase: str,
    leave: str,
) -> None:
    gateway = await start_gateway()
    nginx = await start_nginx(gateway)
    running = await nginx.stream(ask())
    arrival = (await upstream.arrival()).open().write(native_start())
    await running.seen(b"Hi")
    waiting = await nginx.stream(ask())
    await waiting.seen(b"event: queue")
    leaver = waiting if phase == "waiting" else running
    begun = time.monotonic()
    getattr(leaver, leave)()
    if phase == "waiting":
        await gateway.waits(0)
    else:
        await arrival.left.wait()
    assert time.monotonic() - begun < 0.5  # the claim is 50 ms; a busy machine gets more
    running.close()
    waiting.close()
    await drained(running, waiting)


async def drained(*streams: Stream) -> None:
    for stream in streams:
        try:
            await stream.writer.wait_closed()
        except OSError:
            continue


async def test_keep_alives_outlive_a_proxy_that_reads_for_five_seconds_only(
    start_gateway: StartGateway, start_nginx: StartNginx, upstream: ScriptedUpstream
) -> None:
    gateway = await start_gateway({"queue_events": {"keepalive_seconds": 2}})
    impatient = RECOMMENDED.replace("proxy_read_timeout 3600s", "proxy_read_timeout 5s")
    nginx = await start_nginx(
        gateway, impatient.replace("127.0.0.1:8080", f"127.0.0.1:{gateway.port}")
    )
    running = await nginx.stream(ask())
    first = await upstream.arrival()
    waiting = await nginx.stream(ask())
    begun = time.monotonic()
    while time.monotonic() - begun < 6:
        assert await waiting.more()
    first.answer()
    (await upstream.arrival(2)).answer()
    check_wire(await running.whole())
    check_wire(await waiting.whole())


async def test_twenty_megabytes_pass(
    start_gateway: StartGateway, start_nginx: StartNginx, upstream: ScriptedUpstream
) -> None:
    gateway = await start_gateway()
    nginx = await start_nginx(gateway)
    stream = await nginx.stream(ask("x" * (20 << 20)))
    (await upstream.arrival()).answer()
    check_wire(await stream.whole())


async def test_an_http2_front_works(
    start_gateway: StartGateway,
    start_nginx: StartNginx,
    upstream: ScriptedUpstream,
    program: Callable[[str], str],
) -> None:
    gateway = await start_gateway()
    nginx = await start_nginx(gateway)
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    running = await nginx.stream(ask())
    first = await upstream.arrival()
    url = f"https://127.0.0.1:{nginx.tls_port}/llm/v1/messages"
    curl = await asyncio.create_subprocess_exec(
        *(program("curl"), "-sNk", "--http2", "-w", "%{http_version}", url),
        *("-d", json.dumps(ask())),
        stdout=asyncio.subprocess.PIPE,
    )
    assert curl.stdout is not None
    seen = b""
    while b"event: queue" not in seen:
        seen += await curl.stdout.read(4096)
    first.answer()
    (await upstream.arrival(2)).answer()
    rest = await curl.stdout.read()
    await curl.wait()
    body = seen + rest
    assert body.endswith(b"\n\n2")
    check_wire(body[:-1])
    check_wire(await running.whole())


async def test_the_clients_address_and_request_id_come_through(
    start_gateway: StartGateway, start_nginx: StartNginx, upstream: ScriptedUpstream
) -> None:
    gateway = await start_gateway()
    nginx = await start_nginx(gateway)
    stream = await nginx.stream(ask())
    (await upstream.arrival()).answer()
    await stream.whole()
    id = stream.head["request-id"]
    assert len(id) == 32 and not id.startswith("req_")
    await gateway.logs(f"request_id={id}")


async def test_what_nginx_itself_refuses_is_in_anthropics_shape(
    start_gateway: StartGateway, start_nginx: StartNginx
) -> None:
    gateway = await start_gateway()
    nginx = await start_nginx(gateway)
    url = f"http://127.0.0.1:{nginx.port}/llm/v1/messages"
    async with asyncio.timeout(SECONDS), ClientSession() as session:
        assert await answer_to_head(nginx.port, 41 * 1024**2) == (413, "request_too_large")
        async with session.post(url, data=b"{}") as response:
            assert (response.status, (await response.json())["error"]["type"]) == (
                400,
                "invalid_request_error",
            ), "the gateway's own"
        await gateway.stop()
        async with session.post(url, data=b"{}") as response:
            assert (response.status, response.content_type) == (502, "application/json")
            assert (await response.json())["error"]["type"] == "api_error"
            assert response.headers["retry-after"] == "5"


async def answer_to_head(port: int, length: int) -> tuple[int, str]:
    """Status and error type of a request that announces ``length`` bytes and sends none."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    head = b"POST /llm/v1/messages HTTP/1.1\r\nhost: t\r\ncontent-length: %d\r\n\r\n"
    writer.write(head % length)
    answer = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
    (size,) = re.findall(r"content-length: (\d+)", answer)
    body = await reader.readexactly(int(size))
    writer.close()
    return int(answer.split()[1]), json.loads(body)["error"]["type"]
