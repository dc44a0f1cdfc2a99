"""The two ways to answer: as a stream that shows its waiting, or whole, in silence.

Each waits for its ticket, relays one upstream call and finishes its response; the exchange says
when.  Neither knows of the other, of slots beyond its ticket, or of what follows it.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from typing import Protocol

from aiohttp import web
from multidict import CIMultiDict

from gateway.errors import GatewayError, UpstreamFailed, UpstreamTimeout
from gateway.heartbeat import Heartbeat
from gateway.patience import Patience
from gateway.relay import Phase, Step
from gateway.relay.dialects import answer_step, stream_step
from gateway.relay.failures import error_frame, error_of_body
from gateway.relay.whole import WholeAnswer as WholeStep
from gateway.slots.base import Ticket
from gateway.upstream.call import UpstreamCall
from gateway.upstream.headers import retry_after, to_client
from gateway.web.admission import Admitted
from gateway.web.client import ClientStream, StreamState
from gateway.web.frames import KEEP_ALIVE, PING, queue_frame
from gateway.web.gateway import Gateway
from gateway.web.identity import REQUEST_ID_HEADER
from gateway.web.record import ExchangeRecord
from gateway.web.replies import json_reply

ENDING_GRACE_SECONDS = 1.5
"""How long an upstream that has said why it stopped may take for its last frames."""

NEARLY = 0.99
"""A timer may fire a moment early; what is due then cannot wait for the next one."""

ERROR_BODY_BYTES = 65536
ERROR_BODY_SECONDS = 10.0


def nothing() -> None:
    """There is no call yet that could be done."""


class Answer(Protocol):
    """What an exchange needs of either way."""

    @property
    def opened(self) -> bool:
        """Whether the client has a status already, so that an error can only be a frame."""

    @property
    def response(self) -> web.StreamResponse | None: ...

    @property
    def error(self) -> GatewayError | None:
        """The error that went to the client inside an otherwise finished stream."""

    async def wait(self, ticket: Ticket) -> None:
        """Until the grant.  Raises TicketEnded, ClientGone, ClientStalled."""

    async def relay(self, call: UpstreamCall, done: Callable[[], None]) -> None:
        """Until the upstream has nothing more to say, which is when it calls ``done``.

        Raises GatewayError, ClientGone, ClientStalled.
        """

    async def finish(self) -> web.StreamResponse:
        """After the slot is given back.  Raises ClientGone, ClientStalled."""

    async def fail(self, error: GatewayError) -> web.StreamResponse:
        """Ends an opened answer with ``error``.  Raises ClientGone, ClientStalled."""


class StreamedAnswer:
    """``stream: true``: queue frames while waiting, then the upstream's stream."""

    def __init__(
        self, request: web.Request, gateway: Gateway, admitted: Admitted, record: ExchangeRecord
    ) -> None:
        self._loop = gateway.loop
        config = gateway.config
        self._admitted = admitted
        self._record = record
        self._keepalive = config.queue_events.keepalive_seconds
        self._timeouts = admitted.upstream.config.timeouts
        self._tick = min(
            self._keepalive,
            self._timeouts.first_byte_seconds,
            self._timeouts.idle_seconds,
            config.client.write_timeout_seconds / 2,
        )
        """How often silence is looked at, at least: as often as anything that is judged there may
        be due."""
        self._client = ClientStream(
            request,
            gateway.loop,
            write_timeout=config.client.write_timeout_seconds,
            max_buffered=config.client.max_buffered_bytes,
        )
        self._headers: CIMultiDict[str] = CIMultiDict({REQUEST_ID_HEADER: record.request_id})
        self._step: Step | None = None
        self._last_frames = b""
        """Behind them nothing comes.  They are written with the response's end, once the slot is
        given back: whoever gets it has waited longer."""
        self._done: Callable[[], None] = nothing
        self._last_read = 0.0
        self._ending_at: float | None = None

    @property
    def opened(self) -> bool:
        return self._client.state is not StreamState.UNOPENED

    @property
    def response(self) -> web.StreamResponse | None:
        return self._client.response

    @property
    def error(self) -> GatewayError | None:
        return self._step.error if self._step else None

    # --- waiting -------------------------------------------------------------------------------

    async def wait(self, ticket: Ticket) -> None:
        async for place in ticket.places(self._keepalive):
            await self._send(queue_frame(place, self._admitted.queue_events))

    # --- relaying ------------------------------------------------------------------------------

    async def relay(self, call: UpstreamCall, done: Callable[[], None]) -> None:
        self._done = done
        # The upstream's silence begins here: what came before was the wait's.
        self._last_read = self._loop.time()
        if not self.opened:
            self._client.last_write = self._last_read
        # Reading can be interrupted and begun again, a request cannot: so here something else
        # has to bridge the silence, beside it.
        async with Heartbeat(self._loop, self._next_look, self._bridge_silence):
            await call.send()
        dialect = self._admitted.upstream.config.dialect
        self._headers.update(to_client(dialect, call.headers))
        if call.status != 200:
            raise await failure_of(call)
        self._step = stream_step(
            dialect,
            call.content_type,
            model=self._admitted.model,
            stop_sequences=self._admitted.stop_sequences,
            request_id=self._record.request_id,
        )
        try:
            await self._relay_body(call, self._step)
        finally:
            self._record.output_tokens = self._step.output_tokens

    async def _relay_body(self, call: UpstreamCall, step: Step) -> None:
        while step.phase is not Phase.COMPLETE:
            try:
                async with Patience(self._loop, self._patient_until()) as patience:
                    await self._relay_bytes(call, step, patience)
            except TimeoutError:
                if self._client.is_full:
                    await self._client.flush()
                    self._last_read = self._loop.time()  # the silence was not the upstream's
                elif self._ending_at is not None and self._loop.time() >= self._ending_at:
                    self._end_with(step.finish())
                else:
                    await self._bridge_silence()

    async def _relay_bytes(self, call: UpstreamCall, step: Step, patience: Patience) -> None:
        """The hot path: one read, one step, one write.

        While the stream is open and its client keeps up, that is done in a plain callback of the
        upstream's socket (``call.deliver``); everything else takes a task's turn.
        """

        def pass_on(data: bytes) -> bool:
            self._last_read = now = self._loop.time()
            frames = step.feed(data)
            if step.phase is Phase.COMPLETE:
                self._end_with(frames)
                return False
            if not frames:
                return step.phase is Phase.OPEN
            patience.until = now + self._tick
            return self._client.send_at_once(frames, now) and step.phase is Phase.OPEN

        while step.phase is not Phase.COMPLETE:
            await self._relay_piece(await call.read(), step, patience)
            if step.phase is Phase.OPEN and self.opened:
                await call.deliver(pass_on)
                await self._client.flush()
                self._note_ending(step, patience)

    async def _relay_piece(self, data: bytes, step: Step, patience: Patience) -> None:
        self._last_read = now = self._loop.time()
        if self._record.first_byte_at is None:
            self._record.first_byte_at = now
        frames = step.feed(data) if data else step.finish()
        if step.phase is Phase.COMPLETE:
            self._end_with(frames)
        elif frames:
            await self._send(frames)
            patience.until = now + self._tick
        self._note_ending(step, patience)

    def _end_with(self, frames: bytes) -> None:
        self._last_frames = frames
        self._done()

    def _note_ending(self, step: Step, patience: Patience) -> None:
        if step.phase is Phase.ENDING:
            self._ending_at = self._ending_at or self._loop.time() + ENDING_GRACE_SECONDS
            if self._ending_at < patience.until:
                patience.bring_forward(self._ending_at)

    def _next_look(self) -> float:
        """Seconds until silence is looked at: when the client must hear something, or earlier."""
        left = self._client.last_write + self._keepalive - self._loop.time()
        return min(left, self._tick) if left > 0 else self._tick

    def _patient_until(self) -> float:
        until = self._loop.time() + self._next_look()
        return until if self._ending_at is None else min(until, self._ending_at)

    async def _bridge_silence(self) -> None:
        """Nothing has come from the upstream for a while: still patient, and still alive?

        Raises UpstreamTimeout, ClientStalled, ClientGone.
        """
        now = self._loop.time()
        first = self._record.first_byte_at is None
        limit = self._timeouts.first_byte_seconds if first else self._timeouts.idle_seconds
        if now - self._last_read >= limit * NEARLY:
            raise silent_for(self._admitted.upstream.name, limit, first=first)
        self._client.check()
        if now - self._client.last_write < self._keepalive * NEARLY:
            return
        step = self._step
        if step is None or step.phase is Phase.EMPTY:
            await self._send(KEEP_ALIVE)
        elif step.at_boundary:
            await self._send(PING)

    # --- writing -------------------------------------------------------------------------------

    async def _send(self, frames: bytes) -> None:
        if self._client.state is StreamState.UNOPENED:
            await self._client.open(self._headers)
        if frames:
            await self._client.send(frames)

    async def finish(self) -> web.StreamResponse:
        await self._send(b"")
        await self._client.finish(self._last_frames)
        assert self._client.response is not None
        return self._client.response

    async def fail(self, error: GatewayError) -> web.StreamResponse:
        if self._step is not None:
            self._last_frames += self._step.abort(error)
        else:
            self._last_frames += error_frame(error, self._record.request_id)
        return await self.finish()


