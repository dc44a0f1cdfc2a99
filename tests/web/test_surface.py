"""The surface: routes, credentials, limits, and that every refusal has Anthropic's shape."""

from __future__ import annotations

import asyncio
import json
import logging
import threading
from typing import Any

import pytest

from gateway.relay.anthropic_openai.requests import to_openai
from gateway.relay.envelope import Envelope
from gateway.web.bodies import LARGE_BYTES
from tests.web.clients import ask
from tests.web.conftest import MakeGateway
from tests.web.scripted import SECONDS, ScriptedUpstream
from tests.wire import check_wire

BAD_BODIES: dict[str, tuple[bytes, str]] = {
    "empty": (b"", "empty"),
    "not JSON": (b"hello", ""),
    "half": (b'{"model":', ""),
    "a list": (b"[]", ""),
    "a number": (b"7", ""),
    "not UTF-8": (b'{"model":"\xff"}', "UTF-8"),
    "a nesting bomb": (b"[" * 100_000, ""),
    "a nesting bomb inside": (
        b'{"model":"m","max_tokens":1,"messages":[{"role":"user","content":'
        + b"[" * 100_000
        + b"]" * 100_000
        + b"}]}",
        "",
    ),
    "model as a number": (b'{"model":1,"max_tokens":1,"messages":[]}', "model"),
    "no model": (b'{"max_tokens":1,"messages":[{"role":"user","content":"x"}]}', "model"),
    "no max_tokens": (b'{"model":"m","messages":[{"role":"user","content":"x"}]}', "max_tokens"),
    "max_tokens 0": (
        b'{"model":"m","max_tokens":0,"messages":[{"role":"user","content":"x"}]}',
        "max_tokens",
    ),
    "no messages": (b'{"model":"m","max_tokens":1}', "messages"),
    "messages as a text": (b'{"model":"m","max_tokens":1,"messages":"hi"}', "messages"),
}


@pytest.mark.parametrize("name", BAD_BODIES)
async def test_a_bad_body_is_refused_by_name(make_gateway: MakeGateway, name: str) -> None:
    body, named = BAD_BODIES[name]
    gateway = await make_gateway(dialect="openai")
    reply = await gateway.post(body)
    assert (reply.status, reply.error["type"]) == (400, "invalid_request_error")
    assert named in reply.error["message"]
    assert gateway.pool().statistics().running == 0


@pytest.mark.parametrize("path", ["/nope", "/llm/v1/nope", "/", "/llm/v1/messages/nope"])
async def test_an_unknown_path_is_not_found(make_gateway: MakeGateway, path: str) -> None:
    gateway = await make_gateway()
    reply = await gateway.request("POST", path)
    assert reply.status in (404, 405)
    assert reply.error["type"] in ("not_found_error", "invalid_request_error")


@pytest.mark.parametrize("path", ["/nope", "/llm", "/llm/v1/models"])
async def test_an_odd_expectation_is_refused_in_our_words(
    make_gateway: MakeGateway, path: str
) -> None:
    """aiohttp refuses it before any middleware."""
    gateway = await make_gateway()
    reply = await gateway.request("GET", path, headers={"Expect": "the unexpected"})
    assert (reply.status, reply.error["type"]) == (417, "invalid_request_error")


@pytest.mark.parametrize("method", ["GET", "PUT", "DELETE", "OPTIONS", "PATCH"])
async def test_another_method_is_not_allowed(make_gateway: MakeGateway, method: str) -> None:
    gateway = await make_gateway()
    reply = await gateway.request(method, "/llm/v1/messages")
    assert (reply.status, reply.error["type"]) == (405, "invalid_request_error")
    assert reply.headers["allow"] == "POST"


async def test_an_unknown_model_is_told_the_known_ones(make_gateway: MakeGateway) -> None:
    gateway = await make_gateway(models=["m", "other"])
    reply = await gateway.post(ask() | {"model": "m\n\nevent: error\ndata: {}"})
    assert (reply.status, reply.error["type"]) == (404, "not_found_error")
    assert "m, other" in reply.error["message"]


