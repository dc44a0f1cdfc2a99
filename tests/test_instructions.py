"""The regression gate of the hot path: instructions, not seconds."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from bench.instructions import PYTHON, report

ROOT = Path(__file__).resolve().parent.parent


def test_the_pure_steps_cost_no_more_instructions_than_recorded(
    program: Callable[[str], str],
) -> None:
    program("valgrind")
    done = subprocess.run(
        [sys.executable, "-m", "bench.instructions"], cwd=ROOT, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize(("cost", "verdict"), [(1.0, 0), (1.09, 0), (1.11, 1), (0.5, 0)])
def test_a_tenth_more_is_too_much(cost: float, verdict: int) -> None:
    assert report({"relayed": cost}, {"relayed": 1.0}) == verdict


def test_an_unknown_python_is_measured_and_not_judged(capsys: pytest.CaptureFixture[str]) -> None:
    assert report({"relayed": 1.0}, None) == 0
    assert PYTHON in capsys.readouterr().out
