"""The small routes beside messages: which models there are, and how long a prompt is."""

from __future__ import annotations

import functools

import msgspec
from aiohttp import web
from multidict import CIMultiDict

from gateway.config import Dialect
from gateway.errors import UpstreamFailed
from gateway.relay.counting import NATIVE_PATH, Question, count_requests, read_count
from gateway.relay.envelope import Envelope, parse_count_envelope
from gateway.relay.failures import error_of_body
from gateway.relay.models import model_item, model_page
from gateway.relay.tokens import estimate_tokens
from gateway.upstream.ask import Reply, ask
from gateway.upstream.headers import retry_after, to_upstream
from gateway.web.admission import read_body
from gateway.web.bodies import worked_out
from gateway.web.directory import Upstream
from gateway.web.gateway import GATEWAY, Gateway
from gateway.web.identity import REQUEST_ID, client_of
from gateway.web.replies import json_reply

COUNT_SECONDS = 30.0
"""Counting never waits in line, but the upstream may be busy with those that did."""

NO_SUCH_ROUTE = (404, 405, 501)
MOST_QUESTIONS = 4


async def list_models(request: web.Request) -> web.Response:
    gateway = authenticated(request)
    return json_reply(model_page(gateway.directory.models, request.query))


async def one_model(request: web.Request) -> web.Response:
    gateway = authenticated(request)
    return json_reply(model_item(gateway.directory.models, request.match_info["model"]))


async def count_tokens(request: web.Request) -> web.Response:
    """Asks the upstream, where it can say; estimates otherwise, and says so in a header."""
    gateway = authenticated(request)
    with gateway.bodies.hold() as hold:
        envelope = parse_count_envelope(await read_body(request, gateway, hold))
        counting = Counting(request, gateway, envelope)
        counted = await counting.ask()
        estimating = functools.partial(estimate_tokens, envelope)
        count = await worked_out(estimating, len(envelope.body)) if counted is None else counted
    headers = {"x-gateway-estimate": "true"} if counted is None else {}
    return json_reply(msgspec.json.encode({"input_tokens": count}), headers)


def authenticated(request: web.Request) -> Gateway:
    """The gateway, for somebody who may use it.  Raises NotAuthenticated."""
    gateway = request.app[GATEWAY]
    client_of(request, gateway.config.auth.keys, gateway.config.listen.trusted_proxies)
    return gateway


class Counting:
    """One prompt's way to a count."""

    def __init__(self, request: web.Request, gateway: Gateway, envelope: Envelope) -> None:
        self._request = request
        self._gateway = gateway
        self._envelope = envelope
        self._upstream: Upstream
        self._upstream, self._model = gateway.directory.find(envelope.model)

    async def ask(self) -> int | None:
        """The upstream's count, or None where it has none.  Raises GatewayError."""
        if self._upstream.config.dialect is Dialect.ANTHROPIC:
            return await self._ask_natively()
        return await self._ask_in_turn(await self._questions())

    async def _ask_natively(self) -> int | None:
        body = self._envelope.for_native(self._model, None)
        reply = await self._post(Question(NATIVE_PATH, body))
        if reply.status in NO_SUCH_ROUTE:
            return None
        if reply.status != 200:
            wait = retry_after(reply.headers)
            raise error_of_body(reply.status, reply.body, retry_after=wait)
        count = read_count(reply.body)
        return count if isinstance(count, int) else None

    async def _questions(self) -> list[Question]:
        server = await self._gateway.server_of(self._upstream)
        asking = functools.partial(count_requests, server, self._envelope, self._model)
        return await worked_out(asking, len(self._envelope.body))

    async def _ask_in_turn(self, questions: list[Question]) -> int | None:
        """The first count that comes; a failure of one way is a reason for the next."""
        for question in questions:
            found: int | Question | None = question
            for _ in range(MOST_QUESTIONS):
                if not isinstance(found, Question):
                    break
                found = await self._try(found)
            if isinstance(found, int):
                return found
        return None

    async def _try(self, question: Question) -> int | Question | None:
        try:
            reply = await self._post(question)
        except UpstreamFailed:
            return None
        return read_count(reply.body) if reply.status == 200 else None

    async def _post(self, question: Question) -> Reply:
        config = self._upstream.config
        return await ask(
            self._gateway.session,
            config.name,
            self._upstream.url(question.path),
            headers=self._headers(),
            body=question.body,
            connect_seconds=config.timeouts.connect_seconds,
            seconds=COUNT_SECONDS,
        )

    def _headers(self) -> CIMultiDict[str]:
        return to_upstream(
            self._upstream.config.dialect,
            self._request.headers,
            api_key=self._upstream.config.api_key,
            stream=False,
            request_id=self._request[REQUEST_ID],
        )
