"""The words after ``python -m gateway``.

A wrong one is answered in one line that names it, and with exit status 2, as argparse does.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from gateway import __version__
from gateway.config.kinds import At, BaseUrl, Kind, Text
from gateway.errors import ConfigError
from gateway.log import FORMATS

WHAT_IT_IS = """\
A reverse proxy that gives LLM servers with few slots an Anthropic Messages surface and one line in
front of it. Without a command it serves: python -m gateway --config config.yaml"""

LOOPS = ("asyncio", "uvloop")
ADMIN = "http://127.0.0.1:8081"


def parser() -> argparse.ArgumentParser:
    top = argparse.ArgumentParser(prog="python -m gateway", description=WHAT_IT_IS)
    top.add_argument("--version", action="version", version=f"gateway {__version__}")
    commands = top.add_subparsers(dest="command", required=True)

    def command(name: str, what: str) -> argparse.ArgumentParser:
        return commands.add_parser(name, help=what, description=f"{what[0].upper()}{what[1:]}.")

    serve = command("serve", "run the gateway (the default)")
    serve.add_argument("--host", type=host, help="instead of listen.host")
    serve.add_argument("--port", type=port_number, help="instead of listen.port")
    serve.add_argument("--log-format", choices=FORMATS, default="text", help="text by default")
    serve.add_argument("--loop", choices=LOOPS, default="asyncio", help="asyncio by default")
    serve.add_argument("--worker", type=int, help=argparse.SUPPRESS)
    check = command("check", "validate the configuration and print it")
    for reader in (serve, check):
        reader.add_argument(
            "--config", type=Path, default=Path("config.yaml"), help="the file (config.yaml)"
        )
    watch = command("top", "watch the line in a terminal")
    watch.add_argument(
        "--admin", type=server_url, default=ADMIN, help=f"the admin listener ({ADMIN})"
    )
    watch.add_argument("--once", action="store_true", help="print it once and exit")
    discover = command("discover", "look for model servers, print a configuration")
    discover.add_argument(
        "--url", type=server_url, action="append", default=[], help="look here; may be repeated"
    )
    return top


def port_number(text: str) -> int:
    """Raises ArgumentTypeError."""
    if text.isdecimal() and int(text) <= 65535:
        return int(text)
    raise argparse.ArgumentTypeError(f"expected a whole number from 0 to 65535, got {text!r}")


def host(text: str) -> str:
    """Raises ArgumentTypeError."""
    return _read(Text(), text)


def server_url(text: str) -> str:
    """``http://`` may be left out.  Raises ArgumentTypeError."""
    return _read(BaseUrl(), text if "://" in text else f"http://{text}")


def _read(kind: Kind, text: str) -> str:
    """``text`` under the rules of a setting."""
    try:
        return str(kind.read(text, At("", {})))
    except ConfigError as error:
        raise argparse.ArgumentTypeError(str(error)) from None
