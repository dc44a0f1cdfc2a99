"""Headless Chromium over its DevTools protocol: tabs that a test opens, reads, uses and closes."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import itertools
import json
import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

from aiohttp import ClientSession, ClientWebSocketResponse, WSMsgType

SECONDS = 15.0
"""More than a page takes; a cold browser on a busy machine needs some of it."""

FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--disable-dev-shm-usage",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-background-timer-throttling",
    "--disable-component-update",
    "--disable-sync",
    "--remote-debugging-port=0",
)

WAIT = """new Promise((done) => {
  const holds = () => { try { return %s; } catch { return false; } };
  const look = () => { if (holds()) { clearInterval(timer); done(true); } };
  const timer = setInterval(look, 20);
})"""


class Tab:
    """One page.  ``problems`` are its uncaught errors and whatever its security policy forbade."""

    def __init__(self, browser: Browser, target: str, session: str) -> None:
        self._browser = browser
        self._target = target
        self._session = session
        self.problems: list[str] = []

    async def call(self, method: str, **params: Any) -> dict[str, Any]:
        return await self._browser.call(method, session=self._session, **params)

    async def run(self, script: str) -> Any:
        """The value of an expression; promises are awaited."""
        answer = await self.call(
            "Runtime.evaluate", expression=script, awaitPromise=True, returnByValue=True
        )
        assert "exceptionDetails" not in answer, answer["exceptionDetails"]
        return answer["result"].get("value")

    async def until(self, condition: str) -> None:
        """Until the expression is true in the page; says what the page shows if it never is."""
        try:
            async with asyncio.timeout(SECONDS):
                await self.run(WAIT % condition)
        except TimeoutError:
            shown = await self.run("document.body.innerText")
            raise AssertionError(f"never: {condition}; the page shows:\n{shown}") from None

    async def text(self, selector: str) -> str:
        return str(await self.run(f"document.querySelector({selector!r}).innerText"))

    async def texts(self, selector: str) -> list[str]:
        script = f"[...document.querySelectorAll({selector!r})].map((node) => node.innerText)"
        return list(await self.run(script))

    async def go(self, url: str) -> Tab:
        await self.call("Page.navigate", url=url)
        await self.until(f"location.href === {url!r} && document.readyState === 'complete'")
        return self

    async def type(self, selector: str, text: str) -> None:
        await self.run(f"document.querySelector({selector!r}).focus()")
        await self.call("Input.insertText", text=text)

    async def press(self, key: str) -> None:
        code = {"Enter": 13, "Tab": 9, " ": 32}[key]
        text = {"text": "\r"} if key == "Enter" else {"text": " "} if key == " " else {}
        for kind in ("keyDown", "keyUp"):
            await self.call(
                "Input.dispatchKeyEvent",
                type=kind,
                key=key,
                windowsVirtualKeyCode=code,
                **(text if kind == "keyDown" else {}),
            )

    async def click(self, selector: str) -> None:
        await self.run(f"document.querySelector({selector!r}).click()")

    async def emulate(self, *, width: int = 1200, height: int = 900, **media: str) -> None:
        """``prefers_color_scheme="dark"`` and the like; a narrow width is a phone's."""
        await self.call(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=2 if width < 600 else 1,
            mobile=width < 600,
        )
        features = [{"name": n.replace("_", "-"), "value": value} for n, value in media.items()]
        await self.call("Emulation.setEmulatedMedia", features=features)

    async def screenshot(self, path: Path) -> None:
        answer = await self.call("Page.captureScreenshot", format="png")
        path.write_bytes(base64.b64decode(answer["data"]))

    async def close(self) -> None:
        await self._browser.call("Target.closeTarget", targetId=self._target)


class Browser:
    """One Chromium; ``chromium`` makes it."""

    def __init__(self, socket: ClientWebSocketResponse) -> None:
        self._socket = socket
        self._numbers = itertools.count(1)
        self._answers: dict[int, asyncio.Future[dict[str, Any]]] = {}
        self._tabs: dict[str, Tab] = {}

    async def tab(self, url: str = "about:blank") -> Tab:
        target = (await self.call("Target.createTarget", url="about:blank"))["targetId"]
        attached = await self.call("Target.attachToTarget", targetId=target, flatten=True)
        tab = Tab(self, target, attached["sessionId"])
        self._tabs[attached["sessionId"]] = tab
        for domain in ("Page", "Runtime", "Log"):
            await tab.call(f"{domain}.enable")
        return await tab.go(url)

    async def call(self, method: str, session: str | None = None, **params: Any) -> dict[str, Any]:
        number = next(self._numbers)
        waiting = self._answers[number] = asyncio.get_running_loop().create_future()
        message = {"id": number, "method": method, "params": params}
        await self._socket.send_json(message | ({"sessionId": session} if session else {}))
        async with asyncio.timeout(SECONDS + 5):
            answer = await waiting
        del self._answers[number]
        assert "error" not in answer, (method, answer["error"])
        return answer["result"]

    async def listen(self) -> None:
        async for message in self._socket:
            if message.type is WSMsgType.TEXT:
                self._hear(json.loads(message.data))

    def _hear(self, message: dict[str, Any]) -> None:
        answer = self._answers.get(message.get("id", 0))
        if answer is not None and not answer.done():
            answer.set_result(message)
        tab = self._tabs.get(message.get("sessionId", ""))
        match message:
            case {"method": "Runtime.exceptionThrown", "params": params} if tab:
                tab.problems.append(json.dumps(params))
            case {"method": "Log.entryAdded", "params": {"entry": {"level": "error"} as entry}} if (
                tab
            ):
                tab.problems.append(entry["text"])


@contextlib.asynccontextmanager
async def chromium(program: str, folder: Path) -> AsyncIterator[Browser]:
    """A Chromium with an empty profile in ``folder``, ended with the block."""
    process = await asyncio.create_subprocess_exec(
        program,
        *FLAGS,
        f"--user-data-dir={folder}",
        "about:blank",
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.PIPE,
    )
    assert process.stderr is not None
    try:
        async with asyncio.timeout(SECONDS * 2):
            while not (found := re.search(rb"ws://\S+", line := await process.stderr.readline())):
                assert line, "chromium ended"
        drain = asyncio.create_task(process.stderr.read())
        async with (
            ClientSession() as session,
            session.ws_connect(found[0].decode(), max_msg_size=0) as socket,
        ):
            browser = Browser(socket)
            listening = asyncio.create_task(browser.listen())
            try:
                yield browser
            finally:
                with contextlib.suppress(Exception):
                    await browser.call("Browser.close")
                listening.cancel()
                await asyncio.wait((listening,))
        await drain
    finally:
        if process.returncode is None:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(5):
                    await process.wait()
        if process.returncode is None:
            process.kill()
        await process.wait()
