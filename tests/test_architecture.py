"""The import rule of ``gateway/__init__.py``, held as data."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "gateway"

#: Room -> the rooms it may use besides itself. A room is a module or package right below
#: ``gateway``; ``slots.base`` stands for that one module of ``slots``.
MAY_USE: dict[str, set[str]] = {
    # level 0: nothing of ours above it
    "errors": set(),
    "heartbeat": set(),
    "patience": set(),
    "sse": {"errors"},
    "config": {"errors"},
    "log": {"errors"},
    # level 1: never each other
    "slots": {"errors", "patience", "sse", "config"},
    "upstream": {"errors", "patience", "sse", "config"},
    "relay": {"errors", "patience", "sse", "config"},
    "metrics": {"slots.base"},
    # level 2
    "web": {
        *("errors", "heartbeat", "patience", "sse", "metrics", "config"),
        *("slots.base", "upstream", "relay"),
    },
    "app": {"*"},
    "files": set(),
    "memory": set(),
    "serving": {"app", "config", "errors", "files", "memory"},
    "supervisor": set(),
    "arguments": {"config", "errors", "log"},
    "__main__": {"command"},
    "command": {
        *("arguments", "supervisor", "serving", "config", "errors", "files", "log"),
        *("top", "discover"),
    },
    # beside it: tools that talk to gateways or servers from outside
    "tracing": {"web.record"},
    "top": set(),
    "discover": set(),
}

#: Pure modules: no clock of a loop, no I/O. A folder stands for all that is in it.
PURE = [
    "slots/fifo.py",
    "slots/estimate.py",
    "sse.py",
    "relay",
    "upstream/headers.py",
    "web/frames.py",
]
IMPURE = ("asyncio", "aiohttp", "socket", "threading", "time")

#: Which rooms each part of aiohttp belongs to; all that is not named here is its client.
AIOHTTP: dict[str, set[str]] = {
    "aiohttp.web": {"web", "app"},
    "aiohttp.abc": {"web", "upstream", "app"},
    "aiohttp.hdrs": {"web", "upstream", "app"},
    "aiohttp.typedefs": {"web", "upstream", "app"},
    "aiohttp.http_exceptions": {"web", "upstream"},
    "aiohttp.http_writer": {"web"},
    "aiohttp": {"upstream"},
}

MODULES = sorted(path for path in PACKAGE.rglob("*.py") if path != PACKAGE / "__init__.py")
by_module = pytest.mark.parametrize(
    "path", MODULES, ids=[str(path.relative_to(PACKAGE)) for path in MODULES]
)


def imports_of(path: Path) -> set[str]:
    """Every module that ``path`` imports, by its full name, wherever in the file."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert not node.level, f"{path}: imports are absolute"
            found |= {full_name(str(node.module), alias.name) for alias in node.names}
    return found


def full_name(module: str, name: str) -> str:
    """``from gateway.slots import base`` means the module, ``from x import y`` means x."""
    below = ROOT.joinpath(*module.split("."), name)
    is_module = below.is_dir() or below.with_suffix(".py").is_file()
    return f"{module}.{name}" if is_module or module == "aiohttp" else module


def room_of(path: Path) -> str:
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


def allowed(module: str, rooms: set[str]) -> bool:
    parts = module.removeprefix("gateway.")
    return "*" in rooms or any(f"{parts}.".startswith(f"{room}.") for room in rooms)


def is_of(module: str, library: str) -> bool:
    return f"{module}.".startswith(f"{library}.")


@by_module
def test_a_room_uses_only_the_rooms_below_it(path: Path) -> None:
    room = room_of(path)
    ours = {name for name in imports_of(path) if is_of(name, "gateway") and name != "gateway"}
    above = {name for name in ours if not allowed(name, MAY_USE[room] | {room})}
    assert not above, f"{path.relative_to(ROOT)} must not import {sorted(above)}"


@by_module
def test_each_part_of_aiohttp_stays_in_its_rooms(path: Path) -> None:
    for name in imports_of(path):
        for part in AIOHTTP:
            if is_of(name, part):
                assert room_of(path) in AIOHTTP[part], f"{path.relative_to(ROOT)} imports {name}"
                break


@pytest.mark.parametrize("pure", PURE)
def test_pure_modules_import_neither_a_loop_nor_a_clock(pure: str) -> None:
    root = PACKAGE / pure
    assert root.exists(), "moved? then say where to"
    for path in root.rglob("*.py") if root.is_dir() else [root]:
        impure = {name for name in imports_of(path) for library in IMPURE if is_of(name, library)}
        assert not impure, f"{path.relative_to(ROOT)} must not import {sorted(impure)}"


def test_the_rule_names_every_room_that_there_is() -> None:
    rooms = {room_of(path) for path in MODULES}
    assert rooms <= MAY_USE.keys(), "a new room: say what it may use, here and in the map"


@pytest.mark.parametrize(
    ("line", "names"),
    [
        ("from gateway.slots import base", {"gateway.slots.base"}),
        ("from gateway.slots.fifo import Fifo", {"gateway.slots.fifo"}),
        ("from aiohttp import web", {"aiohttp.web"}),
        ("from aiohttp import ClientSession", {"aiohttp.ClientSession"}),
        ("def f():\n    import asyncio.tasks", {"asyncio.tasks"}),
    ],
)
def test_the_rule_sees_every_form_of_import(line: str, names: set[str], tmp_path: Path) -> None:
    path = tmp_path / "module.py"
    path.write_text(line)
    assert imports_of(path) == names
