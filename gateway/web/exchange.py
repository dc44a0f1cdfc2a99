"""The story of one exchange.  Read this first.

1. *Admit*: whatever can be refused is refused, before the line (``admission``).
2. *Wait*: take a ticket; a streaming client hears of its place (``slots``, ``answers``).
3. *Relay*: with the slot, make the one call to the upstream and pass its answer on.
4. *Close*: the call is closed and the slot given back, both synchronously, at the upstream's
   last word or by leaving two ``with`` blocks, whichever comes first; only then does the client
   get the end of its answer, and what is still buffered for it.

Whatever goes wrong on the way arrives here as one exception and leaves as one outcome.
"""

from __future__ import annotations

import asyncio
import math

from aiohttp import web

from gateway.config import Dialect
from gateway.errors import GatewayError, NotFound, Overloaded, RateLimited, UpstreamFailed
from gateway.slots.base import Outcome, Ticket, TicketEnded
from gateway.upstream.call import UpstreamCall
from gateway.upstream.headers import to_upstream
from gateway.web.admission import Admitted, admit
from gateway.web.answers import Answer, StreamedAnswer, WholeAnswer
from gateway.web.client import ClientGone, ClientStalled
from gateway.web.directory import Upstream
from gateway.web.gateway import CLOSING_MESSAGE, Gateway
from gateway.web.record import ExchangeOutcome, ExchangeRecord
from gateway.web.replies import error_reply, of_exception
from gateway.web.running import Interruption

PATHS = {Dialect.ANTHROPIC: "/v1/messages", Dialect.OPENAI: "/v1/chat/completions"}

RETRY_AFTER_SECONDS = 10
"""Where nothing better is known."""

RETRY_AFTER_AT_MOST = 59
"""Some SDKs ignore a longer advice, others sleep through all of it."""

LEASE_LOST = "The gateway lost its slot while it was running; try again."


class Exchange:
    """One ``POST /llm/v1/messages`` from its first byte to its last."""

    def __init__(self, request: web.Request, gateway: Gateway, request_id: str) -> None:
        self._request = request
        self._gateway = gateway
        self._loop = gateway.loop
        self._answer: Answer | None = None
        self.record = ExchangeRecord(request_id, started_at=self._loop.time())
        if gateway.tracing is not None:
            self.record.trace = gateway.tracing.begin(request.headers)

    async def run(self) -> web.StreamResponse:
        try:
            return await self._run()
        except asyncio.CancelledError:
            self._client_left()
            raise
        finally:
            self._gateway.observers(self.record.ended(self._loop.time()))

    async def _run(self) -> web.StreamResponse:
        try:
            await self._answer_in_turn()
            assert self._answer is not None
            response = await self._answer.finish()
        except ClientGone:
            self._client_left()
        except ClientStalled:
            self.record.outcome = ExchangeOutcome.CLIENT_STALLED
        except Exception as error:
            return await self._fail(of_exception(error, self._request, self.record.request_id))
        else:
            self._completed()
            return response
        return self._nobody_listens()

    # --- the way there -------------------------------------------------------------------------

    async def _answer_in_turn(self) -> None:
        with self._gateway.bodies.hold() as hold:
            admitted = await admit(self._request, self._gateway, self.record, hold)
            self._answer = answer = self._answer_for(admitted)
            pool = admitted.upstream.pool
            with pool.join(model=admitted.model, client=admitted.client) as ticket:
                await self._wait(ticket, answer, admitted.upstream)
                async with self._interruptible(ticket):
                    with self._call(admitted) as call:
                        await answer.relay(call, lambda: give_back(call, ticket))
            if ticket.passed_on:
                await let_the_next_begin()

    async def _wait(self, ticket: Ticket, answer: Answer, upstream: Upstream) -> None:
        try:
            await answer.wait(ticket)
        except TicketEnded as ended:
            raise refusal(ended.outcome, upstream) from None
        self.record.waited = ticket.waited_seconds
        self.record.granted_at = self._loop.time()

    def _interruptible(self, ticket: Ticket) -> Interruption:
        interruption = Interruption(self._gateway.running)
        ticket.on_lost(lambda: interruption.interrupt(Overloaded(LEASE_LOST, retry_after=1)))
        return interruption

    def _answer_for(self, admitted: Admitted) -> Answer:
        kind = StreamedAnswer if admitted.stream else WholeAnswer
        return kind(self._request, self._gateway, admitted, self.record)

    def _call(self, admitted: Admitted) -> UpstreamCall:
        upstream = admitted.upstream.config
        headers = to_upstream(
            upstream.dialect,
            self._request.headers,
            api_key=upstream.api_key,
            stream=admitted.stream,
            request_id=self.record.request_id,
        )
        if self.record.trace is not None:
            headers.update(self.record.trace.headers)
        return UpstreamCall(
            self._gateway.session,
            upstream.name,
            admitted.upstream.url(PATHS[upstream.dialect]),
            headers=headers,
            body=admitted.body,
            connect_seconds=upstream.timeouts.connect_seconds,
        )

    # --- the ways it ends ----------------------------------------------------------------------

    def _completed(self) -> None:
        self.record.error = self._answer.error if self._answer else None
        self.record.outcome = (
            ExchangeOutcome.COMPLETED
            if self.record.error is None
            else ExchangeOutcome.UPSTREAM_FAILED
        )

    def _client_left(self) -> None:
        self.record.outcome = (
            ExchangeOutcome.LEFT_WAITING
            if self.record.granted_at is None
            else ExchangeOutcome.LEFT_RUNNING
        )

    async def _fail(self, error: GatewayError) -> web.StreamResponse:
        """The error as a status, or as the last frame of a stream that is open already."""
        self.record.error = error
        self.record.outcome = self._outcome_of(error)
        if self._answer is None or not self._answer.opened:
            return error_reply(error, self.record.request_id)
        try:
            return await self._answer.fail(error)
        except (ClientGone, ClientStalled):
            return self._nobody_listens()

    def _outcome_of(self, error: GatewayError) -> ExchangeOutcome:
        if isinstance(error, UpstreamFailed):
            return ExchangeOutcome.UPSTREAM_FAILED
        if self.record.granted_at is None:
            return ExchangeOutcome.REJECTED
        if isinstance(error, Overloaded):
            return ExchangeOutcome.INTERRUPTED
        return ExchangeOutcome.FAILED

    def _nobody_listens(self) -> web.StreamResponse:
        """What aiohttp is handed when the connection is gone: it notices, and writes nothing."""
        if self._answer is not None and self._answer.response is not None:
            return self._answer.response
        return web.Response()


