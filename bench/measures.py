"""What is measured, one function each: a system and its stub in, numbers out."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import time
from collections.abc import Callable

from bench.stub import JOINED
from bench.systems import ENDS_CPU, ROOT, System

Numbers = dict[str, float]


def load(system: System, **options: object) -> Numbers:
    pinned = ["taskset", "-c", ENDS_CPU] if shutil.which("taskset") else []
    command = [*pinned, sys.executable, "-m", "bench.load"]
    asked = json.dumps({"port": system.port, "headers": system.headers, **options})
    done = subprocess.run([*command, asked], cwd=ROOT, check=True, capture_output=True, timeout=600)
    found: Numbers = json.loads(done.stdout)
    if found["failed"]:
        raise RuntimeError(f"{system.name}: {found['failed']:.0f} requests failed")
    return found


def request(model: str, *, words: int, pause_ms: int = 0, stream: bool = True, size: int = 2):
    message = {"role": "user", "content": "x" * size}
    fields = {"model": model, "max_tokens": words, "top_k": pause_ms, "stream": stream}
    return fields | {"messages": [message]}


def of(system: System, model: str) -> str:
    """Who cannot translate relays instead: the yardstick of the same moment."""
    path = system.relayed if model == "native" else system.translated or system.relayed
    assert path is not None
    return path


def streamed(model: str, *, streams: int, words: int, pause_ms: int, rounds: int = 1):
    """CPU microseconds per streamed word, and the way of a word in microseconds."""

    def measure(system: System) -> Numbers:
        body = request(system.call_it(model), words=words, pause_ms=pause_ms)
        total = max(streams, int(streams * rounds * system.share))
        before = system.process.cpu_seconds() if system.process else 0.0
        found = load(system, path=of(system, model), body=body, streams=streams, total=total)
        used = (system.process.cpu_seconds() if system.process else 0.0) - before
        per_word = used * 1e6 / (total * words)
        return {"us": per_word, "latency_us": found["latency_us"], "first_ms": found["first_ms"]}

    return measure


def whole(*, total: int, size: int = 2):
    """CPU microseconds per short request that does not stream."""

    def measure(system: System) -> Numbers:
        body = request(system.call_it("native"), words=1, stream=False, size=size)
        some = int(total * system.share)
        before = system.process.cpu_seconds() if system.process else 0.0
        load(system, path=of(system, "native"), body=body, streams=8, total=some)
        used = (system.process.cpu_seconds() if system.process else 0.0) - before
        return {"us": used * 1e6 / some}

    return measure


def memory_per_stream(system: System, *, streams: int, group: int) -> float:
    """KiB that a process just started grows by, for each stream that is open."""
    assert system.process is not None
    before = system.process.resident_kib()
    body = request(system.call_it("native"), words=5, pause_ms=1000)
    pinned = ["taskset", "-c", ENDS_CPU] if shutil.which("taskset") else []
    options = {"port": system.port, "path": of(system, "native"), "body": body}
    options["headers"] = system.headers
    asked = json.dumps(options | {"streams": streams, "total": streams, "group": group})
    command = [*pinned, sys.executable, "-m", "bench.load", asked]
    client = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.DEVNULL)
    time.sleep(3.5)
    grown = system.process.resident_kib() - before
    client.wait()
    return grown / streams


MEASURES: dict[str, Callable[[System], Numbers]] = {
    "paced, 64 streams, relayed": streamed("native", streams=64, words=150, pause_ms=20),
    "paced, 64 streams, translated": streamed("chat", streams=64, words=150, pause_ms=20),
    "paced, 256 streams, relayed": streamed("native", streams=256, words=150, pause_ms=20),
    "paced, 256 streams, translated": streamed("chat", streams=256, words=150, pause_ms=20),
    "full speed, relayed": streamed("native", streams=16, words=2000, pause_ms=0, rounds=4),
    "full speed, translated": streamed("chat", streams=16, words=2000, pause_ms=0, rounds=4),
    "sixteen tokens to a write, relayed": streamed(
        "native", streams=16, words=2000, pause_ms=JOINED, rounds=4
    ),
    "sixteen tokens to a write, translated": streamed(
        "chat", streams=16, words=2000, pause_ms=JOINED, rounds=4
    ),
    "first word of a stream, one at a time": streamed(
        "native", streams=1, words=1, pause_ms=0, rounds=300
    ),
    "short request": whole(total=4000),
    "100 KB prompt": whole(total=1000, size=100_000),
}
