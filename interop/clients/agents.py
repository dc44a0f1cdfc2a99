"""What the scripts for coding agents share: a home and a workshop of their own, and the task."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from order import ORDER

from interop.agent import RIGHT, TASK, WRONG

SECONDS = 80


@contextmanager
def workshop() -> Iterator[tuple[Path, str, dict[str, str]]]:
    """An empty folder, the prompt, and an environment without the user's own settings."""
    with tempfile.TemporaryDirectory(prefix="agent-", ignore_cleanup_errors=True) as name:
        home, work = Path(name, "home"), Path(name, "work")
        home.mkdir()
        work.mkdir()
        greeting = work / "greeting.txt"
        greeting.write_text(f"{WRONG}, world.\n")
        environ = {
            "PATH": os.environ["PATH"],
            "HOME": str(home),
            "XDG_CONFIG_HOME": str(home / "config"),
            "XDG_DATA_HOME": str(home / "data"),
            "XDG_CACHE_HOME": str(home / "cache"),
            "XDG_STATE_HOME": str(home / "state"),
        }
        prompt = TASK.format(path=greeting) if ORDER["model"] == "agent" else ORDER["prompt"]
        yield work, prompt, environ
        if ORDER["model"] == "agent" and greeting.read_text() != f"{RIGHT}, world.\n":
            raise RuntimeError(f"the file says {greeting.read_text()!r}")


def run(command: list[str], work: Path, environ: dict[str, str]) -> str:
    """What the program printed.

    Raises:
        RuntimeError: it failed, with what it printed.
    """
    done = subprocess.run(
        command,
        cwd=work,
        env=environ,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=SECONDS,
    )
    if done.returncode:
        raise RuntimeError(f"status {done.returncode}: {done.stdout[-200:]} {done.stderr[-200:]}")
    return done.stdout


def release(program: str) -> str:
    done = subprocess.run([program, "--version"], capture_output=True, text=True, timeout=30)
    return done.stdout.split()[0]