class WholeAnswer:
    """``stream: false``: waits without a word, then one JSON body with its wait in a header."""

    opened = False
    error: GatewayError | None = None

    def __init__(
        self, request: web.Request, gateway: Gateway, admitted: Admitted, record: ExchangeRecord
    ) -> None:
        self._loop = gateway.loop
        self._admitted = admitted
        self._record = record
        self._timeouts = admitted.upstream.config.timeouts
        self._headers: CIMultiDict[str] = CIMultiDict({REQUEST_ID_HEADER: record.request_id})
        self.response: web.Response | None = None

    async def wait(self, ticket: Ticket) -> None:
        await ticket.wait()

    async def relay(self, call: UpstreamCall, done: Callable[[], None]) -> None:
        name = self._admitted.upstream.name
        timeouts = self._timeouts
        first = timeouts.first_byte_seconds
        try:
            async with Patience(self._loop, self._loop.time() + first) as patience:
                step = await self._collect(call, patience)
        except TimeoutError:
            silent_first = self._record.first_byte_at is None
            limit = first if silent_first else timeouts.idle_seconds
            raise silent_for(name, limit, first=silent_first) from None
        done()
        body = step.finish()
        self._record.output_tokens = step.output_tokens
        waited = self._record.waited or 0.0
        self._headers["x-gateway-queue-wait-seconds"] = f"{waited:.3f}"
        self.response = json_reply(body, self._headers)

    async def _collect(self, call: UpstreamCall, patience: Patience) -> WholeStep:
        await call.send()
        dialect = self._admitted.upstream.config.dialect
        self._headers.update(to_client(dialect, call.headers))
        if call.status != 200:
            raise await failure_of(call)
        step = answer_step(
            dialect,
            call.content_type,
            model=self._admitted.model,
            stop_sequences=self._admitted.stop_sequences,
        )
        while data := await call.read():
            now = self._loop.time()
            if self._record.first_byte_at is None:
                self._record.first_byte_at = now
                patience.bring_forward(now + self._timeouts.idle_seconds)
            patience.until = now + self._timeouts.idle_seconds
            step.feed(data)
            if step.complete:
                break
        return step

    async def finish(self) -> web.StreamResponse:
        assert self.response is not None
        return self.response

    async def fail(self, error: GatewayError) -> web.StreamResponse:
        raise error


async def failure_of(call: UpstreamCall) -> GatewayError:
    """The error in an answer whose status is not 200, explained by as much of its body as came."""
    body = bytearray()
    with contextlib.suppress(TimeoutError, UpstreamFailed):
        async with asyncio.timeout(ERROR_BODY_SECONDS):
            while len(body) < ERROR_BODY_BYTES and (data := await call.read()):
                body += data
    head = bytes(body[:ERROR_BODY_BYTES])
    return error_of_body(call.status, head, retry_after=retry_after(call.headers))


def silent_for(upstream: str, seconds: float, *, first: bool) -> UpstreamTimeout:
    what = "did not begin to answer" if first else "fell silent"
    return UpstreamTimeout(
        f"The upstream {upstream} {what} within {seconds:g} seconds.",
        kind="first_byte" if first else "idle",
    )
