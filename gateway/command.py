"""The command line: arguments to config to run; no logic."""

from __future__ import annotations

import argparse
import asyncio
import dataclasses
import functools
import io
import os
import signal
import sys
from collections.abc import Callable

from gateway.arguments import parser
from gateway.config import Config, check, load
from gateway.errors import ConfigError
from gateway.files import allow_many
from gateway.log import set_up_logging
from gateway.serving import serve
from gateway.supervisor import supervise


def main(arguments: list[str]) -> int:
    if not arguments or (
        arguments[0].startswith("-") and arguments[0] not in ("-h", "--help", "--version")
    ):
        arguments = ["serve", *arguments]
    options = parser().parse_args(arguments)
    options.arguments = arguments
    if options.command != "serve":
        hear_hangups()
    match options.command:
        case "check":
            return check(options.config)
        case "top":
            return watch(options.admin, once=options.once)
        case "discover":
            return discover(options.url)
        case _:
            return run(options)


def run(options: argparse.Namespace) -> int:
    set_up_logging(options.log_format, options.worker)
    allow_many()
    try:
        read = functools.partial(configured, options)
        config = read()
        if config.listen.workers > 1 and options.worker is None:
            return supervise(options.arguments, config.listen.workers)
        with asyncio.Runner(loop_factory=loop_factory(options.loop)) as runner:
            runner.run(serve(config, read, supervised=options.worker is not None))
    except ConfigError as error:
        print(*error.problems, sep="\n", file=sys.stderr)
        return 2
    except OSError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


def hear_hangups() -> None:
    """A terminal that is closed ends what runs in it; ``serve`` makes its own sense of SIGHUP."""
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGHUP})


def loop_factory(name: str) -> Callable[[], asyncio.AbstractEventLoop] | None:
    """Raises ConfigError for a loop that is not installed."""
    if name == "asyncio":
        return None
    try:
        import uvloop
    except ImportError:
        raise ConfigError("--loop uvloop needs the package: pip install uvloop") from None
    return uvloop.new_event_loop


def watch(admin: str, *, once: bool) -> int:
    try:
        from gateway import top
    except ImportError:
        print("top draws with rich, which is not installed: pip install rich", file=sys.stderr)
        return 1
    return top.run(admin, once=once)


def discover(urls: list[str]) -> int:
    from gateway.discover import run as look_around

    return look_around(urls)


def configured(options: argparse.Namespace) -> Config:
    """The file, with what the command line changes in it.  Raises ConfigError."""
    config = at(load(options.config), options.host, options.port)
    if options.worker and config.admin is not None and config.admin.port:
        admin = dataclasses.replace(config.admin, port=config.admin.port + options.worker)
        config = dataclasses.replace(config, admin=admin)
    return config


def at(config: Config, host: str | None, port: int | None) -> Config:
    """``config`` with the address of the command line."""
    listen = dataclasses.replace(
        config.listen,
        host=host or config.listen.host,
        port=config.listen.port if port is None else port,
    )
    return dataclasses.replace(config, listen=listen)


def from_a_shell() -> int:
    """``main`` with an output that knows few letters, is full, or is not read to its end, and with
    a Ctrl-C where nothing has to be closed."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")
    try:
        code = main(sys.argv[1:])
        print(end="", flush=True)
    except KeyboardInterrupt:
        return 130
    except OSError as error:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # or Python tries once more at its end
        if not isinstance(error, BrokenPipeError):
            print(f"standard output cannot be written: {error.strerror}", file=sys.stderr)
        return 1
    return code
