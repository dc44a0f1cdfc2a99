"""Only listed headers travel; credentials never do."""

from __future__ import annotations

import pytest
from multidict import CIMultiDict

from gateway.config import Dialect
from gateway.upstream.headers import OURSELVES, retry_after, to_client, to_upstream

FROM_A_CLIENT: CIMultiDict[str] = CIMultiDict(
    {
        "Authorization": "Bearer client-key",
        "x-api-key": "client-key",
        "Cookie": "session=1",
        "Connection": "close, X-Secret",
        "X-Secret": "1",
        "Keep-Alive": "5",
        "TE": "trailers",
        "Trailer": "X",
        "Upgrade": "h2c",
        "Proxy-Authorization": "Basic x",
        "Transfer-Encoding": "chunked",
        "Accept-Encoding": "gzip, br",
        "Expect": "100-continue",
        "anthropic-version": "2026-10-21",
        "anthropic-beta": "foo-2026-01-01,bar",
    }
)


def up(dialect: Dialect, api_key: str | None) -> dict[str, str]:
    headers = to_upstream(dialect, FROM_A_CLIENT, api_key=api_key, stream=True, request_id="req_1")
    return {name.lower(): value for name, value in headers.items()}


def test_an_openai_upstream_learns_nothing_of_the_client() -> None:
    assert up(Dialect.OPENAI, None) == {
        "content-type": "application/json",
        "user-agent": OURSELVES,
        "accept": "text/event-stream",
        "accept-encoding": "identity",
        "x-request-id": "req_1",
    }


def test_a_native_upstream_is_told_version_and_betas_and_its_own_key_only() -> None:
    headers = up(Dialect.ANTHROPIC, "own-key")
    assert headers["anthropic-version"] == "2026-10-21"
    assert headers["anthropic-beta"] == "foo-2026-01-01,bar"
    assert headers["authorization"] == "Bearer own-key"
    assert headers["x-api-key"] == "own-key"
    assert "client-key" not in str(headers)


def test_betas_in_several_headers_all_travel_and_what_could_break_a_header_does_not() -> None:
    given = CIMultiDict([("anthropic-beta", "a"), ("Anthropic-Beta", "b,c")])
    given["anthropic-version"] = "\udcff"
    headers = to_upstream(Dialect.ANTHROPIC, given, api_key=None, stream=True, request_id="r")
    assert headers["anthropic-beta"] == "a, b,c"
    assert headers["anthropic-version"] == "2023-06-01"


def test_a_native_upstream_without_a_key_gets_none() -> None:
    headers = up(Dialect.ANTHROPIC, None)
    assert "authorization" not in headers and "x-api-key" not in headers


def test_a_native_upstream_always_gets_a_version() -> None:
    headers = to_upstream(
        Dialect.ANTHROPIC, CIMultiDict(), api_key=None, stream=False, request_id="r"
    )
    assert headers["anthropic-version"] == "2023-06-01"


def test_of_an_answer_only_rate_limits_travel_down() -> None:
    answer = {
        "Content-Length": "30",
        "Content-Encoding": "gzip",
        "Connection": "X-Int",
        "X-Int": "1",
        "Set-Cookie": "a=b",
        "request-id": "theirs",
        "anthropic-ratelimit-requests-limit": "50",
    }
    assert dict(to_client(Dialect.ANTHROPIC, answer)) == {
        "anthropic-ratelimit-requests-limit": "50"
    }
    assert not to_client(Dialect.OPENAI, answer)


def test_a_header_that_could_break_the_answer_stays_behind() -> None:
    assert not to_client(Dialect.ANTHROPIC, {"anthropic-ratelimit-x": "a\r\nb: c"})


@pytest.mark.parametrize(
    ("given", "seconds"),
    [("5", 5), (" 5 ", 5), ("0", 1), ("-1", None), ("1.5", None), ("soon", None), ("²", None)],
)
def test_retry_after_is_whole_seconds_or_nothing(given: str, seconds: int | None) -> None:
    assert retry_after({"Retry-After": given}) == seconds
