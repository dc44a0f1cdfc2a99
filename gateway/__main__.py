"""``python -m gateway``: arguments to config to run; no logic."""

from __future__ import annotations

import argparse
import asyncio
import dataclasses
import sys
from pathlib import Path

from gateway import __version__
from gateway.app import serve
from gateway.config import Config, check, load
from gateway.errors import ConfigError
from gateway.log import FORMATS, set_up_logging

COMMANDS = ("serve", "check")


def parser() -> argparse.ArgumentParser:
    top = argparse.ArgumentParser(prog="python -m gateway", description=__doc__)
    top.add_argument("--version", action="version", version=f"gateway {__version__}")
    commands = top.add_subparsers(dest="command", required=True)
    serving = commands.add_parser("serve", help="run the gateway (the default)")
    serving.add_argument("--host", help="instead of listen.host")
    serving.add_argument("--port", type=int, help="instead of listen.port")
    serving.add_argument("--log-format", choices=FORMATS, default="text")
    checking = commands.add_parser("check", help="validate the configuration and print it")
    for command in (serving, checking):
        command.add_argument("--config", type=Path, default=Path("config.yaml"))
    return top


def main(arguments: list[str]) -> int:
    if not arguments or (
        arguments[0].startswith("-") and arguments[0] not in ("-h", "--help", "--version")
    ):
        arguments = ["serve", *arguments]
    options = parser().parse_args(arguments)
    if options.command == "check":
        return check(options.config)
    set_up_logging(options.log_format)
    try:
        config = at(load(options.config), options.host, options.port)
        asyncio.run(serve(config, options.config))
    except ConfigError as error:
        print(*error.problems, sep="\n", file=sys.stderr)
        return 2
    except OSError as error:
        print(f"cannot listen: {error.strerror or error}", file=sys.stderr)
        return 1
    return 0


def at(config: Config, host: str | None, port: int | None) -> Config:
    """``config`` with the address of the command line."""
    listen = dataclasses.replace(
        config.listen,
        host=host or config.listen.host,
        port=config.listen.port if port is None else port,
    )
    return dataclasses.replace(config, listen=listen)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