@pytest.mark.parametrize("path", ["/llm", "/llm/", "/llm/api/hello"])
@pytest.mark.parametrize("method", ["HEAD", "GET"])
async def test_probes_are_answered_without_a_key_or_a_log_line(
    make_gateway: MakeGateway, caplog: pytest.LogCaptureFixture, path: str, method: str
) -> None:
    gateway = await make_gateway({"auth": {"keys": [{"name": "a", "sha256": "0" * 64}]}})
    with caplog.at_level(logging.DEBUG, "gateway"):
        reply = await gateway.request(method, path)
        root = await gateway.request("HEAD", "/")
    assert (reply.status, reply.body, root.status) == (200, b"", 200)
    assert not caplog.records


@pytest.mark.parametrize(
    "route",
    [
        ("POST", "/llm/v1/messages"),
        ("POST", "/llm/v1/messages/count_tokens"),
        ("GET", "/llm/v1/models"),
        ("GET", "/llm/v1/models/m"),
    ],
)
async def test_everything_else_needs_a_key(
    make_gateway: MakeGateway, route: tuple[str, str]
) -> None:
    gateway = await make_gateway({"auth": {"keys": [{"name": "a", "key": "sk-a"}]}})
    reply = await gateway.request(*route, data=json.dumps(ask()))
    assert (reply.status, reply.error["type"]) == (401, "authentication_error")
    headers = {"x-api-key": "sk-wrong"}
    reply = await gateway.request(*route, data=json.dumps(ask()), headers=headers)
    assert reply.status == 401


@pytest.mark.parametrize("api_key", [None, "own-key"])
@pytest.mark.parametrize("dialect", ["anthropic", "openai"])
async def test_a_clients_credentials_never_travel_up(
    make_gateway: MakeGateway, upstream: ScriptedUpstream, api_key: str | None, dialect: str
) -> None:
    keys = {"auth": {"keys": [{"name": "a", "key": "sk-client"}]}}
    gateway = await make_gateway(keys, dialect=dialect, api_key=api_key)
    stream = await gateway.stream(
        ask(),
        x_api_key="sk-client",
        Authorization="Bearer sk-client",
        Cookie="session=sk-client",
        Connection="X-Secret",
        X_Secret="sk-client",
        Proxy_Authorization="Basic sk-client",
        TE="trailers",
        Upgrade="h2c",
    )
    arrival = await upstream.arrival()
    headers = {name.lower(): value for name, value in arrival.request.headers.items()}
    assert "sk-client" not in str(headers)
    assert headers.get("authorization") == (f"Bearer {api_key}" if api_key else None)
    assert not {"cookie", "x-secret", "te", "upgrade", "proxy-authorization"} & headers.keys()
    arrival.answer()
    await stream.whole()


async def test_a_body_over_the_limit_is_too_large_however_it_is_framed(
    make_gateway: MakeGateway, upstream: ScriptedUpstream
) -> None:
    gateway = await make_gateway({"client": {"max_body_bytes": 1000}})
    reply = await gateway.post(b" " * 1001)
    assert (reply.status, reply.error["type"]) == (413, "request_too_large")

    async def chunked():
        for _ in range(100):
            yield b" " * 100

    reply = await gateway.request("POST", "/llm/v1/messages", data=chunked())
    assert (reply.status, reply.error["type"]) == (413, "request_too_large")


async def test_twenty_megabytes_are_a_normal_request(
    make_gateway: MakeGateway, upstream: ScriptedUpstream
) -> None:
    gateway = await make_gateway()
    asking = asyncio.create_task(gateway.post(ask("x" * (20 << 20), stream=False)))
    arrival = await upstream.arrival()
    assert len(arrival.body) > 20 << 20
    arrival.answer()
    assert (await asking).status == 200


