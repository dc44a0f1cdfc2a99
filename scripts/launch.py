"""Starts model servers and the gateway in front of them, and ends them all together.

The second half of ``scripts/run``, inside the virtual environment.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import os
import signal
import socket
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import IO
from urllib.parse import urlsplit

from gateway.config import Config, load
from gateway.errors import ConfigError

SCRIPTS = Path(__file__).resolve().parent
ROOT = SCRIPTS.parent
SECONDS_TO_LOAD = 120

READY = """
Ready. From another terminal, take both slots and watch your place in the line:

{demo}
{pages}
Ctrl-C ends it."""

PAGES = """
In a browser: {admin}/demo to chat, {admin}/status to see the line.
"""

DEMO = """\
  ask='{{"model":"reasoning","max_tokens":400,"stream":true,\
"messages":[{{"role":"user","content":"Tell me a story."}}]}}'
  post="-X POST {url}/llm/v1/messages -H content-type:application/json"
  for i in 1 2 3 4; do curl -s -o /dev/null $post -d "$ask" & done; sleep 1
  curl -N $post -d "$ask\""""


class CannotStart(Exception):
    """Said in one line, with what to do."""


class Processes:
    """The children, in order of starting; they end in the opposite order.

    ``log`` takes what they write to standard error, otherwise it is shown.
    """

    def __init__(self, log: IO[bytes] | None = None) -> None:
        self._log = log
        self._children: list[asyncio.subprocess.Process] = []
        self.spare: set[asyncio.subprocess.Process] = set()
        """Those of which one may end while there are others: the replicas."""

    async def start(
        self, *command: object, pipe: bool = False, program: str = sys.executable
    ) -> asyncio.subprocess.Process:
        # Out of the terminal's process group: Ctrl-C comes here, and here alone decides the order.
        child = await asyncio.create_subprocess_exec(
            program,
            *map(str, command),
            cwd=ROOT,
            stdout=asyncio.subprocess.PIPE if pipe else None,
            stderr=self._log,
            process_group=0,
        )
        self._children.append(child)
        return child

    async def first_end(self) -> None:
        """Until a child has ended that cannot be spared."""
        ends = {asyncio.ensure_future(child.wait()): child for child in self._children}
        try:
            while True:
                done, _ = await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
                if not all(self._can_be_spared(ends.pop(end)) for end in done):
                    return
                print(f"A gateway has ended; {len(self.spare)} go on without it.", flush=True)
        finally:
            for end in ends:
                end.cancel()

    def _can_be_spared(self, child: asyncio.subprocess.Process) -> bool:
        was_spare = child in self.spare
        self.spare.discard(child)
        return was_spare and bool(self.spare)

    async def end(self) -> None:
        """Ends them one after another, the gateway first, so that no stream loses its upstream."""
        for child in reversed(self._children):
            with contextlib.suppress(ProcessLookupError):
                child.terminate()
            await child.wait()

    def kill(self) -> None:
        for child in self._children:
            with contextlib.suppress(ProcessLookupError):
                child.kill()


async def run(arguments: argparse.Namespace) -> int:
    path = arguments.config or (SCRIPTS / "stub.yaml" if arguments.stub else ROOT / "config.yaml")
    processes = Processes()
    with tempfile.TemporaryDirectory() as folder:
        try:
            async with ended_by_signals(processes):
                await start_all(processes, path, arguments, Path(folder))
                await processes.first_end()
        finally:
            await processes.end()
    return 0


async def start_all(
    processes: Processes, path: Path, arguments: argparse.Namespace, folder: Path
) -> None:
    paths = [path]
    if arguments.replicas > 1:
        import replicas  # beside this file, which is all that a single gateway needs

        redis = replicas.redis_command(folder)
        if redis is None:
            raise CannotStart(
                "redis-server is not installed: on Debian and Ubuntu, "
                "'apt-get install redis-server'."
            )
        (program, *options), redis_url = redis
        await processes.start(*options, program=program)
        paths = replicas.write_configs(path, arguments.replicas, redis_url, folder)
    configs = {path: load(path) for path in paths}
    for path, config in configs.items():
        refuse_taken_ports(config, path)
    await start_upstreams(processes, configs[paths[0]], stub=arguments.stub)
    for path, config in configs.items():
        gateway = await start_gateway(processes, config, path)
        if len(configs) > 1:
            processes.spare.add(gateway)
    urls = [f"http://{config.listen.host}:{config.listen.port}" for config in configs.values()]
    if len(urls) > 1:
        print(f"\nOne line in front of {len(urls)} gateways: {', '.join(urls)}.", flush=True)
    demo, pages = DEMO.format(url=urls[0]), pages_of(configs[paths[0]])
    print(READY.format(demo=demo, pages=pages), flush=True)


