"""The data behind the status page: whole, live, small, and without secrets."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from aiohttp import ClientConnectorError, ClientSession

from gateway.app import build
from gateway.config import from_mapping
from gateway.web import watch
from gateway.web.pages import digest, page
from tests.web.clients import Surface, ask
from tests.web.conftest import mapping
from tests.web.scripted import SECONDS, ScriptedUpstream

OPERATIONS = Path(__file__).parents[2] / "docs" / "operations.md"


async def status(surface: Surface) -> dict[str, Any]:
    return (await surface.request("GET", "/status.json", admin=True)).json


class Events:
    """The live stream of the status page."""

    def __init__(self, frames: AsyncIterator[bytes]) -> None:
        self._frames = frames
        self._rest = b""

    async def next(self, name: str) -> dict[str, Any]:
        """The data of the next event of this name."""
        async with asyncio.timeout(SECONDS):
            while True:
                event, data = await self._frame()
                if event == name:
                    return data

    async def _frame(self) -> tuple[str, dict[str, Any]]:
        while b"\n\n" not in self._rest:
            self._rest += await anext(self._frames)
        frame, _, self._rest = self._rest.partition(b"\n\n")
        event, _, data = frame.partition(b"\n")
        return event.removeprefix(b"event: ").decode(), json.loads(data.removeprefix(b"data: "))


@asynccontextmanager
async def events(surface: Surface) -> AsyncIterator[Events]:
    url = f"http://127.0.0.1:{surface.admin_port}/status/events"
    async with ClientSession() as session, session.get(url) as response:
        assert response.content_type == "text/event-stream"
        yield Events(response.content.iter_any())


async def test_the_picture_shows_who_waits_and_who_holds_the_slots(
    make_gateway: Any, upstream: ScriptedUpstream
) -> None:
    keys = {"auth": {"keys": [{"name": "web", "key": "sesame"}]}}
    surface = await make_gateway(keys)
    for _ in range(3):
        await surface.stream(ask("my secret prompt"), x_api_key="sesame")
    await surface.waits(2)
    reply = await surface.request("GET", "/status.json", admin=True)
    one = reply.json["upstreams"]["one"]
    assert (one["slots"], one["running"], one["waiting"], one["stalled"]) == (1, 1, 2, False)
    assert [ticket["position"] for ticket in one["tickets"]] == [1, 2]
    assert {ticket["client"] for ticket in one["tickets"]} == {"web"}
    assert one["tickets"][0]["estimated_wait_seconds"] is None
    assert one["leases"][0]["model"] == "m"
    assert one["leases"][0]["held_seconds"] >= 0
    assert b"secret prompt" not in reply.body
    assert b"sesame" not in reply.body


async def test_the_last_fifty_exchanges_are_kept_latest_first(make_gateway: Any) -> None:
    surface = await make_gateway()
    for number in range(watch.RECENT + 2):
        await surface.post(ask(model=f"unknown-{number}"))
    exchanges = (await status(surface))["exchanges"]
    assert len(exchanges) == watch.RECENT == 50
    assert exchanges[0]["model"] == f"unknown-{watch.RECENT + 1}"
    assert (exchanges[0]["outcome"], exchanges[0]["error"]) == ("rejected", "not_found_error")


async def test_a_viewer_gets_the_whole_picture_and_then_what_changes(
    make_gateway: Any, upstream: ScriptedUpstream
) -> None:
    surface = await make_gateway()
    async with events(surface) as live:
        first = await live.next("status")
        assert {"history", "exchanges"} <= first.keys()
        stream = await surface.stream(ask())
        later = await live.next("status")
        while not later["upstreams"]["one"]["running"]:
            later = await live.next("status")
        assert "history" not in later, "what has been told is not told again"
        (await upstream.arrival(1)).answer()
        await stream.whole()
        exchange = await live.next("exchange")
        assert exchange["outcome"] == "completed"
        assert exchange["request_id"] == stream.head["request-id"]


async def test_a_viewer_is_told_the_first_hundred_places_and_the_number_of_the_rest(
    make_gateway: Any, upstream: ScriptedUpstream
) -> None:
    surface = await make_gateway(queue={"max_waiting": 500})
    tickets = [surface.pool().join(model="m", client="c") for _ in range(150)]
    async with events(surface) as live:
        one = (await live.next("status"))["upstreams"]["one"]
    assert (one["waiting"], len(one["tickets"])) == (149, watch.SHOWN_TICKETS)
    assert len((await status(surface))["upstreams"]["one"]["tickets"]) == 149
    for ticket in tickets:
        ticket.close()


async def test_history_reaches_back_fifteen_minutes_and_no_further(make_gateway: Any) -> None:
    surface = await make_gateway()
    for _ in range(500):
        surface.service.watch._sample()
    history = (await status(surface))["history"]
    assert len(history["samples"]) * history["every_seconds"] == 15 * 60
    assert history["samples"][-1]["upstreams"] == {"one": {"waiting": 0, "running": 0}}


async def test_a_viewer_that_does_not_read_is_dropped(make_gateway: Any) -> None:
    surface = await make_gateway()
    frames = surface.service.watch.frames()
    await anext(frames)
    for _ in range(watch.MOST_UNREAD + 1):
        surface.service.watch._sample()
    async with asyncio.timeout(SECONDS):
        rest = [frame async for frame in frames]
    assert len(rest) <= watch.MOST_UNREAD + 1
    assert not surface.service.watch._viewers


async def test_viewers_are_let_go_when_the_gateway_closes(make_gateway: Any) -> None:
    surface = await make_gateway()
    async with events(surface) as live:
        await live.next("status")
        assert surface.service.watch._viewers
        await surface.service.watch.stop()
        frames = live._frames
        async with asyncio.timeout(SECONDS):
            async for _ in frames:
                pass


async def test_operators_can_look_until_the_last_answer_is_out(upstream: ScriptedUpstream) -> None:
    service = build(from_mapping(mapping(url=upstream.url), {}))
    await service.start()
    surface = Surface(service)
    stream = await surface.stream(ask())
    arrival = await upstream.arrival(1)
    closing = asyncio.create_task(service.close())
    await surface.until(lambda: service.gateway.closing)
    picture = await status(surface)
    assert (picture["state"], picture["upstreams"]["one"]["running"]) == ("closing", 1)
    assert (await surface.request("GET", "/readyz", admin=True)).status == 503
    with pytest.raises(ClientConnectorError):
        await surface.request("GET", "/readyz")
    arrival.answer()
    await stream.whole()
    await closing
    with pytest.raises(ClientConnectorError):
        await status(surface)


async def test_the_page_is_one_file_and_its_policy_allows_nothing_else(make_gateway: Any) -> None:
    surface = await make_gateway({"admin": {"port": 0, "demo": True}})
    for path, name in (("/status", "status"), ("/demo", "demo")):
        reply = await surface.request("GET", path, admin=True)
        html, policy = reply.body.decode(), reply.headers["content-security-policy"]
        assert not re.findall(r"(?:src|href)=[\"']?(?:https?:|//)", html)
        assert "default-src 'none'" in policy
        assert "unsafe" not in policy
        for tag, content in re.findall(r"<(script|style)[^>]*>(.*?)</\1>", html, re.DOTALL):
            assert f"{tag}-src" in policy
            assert digest(content) in policy
        assert len(page(name).html) < 40_000


async def test_the_bare_address_of_the_admin_listener_leads_to_the_page(make_gateway: Any) -> None:
    surface = await make_gateway()
    bare = await surface.request("GET", "/", admin=True)
    assert bare.body == (await surface.request("GET", "/status", admin=True)).body


async def test_every_field_of_the_data_is_documented(
    make_gateway: Any, upstream: ScriptedUpstream
) -> None:
    surface = await make_gateway()
    for _ in range(2):
        await surface.stream(ask())
    await surface.post(ask(model="unknown"))
    await surface.waits(1)
    surface.service.watch._sample()
    text = OPERATIONS.read_text()
    for field in fields(await status(surface)):
        assert f"`{field}`" in text or f'"{field}"' in text, field


def fields(data: Any) -> set[str]:
    if isinstance(data, list):
        return set().union(*map(fields, data))
    if isinstance(data, dict):
        inner = [fields(value) for value in data.values()]
        names = set(data) - {"one"}
        return names.union(*inner)
    return set()
