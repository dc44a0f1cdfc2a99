"""The scripts do what the README says, on a machine that lacks things too."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import yaml

SCRIPTS = Path(__file__).parent.parent / "scripts"
SHELL = sorted(path for path in SCRIPTS.iterdir() if path.is_file() and not path.suffix)
SECONDS_TO_START = 20


@contextlib.asynccontextmanager
async def started(script: str, *arguments: object) -> AsyncIterator[asyncio.subprocess.Process]:
    """A script as a child, which is killed at the end if it is still there."""
    child = await asyncio.create_subprocess_exec(
        sys.executable,
        SCRIPTS / script,
        *map(str, arguments),
        env=os.environ | {"PYTHONPATH": str(SCRIPTS.parent)},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    try:
        yield child
    finally:
        with contextlib.suppress(ProcessLookupError):
            child.kill()
        await child.communicate()


async def line_with(child: asyncio.subprocess.Process, word: str) -> str:
    """The next line of output that holds ``word``."""
    assert child.stdout is not None
    async with asyncio.timeout(SECONDS_TO_START):
        async for line in child.stdout:
            if word in line.decode():
                return line.decode().strip()
    raise AssertionError(f"it ended without saying {word!r}")


def free_ports(count: int) -> list[int]:
    with contextlib.ExitStack() as held:
        probes = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
        for probe in probes:
            held.enter_context(probe)
        return [probe.getsockname()[1] for probe in probes]


def is_free(port: int) -> bool:
    with contextlib.suppress(OSError), socket.create_server(("127.0.0.1", port)):
        return True
    return False


# --- shell ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("script", SHELL, ids=[path.name for path in SHELL])
def test_a_script_can_be_run_and_says_what_it_does(script: Path) -> None:
    first, second, *_ = script.read_text().splitlines()
    assert script.stat().st_mode & 0o111
    assert first.startswith("#!/usr/bin/env ")
    assert script.name in second or second.startswith('"""')
    if "bash" in first:
        subprocess.run(["bash", "-n", script], check=True)


@pytest.fixture
def bare(tmp_path: Path) -> Path:
    """A folder with the scripts in which nothing is installed yet."""
    shutil.copytree(SCRIPTS, tmp_path / "scripts")
    for name in ("setup.cfg", "pyproject.toml"):
        shutil.copy(SCRIPTS.parent / name, tmp_path)
    return tmp_path


def run_with_python(bare: Path, python: str) -> subprocess.CompletedProcess[str]:
    """``scripts/venv`` where python3 is the shell script ``python``."""
    interpreter = bare / "python3"
    interpreter.write_text(f"#!/bin/sh\n{python}\n")
    interpreter.chmod(0o755)
    return subprocess.run(
        ["bash", bare / "scripts" / "venv"],
        env=os.environ | {"PYTHON": str(interpreter)},
        capture_output=True,
        text=True,
        check=False,
    )


def test_a_python_without_venv_is_said_in_one_line_with_what_to_do(bare: Path) -> None:
    result = run_with_python(bare, 'case "$*" in *venv*) echo no ensurepip; exit 1;; esac')
    making, message = result.stderr.splitlines()
    assert result.returncode == 1 and making.startswith("Making .venv")
    assert "apt-get install python3-venv" in message


def test_an_old_python_is_said_in_one_line_with_what_to_do(bare: Path) -> None:
    result = run_with_python(bare, "exit 1")
    assert result.returncode == 1 and result.stdout == ""
    (message,) = result.stderr.splitlines()
    assert "3.11 or newer" in message and "PYTHON=" in message


