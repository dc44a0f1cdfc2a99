"""Runs the acceptance commands against a gateway of its own; the inside of ``scripts/verify``."""

from __future__ import annotations

import asyncio
import dataclasses
import os
import pty
import socket
import sys
import tempfile
import time
from pathlib import Path
from typing import IO

import yaml
from launch import SCRIPTS, CannotStart, Processes, start_gateway, start_upstreams

from gateway.config import load

# The commands as a person types them; only the address is replaced by that of a free port.
FILL = r"""
seq 4 | xargs -P4 -I{} curl -s -o /dev/null -X POST localhost:8080/llm/v1/messages \
  -H 'content-type: application/json' \
  -d '{"model":"reasoning","max_tokens":16,"stream":true,"messages":[{"role":"user","content":"hi"}]}'
"""  # noqa: E501
QUEUED = r"""
curl -N -s localhost:8080/llm/v1/messages -H 'content-type: application/json' \
  -d '{"model":"reasoning","max_tokens":16,"stream":true,"messages":[{"role":"user","content":"hi"}]}' | grep -m3 '^event:'
"""  # noqa: E501
UNCONTENDED = r"""
curl -N -s localhost:8080/llm/v1/messages -H 'content-type: application/json' \
  -d '{"model":"qwen2.5:3b-instruct","max_tokens":16,"stream":true,"messages":[{"role":"user","content":"hi"}]}' | head -1
"""  # noqa: E501
SECONDS_AT_MOST = 60


@dataclasses.dataclass
class Output:
    """What a command printed, after how many seconds its first line came, and its exit code."""

    lines: list[str]
    first_line_after: float
    code: int | None = None


class Report:
    """Pass or fail, a line each."""

    def __init__(self) -> None:
        self.failed = 0

    def check(self, claim: str, passed: bool, seen: object) -> None:
        self.failed += not passed
        print(f"{'pass' if passed else 'FAIL'}  {claim}" + ("" if passed else f"; saw {seen}"))


async def verify_all(report: Report, log: IO[bytes]) -> None:
    async with asyncio.TaskGroup() as group:
        for dialect in ("openai", "anthropic"):
            group.create_task(verify(dialect, report, log))


async def verify(dialect: str, report: Report, log: IO[bytes]) -> None:
    processes = Processes(log)
    with tempfile.TemporaryDirectory() as folder:
        path, port = write_config(Path(folder), dialect)
        config = load(path)
        try:
            await start_upstreams(processes, config, stub=True)
            await start_gateway(processes, config, path)
            async with asyncio.timeout(SECONDS_AT_MOST):
                await run_commands(port, dialect, report)
        finally:
            await processes.end()


async def run_commands(port: int, dialect: str, report: Report) -> None:
    filling = asyncio.create_task(shell(FILL, port))
    await asyncio.sleep(1)
    queued = await shell(QUEUED, port)
    first = queued.lines[:1]
    report.check(f"{dialect}: event: queue comes first", first == ["event: queue"], queued)
    report.check(f"{dialect}: ... within a second", queued.first_line_after < 1, queued)
    free = await shell(UNCONTENDED, port)
    report.check(
        f"{dialect}: an uncontended upstream begins with event: message_start, no queue frame",
        free.lines == ["event: message_start"],
        free,
    )
    filled = await filling
    report.check(f"{dialect}: the four requests before it ended whole", filled.code == 0, filled)


async def shell(command: str, port: int) -> Output:
    """Runs ``command`` on a terminal of its own: into a pipe, grep would hold its lines back."""
    ours, theirs = pty.openpty()
    started = time.monotonic()
    process = await asyncio.create_subprocess_exec(
        "bash", "-c", command.replace("localhost:8080", f"127.0.0.1:{port}"), stdout=theirs
    )
    os.close(theirs)
    reading = asyncio.get_running_loop().run_in_executor(None, read_lines, ours, started)
    code = await process.wait()
    output = await reading
    return dataclasses.replace(output, code=code)


def read_lines(terminal: int, started: float) -> Output:
    text, first = b"", float("inf")
    try:
        # Linux ends the reading of a terminal that nobody holds any more with an error.
        while data := os.read(terminal, 4096):
            first = min(first, time.monotonic() - started)
            text += data
    except OSError:
        pass
    finally:
        os.close(terminal)
    return Output(text.decode().splitlines(), first)


def write_config(folder: Path, dialect: str) -> tuple[Path, int]:
    """``stub.yaml`` on free ports, with every upstream speaking ``dialect``."""
    config = yaml.safe_load((SCRIPTS / "stub.yaml").read_text())
    port, admin, *others = free_ports(2 + len(config["upstreams"]))
    config["listen"]["port"], config["admin"]["port"] = port, admin
    for upstream, own in zip(config["upstreams"].values(), others, strict=True):
        upstream |= {"url": f"http://127.0.0.1:{own}", "dialect": dialect}
    path = folder / "config.yaml"
    path.write_text(yaml.safe_dump(config))
    return path, port


def free_ports(count: int) -> list[int]:
    """Ports that are free now; held together, so that they differ."""
    probes = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [probe.getsockname()[1] for probe in probes]
    for probe in probes:
        probe.close()
    return ports


def main() -> int:
    report = Report()
    with tempfile.TemporaryFile() as log:
        try:
            asyncio.run(verify_all(report, log))
        except* (CannotStart, TimeoutError) as errors:
            for error in errors.exceptions:
                report.check("it starts and ends in time", False, repr(error))
        if report.failed:
            log.seek(0)
            print("What the gateways said:", log.read().decode(), sep="\n", file=sys.stderr)
    return 1 if report.failed else 0


if __name__ == "__main__":
    sys.exit(main())
