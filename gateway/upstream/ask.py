"""A short question to an upstream, beside the exchanges: no slot, one whole answer."""

from __future__ import annotations

import asyncio
from typing import NamedTuple

from multidict import CIMultiDict
from yarl import URL

from gateway.errors import UpstreamTimeout
from gateway.upstream.call import UpstreamCall
from gateway.upstream.session import UpstreamSession

MOST_BYTES = 16 << 20
"""A list of the tokens of a long prompt is the largest answer to expect."""


class Reply(NamedTuple):
    status: int
    headers: CIMultiDict[str]
    body: bytes


async def ask(
    session: UpstreamSession,
    name: str,
    url: URL,
    *,
    headers: CIMultiDict[str],
    body: bytes,
    connect_seconds: float,
    seconds: float,
) -> Reply:
    """Raises UpstreamFailed or UpstreamTimeout."""
    call = UpstreamCall(
        session, name, url, headers=headers, body=body, connect_seconds=connect_seconds
    )
    try:
        async with asyncio.timeout(seconds):
            with call:
                await call.send()
                head = await call.read_head(MOST_BYTES)
                return Reply(call.status, CIMultiDict(call.headers), head)
    except TimeoutError:
        raise UpstreamTimeout(
            f"The upstream {name} did not answer within {seconds:g} seconds.", kind="first_byte"
        ) from None
