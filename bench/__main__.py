"""Runs the measurements and prints the table."""

from __future__ import annotations

import argparse
import resource
import statistics
import sys
import tempfile
from importlib.metadata import version
from pathlib import Path

from bench.line import measure_line
from bench.measures import MEASURES, Numbers, memory_per_stream
from bench.peers import PEERS
from bench.systems import ENDS_CPU, Process, System, free_port, start, wait_for

GATEWAYS = ("gateway", "gateway (uvloop)")
FLOORS = ("floor", "floor (uvloop)")
SYSTEMS = ("direct", "nginx", "haproxy", *FLOORS, *GATEWAYS)
WITH_A_LINE = ("haproxy", *FLOORS, *GATEWAYS)
STARTS, MEMORY = "start until ready", "memory per open stream"
STREAMS = 1000
LINES = {"1,000 waiting": 1000, "10,000 waiting": 9000}
"""Ten thousand, as far as the usual limit of 20,000 open files allows for both ends."""


def main() -> int:
    parser = argparse.ArgumentParser(prog="scripts/bench", description=__doc__)
    parser.add_argument("--rounds", type=int, default=3, help="the median of so many (default 3)")
    parser.add_argument("--quick", action="store_true", help="one round")
    parser.add_argument("--only", metavar="WORDS", default="", help="measures with these words")
    parser.add_argument(
        "--systems",
        nargs="+",
        default=list(SYSTEMS),
        choices=[*SYSTEMS, *PEERS],
        metavar="SYSTEM",
        help=f"of {', '.join((*SYSTEMS, *PEERS))}; peers only if they are named",
    )
    options = parser.parse_args()
    if not any(options.only in name for name in (*MEASURES, *LINES, STARTS, MEMORY)):
        parser.error(f"argument --only: no measure has the words {options.only!r}")
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    print(f"Python {sys.version.split()[0]}, aiohttp {version('aiohttp')}", flush=True)
    with tempfile.TemporaryDirectory(prefix="bench-") as folder:
        compare(options, Path(folder))
        for name, count in LINES.items():
            if options.only in name:
                compare_lines(name, count, options.systems, Path(folder))
    return 0


def compare(options: argparse.Namespace, folder: Path) -> None:
    chosen = [name for name in MEASURES if options.only in name]
    starts = options.only in STARTS
    memory = options.only in MEMORY
    if not chosen and not starts and not memory:
        return
    port = free_port()
    stub = Process([sys.executable, "-m", "bench.stub", port], ENDS_CPU, folder / "stub.log")
    wait_for(port)
    systems: list[System] = []
    try:
        for name in options.systems:
            try:
                systems.append(start(name, port, folder))
            except FileNotFoundError as error:
                print(f"{name}: {error} is not installed")
        if starts:
            compare_starts([system.name for system in systems if system.process], port, folder)
        if memory:
            compare_memory([system.name for system in systems if system.process], port, folder)
        for name in chosen:
            print_row(name, measured(name, systems, 1 if options.quick else options.rounds))
    finally:
        for system in systems:
            if system.process:
                system.process.stop()
        stub.stop()


def compare_starts(systems: list[str], stub: int, folder: Path) -> None:
    """From the start of the process until somebody can connect, which is when it is ready."""
    print("\nstart until ready, seconds")
    for name in systems:
        taken = []
        for _ in range(5):
            system = start(name, stub, folder)
            taken.append(system.ready_seconds)
            if system.process:
                system.process.stop()
        print(f"  {name:18} {statistics.median(taken):6.2f} ({min(taken):.2f}..{max(taken):.2f})")


def compare_memory(systems: list[str], stub: int, folder: Path) -> None:
    """In a process just started: what an earlier load has left free would be used again."""
    for way, group in (("fifty opened at a time", 50), ("all opened at once", STREAMS)):
        print(f"\nmemory per open stream, KiB, {STREAMS} open, {way}")
        for name in systems:
            taken = []
            for _ in range(3):
                system = start(name, stub, folder)
                taken.append(memory_per_stream(system, streams=STREAMS, group=group))
                if system.process:
                    system.process.stop()
            spread = f"({min(taken):.1f}..{max(taken):.1f})"
            print(f"  {name:18} {statistics.median(taken):6.1f} {spread}", flush=True)


def measured(name: str, systems: list[System], rounds: int) -> dict[str, list[Numbers]]:
    """Round by round, each system in turn, so that a machine's moods hit all alike."""
    found: dict[str, list[Numbers]] = {system.name: [] for system in systems}
    for _ in range(rounds):
        for system in systems:
            try:
                found[system.name].append(MEASURES[name](system))
            except LookupError:
                continue
    return found


def print_row(name: str, found: dict[str, list[Numbers]]) -> None:
    print(f"\n{name}")
    base = found.get("nginx")
    for system, rounds in found.items():
        if not rounds:
            continue
        cells = []
        for unit in rounds[0]:
            values = [numbers[unit] for numbers in rounds]
            value = statistics.median(values)
            ratio = ""
            if base and unit == "us":
                ratio = f" = {value / statistics.median(n[unit] for n in base):.2f}x"
            cells.append(f"{value:8.1f} {unit}{ratio} ({min(values):.1f}..{max(values):.1f})")
        print(f"  {system:18} " + "   ".join(cells), flush=True)


def compare_lines(name: str, count: int, systems: list[str], folder: Path) -> None:
    for system in systems:
        if system not in WITH_A_LINE:
            continue
        print(f"\n{name}, {system}")
        try:
            numbers = measure_line(system, count, folder)
        except FileNotFoundError as error:
            print(f"  {error} is not installed")
            continue
        for what, value in numbers.items():
            print(f"  {what:42} {value:8.2f}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
