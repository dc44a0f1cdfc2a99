"""One request to an upstream, and the one place where aiohttp's errors become ours.

A call is closed synchronously, so that its exchange can give the slot back in the same breath:
closing means the socket, never draining what the upstream still wants to say.
"""

from __future__ import annotations

import functools
import io
from collections.abc import Mapping
from types import TracebackType
from typing import NamedTuple, Self

import aiohttp
from multidict import CIMultiDict
from yarl import URL

from gateway.errors import GatewayError, UpstreamFailed, UpstreamTimeout
from gateway.upstream.delivery import Delivery, Sink
from gateway.upstream.protocol import StaleConnection, UpstreamProtocol
from gateway.upstream.session import UpstreamSession

LARGE_BYTES = 1 << 20


class Request(NamedTuple):
    """What is posted; forgotten as soon as it has been answered, for streams last long."""

    url: URL
    headers: CIMultiDict[str]
    body: bytes

    @property
    def is_large(self) -> bool:
        """A large body goes up in portions: written in one go it would block the event loop."""
        return len(self.body) >= LARGE_BYTES


class UpstreamCall:
    """``name`` is the upstream's public name: errors never show its address."""

    __slots__ = ("_name", "_request", "_response", "_session", "_timeout")

    def __init__(
        self,
        session: UpstreamSession,
        name: str,
        url: URL,
        *,
        headers: CIMultiDict[str],
        body: bytes,
        connect_seconds: float,
    ) -> None:
        self._session = session
        self._name = name
        self._request: Request | None = Request(url, headers, body)
        self._timeout = timeout_of(connect_seconds)
        self._response: aiohttp.ClientResponse | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Closes the connection unless its answer has been read to the end.  Idempotent."""
        if self._response is not None:
            self._response.close()
            self._response = None

    # --- the request ---------------------------------------------------------------------------

    async def send(self) -> None:
        """Returns with the answer's status and headers.  Raises UpstreamFailed, UpstreamTimeout."""
        try:
            self._response = await self._post()
        except (aiohttp.ClientError, OSError, ValueError, TimeoutError) as error:
            raise self._explain(error) from error
        self._request = None

    async def _post(self) -> aiohttp.ClientResponse:
        """Posts; once more if a pooled connection turns out to be closed at its other end.

        A server may close an idle connection in the very moment it is used again; it has not
        looked at the request then.  Anything else is the upstream's failure, and asking again
        might make it generate twice.
        """
        request = self._request
        assert request is not None, "the call has been answered"
        try:
            if request.is_large:
                return await self._post_over(self._session.http, request)
            endpoint = self._session.endpoint(request.url)
            return await endpoint.post(request.headers, request.body, self._timeout)
        except StaleConnection:
            return await self._post_over(self._session.fresh, request)

    async def _post_over(
        self, http: aiohttp.ClientSession, request: Request
    ) -> aiohttp.ClientResponse:
        return await http.post(
            request.url,
            data=io.BytesIO(request.body),
            headers=request.headers,
            timeout=self._timeout,
            allow_redirects=False,
        )

    # --- the answer ----------------------------------------------------------------------------

    @property
    def status(self) -> int:
        return self._answer().status

    @property
    def headers(self) -> Mapping[str, str]:
        return self._answer().headers

    @property
    def content_type(self) -> str:
        return self._answer().content_type

    async def read(self) -> bytes:
        """Whatever has arrived, at least one byte; empty at the end.  Cancelling loses nothing.

        Raises UpstreamFailed.
        """
        try:
            return await self._answer().content.readany()
        except (aiohttp.ClientError, OSError, ValueError, TimeoutError) as error:
            raise self._explain(error) from error

    async def deliver(self, sink: Sink) -> None:
        """Hands every piece to ``sink`` as it arrives, until that says no or the body ends.

        Does nothing once the whole body has arrived: the caller reads on by itself.  Raises
        UpstreamFailed, and what ``sink`` raises.  Cancelling loses nothing.
        """
        answer = self._answer()
        protocol = answer.connection and answer.connection.protocol
        if not isinstance(protocol, UpstreamProtocol):
            return
        try:
            await Delivery(self._session.loop, protocol, answer.content, sink).run()
        except (aiohttp.ClientError, OSError, ValueError, TimeoutError) as error:
            raise self._explain(error) from error

    async def read_head(self, most: int) -> bytes:
        """The first ``most`` bytes of the body, or all of it: enough of an error to explain it."""
        head = bytearray()
        while len(head) < most and (data := await self.read()):
            head += data
        return bytes(head[:most])

    def _answer(self) -> aiohttp.ClientResponse:
        assert self._response is not None, "the call has not been answered"
        return self._response

    # --- failures ------------------------------------------------------------------------------

    def _explain(self, error: Exception) -> GatewayError:
        if isinstance(error, aiohttp.ClientConnectorDNSError):
            return self._failed("its name cannot be resolved", "dns")
        if isinstance(error, aiohttp.ClientConnectorCertificateError | aiohttp.ClientSSLError):
            return self._failed("its TLS certificate or handshake was refused", "tls")
        if isinstance(error, aiohttp.ConnectionTimeoutError):
            return UpstreamTimeout(
                f"The upstream {self._name} did not accept a connection in time.", kind="connect"
            )
        if isinstance(error, TimeoutError):
            return UpstreamTimeout(
                f"The upstream {self._name} was silent for too long.", kind="idle"
            )
        if isinstance(error, aiohttp.ClientConnectorError):
            return self._failed("it cannot be reached", "connect")
        if isinstance(error, aiohttp.ServerDisconnectedError):
            return self._failed("it closed the connection without an answer", "disconnected")
        if isinstance(error, aiohttp.ClientResponseError | ValueError):
            return self._failed("its answer is not HTTP that anyone can read", "garbage")
        return self._failed("the connection broke off", "broken")

    def _failed(self, why: str, kind: str) -> UpstreamFailed:
        return UpstreamFailed(f"The upstream {self._name} failed: {why}.", kind=kind)


@functools.cache
def timeout_of(connect_seconds: float) -> aiohttp.ClientTimeout:
    """Only connecting is aiohttp's to watch; an exchange has other patience for all the rest."""
    return aiohttp.ClientTimeout(total=None, sock_connect=connect_seconds)
