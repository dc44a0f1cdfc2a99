"""The table in docs/clients.md: a row for each client and mode, a cell for each scenario."""

from __future__ import annotations

import re
from datetime import date
from pathlib import Path

from interop.agents import Task
from interop.forms import FORMS
from interop.scenarios import SCENARIOS, Line, Scenario
from interop.trial import Report

PAGE = Path(__file__).resolve().parents[1] / "docs" / "clients.md"
BEGIN, END = "<!-- table: begin -->", "<!-- table: end -->"
HEADS = {
    "free": "slot free",
    "queued": "queued",
    "queued, tool": "… with a tool",
    "queued, thinking": "… with thinking",
    "queued, whole": "… not streaming",
    "full": "line full",
    "queued, error": "upstream fails",
    "closing": "gateway closes",
}
Row = tuple[str, str, list[Report | str]]
"""The client's name, its mode, and what came of each scenario: a report, or why there is none."""


def cell(scenario: Scenario, report: Report | str) -> str:
    if isinstance(report, str):
        return f"not run: {report}" if report else "-"
    if not report.good(scenario):
        return f"**FAILS** {brief(report.error) or repr(report.text)}, sent {report.sent} times"
    if report.ok:
        retried = " after its own retry" if scenario.line is Line.FULL else ""
        sees = f", sees {len(report.events)}" if report.events else ""
        return f"ok{retried}{sees}"
    again = f", sent {report.sent} times" if report.sent > 1 else ""
    return f"reports {brief(report.error)}{again}"


def brief(error: str) -> str:
    """The kind of an error, without the text that follows."""
    return error.partition(":")[0].replace("|", "\\|")[:60]


def lines(rows: list[Row], day: date | None = None) -> list[str]:
    heads = ["client", "version", "mode", *(HEADS[scenario.name] for scenario in SCENARIOS)]
    out = [f"Measured {day or date.today()} by `scripts/interop`.", ""]
    out += [f"| {' | '.join(heads)} |", f"|{' --- |' * len(heads)}"]
    for name, mode, reports in rows:
        versions = [one.version for one in reports if isinstance(one, Report) and one.version]
        cells = [cell(*pair) for pair in zip(SCENARIOS, reports, strict=True)]
        out.append(f"| {' | '.join([name, versions[0] if versions else '', mode, *cells])} |")
    return out


def agent_lines(tasks: list[tuple[Task, Task]]) -> list[str]:
    out = ["| agent | version | its task, slots free | every turn queued |", "|" + " --- |" * 4]
    for pair in tasks:
        cells = [
            f"done, turns sent {task.turns}, {task.queued} waited"
            if task.good(queued)
            else f"**FAILS** {brief(task.error)}, turns sent {task.turns}, {task.queued} waited"
            for task, queued in zip(pair, (False, True), strict=True)
        ]
        out.append(f"| {' | '.join([pair[0].client, pair[0].version, *cells])} |")
    return out


def form_lines(chosen: dict[str, list[bool]]) -> list[str]:
    out = ["| header set by | " + " | ".join(f"`{name}`" for name in FORMS) + " |"]
    out.append("|" + " --- |" * (len(FORMS) + 1))
    for name, arrived in chosen.items():
        cells = ["arrives" if one else "**FAILS**" for one in arrived]
        out.append(f"| {' | '.join([name, *cells])} |")
    return out


def write(
    rows: list[Row],
    tasks: list[tuple[Task, Task]],
    chosen: dict[str, list[bool]],
    page: Path = PAGE,
) -> None:
    text = page.read_text()
    table = "\n".join([BEGIN, *lines(rows), "", *agent_lines(tasks), "", *form_lines(chosen), END])
    page.write_text(re.sub(f"{BEGIN}.*{END}", lambda _: table, text, flags=re.DOTALL))


def amend(rows: list[Row], page: Path = PAGE) -> None:
    """Puts these rows into the table that is there; the other rows stay as they were measured."""
    text = page.read_text()
    for (name, mode, _), line in zip(rows, lines(rows)[4:], strict=True):
        old = rf"^\| {re.escape(name)} \| [^|]* \| {re.escape(mode)} \|.*$"
        text = re.sub(old, lambda _, new=line: new, text, flags=re.MULTILINE)
    page.write_text(text)
