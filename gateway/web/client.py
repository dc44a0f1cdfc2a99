"""The client's side of one streamed exchange: the sole owner of its response and writer.

Two kinds of bad reader are told apart.  A *slow* one is buffered for, up to a bound, so that it
never holds a slot longer than the upstream needs.  A *stalled* one has taken not a single byte
for ``write_timeout_seconds``; its connection is aborted, since closing it politely would wait for
the very bytes that it does not take.
"""

from __future__ import annotations

import asyncio
import enum

from aiohttp import hdrs, web
from aiohttp.http_writer import HttpVersion11, StreamWriter
from multidict import CIMultiDict, istr

STREAM_HEADERS = {
    hdrs.CONTENT_TYPE: "text/event-stream; charset=utf-8",
    hdrs.CACHE_CONTROL: "no-cache, no-transform",
    istr("X-Accel-Buffering"): "no",
}

MOST_AT_ONCE = 65536
"""Bytes that may travel with the end of the body, where one timeout watches all of them."""


class ClientStalled(Exception):
    """The client has stopped reading; its connection is already aborted."""


class ClientGone(Exception):
    """The client has closed its connection."""


class StreamState(enum.Enum):
    UNOPENED = "unopened"
    OPEN = "open"
    FINISHED = "finished"
    ABORTED = "aborted"


class ClientStream:
    """Opens, writes, flushes, finishes or aborts one ``text/event-stream`` response.

    ``write_timeout`` is in seconds, ``max_buffered`` in bytes.
    """

    def __init__(
        self,
        request: web.Request,
        loop: asyncio.AbstractEventLoop,
        *,
        write_timeout: float,
        max_buffered: int,
    ) -> None:
        self._request = request
        self._loop = loop
        self._write_timeout = write_timeout
        self._max_buffered = max_buffered
        self._writer: StreamWriter | None = None
        self._transport: asyncio.Transport | None = None
        self._accepted = 0
        self._stuck_since: float | None = None
        self.response: web.StreamResponse | None = None
        self.state = StreamState.UNOPENED
        self.last_write = self._loop.time()

    @property
    def is_full(self) -> bool:
        """Whether more than ``max_buffered`` bytes lie unread, so that ``flush`` waits."""
        return self.state is StreamState.OPEN and self._request.protocol.writing_paused

    async def open(self, headers: CIMultiDict[str]) -> None:
        """Sends the status line and headers now.  Raises ClientGone."""
        response = web.StreamResponse(headers=headers)
        response.headers.update(STREAM_HEADERS)
        if self._request.version < HttpVersion11:
            response.force_close()  # the end of a body without chunks is the connection's
        transport = self._request.transport
        if transport is None:
            raise ClientGone
        transport.set_write_buffer_limits(high=self._max_buffered)
        try:
            writer = await response.prepare(self._request)
        except ConnectionError as error:
            raise ClientGone from error
        assert isinstance(writer, StreamWriter)
        self._writer = writer
        self._transport = transport
        self.response = response
        self.state = StreamState.OPEN

    async def send(self, frames: bytes) -> None:
        """Writes and flushes.  Waits only while more than ``max_buffered`` bytes lie unread.

        Raises ClientGone, ClientStalled.
        """
        assert self._writer is not None and self._transport is not None
        try:
            await self._writer.write(frames, drain=False)
        except ConnectionError as error:
            raise ClientGone from error
        self.last_write = self._loop.time()
        await self.flush()

    async def flush(self) -> None:
        """The writer's explicit drain.  Raises ClientGone, ClientStalled."""
        assert self._writer is not None and self._transport is not None
        if self._transport.get_write_buffer_size():
            self.check()
            await self._flush()
        else:
            self._stuck_since = None
            await self._writer.drain()

    def send_at_once(self, frames: bytes, now: float) -> bool:
        """Writes without a task's turn; whether the client has taken all that was written before.

        Straight to the socket, in the response's own framing, since the writer costs a coroutine
        per token; it must have written before, and with it the headers.  If not all was taken,
        the next ``send`` flushes, and waits if it must.  Raises ClientGone.
        """
        writer, transport = self._writer, self._transport
        assert writer is not None and transport is not None and writer.output_size
        if transport.is_closing():
            raise ClientGone
        data = b"%x\r\n%s\r\n" % (len(frames), frames) if writer.chunked else frames
        transport.write(data)
        writer.output_size += len(data)
        self.last_write = now
        # asyncio writes at once, uvloop at the end of the loop's turn: this much is no delay yet.
        if transport.get_write_buffer_size() > len(data):
            return False
        self._stuck_since = None
        return True

    def check(self) -> None:
        """Raises ClientStalled once nothing has been taken for the write timeout."""
        if self._transport is None:
            return
        buffered = self._transport.get_write_buffer_size()
        accepted = self._writer.output_size - buffered if self._writer else 0
        now = self._loop.time()
        if not buffered:
            self._stuck_since = None
        elif self._stuck_since is None or accepted > self._accepted:
            self._stuck_since = now
        elif now - self._stuck_since >= self._write_timeout:
            self.abort()
            raise ClientStalled
        self._accepted = accepted

    async def finish(self, last_frames: bytes = b"") -> None:
        """Hands over what is still buffered, then ``last_frames`` and the end of the body, which
        mostly travel together.

        Raises ClientGone, ClientStalled.
        """
        if self.state is not StreamState.OPEN:
            return
        assert self._transport is not None and self.response is not None
        if len(last_frames) > MOST_AT_ONCE:
            await self.send(last_frames)  # which watches a slow reader more closely
            last_frames = b""
        if self._transport.get_write_buffer_size():
            self._transport.set_write_buffer_limits(high=0)
            await self._flush()
        try:
            async with asyncio.timeout(self._write_timeout):
                await self.response.write_eof(last_frames)
        except ConnectionError as error:
            raise ClientGone from error
        except TimeoutError as error:
            self.abort()
            raise ClientStalled from error
        self._transport.set_write_buffer_limits()
        self.state = StreamState.FINISHED

    def abort(self) -> None:
        """Drops the connection with everything that is still buffered for it."""
        if self._transport is not None:
            self._transport.abort()
        self.state = StreamState.ABORTED

    async def _flush(self) -> None:
        """The writer's explicit drain, watched for a reader that takes nothing."""
        assert self._writer is not None
        while True:
            try:
                async with asyncio.timeout(self._write_timeout / 4):
                    await self._writer.drain()
                return
            except TimeoutError:
                self.check()
            except ConnectionError as error:
                raise ClientGone from error