async def test_a_large_request_is_translated_while_others_are_served(
    make_gateway: MakeGateway, upstream: ScriptedUpstream, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The translation of the large one waits for the answer to the small one."""
    answered = threading.Event()

    def patient(envelope: Envelope, **options: Any) -> bytes:
        assert len(envelope.body) < LARGE_BYTES or answered.wait(SECONDS)
        return to_openai(envelope, **options)

    monkeypatch.setattr("gateway.web.admission.to_openai", patient)
    gateway = await make_gateway(dialect="openai")
    large = await gateway.stream(ask("x" * LARGE_BYTES))
    small = await gateway.stream(ask())
    (await upstream.arrival()).answer()
    check_wire(await small.whole())
    answered.set()
    (await upstream.arrival(2)).answer()
    check_wire(await large.whole())


async def test_the_sum_of_waiting_bodies_is_bounded(
    make_gateway: MakeGateway, upstream: ScriptedUpstream
) -> None:
    sizes = {"client": {"max_body_bytes": 60_000, "max_queued_body_bytes": 100_000}}
    gateway = await make_gateway(sizes)
    running = await gateway.stream(ask("x" * 50_000))
    first = await upstream.arrival()
    reply = await gateway.post(ask("x" * 55_000))
    assert (reply.status, reply.error["type"]) == (529, "overloaded_error")
    assert 1 <= int(reply.headers["retry-after"]) <= 59
    first.answer()
    await running.whole()
    again = asyncio.create_task(gateway.post(ask("x" * 55_000, stream=False)))
    (await upstream.arrival(2)).answer()
    assert (await again).status == 200


async def test_a_request_refused_anyway_is_not_asked_to_continue(
    make_gateway: MakeGateway, upstream: ScriptedUpstream
) -> None:
    gateway = await make_gateway({"client": {"max_body_bytes": 1000}})
    stream = await raw(gateway.port, b"Content-Length: 2000\r\nExpect: 100-continue\r\n\r\n")
    assert b"413" in await stream.readuntil(b"\r\n")
    body = json.dumps(ask(stream=False)).encode()
    head = f"Content-Length: {len(body)}\r\nExpect: 100-continue\r\n\r\n".encode()
    reader, writer = await asyncio.open_connection("127.0.0.1", gateway.port)
    writer.write(b"POST /llm/v1/messages HTTP/1.1\r\nHost: t\r\n" + head)
    assert await reader.readuntil(b"\r\n\r\n") == b"HTTP/1.1 100 Continue\r\n\r\n"
    writer.write(body)
    arrival = await upstream.arrival()
    assert "Expect" not in arrival.request.headers
    arrival.answer()
    assert b"200 OK" in await reader.readuntil(b"\r\n")
    writer.close()
    await writer.wait_closed()


@pytest.mark.parametrize("stream", [True, False])
async def test_a_client_of_http_1_0_gets_what_it_can_read(
    make_gateway: MakeGateway, upstream: ScriptedUpstream, stream: bool
) -> None:
    """An end that it sees although it would have kept the connection, and no 100 Continue."""
    gateway = await make_gateway()
    body = json.dumps(ask(stream=stream)).encode()
    reader, writer = await asyncio.open_connection("127.0.0.1", gateway.port)
    writer.write(b"POST /llm/v1/messages HTTP/1.0\r\nConnection: keep-alive\r\n")
    writer.write(f"Expect: 100-continue\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body)
    (await upstream.arrival()).answer()
    async with asyncio.timeout(SECONDS):
        head = await reader.readuntil(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.0 200 OK\r\n")
        if stream:
            check_wire(await reader.read())
        else:
            length = int(head.lower().partition(b"content-length: ")[2].split(b"\r")[0])
            assert json.loads(await reader.readexactly(length))["type"] == "message"
    writer.close()
    await writer.wait_closed()


async def raw(port: int, rest: bytes) -> asyncio.StreamReader:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(b"POST /llm/v1/messages HTTP/1.1\r\nHost: test\r\n" + rest)
    data = await reader.read(4096)
    writer.close()
    await writer.wait_closed()
    answer = asyncio.StreamReader()
    answer.feed_data(data)
    answer.feed_eof()
    return answer


SMUGGLING = {
    "both framings": b"Content-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "two lengths": b"Content-Length: 4\r\nContent-Length: 5\r\n\r\nabcd",
    "a signed length": b"Content-Length: +4\r\n\r\nabcd",
    "an odd coding": b"Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n",
    "a bare LF in an extension": b"Transfer-Encoding: chunked\r\n\r\n2;\nxx\r\nab\r\n0\r\n\r\n",
    "a space before the colon": b"Content-Length : 4\r\n\r\nabcd",
    "a CR in a value": b"X-A: \rTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "a header that never ends": b"X-A: " + b"x" * 100_000 + b"\r\n\r\n",
    "more headers than anybody sends": b"X-A: x\r\n" * 300 + b"Content-Length: 0\r\n\r\n",
}


@pytest.mark.parametrize("name", SMUGGLING)
async def test_what_could_be_smuggling_is_refused_and_closed(
    make_gateway: MakeGateway,
    upstream: ScriptedUpstream,
    caplog: pytest.LogCaptureFixture,
    name: str,
) -> None:
    gateway = await make_gateway()
    answer = await (await raw(gateway.port, SMUGGLING[name])).read()
    head, _, body = answer.partition(b"\r\n\r\n")
    assert b" 400 " in head.split(b"\r\n")[0]
    error = json.loads(body)
    assert error["type"] == "error" and error["error"]["type"] == "invalid_request_error"
    assert error["request_id"].encode() in head
    assert b"Connection: close" in head or b"HTTP/1.0" in head
    assert not upstream.arrivals
    assert not any(record.exc_info for record in caplog.records)


BROKEN_BODIES = {
    "a chunk's size is no number": (b"Transfer-Encoding: chunked", b"2\r\nab\r\n", b"zz\r\n"),
    "a chunk is longer than its size": (b"Transfer-Encoding: chunked", b"2\r\nab", b"cd\r\n"),
    "the compression is none": (
        b"Content-Encoding: gzip\r\nContent-Length: 20",
        b"",
        b"x" * 20,
    ),
}


@pytest.mark.parametrize("name", BROKEN_BODIES)
async def test_a_body_that_breaks_while_it_is_read_is_refused_and_closed(
    make_gateway: MakeGateway, caplog: pytest.LogCaptureFixture, name: str
) -> None:
    gateway = await make_gateway()
    head, first, rest = BROKEN_BODIES[name]
    reader, writer = await asyncio.open_connection("127.0.0.1", gateway.port)
    writer.write(b"POST /llm/v1/messages HTTP/1.1\r\nHost: test\r\nExpect: 100-continue\r\n")
    writer.write(head + b"\r\n\r\n" + first)
    await reader.readuntil(b"\r\n\r\n")  # 100 Continue: somebody is reading now
    writer.write(rest)
    async with asyncio.timeout(5):
        answer = await reader.read()
    assert b" 400 " in answer.split(b"\r\n")[0]
    error = json.loads(answer.partition(b"\r\n\r\n")[2])
    assert error["error"]["type"] == "invalid_request_error"
    assert not any(record.exc_info for record in caplog.records)
    writer.close()
    await writer.wait_closed()


async def test_models_are_listed_as_anthropic_lists_them(make_gateway: MakeGateway) -> None:
    gateway = await make_gateway(models=["a", "b", "c"])
    page = (await gateway.request("GET", "/llm/v1/models?limit=2")).json
    assert [model["id"] for model in page["data"]] == ["a", "b"]
    assert (page["has_more"], page["first_id"], page["last_id"]) == (True, "a", "b")
    page = (await gateway.request("GET", "/llm/v1/models?after_id=b")).json
    assert [model["id"] for model in page["data"]] == ["c"] and not page["has_more"]
    one = (await gateway.request("GET", "/llm/v1/models/b")).json
    assert one["type"] == "model" and one["id"] == "b"
    reply = await gateway.request("GET", "/llm/v1/models/z")
    assert (reply.status, reply.error["type"]) == (404, "not_found_error")


async def test_a_native_upstream_counts_itself(
    make_gateway: MakeGateway, upstream: ScriptedUpstream
) -> None:
    gateway = await make_gateway(models={"m": "theirs"})
    asking = asyncio.create_task(
        gateway.request("POST", "/llm/v1/messages/count_tokens", data=json.dumps(ask()))
    )
    arrival = await upstream.arrival()
    assert arrival.json["model"] == "theirs"
    arrival.open(content_type="application/json").write(b'{"input_tokens":42}').end()
    reply = await asking
    assert reply.json == {"input_tokens": 42} and "x-gateway-estimate" not in reply.headers


async def test_an_upstream_that_cannot_count_is_estimated_for(make_gateway: MakeGateway) -> None:
    gateway = await make_gateway(dialect="openai")

    async def count(**fields: Any) -> int:
        reply = await gateway.request(
            "POST", "/llm/v1/messages/count_tokens", data=json.dumps(ask() | fields)
        )
        assert reply.headers["x-gateway-estimate"] == "true"
        return reply.json["input_tokens"]

    tool = {"name": "get", "description": "d", "input_schema": {"type": "object"}}
    assert (
        0
        < await count()
        < await count(system="Be brief.")
        < await count(system="Be brief.", tools=[tool])
    )


async def test_max_tokens_is_capped_and_the_model_renamed_on_both_ways(
    make_gateway: MakeGateway, upstream: ScriptedUpstream
) -> None:
    for number, dialect in enumerate(("anthropic", "openai"), start=1):
        gateway = await make_gateway(dialect=dialect, models={"m": "theirs"}, max_output_tokens=10)
        stream = await gateway.stream(ask(max_tokens=99))
        arrival = await upstream.arrival(number)
        assert (arrival.json["model"], arrival.json["max_tokens"]) == ("theirs", 10)
        arrival.answer()
        check_wire(await stream.whole(), model="m")


async def test_health_and_readiness_need_no_key(make_gateway: MakeGateway) -> None:
    gateway = await make_gateway({"auth": {"keys": [{"name": "a", "key": "sk-a"}]}})
    for path in ("/healthz", "/readyz"):
        reply = await gateway.request("GET", path)
        assert reply.status == 200


async def test_the_status_shows_slots_and_line(
    make_gateway: MakeGateway, upstream: ScriptedUpstream
) -> None:
    gateway = await make_gateway()
    running = await gateway.stream(ask())
    first = await upstream.arrival()
    waiting = await gateway.stream(ask())
    await waiting.seen(b"event: queue")
    status = (await gateway.request("GET", "/status.json", admin=True)).json
    one = status["upstreams"]["one"]
    assert (one["slots"], one["running"], one["waiting"], one["stalled"]) == (1, 1, 1, False)
    assert one["tickets"][0]["position"] == 1 and one["tickets"][0]["client"] == "127.0.0.1"
    assert one["leases"][0]["model"] == "m"
    first.answer()
    (await upstream.arrival(2)).answer()
    await running.whole()
    await waiting.whole()


async def test_a_stalled_upstream_is_named_by_readyz_and_the_log(
    make_gateway: MakeGateway, upstream: ScriptedUpstream, caplog: pytest.LogCaptureFixture
) -> None:
    """At its cap, with waiters, and no slot given back for longer than a first byte may take."""
    gateway = await make_gateway(timeouts={"first_byte_seconds": 0.3, "idle_seconds": 60})
    running = await gateway.stream(ask())
    arrival = (await upstream.arrival()).open().write(b": hello\n\n")
    waiting = await gateway.stream(ask())
    await waiting.seen(b"event: queue")
    await gateway.until(lambda: next(iter(gateway.service.gateway.directory)).stalled)
    reply = await gateway.request("GET", "/readyz")
    assert reply.json["stalled"] == ["one"]
    await gateway.until(lambda: "one is stalled" in caplog.text)
    arrival.reset()
    (await upstream.arrival(2)).answer()
    await running.whole()
    await waiting.whole()
