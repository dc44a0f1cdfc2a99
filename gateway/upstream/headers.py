"""Which headers travel, in both directions: only those on these lists.

A list of what may pass cannot forget a hop-by-hop header, one nominated by ``Connection``, a
cookie or a client's key.  Pure.
"""

from __future__ import annotations

from collections.abc import Mapping

from multidict import CIMultiDict, MultiMapping, istr

import gateway as package
from gateway.config import Dialect

# Names of the type that multidicts keep: of any other they make a copy for each request.
ACCEPT = istr("Accept")
ACCEPT_ENCODING = istr("Accept-Encoding")
AUTHORIZATION = istr("Authorization")
CONTENT_TYPE = istr("Content-Type")
USER_AGENT = istr("User-Agent")
REQUEST_ID = istr("X-Request-Id")
API_KEY = istr("x-api-key")
VERSION = istr("anthropic-version")

#: What a native upstream is told of the client's request, beside what the gateway sets itself.
UP_NATIVE = (VERSION, istr("anthropic-beta"))

#: The contract's newest date that every server we know accepts; a client may omit the header,
#: a native upstream may insist on it.
DEFAULT_VERSION = "2023-06-01"

OURSELVES = f"gateway/{package.__version__}"

#: What a client is told of a native upstream's answer.
DOWN_NATIVE_PREFIXES = ("anthropic-ratelimit-",)


def to_upstream(
    dialect: Dialect,
    client_headers: MultiMapping[str],
    *,
    api_key: str | None,
    stream: bool,
    request_id: str,
) -> CIMultiDict[str]:
    """The headers of the upstream's request.

    Compression is refused, since a relay must see frames as they come and the client may not
    understand what the upstream chose.  The credential is the gateway's own or none.
    """
    headers: CIMultiDict[str] = CIMultiDict()
    headers[CONTENT_TYPE] = "application/json"
    headers[ACCEPT] = "text/event-stream" if stream else "application/json"
    headers[ACCEPT_ENCODING] = "identity"
    headers[USER_AGENT] = OURSELVES
    headers[REQUEST_ID] = request_id
    if api_key:
        headers[AUTHORIZATION] = f"Bearer {api_key}"
    if dialect is Dialect.ANTHROPIC:
        if api_key:
            headers[API_KEY] = api_key
        headers[VERSION] = DEFAULT_VERSION
        for name in UP_NATIVE:
            value = ", ".join(client_headers.getall(name, ()))
            if value and is_plain(value):
                headers[name] = value
    return headers


def to_client(dialect: Dialect, upstream_headers: Mapping[str, str]) -> CIMultiDict[str]:
    """What of the upstream's headers the client gets; the rest is the gateway's own."""
    headers: CIMultiDict[str] = CIMultiDict()
    if dialect is Dialect.ANTHROPIC:
        for name, value in upstream_headers.items():
            if name.lower().startswith(DOWN_NATIVE_PREFIXES) and is_plain(value):
                headers[name] = value
    return headers


def is_plain(value: str) -> bool:
    """Whether a value can stand in a header without breaking it: ASCII, no control characters."""
    return all(" " <= character <= "~" or character == "\t" for character in value)


def retry_after(upstream_headers: Mapping[str, str]) -> int | None:
    """Whole seconds from ``retry-after``; dates and nonsense are not worth guessing at."""
    value = upstream_headers.get("Retry-After", "").strip()
    if not value.isascii() or not value.isdigit() or len(value) > 6:
        return None
    return max(1, int(value))
