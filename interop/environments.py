"""An environment for each client, made once and kept in the user's cache.

A client's packages decide the folder: another version is another folder.  Packages named
``npm:…`` are programs from npm that a Python script drives.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
import shutil
import sys
from pathlib import Path

from interop.registry import Client

SCRIPTS = Path(__file__).parent / "clients"
INSTALL_SECONDS = 600.0


class Unavailable(Exception):
    """What cannot be had here, and why; shown in the table as it is."""


def cache() -> Path:
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "gateway-interop"


def folder(client: Client) -> Path:
    digest = hashlib.sha256(repr(client.packages).encode()).hexdigest()[:8]
    return cache() / f"{client.name.replace(' ', '-')}-{digest}"


def ready(client: Client) -> bool:
    """Whether the client can run without an installation."""
    if not client.packages:
        return shutil.which(client.name) is not None
    return (folder(client) / "installed").exists()


def command(client: Client) -> tuple[list[str], dict[str, str]]:
    """How its script is started, and what it finds in its environment."""
    place = folder(client)
    if client.node:
        # An ES module looks for packages beside itself, so it runs from the packages' folder.
        script = place / client.script
        for name in (client.script, "order.mjs"):
            shutil.copyfile(SCRIPTS / name, place / name)
        return ["node", str(script)], {}
    if client.packages and not client.packages[0].startswith("npm:"):
        return [str(place / "bin" / "python"), str(SCRIPTS / client.script)], {}
    path = f"{place / 'node_modules' / '.bin'}{os.pathsep}{os.environ.get('PATH', '')}"
    return [sys.executable, str(SCRIPTS / client.script)], {"PATH": path}


async def install(client: Client) -> None:
    """Does nothing where it is installed.

    Raises:
        Unavailable: with the installer's last words.
    """
    if ready(client):
        return
    if not client.packages:
        raise Unavailable(f"{client.name} is not installed")
    place = folder(client)
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir(parents=True)
    names = [package.removeprefix("npm:") for package in client.packages]
    if client.node or names != list(client.packages):
        if shutil.which("npm") is None:
            raise Unavailable("node and npm are not installed")
        await run(
            "npm", "install", "--silent", "--no-audit", "--no-fund", "--prefix", place, *names
        )
    else:
        await run(sys.executable, "-m", "venv", place)
        pip = [place / "bin" / "python", "-m", "pip", "install", "-qq"]
        await run(*pip, "--disable-pip-version-check", *names)
    (place / "installed").touch()


async def run(*words: str | Path) -> None:
    process = await asyncio.create_subprocess_exec(
        *words, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT
    )
    try:
        async with asyncio.timeout(INSTALL_SECONDS):
            output, _ = await process.communicate()
    except TimeoutError:
        process.kill()
        await process.wait()
        raise Unavailable(f"no end of the installation in {INSTALL_SECONDS:.0f} s") from None
    if process.returncode != 0:
        lines = output.decode(errors="replace").strip().splitlines() or ["no reason given"]
        raise Unavailable(f"installation failed: {lines[-1][:200]}")
