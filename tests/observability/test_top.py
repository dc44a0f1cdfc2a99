"""``top``: the line in a terminal."""

from __future__ import annotations

import asyncio
import io
import subprocess
import sys
from pathlib import Path
from typing import Any
from urllib.error import URLError

import pytest
from rich.console import Console

from gateway import top
from gateway.config import from_mapping
from tests.web.clients import Surface, ask
from tests.web.conftest import mapping
from tests.web.scripted import ScriptedUpstream

ROOT = Path(__file__).parents[2]


async def shown(surface: Surface, **options: Any) -> str:
    console = Console(file=io.StringIO(), width=120, **options)
    url = f"http://127.0.0.1:{surface.admin_port}"
    assert await asyncio.to_thread(top.run, url, once=True, console=console) == 0
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


async def test_it_shows_slots_line_and_exchanges(
    make_gateway: Any, upstream: ScriptedUpstream
) -> None:
    surface = await make_gateway()
    for _ in range(3):
        await surface.stream(ask())
    await surface.post(ask(model="unknown"))
    await surface.waits(2)
    text = await shown(surface)
    assert "1/1" in text
    rows = [line.split() for line in text.splitlines()]
    assert [row[0] for row in rows if row[1:3] == ["127.0.0.1", "m"]] == ["running", "1", "2"]
    assert "rejected (not_found_error)" in text


async def test_a_removed_upstream_that_still_runs_says_so(
    make_gateway: Any, upstream: ScriptedUpstream
) -> None:
    surface = await make_gateway()
    await surface.stream(ask())
    await upstream.arrival(1)
    other = mapping(url=upstream.url, models=["other"])
    other["upstreams"] = {"two": other["upstreams"]["one"]}
    await surface.service.reload(from_mapping(other, {}))
    rows = [line.split() for line in (await shown(surface)).splitlines()]
    assert ["two", "idle", "0/1"] in [row[:3] for row in rows]
    assert ["one", "removed", "1/1"] in [row[:3] for row in rows]


async def test_a_clients_words_cannot_steer_the_terminal(make_gateway: Any) -> None:
    surface = await make_gateway()
    await surface.post(ask(model="\x1b[2Jgone [bold]m[/bold]"))
    text = await shown(surface, force_terminal=False)
    assert "\x1b" not in text
    assert "?[2Jgone [bold]m[/bold]" in text


async def test_it_goes_on_until_it_is_interrupted_and_waits_for_a_gateway_that_is_gone(
    make_gateway: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    picture = (await (await make_gateway()).request("GET", "/status.json", admin=True)).json
    answers: list[Any] = [picture, URLError("gone"), picture]
    pauses = iter([None, None, KeyboardInterrupt()])

    def answer(admin: str) -> Any:
        if isinstance(next_one := answers.pop(0), Exception):
            raise next_one
        return next_one

    def pause(seconds: float) -> None:
        if interrupt := next(pauses):
            raise interrupt

    monkeypatch.setattr(top, "picture_of", answer)
    monkeypatch.setattr(top.time, "sleep", pause)
    console = Console(file=io.StringIO(), width=100, force_terminal=True)
    assert top.run("http://x", once=False, console=console) == 0
    assert isinstance(console.file, io.StringIO)
    assert "connection lost, trying again" in console.file.getvalue()
    assert not answers


def test_nobody_there_is_said_in_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert top.run("http://127.0.0.1:9", once=True) == 1
    assert capsys.readouterr().err.count("\n") == 1


def command(*arguments: str, hide: str = "") -> subprocess.CompletedProcess[str]:
    """``python -m gateway`` with one package made impossible to import."""
    start = f"import sys; sys.modules[{hide!r}] = None; sys.argv[1:] = {list(arguments)!r}\n"
    start += "import runpy; runpy.run_module('gateway', run_name='__main__')"
    return subprocess.run([sys.executable, "-c", start], cwd=ROOT, capture_output=True, text=True)


def test_without_rich_it_says_what_to_install() -> None:
    done = command("top", "--once", hide="rich")
    assert (done.returncode, done.stdout) == (1, "")
    assert "pip install rich" in done.stderr
    assert "Traceback" not in done.stderr


async def test_it_is_a_command(make_gateway: Any) -> None:
    surface = await make_gateway()
    address = f"127.0.0.1:{surface.admin_port}"  # http:// may be left out
    done = await asyncio.to_thread(command, "top", "--admin", address, "--once")
    assert done.returncode == 0, done.stderr
    assert "0/1" in done.stdout


@pytest.mark.parametrize("package", ["rich", "opentelemetry", "redis"])
def test_an_extra_that_is_not_used_is_not_even_imported(package: str) -> None:
    script = (
        "import sys, gateway.command, gateway.app\n"
        f"sys.exit(any(name.split('.')[0] == {package!r} for name in sys.modules))"
    )
    assert subprocess.run([sys.executable, "-c", script], cwd=ROOT).returncode == 0
