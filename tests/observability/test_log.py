"""The log line of each exchange: whole, one line, and without secrets."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gateway.log import JsonFormatter, TextFormatter
from tests.process.gateway_process import free_port, gateway_process
from tests.web.clients import ask
from tests.web.conftest import mapping
from tests.web.scripted import ScriptedUpstream

FIELDS = {
    *("request_id", "client", "model", "upstream", "outcome", "error", "kind"),
    *("waited", "first_byte", "duration", "output_tokens"),
}


class Kept(logging.Handler):
    """Lines as the two formats would write them."""

    def __init__(self) -> None:
        super().__init__()
        self.text: list[str] = []
        self.json: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.text.append(TextFormatter().format(record))
        self.json.append(JsonFormatter().format(record))

    @property
    def fields(self) -> dict[str, Any]:
        """Of the only line."""
        (line,) = self.json
        return json.loads(line)


@pytest.fixture
def lines() -> Iterator[Kept]:
    kept, log = Kept(), logging.getLogger("gateway.exchange")
    log.addHandler(kept)
    log.setLevel(logging.INFO)
    yield kept
    log.removeHandler(kept)


async def test_a_failure_of_the_upstream_is_named_by_its_kind(
    make_gateway: Any, upstream: ScriptedUpstream, lines: Kept
) -> None:
    surface = await make_gateway(url=f"http://127.0.0.1:{free_port()}")
    assert (await surface.post(ask())).status == 502
    assert (lines.fields["error"], lines.fields["kind"]) == ("api_error", "connect")


async def test_an_exchange_is_one_line_with_all_its_fields(
    make_gateway: Any, upstream: ScriptedUpstream, lines: Kept
) -> None:
    keys = {"auth": {"keys": [{"name": "web", "key": "sesame"}]}}
    surface = await make_gateway(keys)
    stream = await surface.stream(ask("my secret prompt"), x_api_key="sesame")
    (await upstream.arrival(1)).answer("my secret answer")
    await stream.whole()
    await surface.until(lambda: lines.json)
    fields = lines.fields
    assert fields.keys() >= FIELDS
    assert fields["request_id"] == stream.head["request-id"]
    about = (fields["client"], fields["model"], fields["upstream"], fields["outcome"])
    assert about == ("web", "m", "one", "completed")
    assert (fields["waited"], fields["output_tokens"]) == (0.0, 1)
    assert 0 <= fields["first_byte"] <= fields["duration"]
    for line in (*lines.text, *lines.json):
        assert "\n" not in line
        assert "secret" not in line
        assert "sesame" not in line


async def test_with_log_format_json_every_line_is_an_object(
    upstream: ScriptedUpstream, tmp_path: Path
) -> None:
    config = mapping(url=upstream.url)
    async with gateway_process(tmp_path, config, "--log-format", "json") as gateway:
        await gateway.post(ask(model="unknown"))
        await gateway.logs("rejected")
    objects = [json.loads(line) for line in gateway.log.splitlines()]
    assert all({"time", "level", "logger", "message"} <= line.keys() for line in objects)
    (exchange,) = (line for line in objects if line["logger"] == "gateway.exchange")
    assert exchange.keys() >= FIELDS
    assert (exchange["outcome"], exchange["error"]) == ("rejected", "not_found_error")


async def test_the_time_of_a_line_is_whole_for_whoever_formats_it(
    make_gateway: Any, lines: Kept, caplog: pytest.LogCaptureFixture
) -> None:
    surface = await make_gateway()
    await surface.post(ask(model="unknown"))
    await surface.until(lambda: lines.json)
    (record,) = (record for record in caplog.records if record.name == "gateway.exchange")
    assert record.msecs == int(record.created % 1 * 1000)


@pytest.mark.parametrize("made", [TextFormatter, JsonFormatter])
def test_a_line_of_several_workers_says_whose_it_is(made: Any) -> None:
    record = logging.makeLogRecord({"msg": "exchange", "levelname": "INFO"})
    named, alone = (made(worker).format(record) for worker in (1, None))
    assert "worker 1: exchange" in named or '"worker":1' in named
    assert "worker" not in alone


async def test_a_client_that_leaves_is_an_outcome_and_not_a_traceback(
    make_gateway: Any, upstream: ScriptedUpstream, lines: Kept, caplog: pytest.LogCaptureFixture
) -> None:
    surface = await make_gateway()
    stream = await surface.stream(ask())
    (await upstream.arrival(1)).open()
    await surface.until(lambda: surface.pool().statistics().running)
    stream.reset()
    await surface.until(lambda: lines.json)
    assert lines.fields["outcome"] == "left_running"
    assert lines.fields["first_byte"] is None
    assert not [record for record in caplog.records if record.exc_info]


async def test_what_a_client_made_up_cannot_forge_a_line_or_a_field(
    make_gateway: Any, lines: Kept
) -> None:
    surface = await make_gateway()
    await surface.post(ask(model="m outcome=completed\n2026-12-01 INFO exchange"))
    (line,) = lines.text
    assert "\n" not in line
    assert 'model="m outcome=completed\\n2026' in line
    assert line.count(" outcome=rejected ") == 1


async def test_what_a_client_made_up_cannot_command_a_terminal(
    make_gateway: Any, lines: Kept
) -> None:
    surface = await make_gateway()
    await surface.post(ask(model="\x1b[31m \x9b31m \u2028 \u202e"))
    (line,) = lines.text
    assert line.isprintable()


async def test_the_id_of_a_trusted_proxy_is_taken_over_if_it_is_well_formed(
    make_gateway: Any, lines: Kept
) -> None:
    surface = await make_gateway({"listen": {"port": 0, "trusted_proxies": ["127.0.0.1"]}})
    for given, taken in (("proxy-7:a.b", True), ("bad id", False), ("x" * 200, False)):
        lines.json.clear()
        reply = await surface.post(ask(model="unknown"), x_request_id=given)
        assert (reply.headers["request-id"] == given) is taken
        assert lines.fields["request_id"] == reply.headers["request-id"]


async def test_a_stranger_cannot_choose_the_id(make_gateway: Any, lines: Kept) -> None:
    surface = await make_gateway({"listen": {"port": 0, "trusted_proxies": []}})
    reply = await surface.post(ask(model="unknown"), x_request_id="mine")
    assert reply.headers["request-id"].startswith("req_")
