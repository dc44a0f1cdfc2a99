"""Workers under a supervisor: whoever can serve goes on serving, and nobody outlives it."""

from __future__ import annotations

import asyncio
import contextlib
import os
import resource
import signal
import sys
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from gateway import supervisor
from gateway.supervisor import Supervisor
from tests.process.conftest import StartGateway
from tests.process.gateway_process import free_port

SECONDS = 20

WORKER = """
import os, pathlib, signal, sys, time
folder = pathlib.Path(sys.argv[1])
if (folder / "broken").exists():
    sys.exit(2)
signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
(folder / f"worker{sys.argv[3]}").write_text(str(os.getpid()))
while True:
    time.sleep(60)
"""


async def until(condition: Callable[[], object]) -> None:
    async with asyncio.timeout(SECONDS):
        while not condition():
            await asyncio.sleep(0.01)


@contextlib.asynccontextmanager
async def two_workers(folder: Path) -> AsyncIterator[Supervisor]:
    """Under a supervisor in this process; ``folder`` has a file ``workerN`` with each one's pid."""
    both = Supervisor((sys.executable, "-c", WORKER, str(folder)), 2)
    task = asyncio.create_task(both.run())
    try:
        await until(lambda: task.done() or all((folder / f"worker{n}").exists() for n in (0, 1)))
        yield both
    finally:
        both.close()
        await task


def pid_of(folder: Path, worker: int) -> int:
    return int((folder / f"worker{worker}").read_text() or 0)


def lives(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return "\nState:\tZ" not in Path(f"/proc/{pid}/status").read_text()


async def test_a_worker_that_cannot_start_again_leaves_the_others_serving(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(supervisor, "RETRY_SECONDS", 0.1)
    async with two_workers(tmp_path):
        dying, other = pid_of(tmp_path, 0), pid_of(tmp_path, 1)
        (tmp_path / "broken").touch()
        os.kill(dying, signal.SIGKILL)
        await until(lambda: "worker 0 cannot start (2)" in caplog.text)
        assert lives(other)
        (tmp_path / "broken").unlink()
        await until(lambda: pid_of(tmp_path, 0) not in (0, dying))
        assert pid_of(tmp_path, 1) == other


async def test_workers_that_can_never_start_end_with_their_code(tmp_path: Path) -> None:
    (tmp_path / "broken").touch()
    async with asyncio.timeout(SECONDS):
        command = (sys.executable, "-c", WORKER, str(tmp_path))
        assert await Supervisor(command, 2).run() == 2


async def test_a_reload_reaches_every_worker(tmp_path: Path) -> None:
    config = tmp_path / "config.yaml"
    config.write_text(
        f"listen: {{port: {free_port()}, workers: 2}}\nadmin: null\n"
        "slots: {backend: redis, url: 'redis://127.0.0.1:1/0'}\n"
        "upstreams: {one: {url: 'http://h', dialect: openai, slots: 1, models: [m]}}\n"
    )
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "gateway", "--config", str(config)), stderr=asyncio.subprocess.PIPE
    )
    assert process.stderr is not None
    async with asyncio.timeout(SECONDS):
        await lines_of_both(process.stderr, b"listening")
        process.send_signal(signal.SIGHUP)
        await lines_of_both(process.stderr, b"the configuration has not changed")
        process.send_signal(signal.SIGTERM)
        await process.communicate()
    assert process.returncode == 0


async def lines_of_both(log: asyncio.StreamReader, words: bytes) -> None:
    missing = {b"worker 0: ", b"worker 1: "}
    while missing:
        line = await log.readline()
        assert line, "it has ended"
        missing -= {worker for worker in missing if worker in line and words in line}


async def test_workers_do_not_outlive_a_supervisor_that_is_killed(
    tmp_path: Path,
) -> None:
    config = tmp_path / "config.yaml"
    config.write_text(
        "listen: {port: 0}\nadmin: null\nslots: {backend: redis, url: 'redis://127.0.0.1:1/0'}\n"
        "upstreams: {one: {url: 'http://h', dialect: openai, slots: 1, models: [m]}}\n"
    )
    command = (sys.executable, "-m", "gateway", "--config", str(config), "--worker", "0")
    worker = await asyncio.create_subprocess_exec(
        *command, stdin=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
    )
    assert worker.stdin is not None and worker.stderr is not None
    async with asyncio.timeout(SECONDS):
        while b"listening" not in (line := await worker.stderr.readline()):
            assert line, "it has ended"
        worker.stdin.close()  # as the kernel does for a process that is gone
        log = await worker.stderr.read()
        assert (await worker.wait(), b"worker 0: the supervisor is gone" in log) == (0, True)


async def test_when_files_run_out_one_line_says_so_and_what_to_do(
    start_gateway: StartGateway,
) -> None:
    gateway = await start_gateway()
    assert gateway.process is not None
    pid = gateway.process.pid
    used = len(list(Path(f"/proc/{pid}/fd").iterdir()))
    resource.prlimit(pid, resource.RLIMIT_NOFILE, (used + 2, used + 2))
    connections = [await asyncio.open_connection("127.0.0.1", gateway.port) for _ in range(6)]
    await gateway.logs("no more files can be opened")
    assert gateway.log.count("no more files") == 1 and "LimitNOFILE" in gateway.log
    for _, writer in connections:
        writer.close()


async def test_the_soft_limit_of_open_files_is_lifted_to_the_hard_one(
    start_gateway: StartGateway,
) -> None:
    gateway = await start_gateway()
    assert gateway.process is not None
    limits = Path(f"/proc/{gateway.process.pid}/limits").read_text()
    (line,) = [line for line in limits.splitlines() if line.startswith("Max open files")]
    soft, hard = line.split()[3:5]
    assert soft == hard
