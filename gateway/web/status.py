"""Whether the gateway lives and is ready, and the status page for people who look after it."""

from __future__ import annotations

import asyncio

import msgspec
from aiohttp import web

from gateway.web.gateway import GATEWAY
from gateway.web.pages import Page, page
from gateway.web.replies import json_reply
from gateway.web.snapshot import state_of
from gateway.web.watch import WATCH

WRITE_SECONDS = 20.0
"""A status page that takes nothing for this long is closed; it comes back by itself."""


async def healthz(request: web.Request) -> web.Response:
    return json_reply(b'{"status":"ok"}')


async def readyz(request: web.Request) -> web.Response:
    """Ready means: config loaded, not closing, slots reachable.  A stalled upstream is named, but
    leaves the gateway ready: another replica could not do better."""
    gateway = request.app[GATEWAY]
    answer = {
        "status": state_of(gateway),
        "stalled": [upstream.name for upstream in gateway.directory if upstream.stalled],
    }
    response = json_reply(msgspec.json.encode(answer))
    response.set_status(200 if gateway.ready else 503)
    return response


async def status_json(request: web.Request) -> web.Response:
    picture = msgspec.json.encode(request.app[WATCH].picture())
    return json_reply(picture, {"cache-control": "no-store"})


async def status_page(request: web.Request) -> web.Response:
    return html_reply(page("status"))


async def to_status_page(request: web.Request) -> web.Response:
    """For whoever types no more than the address."""
    return web.Response(status=302, headers={"location": "status"})


async def status_events(request: web.Request) -> web.StreamResponse:
    """Server-sent events: ``status``, ``sample`` and ``exchange``, see ``watch``."""
    response = web.StreamResponse(
        headers={
            "content-type": "text/event-stream; charset=utf-8",
            "cache-control": "no-store",
            "x-accel-buffering": "no",
        }
    )
    writer = await response.prepare(request)
    assert writer is not None
    try:
        async for frames in request.app[WATCH].frames():
            async with asyncio.timeout(WRITE_SECONDS):
                await response.write(frames)
                await writer.drain()
    except TimeoutError:
        assert request.transport is not None
        request.transport.abort()
    except ConnectionError:
        pass
    return response


def html_reply(content: Page) -> web.Response:
    return web.Response(
        body=content.html,
        headers={
            "content-type": "text/html; charset=utf-8",
            "content-security-policy": content.policy,
            "cache-control": "no-cache",
            "referrer-policy": "no-referrer",
            "x-content-type-options": "nosniff",
        },
    )
