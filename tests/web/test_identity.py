"""Who asks: keys compared whole, addresses believed only from trusted proxies."""

from __future__ import annotations

import hashlib
from ipaddress import ip_network

import pytest
from aiohttp.test_utils import make_mocked_request

from gateway.config import AuthKey
from gateway.errors import NotAuthenticated
from gateway.web.identity import address_of, client_of, request_id_of

LOCAL = (ip_network("127.0.0.1/32"), ip_network("10.0.0.0/8"))


def key(name: str, secret: str) -> AuthKey:
    return AuthKey(name=name, sha256=hashlib.sha256(secret.encode()).hexdigest())


KEYS = (key("alice", "sk-a"), key("bob", "sk-b"))


class Peer:
    """A transport that only knows its peer."""

    def __init__(self, address: str) -> None:
        self.address = address

    def get_extra_info(self, name: str, default: object = None) -> object:
        return (self.address, 1234) if name == "peername" else default

    def is_closing(self) -> bool:
        return False


def request(peer: str = "127.0.0.1", **headers: str):
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return make_mocked_request("POST", "/", headers=named, transport=Peer(peer))


@pytest.mark.parametrize(
    ("headers", "name"),
    [
        ({"x_api_key": "sk-a"}, "alice"),
        ({"Authorization": "Bearer sk-b"}, "bob"),
        ({"Authorization": "bearer  sk-b "}, "bob"),
        ({"x_api_key": "wrong", "Authorization": "Bearer sk-a"}, "alice"),
        ({"x_api_key": "sk-b", "Authorization": "Bearer wrong"}, "bob"),
    ],
)
def test_either_header_proves_who_asks(headers: dict[str, str], name: str) -> None:
    assert client_of(request(**headers), KEYS, LOCAL) == name


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"x_api_key": ""},
        {"x_api_key": "sk-"},
        {"Authorization": "sk-a"},
        {"Authorization": "Basic sk-a"},
        {"Authorization": "Bearer"},
        {"x_api_key": "sk-\u00e4"},
    ],
)
def test_anything_else_is_refused(headers: dict[str, str]) -> None:
    with pytest.raises(NotAuthenticated):
        client_of(request(**headers), KEYS, LOCAL)


@pytest.mark.parametrize(
    ("peer", "forwarded", "address"),
    [
        ("203.0.113.9", None, "203.0.113.9"),
        ("203.0.113.9", "198.51.100.1", "203.0.113.9"),
        ("127.0.0.1", "198.51.100.1", "198.51.100.1"),
        ("127.0.0.1", "1.2.3.4, 198.51.100.1", "198.51.100.1"),
        ("127.0.0.1", "1.2.3.4, 198.51.100.1, 10.0.0.7", "198.51.100.1"),
        ("127.0.0.1", "nonsense", "127.0.0.1"),
        ("127.0.0.1", "2001:db8::1", "2001:db8::1"),
    ],
)
def test_only_trusted_proxies_may_speak_for_others(
    peer: str, forwarded: str | None, address: str
) -> None:
    headers = {"X_Forwarded_For": forwarded} if forwarded else {}
    assert address_of(request(peer, **headers), LOCAL) == address


def test_a_well_formed_request_id_of_a_trusted_proxy_is_kept() -> None:
    assert request_id_of(request(X_Request_Id="abc-123"), LOCAL) == "abc-123"


@pytest.mark.parametrize("given", ["", "a b", "x" * 129, 'a"b', "ä"])
def test_a_malformed_request_id_is_replaced(given: str) -> None:
    assert request_id_of(request(X_Request_Id=given), LOCAL).startswith("req_")


def test_a_stranger_cannot_choose_its_request_id() -> None:
    assert request_id_of(request("203.0.113.9", X_Request_Id="abc"), LOCAL) != "abc"
