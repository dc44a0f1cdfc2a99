"""The commands that the pages and deployment files show are commands that there are."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from gateway.arguments import parser

ROOT = Path(__file__).parents[2]
PAGES = [
    ROOT / "README.md",
    ROOT / "Dockerfile",
    ROOT / "compose.yaml",
    *sorted((ROOT / "docs").rglob("*.md")),
    *sorted((ROOT / "deploy").rglob("*.*")),
]
COMMANDS = sorted(
    {
        (str(page.relative_to(ROOT)), found.split("#")[0].strip())
        for page in PAGES
        for found in re.findall(r"python -m gateway(?![.\w])([^`\n|;>]*)", page.read_text())
    }
)


@pytest.mark.parametrize(("page", "arguments"), COMMANDS)
def test_a_command_that_is_shown_can_be_typed(page: str, arguments: str) -> None:
    words = shlex.split(arguments.replace("[", "").replace("]", ""))
    if not words or words[0].startswith("-"):
        words = ["serve", *words]
    parser().parse_args(words)


def test_every_command_is_shown_somewhere() -> None:
    shown = {arguments.split()[0] for _, arguments in COMMANDS if arguments.split()}
    assert {"check", "top", "discover"} <= shown
