"""A small chat page that shows the waiting, for trying the surface (``admin.demo: true``).

It stands on the admin listener and so does the surface it talks to: the same handler and the same
line, but nothing of the public listener has to be opened to other origins for it.
"""

from __future__ import annotations

from aiohttp import web

from gateway.web.pages import page, text
from gateway.web.status import html_reply


async def demo_page(request: web.Request) -> web.Response:
    return html_reply(page("demo"))


async def demo_module(request: web.Request) -> web.Response:
    """The documented way to read the stream, as the page itself uses it."""
    return web.Response(text=text("stream.js"), content_type="text/javascript", charset="utf-8")