def give_back(call: UpstreamCall, ticket: Ticket) -> None:
    """What leaving both blocks does, in the very turn of the event loop in which the upstream's
    last word came: whoever waits for the slot need not wait until this exchange is woken."""
    call.close()
    ticket.close()


async def let_the_next_begin() -> None:
    """Whoever has just been given our slot sends its request before we tidy up behind ourselves.

    It wakes in the event loop's next turn and calls the upstream; before Python 3.12 aiohttp
    writes the body in the turn after that.
    """
    for _ in range(2):
        await asyncio.sleep(0)


def refusal(outcome: Outcome, upstream: Upstream) -> GatewayError:
    """The error of a wait that ended without a slot."""
    queue = upstream.config.queue
    match outcome:
        case Outcome.REJECTED_FULL:
            return Overloaded(
                f"The line for {upstream.name} is full ({queue.max_waiting} waiting).",
                retry_after=retry_after(upstream.pool.next_grant_seconds()),
            )
        case Outcome.REJECTED_CLIENT_LIMIT:
            return RateLimited(
                f"You have {queue.max_waiting_per_client} requests waiting for {upstream.name}"
                " already.",
                retry_after=RETRY_AFTER_SECONDS,
            )
        case Outcome.EXPIRED:
            return Overloaded(
                f"No slot of {upstream.name} became free in {queue.max_wait_seconds:g} seconds.",
                retry_after=RETRY_AFTER_SECONDS,
            )
        case Outcome.EVICTED_REMOVED:
            return NotFound(f"The upstream {upstream.name} has been removed.")
        case _:
            return Overloaded(CLOSING_MESSAGE, retry_after=1)


def retry_after(seconds: float | None) -> int:
    """Whole seconds until there is probably room in the line."""
    if seconds is None:
        return RETRY_AFTER_SECONDS
    return min(max(1, math.ceil(seconds)), RETRY_AFTER_AT_MOST)
