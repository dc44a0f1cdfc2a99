"""Runs every client through every scenario; exit status 0 if each did as it should."""

from __future__ import annotations

import argparse
import asyncio
import json
import re
import sys
from dataclasses import asdict

from interop.agents import Task, task
from interop.environments import Unavailable, install, ready
from interop.forms import forms
from interop.real import DIALECTS, model_server, real_trial
from interop.real import SCENARIOS as REAL_SCENARIOS
from interop.registry import CLIENTS, Client
from interop.scenarios import SCENARIOS, Answer
from interop.table import Row, amend, write
from interop.trial import Report, trial


async def row(client: Client, mode: str) -> Row:
    try:
        await install(client)
    except Unavailable as reason:
        print(f"not run: {client.name}: {reason}", file=sys.stderr, flush=True)
        return client.name, mode, [str(reason)] * len(SCENARIOS)
    reports: list[Report | str] = []
    for scenario in SCENARIOS:
        if client.agent and (scenario.answer is Answer.TOOL or not scenario.stream):
            reports.append("")
            continue
        report = await trial(client, mode, scenario)
        good = report.good(scenario)
        about = {"scenario": scenario.name, "mode": mode, "good": good}
        print(json.dumps(about | asdict(report)), flush=True)
        reports.append(report)
    return client.name, mode, reports


async def rows(clients: list[Client], jobs: int) -> list[Row]:
    """In the registry's order, some clients at a time; the modes of one after one another."""
    turns = asyncio.Semaphore(jobs)

    async def all_modes(client: Client) -> list[Row]:
        async with turns:
            return [await row(client, mode) for mode in client.modes]

    return [one for many in await asyncio.gather(*map(all_modes, clients)) for one in many]


def bad(rows: list[Row]) -> int:
    return sum(
        isinstance(report, Report) and not report.good(scenario)
        for _, _, reports in rows
        for scenario, report in zip(SCENARIOS, reports, strict=True)
    )


async def agents(clients: list[Client]) -> list[tuple[Task, Task]]:
    """Each agent's task with free slots, and with every turn queued."""
    out = []
    for client in clients:
        if ready(client):
            pair = await task(client, queued=False), await task(client, queued=True)
            print(*(json.dumps(asdict(one)) for one in pair), sep="\n", flush=True)
            out.append(pair)
    return out


async def headers(clients: list[Client], jobs: int) -> dict[str, list[bool]]:
    """For each client that can set one: whether the header chose each of the three forms."""
    turns = asyncio.Semaphore(jobs)

    async def one(client: Client) -> tuple[str, list[bool]]:
        async with turns:
            return client.name, await forms(client)

    able = [client for client in clients if client.headers and ready(client)]
    chosen = dict(await asyncio.gather(*map(one, able)))
    print(json.dumps(chosen), flush=True)
    return chosen


async def real(clients: list[Client]) -> int:
    failed = await install_all(clients)
    async with model_server() as server:
        for client in clients:
            for dialect in DIALECTS:
                for scenario in REAL_SCENARIOS:
                    said = await real_trial(client, dialect, scenario, server)
                    print(json.dumps(said), flush=True)
                    failed |= not (said["ok"] and said["text"])
    return failed


async def install_all(clients: list[Client]) -> int:
    failed = 0
    for client in clients:
        try:
            await install(client)
        except Unavailable as reason:
            print(f"{client.name}: {reason}", file=sys.stderr)
            failed = 1
    return failed


def expression(text: str) -> re.Pattern[str]:
    """Raises ArgumentTypeError."""
    try:
        return re.compile(text)
    except re.error as error:
        raise argparse.ArgumentTypeError(f"not a regular expression: {error}") from None


def at_least_one(text: str) -> int:
    """Raises ArgumentTypeError."""
    if text.isdecimal() and int(text):
        return int(text)
    raise argparse.ArgumentTypeError(f"expected a whole number >= 1, got {text!r}")


def main() -> int:
    parser = argparse.ArgumentParser(prog="scripts/interop", description=__doc__)
    parser.add_argument(
        "--clients", type=expression, default=".", metavar="REGEX", help="only those it finds"
    )
    parser.add_argument("--core", action="store_true", help="only those of the test suite")
    parser.add_argument("--install", action="store_true", help="install them, run nothing")
    parser.add_argument("--real", action="store_true", help="before a real model; free and queued")
    parser.add_argument("--jobs", type=at_least_one, default=2, help="clients at one time")
    options = parser.parse_args()
    clients = [
        client
        for client in CLIENTS
        if options.clients.search(client.name) and (client.core or not options.core)
    ]
    if not clients:
        parser.error(
            "argument --clients: finds none of " + ", ".join(each.name for each in CLIENTS)
        )
    if options.real:
        return asyncio.run(real(clients))
    if options.install:
        return asyncio.run(install_all(clients))
    measured = asyncio.run(rows(clients, options.jobs))
    tasks = asyncio.run(agents([client for client in clients if client.agent]))
    chosen = asyncio.run(headers(clients, options.jobs))
    if clients == list(CLIENTS):
        write(measured, tasks, chosen)
    else:
        amend(measured)
    done = all(free.good(False) and queued.good(True) for free, queued in tasks)
    arrived = all(all(three) for three in chosen.values())
    return 0 if done and arrived and not bad(measured) else 1


if __name__ == "__main__":
    sys.exit(main())
