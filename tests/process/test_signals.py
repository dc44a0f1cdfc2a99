"""Reload and shutdown, by signal, with streams running and clients waiting."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import sys
import time
from pathlib import Path

import pytest
import yaml
from aiohttp import ClientSession

from tests.process.conftest import StartGateway
from tests.process.gateway_process import ROOT, free_port
from tests.web.clients import ask
from tests.web.conftest import mapping
from tests.web.scripted import ScriptedUpstream, native_end, native_start
from tests.wire import check_wire


async def test_raising_the_cap_grants_at_once_and_lowering_it_ends_nobody(
    start_gateway: StartGateway, upstream: ScriptedUpstream
) -> None:
    gateway = await start_gateway(slots=3)
    streams = [await gateway.stream(ask(str(number))) for number in range(3)]
    for number in (1, 2, 3):
        await upstream.arrival(number)
    for number in (3, 4):
        streams.append(await gateway.stream(ask(str(number))))
        await streams[-1].seen(b"event: queue")
    await gateway.reload(mapping(url=upstream.url, slots=1))
    upstream.arrivals[0].answer()
    upstream.arrivals[1].answer()
    await streams[0].whole()
    await gateway.reload(mapping(url=upstream.url, slots=1))
    assert (await gateway.status())["waiting"] == 2
    upstream.arrivals[2].answer()
    assert (await upstream.arrival(4)).prompt == "3"
    await gateway.reload(mapping(url=upstream.url, slots=4))
    assert (await upstream.arrival(5)).prompt == "4"
    for number in (4, 5):
        upstream.arrivals[number - 1].answer()
    for stream in streams[1:]:
        check_wire(await stream.whole())


async def test_an_upstream_that_is_removed_lets_the_running_finish_and_tells_the_waiting(
    start_gateway: StartGateway, upstream: ScriptedUpstream
) -> None:
    gateway = await start_gateway()
    running = await gateway.stream(ask())
    arrival = (await upstream.arrival()).open().write(native_start())
    await running.seen(b"Hi")
    waiting = await gateway.stream(ask())
    await waiting.seen(b"event: queue")
    whole = asyncio.create_task(gateway.post(ask(stream=False)))
    await gateway.waits(2)
    other = mapping(url=upstream.url, models=["other"])
    other["upstreams"] = {"two": other["upstreams"]["one"]}
    await gateway.reload(other)
    async with asyncio.timeout(1):
        events = check_wire(await waiting.whole())
        reply = await whole
    assert events[0]["error"]["type"] == "not_found_error"
    assert (reply.status, reply.error["type"]) == (404, "not_found_error")
    removed = (await gateway.picture())["upstreams"]["one"]
    assert (removed["removed"], removed["running"]) == (True, 1)
    metrics = (await gateway.request("GET", "/metrics", admin=True)).body
    assert b'gateway_requests_running{upstream="one"} 1.0' in metrics
    arrival.write(native_end()).end()
    check_wire(await running.whole())
    assert (await gateway.post(ask())).status == 404
    await gateway.until_upstreams({"two"})


async def test_an_upstream_that_is_removed_by_mistake_comes_back_with_what_runs(
    start_gateway: StartGateway, upstream: ScriptedUpstream
) -> None:
    gateway = await start_gateway()
    running = await gateway.stream(ask("first"))
    arrival = await upstream.arrival(1)
    other = mapping(url=upstream.url, models=["other"])
    other["upstreams"] = {"two": other["upstreams"]["one"]}
    await gateway.reload(other)
    await gateway.reload(mapping(url=upstream.url))
    waiting = await gateway.stream(ask("second"))
    async with asyncio.timeout(5):
        await waiting.seen(b"event: queue")
    assert (await gateway.status())["removed"] is False
    arrival.answer()
    check_wire(await running.whole())
    (await upstream.arrival(2)).answer()
    check_wire(await waiting.whole())


@pytest.mark.parametrize("broken", ["upstreams: [", "upstreams: {}", "nonsense: 1", ""])
async def test_a_broken_file_changes_nothing(
    start_gateway: StartGateway, upstream: ScriptedUpstream, broken: str
) -> None:
    gateway = await start_gateway()
    stream = await gateway.stream(ask())
    arrival = await upstream.arrival()
    gateway.config_path.write_text(broken)
    gateway.signal(signal.SIGHUP)
    await gateway.logs("the old configuration stays in force")
    arrival.answer()
    check_wire(await stream.whole())
    assert await gateway.request("GET", "/readyz")


async def test_a_reload_says_what_it_has_changed_and_what_takes_a_restart(
    start_gateway: StartGateway, upstream: ScriptedUpstream
) -> None:
    gateway = await start_gateway()
    port = gateway.port
    await gateway.reload(mapping(url=upstream.url, slots=3, api_key="sesame"))
    assert "reload: upstreams.one.slots: 1, now 3" in gateway.log
    assert "reload: upstreams.one.api_key: null, now ***" in gateway.log
    gateway.port = free_port()
    await gateway.reload(mapping(url=upstream.url, slots=3, api_key="other"))
    assert "reload: upstreams.one.api_key: changed" in gateway.log
    assert f"listen.port: {port}, now {gateway.port}, which takes a restart" in gateway.log
    gateway.port = port
    await gateway.reload(mapping(url=upstream.url, slots=3, api_key="other"))
    assert gateway.log.count("takes a restart") == 1, "it is as it was started again"
    await gateway.reload(mapping(url=upstream.url, slots=3, api_key="other"))
    assert gateway.log.endswith("reload: the configuration has not changed\n")
    assert "sesame" not in gateway.log


@pytest.mark.parametrize(
    ("number", "words"),
    [(signal.SIGHUP, b"the configuration has not changed"), (signal.SIGTERM, b"closing")],
)
async def test_a_signal_that_comes_while_it_starts_is_obeyed_once_it_has(
    tmp_path: Path, number: signal.Signals, words: bytes
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent_redis:
        silent_redis.setblocking(False)
        url = f"redis://127.0.0.1:{silent_redis.getsockname()[1]}/0"
        config = tmp_path / "config.yaml"
        config.write_text(
            yaml.safe_dump(mapping(url="http://h") | {"slots": {"backend": "redis", "url": url}})
        )
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "gateway", "--config", str(config)),
            stderr=asyncio.subprocess.PIPE,
        )
        async with asyncio.timeout(20):
            connection, _ = await asyncio.get_running_loop().sock_accept(silent_redis)
            with connection:
                process.send_signal(number)
                assert process.stderr is not None
                while words not in (line := await process.stderr.readline()):
                    assert line, "it has ended"
            if number is not signal.SIGTERM:
                process.send_signal(signal.SIGTERM)
            await process.communicate()
    assert process.returncode == 0


async def test_a_reload_before_the_gateway_has_even_loaded_is_obeyed_once_it_has(
    tmp_path: Path,
) -> None:
    config = tmp_path / "config.yaml"
    config.write_text(yaml.safe_dump(mapping(url="http://h") | {"listen": {"port": 0}}))
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-X", "importtime", "-m", "gateway", "--config", str(config)),
        cwd=ROOT,
        stderr=asyncio.subprocess.PIPE,
    )
    assert process.stderr is not None
    async with asyncio.timeout(20):
        await process.stderr.readuntil(b"gateway.errors")  # one of the first that it loads
        process.send_signal(signal.SIGHUP)
        await process.stderr.readuntil(b"the configuration has not changed")
        process.send_signal(signal.SIGTERM)
        await process.communicate()
    assert process.returncode == 0


async def test_closing_tells_the_waiting_and_lets_the_running_finish(
    start_gateway: StartGateway, upstream: ScriptedUpstream
) -> None:
    gateway = await start_gateway({"shutdown": {"grace_seconds": 10}})
    running = await gateway.stream(ask())
    arrival = (await upstream.arrival()).open().write(native_start())
    await running.seen(b"Hi")
    waiting = await gateway.stream(ask())
    await waiting.seen(b"event: queue")
    whole = asyncio.create_task(gateway.post(ask(stream=False)))
    await gateway.waits(2)
    idle_reader, idle_writer = await asyncio.open_connection("127.0.0.1", gateway.port)
    gateway.signal(signal.SIGTERM)
    async with asyncio.timeout(2):
        events = check_wire(await waiting.whole())
        reply = await whole
    assert events[0]["error"]["type"] == "overloaded_error"
    assert (reply.status, reply.error["type"]) == (529, "overloaded_error")
    with pytest.raises(ConnectionRefusedError):
        await asyncio.open_connection("127.0.0.1", gateway.port)
    idle_writer.write(b"GET /readyz HTTP/1.1\r\nHost: t\r\n\r\n")
    assert b" 503 " in await idle_reader.readline()
    idle_writer.close()
    arrival.write(native_end()).end()
    check_wire(await running.whole())
    assert await gateway.stop() == 0


async def test_what_runs_beyond_the_grace_is_ended_with_an_error(
    start_gateway: StartGateway, upstream: ScriptedUpstream
) -> None:
    gateway = await start_gateway({"shutdown": {"grace_seconds": 0.5}}, slots=3)
    active = await gateway.stream(ask())
    (await upstream.arrival(1)).open().write(native_start())
    await active.seen(b"Hi")
    silent = await gateway.stream(ask())
    second = await upstream.arrival(2)
    whole = asyncio.create_task(gateway.post(ask(stream=False)))
    await upstream.arrival(3)
    begun = time.monotonic()
    gateway.signal(signal.SIGTERM)
    events = check_wire(await active.whole())
    assert events[-1]["error"]["type"] in ("overloaded_error", "api_error")
    await silent.ended()
    reply = await whole
    assert (reply.status, reply.error["type"]) == (529, "overloaded_error")
    async with asyncio.timeout(1):
        await second.left.wait()
    assert await gateway.stop() == 0
    assert time.monotonic() - begun < 5


async def test_an_interrupt_while_it_closes_cuts_the_grace_short_and_a_second_sigterm_does_not(
    start_gateway: StartGateway, upstream: ScriptedUpstream
) -> None:
    gateway = await start_gateway({"shutdown": {"grace_seconds": 60}})
    running = await gateway.stream(ask())
    (await upstream.arrival()).open().write(native_start())
    await running.seen(b"Hi")
    waiting = await gateway.stream(ask())
    await waiting.seen(b"event: queue")
    gateway.signal(signal.SIGTERM)
    await gateway.logs("closing: 1 running, for 60 s at most")
    await waiting.whole()
    gateway.signal(signal.SIGTERM)
    assert (await gateway.status())["running"] == 1
    gateway.signal(signal.SIGINT)
    gateway.told_to_stop = True
    async with asyncio.timeout(5):
        events = check_wire(await running.whole())
    assert events[-1]["error"]["type"] == "overloaded_error"
    assert await gateway.stop() == 0


async def run(*arguments: str) -> tuple[int, str, str]:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "gateway", *arguments),
        cwd=ROOT,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    out, err = await process.communicate()
    assert process.returncode is not None
    return process.returncode, out.decode(), err.decode()


async def test_a_broken_config_is_said_in_a_line_and_not_in_a_traceback(tmp_path: Path) -> None:
    config = tmp_path / "config.yaml"
    config.write_text(
        "upstreams: {one: {url: 'http://x', dialect: openai, slots: six, models: [m]}}"
    )
    status, _, err = await run("--config", str(config))
    assert status == 2
    assert err.strip() == 'upstreams.one.slots: expected a whole number >= 1, got "six"'


async def test_a_taken_port_is_said_in_a_line(start_gateway: StartGateway, tmp_path: Path) -> None:
    gateway = await start_gateway()
    status, _, err = await run("--config", str(gateway.config_path), "--port", str(gateway.port))
    assert status == 1
    where = f"127.0.0.1:{gateway.admin_port}"
    assert err.strip() == f"admin: cannot listen on {where}: Address already in use"


@pytest.mark.parametrize(
    ("option", "value", "words"),
    [
        ("--host", "no.such.host.invalid", "listen: cannot listen on no.such.host.invalid:8080: "),
        ("--port", "99999", "expected a whole number from 0 to 65535, got '99999'"),
    ],
)
async def test_an_address_that_cannot_be_is_named(
    tmp_path: Path, option: str, value: str, words: str
) -> None:
    config = tmp_path / "config.yaml"
    config.write_text(yaml.safe_dump(mapping(url="http://h") | {"listen": {"port": 8080}}))
    status, _, err = await run("--config", str(config), option, value)
    assert status != 0 and words in err and "Traceback" not in err


async def test_whoever_reads_the_log_may_go(upstream: ScriptedUpstream, tmp_path: Path) -> None:
    config, port = tmp_path / "config.yaml", free_port()
    listen = {"listen": {"port": port}}
    config.write_text(yaml.safe_dump(mapping(url=upstream.url) | listen))
    reading, writing = os.pipe()
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "gateway", "--config", str(config)), cwd=ROOT, stderr=writing
    )
    os.close(writing)
    with os.fdopen(reading, "rb") as log:
        await asyncio.to_thread(log.readline)
    url = f"http://127.0.0.1:{port}/llm/v1/messages"
    async with asyncio.timeout(10), ClientSession() as session:
        answer = asyncio.ensure_future(session.post(url, json=ask(stream=False)))
        (await upstream.arrival()).answer()
        assert (await answer).status == 200
        process.send_signal(signal.SIGHUP)
        process.send_signal(signal.SIGTERM)
        assert await process.wait() == 0
