"""The least aiohttp code that relays at all: ``python -m bench.floor PORT UPSTREAM LOOP SLOTS``.

Nothing is checked, translated, counted, logged or survived.  Its line is a semaphore, of which
nobody hears.  What it costs is what no gateway built on aiohttp's server and client can go below.
"""

from __future__ import annotations

import asyncio
import sys

from aiohttp import ClientSession, ClientTimeout, DummyCookieJar, TCPConnector, web

HEADERS = {"Content-Type": "application/json"}


class Floor:
    def __init__(self, upstream: str, slots: int) -> None:
        self._url = f"{upstream}/v1/messages"
        self._slots = asyncio.Semaphore(slots)
        self._session = ClientSession(
            connector=TCPConnector(limit=0),
            timeout=ClientTimeout(total=None),
            cookie_jar=DummyCookieJar(),
        )

    async def relay(self, request: web.Request) -> web.StreamResponse:
        body = await request.read()
        async with (
            self._slots,
            self._session.post(self._url, data=body, headers=HEADERS) as answer,
        ):
            if answer.content_type == "application/json":
                return web.Response(body=await answer.read(), content_type="application/json")
            response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
            await response.prepare(request)
            while data := await answer.content.readany():
                await response.write(data)
        await response.write_eof()
        return response


async def main(port: int, upstream: str, slots: int) -> None:
    app = web.Application(client_max_size=1 << 26)
    app.router.add_post("/v1/messages", Floor(upstream, slots).relay)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", port, backlog=1024).start()
    await asyncio.Event().wait()


if __name__ == "__main__":
    serving = main(int(sys.argv[1]), sys.argv[2], int(sys.argv[4]))
    if sys.argv[3] == "uvloop":
        import uvloop

        uvloop.run(serving)
    else:
        asyncio.run(serving)