def test_missing_servers_that_cannot_be_installed_are_named(tmp_path: Path) -> None:
    result = subprocess.run(
        ["/bin/bash", SCRIPTS / "servers"],
        env={"PATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert "redis-server" in result.stderr and "chromium" in result.stderr


# --- the stub ------------------------------------------------------------------------------------


@contextlib.asynccontextmanager
async def stub(*arguments: object) -> AsyncIterator[aiohttp.ClientSession]:
    async with started("stub_upstream.py", "--port", 0, *arguments) as child:
        ready = await line_with(child, "ready")
        async with aiohttp.ClientSession(ready.split()[1]) as session:
            yield session


def data_lines(text: str) -> list[dict[str, Any]]:
    lines = [line.removeprefix("data: ") for line in text.splitlines() if line[:5] == "data:"]
    return [json.loads(line) for line in lines if line != "[DONE]"]


async def test_the_stub_answers_in_both_dialects_with_the_same_text_and_usage() -> None:
    body = {"model": "m", "max_tokens": 3, "messages": [{"role": "user", "content": "hi"}]}
    streaming = body | {"stream": True, "stream_options": {"include_usage": True}}
    async with stub() as session:

        async def post(path: str, body: dict[str, Any]) -> str:
            async with session.post(path, json=body) as response:
                assert response.status == 200
                return await response.text()

        counted = json.loads(await post("/v1/messages/count_tokens", body))["input_tokens"]
        whole = json.loads(await post("/v1/messages", body))
        assert whole["content"][0]["text"] == "Here is an "
        assert whole["usage"] == {"input_tokens": counted, "output_tokens": 3}
        assert whole["stop_reason"] == "max_tokens"

        chat = json.loads(await post("/v1/chat/completions", body))
        assert chat["choices"][0]["message"]["content"] == "Here is an "
        assert chat["choices"][0]["finish_reason"] == "length"
        assert chat["usage"]["completion_tokens"] == 3

        events = data_lines(await post("/v1/messages", streaming))
        assert [event["type"] for event in events] == [
            "message_start",
            "content_block_start",
            *["content_block_delta"] * 3,
            "content_block_stop",
            "message_delta",
            "message_stop",
        ]
        chunks = await post("/v1/chat/completions", streaming)
        assert chunks.endswith("data: [DONE]\n\n")
        assert data_lines(chunks)[-1]["usage"] == chat["usage"]


async def test_the_stub_holds_each_request_before_its_first_token() -> None:
    body = {"model": "m", "stream": True, "messages": []}
    clock = asyncio.get_running_loop().time
    async with stub("--hold", 0.3) as session:
        started_at = clock()
        async with session.post("/v1/messages", json=body) as response:
            await response.content.readany()
        assert clock() - started_at >= 0.3


# --- starting and ending -------------------------------------------------------------------------


@pytest.mark.parametrize("script", ["stub_upstream.py", "model_server.py"])
async def test_a_taken_port_is_said_in_one_line_with_what_to_do(script: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        async with started(script, "--port", port) as child:
            output, _ = await child.communicate()
    (message,) = output.decode().splitlines()
    assert child.returncode == 1
    assert f"Port {port} " in message and "--port" in message


def stub_config(folder: Path, replicas: int = 1) -> tuple[Path, list[int]]:
    """The stub's configuration on free ports, with more of them ten apart for replicas."""
    config = yaml.safe_load((SCRIPTS / "stub.yaml").read_text())
    ports = free_ports(4)
    while not all(is_free(port + 10 * more) for port in ports[:2] for more in range(replicas)):
        ports = free_ports(4)
    config["listen"]["port"], config["admin"]["port"] = ports[:2]
    for upstream, port in zip(config["upstreams"].values(), ports[2:], strict=True):
        upstream["url"] = f"http://127.0.0.1:{port}"
    path = folder / "config.yaml"
    path.write_text(yaml.safe_dump(config))
    return path, ports


async def test_the_launcher_names_the_setting_of_a_taken_port(tmp_path: Path) -> None:
    path, ports = stub_config(tmp_path)
    with socket.create_server(("127.0.0.1", ports[2])):
        async with started("launch.py", "--stub", "--config", path) as child:
            output, _ = await child.communicate()
    (message,) = output.decode().splitlines()
    assert child.returncode == 1
    assert f"Port {ports[2]} is taken" in message and "upstreams.reasoning.url" in message


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
async def test_one_signal_ends_the_launcher_and_all_that_it_started(
    number: signal.Signals, tmp_path: Path
) -> None:
    path, ports = stub_config(tmp_path)
    async with started("launch.py", "--stub", "--config", path) as child:
        await line_with(child, "Ready.")
        url = f"http://127.0.0.1:{ports[0]}/healthz"
        async with aiohttp.ClientSession() as session, session.get(url) as response:
            assert response.status == 200
        child.send_signal(number)
        async with asyncio.timeout(SECONDS_TO_START):
            await child.communicate()
        assert child.returncode == 0
    for port in ports:
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(("127.0.0.1", port)).close()


async def test_replicas_share_one_line_and_one_of_them_can_be_spared(tmp_path: Path) -> None:
    required = os.environ.get("GATEWAY_REQUIRE_SERVERS") == "1"
    if shutil.which("redis-server") is None and not required:
        pytest.skip("redis-server is not installed")
    path, ports = stub_config(tmp_path, replicas=3)
    gateways = [ports[0] + 10 * number for number in range(3)]
    async with started("launch.py", "--stub", "--replicas", 3, "--config", path) as child:
        said = await line_with(child, "One line in front of 3 gateways")
        assert all(f":{port}" in said for port in gateways)
        await line_with(child, "Ready.")
        async with aiohttp.ClientSession() as session, asyncio.TaskGroup() as asking:
            answers = [asking.create_task(answer_of(session, port)) for port in gateways]
            async with asyncio.timeout(SECONDS_TO_START):
                for admin in (ports[1] + 10 * number for number in range(3)):
                    while await in_line_and_running(session, admin) != 3:
                        await asyncio.sleep(0.01)  # another process can only be asked
            for answer in answers:
                answer.cancel()
        victim = max(children_of(child.pid))
        os.kill(victim, signal.SIGKILL)
        assert "2 go on" in await line_with(child, "A gateway has ended")
        child.send_signal(signal.SIGINT)
        async with asyncio.timeout(SECONDS_TO_START):
            await child.communicate()
        assert child.returncode == 0


async def answer_of(session: aiohttp.ClientSession, port: int) -> bytes:
    message = {"role": "user", "content": "hi"}
    body = {"model": "reasoning", "max_tokens": 1, "stream": True, "messages": [message]}
    async with session.post(f"http://127.0.0.1:{port}/llm/v1/messages", json=body) as response:
        return await response.read()


async def in_line_and_running(session: aiohttp.ClientSession, admin_port: int) -> int:
    async with session.get(f"http://127.0.0.1:{admin_port}/status.json") as response:
        upstream = (await response.json())["upstreams"]["reasoning"]
    return int(upstream["waiting"]) + int(upstream["running"])


def children_of(pid: int) -> list[int]:
    """In the order of starting, unless the numbers have wrapped around."""
    return [int(each) for each in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


async def test_the_acceptance_commands_pass() -> None:
    async with started("verify.py") as child:
        output, _ = await child.communicate()
    lines = output.decode().splitlines()
    verdicts = [line for line in lines if line.startswith(("pass  ", "FAIL  "))]
    assert child.returncode == 0, output.decode()
    assert len(verdicts) == 8 and all(line.startswith("pass  ") for line in verdicts)
