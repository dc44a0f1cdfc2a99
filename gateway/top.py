"""``python -m gateway top``: the status page in a terminal, for sessions over ssh.

Reads ``/status.json`` of the admin listener, as anybody could.  Needs rich, the extra ``[top]``.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator, Mapping
from http.client import HTTPException
from typing import Any
from urllib.request import ProxyHandler, build_opener

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

Picture = Mapping[str, Any]

NO_PICTURE = (OSError, HTTPException, ValueError)
"""What can be in the way of one; urllib's own errors are among them."""

REFRESH_SECONDS = 1.0
ANSWER_SECONDS = 5.0
SHOWN_EXCHANGES = 8
COLOUR = {
    "completed": "green",
    "upstream_failed": "bold red",
    "failed": "bold red",
    "rejected": "yellow",
}


def run(admin: str, *, once: bool, console: Console | None = None) -> int:
    """Shows the line until Ctrl-C, or once.  Returns the exit code."""
    console = console or Console()
    try:
        if once:
            console.print(view(picture_of(admin)))
        else:
            watch(admin, console)
    except KeyboardInterrupt:
        return 0
    except NO_PICTURE as error:
        why = getattr(error, "reason", None) or str(error) or type(error).__name__
        print(f"{admin}: no gateway's admin listener answers there ({why})", file=sys.stderr)
        return 1
    return 0


def watch(admin: str, console: Console) -> None:
    """A gateway that goes away is waited for; only the first answer must come."""
    shown: RenderableType = view(picture_of(admin))
    with Live(shown, console=console, screen=True, auto_refresh=False) as live:
        while True:
            live.update(shown, refresh=True)
            time.sleep(REFRESH_SECONDS)
            try:
                shown = view(picture_of(admin))
            except NO_PICTURE:
                shown = Group(Text("connection lost, trying again", style="bold red"), shown)


def picture_of(admin: str) -> Picture:
    """Raises what ``NO_PICTURE`` names."""
    opener = build_opener(ProxyHandler({}))
    with opener.open(
        f"{admin.removesuffix('/status')}/status.json", timeout=ANSWER_SECONDS
    ) as answer:
        picture = json.loads(answer.read())
    if not isinstance(picture, dict) or "upstreams" not in picture:
        raise ValueError("not a status")
    return picture


# --- drawing ------------------------------------------------------------------------------------


def view(picture: Picture) -> RenderableType:
    return Group(
        Text(f"gateway {picture['version']}, {picture['state']}, up", end=" ", style="bold"),
        Text(span(picture["uptime_seconds"])),
        upstreams(picture["upstreams"]),
        *(line(name, upstream) for name, upstream in picture["upstreams"].items()),
        exchanges(picture["exchanges"]),
    )


def upstreams(by_name: Mapping[str, Any]) -> Table:
    table = plain_table("upstream", "state", ">running", ">waiting", ">oldest wait", ">last change")
    for name, upstream in by_name.items():
        table.add_row(
            Text(name),
            state(upstream),
            f"{upstream['running']}/{upstream['slots']}",
            str(upstream["waiting"]),
            span(upstream["oldest_wait_seconds"]) if upstream["waiting"] else "-",
            span(upstream["seconds_since_release"]),
        )
    return table


def state(upstream: Mapping[str, Any]) -> Text:
    if upstream.get("removed"):
        return Text("removed", style="yellow")
    if not upstream["reachable"]:
        return Text("STORE AWAY", style="bold red")
    if upstream["stalled"]:
        return Text("STALLED", style="bold red")
    if upstream["waiting"]:
        return Text("waiting", style="yellow")
    return Text("busy", style="blue") if upstream["running"] else Text("idle", style="green")


def line(name: str, upstream: Mapping[str, Any]) -> Table | Text:
    """Who holds the slots, then who waits, in order."""
    if not upstream["running"] and not upstream["waiting"]:
        return Text("")
    table = plain_table(name, "client", "model", ">so far", ">to go")
    for lease in upstream["leases"]:
        cells = (plain(lease["client"]), plain(lease["model"]), span(lease["held_seconds"]))
        table.add_row(Text("running", style="blue"), *cells, "")
    for ticket in upstream["tickets"]:
        cells = (plain(ticket["client"]), plain(ticket["model"]), span(ticket["waited_seconds"]))
        to_go = span(ticket["estimated_wait_seconds"])
        table.add_row(Text(str(ticket["position"]), style="yellow"), *cells, to_go)
    return table


def exchanges(latest_first: list[Mapping[str, Any]]) -> Table:
    table = plain_table("ended", "outcome", "client", "model", ">waited", ">first byte", ">in all")
    for exchange in latest_first[:SHOWN_EXCHANGES]:
        outcome = exchange["outcome"]
        why = f" ({exchange['error']})" if exchange["error"] else ""
        table.add_row(
            time.strftime("%H:%M:%S", time.localtime(exchange["ended_at"])),
            Text(f"{outcome.replace('_', ' ')}{why}", style=COLOUR.get(outcome, "")),
            plain(exchange["client"]),
            plain(exchange["model"]),
            span(exchange["waited_seconds"]),
            span(exchange["first_byte_seconds"]),
            span(exchange["duration_seconds"]),
        )
    return table


def plain_table(*columns: str) -> Table:
    """Columns that begin with ``>`` hold numbers."""
    table = Table(box=None, header_style="dim", padding=(0, 2, 0, 0))
    for column in columns:
        title = Text(column.removeprefix(">"))
        table.add_column(title, justify="right" if column.startswith(">") else "left")
    return table


def plain(text: str) -> Text:
    """What a client made up, without the power to steer a terminal."""
    return Text("".join(character if character.isprintable() else "?" for character in text))


def span(seconds: float | None) -> str:
    """In a person's units; a dash for what is not known."""
    return "-" if seconds is None else " ".join(parts(seconds))


def parts(seconds: float) -> Iterator[str]:
    if seconds < 10:
        yield f"{seconds:.1f} s"
    elif seconds < 120:
        yield f"{seconds:.0f} s"
    elif seconds < 7200:
        yield from (f"{seconds // 60:.0f} min", f"{int(seconds % 60)} s")
    else:
        yield from (f"{seconds // 3600:.0f} h", f"{int(seconds % 3600 // 60)} min")
