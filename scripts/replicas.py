"""Several gateways over one line, to try it: what ``scripts/run --replicas N`` adds.

Each replica gets a copy of the configuration with ports of its own and the line in one Redis.
"""

from __future__ import annotations

import shutil
import socket
from pathlib import Path

import yaml

PORTS_APART = 10
LEASE_SECONDS = 3
"""Short, so that a killed gateway's slots are soon back."""


def redis_command(folder: Path) -> tuple[list[str], str] | None:
    """How to start a redis-server on a free port, and its URL; None if it is not installed."""
    program = shutil.which("redis-server")
    if program is None:
        return None
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    options = ("--port", str(port), "--bind", "127.0.0.1", "--dir", str(folder), "--save", "")
    return [program, *options, "--logfile", "redis.log"], f"redis://127.0.0.1:{port}/0"


def write_configs(path: Path, replicas: int, redis_url: str, folder: Path) -> list[Path]:
    """The configuration at ``path`` once for each replica, in ``folder``."""
    written = []
    for index in range(replicas):
        config = yaml.safe_load(path.read_text())
        config["slots"] = {"backend": "redis", "url": redis_url, "lease_seconds": LEASE_SECONDS}
        for listener, port in (("listen", 8080), ("admin", 8081)):
            if config.setdefault(listener, {}) is not None:
                own = config[listener].get("port", port) + index * PORTS_APART
                config[listener]["port"] = own
        written.append(folder / f"replica-{index + 1}.yaml")
        written[-1].write_text(yaml.safe_dump(config))
    return written
