"""What is compared: each started on one processor, in front of the same stub."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
import time
from pathlib import Path

from bench.peers import PEERS, peer

ROOT = Path(__file__).resolve().parent.parent
PROXY_CPU, ENDS_CPU = "0", "1"

NGINX = """
daemon off; user root; worker_processes 1; pid {folder}/nginx.pid; error_log {folder}/error.log;
worker_rlimit_nofile 20000;
events {{ worker_connections 8192; }}
http {{
    access_log off; client_max_body_size 40m; client_body_buffer_size 1m;
    client_body_temp_path {folder}/body; proxy_temp_path {folder}/proxy;
    fastcgi_temp_path {folder}/f; uwsgi_temp_path {folder}/u; scgi_temp_path {folder}/s;
    upstream stub {{ server 127.0.0.1:{stub}; keepalive 256; }}
    server {{
        listen 127.0.0.1:{port} backlog=4096;
        location / {{
            proxy_pass http://stub; proxy_http_version 1.1; proxy_set_header Connection "";
            proxy_buffering off; proxy_read_timeout 600s;
        }}
    }}
}}
"""

HAPROXY = """
global
    maxconn 9900
    nbthread 1
defaults
    mode http
    timeout connect 5s
    timeout client 600s
    timeout server 600s
    timeout queue 3600s
    option http-no-delay
frontend front
    bind 127.0.0.1:{port}
    default_backend back
backend back
    http-reuse always
    server stub 127.0.0.1:{stub}{cap}
"""


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Process:
    """A program on a processor of its own; ended with ``stop``."""

    def __init__(
        self, command: list[object], cpu: str, log: Path, environ: dict[str, str] | None = None
    ) -> None:
        pinned = ["taskset", "-c", cpu] if shutil.which("taskset") else []
        environ = os.environ | {"PYTHONPATH": str(ROOT)} | (environ or {})
        with log.open("ab") as output:
            self._process = subprocess.Popen(
                [*pinned, *map(str, command)],
                stdout=output,
                stderr=output,
                cwd=ROOT,
                env=environ,
            )

    def pids(self) -> list[int]:
        """It and its children: nginx works in one."""
        children = Path(f"/proc/{self._process.pid}/task/{self._process.pid}/children")
        return [self._process.pid, *map(int, children.read_text().split())]

    def cpu_seconds(self) -> float:
        return sum(map(cpu_seconds, self.pids()))

    def resident_kib(self) -> int:
        return sum(map(resident_kib, self.pids()))

    def stop(self) -> None:
        self._process.terminate()
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


def cpu_seconds(pid: int) -> float:
    """From the scheduler's own account, in nanoseconds, where the kernel keeps one."""
    try:
        return int(Path(f"/proc/{pid}/schedstat").read_text().split()[0]) / 1e9
    except (OSError, IndexError):
        fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def resident_kib(pid: int) -> int:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1])
    return 0


def wait_for(port: int) -> float:
    """Seconds until somebody listens there."""
    begun = time.monotonic()
    while time.monotonic() - begun < 90:  # there are peers that take their time
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return time.monotonic() - begun
        time.sleep(0.005)
    raise TimeoutError(f"nobody listens on port {port}")


class System:
    """One of those compared; ``paths`` are those for a relayed and for a translated request."""

    relayed: str | None = "/v1/messages"
    translated: str | None = None
    share = 1.0
    """How much of the work it is given; slow ones get less, so that a run ends."""

    def __init__(self, name: str, port: int, process: Process | None, ready: float) -> None:
        self.name = name
        self.port = port
        self.process = process
        self.ready_seconds = ready
        self.models: dict[str, str] = {}
        self.headers: dict[str, str] = {}

    def call_it(self, model: str) -> str:
        """What this system knows the model as."""
        return self.models.get(model, model)


def start(name: str, stub: int, folder: Path, slots: int | None = None, path: str = "") -> System:
    """``slots`` is how many requests may be at the stub at one time.

    Raises FileNotFoundError where the program is not installed.
    """
    port = free_port()
    if name == "direct":
        return System(name, stub, None, 0.0)
    if name == "nginx":
        (folder / "nginx.conf").write_text(NGINX.format(folder=folder, port=port, stub=stub))
        command = [find("nginx"), "-p", folder, "-c", folder / "nginx.conf"]
    elif name == "haproxy":
        cap = f" maxconn {slots}" if slots else ""
        (folder / "haproxy.cfg").write_text(HAPROXY.format(port=port, stub=stub, cap=cap))
        command = [find("haproxy"), "-db", "-f", folder / "haproxy.cfg"]
    elif name.startswith("floor"):
        return start_floor(name, port, stub, folder, slots or 4000, path)
    elif name in PEERS:
        return start_peer(name, port, stub, folder)
    else:
        return start_gateway(name, port, stub, folder, slots or 4000, path)
    process = Process(command, PROXY_CPU, folder / f"{name}.log")
    system = System(name, port, process, wait_for(port))
    system.relayed = f"{path}{system.relayed}"
    return system


def start_peer(name: str, port: int, stub: int, folder: Path) -> System:
    found = peer(name, port, stub, folder)
    process = Process(found.command, PROXY_CPU, folder / f"{name}.log", found.environ)
    system = System(name, port, process, wait_for(port))
    system.relayed, system.translated = found.relayed, found.translated
    system.models, system.headers = found.models, found.headers
    system.share = 0.25
    return system


def start_floor(name: str, port: int, stub: int, folder: Path, slots: int, path: str) -> System:
    loop = "uvloop" if "uvloop" in name else "asyncio"
    upstream = f"http://127.0.0.1:{stub}{path}"
    command = [sys.executable, "-m", "bench.floor", port, upstream, loop, slots]
    process = Process(command, PROXY_CPU, folder / f"{name}.log")
    return System(name, port, process, wait_for(port))


def start_gateway(name: str, port: int, stub: int, folder: Path, slots: int, path: str) -> System:
    common = {"slots": slots, "server": "other", "url": f"http://127.0.0.1:{stub}{path}"}
    common["queue"] = {"max_waiting": 100_000, "max_wait_seconds": 3600}
    upstreams = {
        "native": common | {"dialect": "anthropic", "models": ["native"]},
        "chat": common | {"dialect": "openai", "models": ["chat"]},
    }
    config = folder / f"{name}.yaml"
    admin = {"port": free_port()}
    config.write_text(json.dumps({"upstreams": upstreams, "admin": admin}))
    loop = ["--loop", "uvloop"] if "uvloop" in name else []
    command = [sys.executable, "-m", "gateway", "--config", config, "--port", port, *loop]
    process = Process(command, PROXY_CPU, folder / f"{name}.log")
    system = System(name, port, process, wait_for(port))
    system.relayed = system.translated = "/llm/v1/messages"
    return system


def find(program: str) -> str:
    found = shutil.which(program, path=f"{os.environ.get('PATH', '')}:/usr/sbin")
    if found is None:
        raise FileNotFoundError(program)
    return found
