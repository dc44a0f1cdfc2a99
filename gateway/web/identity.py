"""Who asks: the request's id, the client's key, and the client's address behind proxies."""

from __future__ import annotations

import hashlib
import hmac
import random
import re
from collections.abc import Sequence
from ipaddress import IPv4Network, IPv6Network, ip_address

from aiohttp import web
from multidict import istr

from gateway.config import AuthKey
from gateway.errors import NotAuthenticated

Networks = Sequence[IPv4Network | IPv6Network]

REQUEST_ID = web.RequestKey("REQUEST_ID", str)
"""Where the middleware keeps the id that header, error body and log line share."""

REQUEST_ID_HEADER = istr("request-id")

_WELL_FORMED_ID = re.compile(r"[A-Za-z0-9._:-]{1,128}")


def request_id_of(request: web.Request, trusted: Networks) -> str:
    """A trusted proxy's ``X-Request-Id`` if it is well-formed, otherwise a new one."""
    given = request.headers.get("X-Request-Id", "")
    if given and _WELL_FORMED_ID.fullmatch(given) and _is_trusted(request.remote, trusted):
        return given
    return new_request_id()


def new_request_id() -> str:
    """Unlike any other; nobody is harmed by guessing one."""
    return f"req_{random.randbytes(12).hex()}"


def client_of(request: web.Request, keys: Sequence[AuthKey], trusted: Networks) -> str:
    """The name of the client's key; with open auth, the client's address.

    Raises NotAuthenticated.
    """
    if not keys:
        return address_of(request, trusted)
    for presented in presented_keys(request):
        if name := _owner_of(presented, keys):
            return name
    raise NotAuthenticated("The API key is missing or not known here (x-api-key or Bearer).")


def presented_keys(request: web.Request) -> list[str]:
    """Both places count equally; some clients fill both, with different keys."""
    presented = []
    if key := request.headers.get("x-api-key", ""):
        presented.append(key.strip())
    scheme, _, token = request.headers.get("Authorization", "").partition(" ")
    if scheme.lower() == "bearer" and token:
        presented.append(token.strip())
    return presented


def _owner_of(presented: str, keys: Sequence[AuthKey]) -> str | None:
    """Compares with every key, all the way, so that timing tells nothing."""
    digest = hashlib.sha256(presented.encode("utf-8", "surrogateescape")).hexdigest()
    owner = None
    for key in keys:
        if hmac.compare_digest(digest, key.sha256.lower()):
            owner = key.name
    return owner


def address_of(request: web.Request, trusted: Networks) -> str:
    """The peer's address or, behind trusted proxies, the last forwarded one that is not theirs."""
    address = request.remote or ""
    if "X-Forwarded-For" not in request.headers:
        return address
    hops = ",".join(request.headers.getall("X-Forwarded-For", [])).split(",")
    while hops and _is_trusted(address, trusted):
        hop = _plain_address(hops.pop())
        if hop is None:
            break
        address = hop
    return address


def _plain_address(text: str) -> str | None:
    try:
        return str(ip_address(text.strip().strip("[]")))
    except ValueError:
        return None


def _is_trusted(address: str | None, trusted: Networks) -> bool:
    try:
        parsed = ip_address(address or "")
    except ValueError:
        return False
    return any(parsed in network for network in trusted)