def pages_of(config: Config) -> str:
    admin = config.admin
    if admin is None or not admin.demo:
        return ""
    return PAGES.format(admin=f"http://{admin.host}:{admin.port}")


@contextlib.asynccontextmanager
async def ended_by_signals(processes: Processes):  # type: ignore[no-untyped-def]
    """The first SIGINT or SIGTERM leaves the block; a second one kills the children."""
    body, loop = asyncio.current_task(), asyncio.get_running_loop()
    assert body is not None
    told = False

    def tell() -> None:
        nonlocal told
        if told:
            processes.kill()
            return
        told = True
        print("\nEnding; open answers may finish. Ctrl-C again ends at once.", flush=True)
        body.cancel()

    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, tell)
    try:
        yield
    except asyncio.CancelledError:
        if not told:
            raise
        body.uncancel()
    else:
        raise CannotStart("A process has ended by itself; what it said is above.")


async def start_upstreams(processes: Processes, config: Config, *, stub: bool) -> None:
    for upstream in config.upstreams.values():
        port = urlsplit(upstream.url).port
        if stub:
            hold = 3 if upstream.name == "reasoning" else 0
            command: Sequence[object] = (SCRIPTS / "stub_upstream.py", "--hold", hold)
        else:
            print("Loading the model ...", flush=True)
            command = (SCRIPTS / "model_server.py", "--slots", upstream.slots)
        child = await processes.start(*command, "--port", port, pipe=True)
        assert child.stdout is not None
        async with asyncio.timeout(SECONDS_TO_LOAD):
            line = await child.stdout.readline()
        if not line.startswith(b"ready"):
            raise CannotStart(f"The upstream {upstream.name!r} did not start.")


async def start_gateway(
    processes: Processes, config: Config, path: Path
) -> asyncio.subprocess.Process:
    gateway = await processes.start("-m", "gateway", "--config", path)
    while gateway.returncode is None:
        try:
            _, writer = await asyncio.open_connection(config.listen.host, config.listen.port)
        except OSError:
            await asyncio.sleep(0.05)
        else:
            writer.close()
            return gateway
    raise CannotStart("The gateway did not start; what it said is above.")


def refuse_taken_ports(config: Config, path: Path) -> None:
    ports = {"listen.port": config.listen.port}
    if config.admin is not None:
        ports["admin.port"] = config.admin.port
    for upstream in config.upstreams.values():
        ports[f"upstreams.{upstream.name}.url"] = urlsplit(upstream.url).port or 80
    for setting, port in ports.items():
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                raise CannotStart(
                    f"Port {port} is taken: end what uses it (ss -ltnp 'sport = :{port}'), "
                    f"or change {setting} in {os.path.relpath(path)}."
                ) from None


def full_path(name: str) -> Path:
    """The children run in another folder than the person who types."""
    return Path(name).resolve()


def main() -> int:
    parser = argparse.ArgumentParser(prog="scripts/run", description="The gateway, to try it.")
    parser.add_argument("--stub", action="store_true", help="scripted upstreams, no model")
    parser.add_argument("--replicas", type=int, default=1, help="gateways that share one line")
    parser.add_argument("--config", type=full_path, help="another file than config.yaml")
    arguments = parser.parse_args()
    try:
        return asyncio.run(run(arguments))
    except (CannotStart, ConfigError) as error:
        print(error, file=sys.stderr)
        return 1
    except TimeoutError:
        print(f"The model did not load within {SECONDS_TO_LOAD} s.", file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())
