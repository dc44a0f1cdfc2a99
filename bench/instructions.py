"""The gate that does not depend on a clock: ``scripts/bench instructions``.

Counts the instructions of the pure steps per token, as multiples of an ordinary piece of Python,
and compares them with what ``instructions.json`` has for this version of Python.  More than a
tenth above is a failure; after a change that is worth its price, ``--record`` writes the new
numbers down.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from bench.steps import STEPS, TOKENS
from bench.systems import ROOT

RECORDED = Path(__file__).with_name("instructions.json")
PYTHON = f"{sys.version_info.major}.{sys.version_info.minor}"
TOLERANCE = 0.10
FEW, MANY = 2, 6
"""Rounds; the difference leaves out starting Python and importing everything."""

TOTAL = re.compile(r"Collected : (\d+)")


def main() -> int:
    parser = argparse.ArgumentParser(prog="scripts/bench instructions", description=__doc__)
    parser.add_argument("--record", action="store_true", help="write the numbers down")
    options = parser.parse_args()
    if shutil.which("valgrind") is None:
        print("valgrind is not installed", file=sys.stderr)
        return 2
    costs = measured()
    recorded = json.loads(RECORDED.read_text())
    if options.record:
        recorded[PYTHON] = costs
        RECORDED.write_text(json.dumps(recorded, indent=2) + "\n")
    return report(costs, recorded.get(PYTHON))


def report(costs: dict[str, float], recorded: dict[str, float] | None) -> int:
    """Prints a line for each step; 1 if one of them has become more costly."""
    if recorded is None:
        print(f"nothing is recorded for Python {PYTHON}: {costs}")
        return 0
    worse = 0
    for step, cost in costs.items():
        change = cost / recorded[step] - 1
        worse |= change > TOLERANCE
        print(f"{step:12} {cost:6.3f} recorded {recorded[step]:6.3f} ({change:+.1%})")
    return int(worse)


def measured() -> dict[str, float]:
    per_token = {step: counted(step) for step in STEPS}
    ordinary = per_token.pop("ordinary")
    return {step: round(count / ordinary, 3) for step, count in per_token.items()}


def counted(step: str) -> float:
    """Instructions per token."""
    return (collected(step, MANY) - collected(step, FEW)) / ((MANY - FEW) * TOKENS)


def collected(step: str, rounds: int) -> int:
    with tempfile.TemporaryDirectory(prefix="callgrind-") as folder:
        command = ["valgrind", "--tool=callgrind", f"--callgrind-out-file={folder}/out"]
        done = subprocess.run(
            [*command, sys.executable, "-m", "bench.steps", step, str(rounds)],
            cwd=ROOT,
            env=os.environ | {"PYTHONHASHSEED": "0"},
            check=True,
            capture_output=True,
            text=True,
        )
    found = TOTAL.search(done.stderr)
    assert found is not None, done.stderr
    return int(found[1])


if __name__ == "__main__":
    sys.exit(main())
