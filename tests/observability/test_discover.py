"""``discover`` against the real llama.cpp and stand-ins of the others: what it finds, and says
that it could not find."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any
from urllib.request import Request

import pytest
from aiohttp import web

from gateway.config import parse
from gateway.discover import USUAL_URLS, discover, run
from gateway.discover.probe import Http
from gateway.discover.servers import Found, look_at
from gateway.discover.write import config_of
from tests.process.test_real_model import SLOTS, model_url

__all__ = ["model_url"]

REFUSED = 400
Answers = Mapping[str, Any]


def models(*names: str) -> dict[str, Any]:
    return {"object": "list", "data": [{"id": name, "object": "model"} for name in names]}


VLLM: Answers = {
    "GET /version": {"version": "0.32.0"},
    "GET /v1/models": models("Qwen/Qwen3-8B"),
    "POST /v1/messages": REFUSED,
}
SGLANG: Answers = {
    "GET /get_model_info": {"model_path": "Qwen/Qwen3-8B", "is_generation": True},
    "GET /get_server_info": {"max_running_requests": 48},
    "GET /v1/models": models("Qwen/Qwen3-8B"),
    "POST /v1/messages": REFUSED,
}
OLLAMA: Answers = {
    "GET /api/version": {"version": "0.40.12"},
    "GET /api/tags": {"models": [{"name": "llama3.2:3b"}, {"name": "qwen3:8b"}]},
    "GET /api/ps": {"models": [{"name": "qwen3:8b"}]},
    "GET /v1/models": models("llama3.2:3b", "qwen3:8b"),
    "POST /v1/messages": REFUSED,
}
LM_STUDIO: Answers = {
    "GET /api/v0/models": {
        "data": [
            {"id": "gemma-3-4b", "type": "vlm", "state": "loaded"},
            {"id": "nomic-embed", "type": "embeddings", "state": "not-loaded"},
        ]
    },
    "GET /v1/models": models("gemma-3-4b", "nomic-embed"),
}
LOCKED: Answers = {"GET /v1/models": 401}
STRANGER: Answers = {"GET /": {"hello": "I am a printer"}}


@asynccontextmanager
async def stand_in(answers: Answers) -> AsyncIterator[str]:
    async def answer(request: web.Request) -> web.Response:
        found = answers.get(f"{request.method} {request.path}", 404)
        if isinstance(found, int):
            return web.json_response({"error": "no"}, status=found)
        return web.json_response(found)

    app = web.Application()
    app.router.add_route("*", "/{path:.*}", answer)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    try:
        yield f"http://127.0.0.1:{site.port}"
    finally:
        await runner.cleanup()


Look = Callable[..., Awaitable[list[Found]]]


@pytest.fixture
async def look() -> AsyncIterator[Look]:
    """Starts stand-ins, and what is found of them."""
    async with AsyncExitStack() as stack:

        async def at(*servers: Answers) -> list[Found]:
            urls = [await stack.enter_async_context(stand_in(server)) for server in servers]
            return await asyncio.to_thread(discover, urls)

        yield at


def upstreams(found: list[Found]) -> Any:
    """What ``check`` makes of the configuration that is written."""
    return parse(config_of(found), {"API_KEY": "k"}).upstreams


@pytest.mark.parametrize(
    ("answers", "server", "dialect", "slots", "names"),
    [
        (VLLM, "vllm", "anthropic", 8, ["Qwen/Qwen3-8B"]),
        (SGLANG, "sglang", "anthropic", 48, ["Qwen/Qwen3-8B"]),
        (OLLAMA, "ollama", "openai", 1, ["qwen3:8b", "llama3.2:3b"]),
        (LM_STUDIO, "other", "openai", 4, ["gemma-3-4b"]),
    ],
    ids=["vllm", "sglang", "ollama", "lm-studio"],
)
async def test_a_server_is_known_by_its_own_routes(
    look: Look, answers: Answers, server: str, dialect: str, slots: int, names: list[str]
) -> None:
    found = await look(answers)
    (upstream,) = upstreams(found).values()
    assert (upstream.server, upstream.dialect, upstream.slots) == (server, dialect, slots)
    assert list(upstream.models) == names


async def test_what_could_not_be_known_is_said_in_comments(look: Look) -> None:
    text = config_of(await look(VLLM, OLLAMA, LM_STUDIO))
    for unknown in ("--max-num-seqs", "OLLAMA_NUM_PARALLEL", "Max Concurrent Predictions"):
        assert any(unknown in line for line in text.splitlines() if "#" in line), unknown


async def test_a_model_that_two_servers_have_gets_two_public_names(look: Look) -> None:
    first, second = upstreams(await look(VLLM, SGLANG)).values()
    assert first.models == {"Qwen/Qwen3-8B": "Qwen/Qwen3-8B"}
    assert second.models == {"Qwen/Qwen3-8B-2": "Qwen/Qwen3-8B"}


async def test_two_servers_of_one_kind_get_two_names(look: Look) -> None:
    assert list(upstreams(await look(OLLAMA, OLLAMA))) == ["ollama", "ollama-2"]


async def test_a_server_that_asks_for_a_key_is_written_down_for_later(look: Look) -> None:
    text = config_of(await look(VLLM, LOCKED))
    assert list(parse(text, {}).upstreams) == ["vllm"], "commented out until it has models"
    assert "  #   api_key: ${API_KEY}" in text


async def test_whoever_is_no_model_server_is_left_alone(look: Look) -> None:
    assert await look(STRANGER, {}) == []


def test_whoever_takes_the_question_and_says_nothing_is_asked_once() -> None:
    class Silent(Http):
        asked = 0

        def _ask(self, request: Request) -> tuple[int, bytes]:
            self.asked += 1
            return 0, b""

    silent = Silent("http://h")
    assert look_at(silent) is None
    assert silent.asked == 1


def test_names_cannot_break_the_file() -> None:
    evil = 'a"b: [x] # \\ {{'
    found = Found("vllm", "vllm", "http://h:1", "openai", 1, (evil, "off", "1.5"))
    (upstream,) = upstreams([found]).values()
    assert list(upstream.models) == [evil, "off", "1.5"]


def test_nobody_there_is_an_answer(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["http://127.0.0.1:9"]) == 1
    assert "No model server answers at http://127.0.0.1:9" in capsys.readouterr().err


def test_the_usual_ports_are_those_of_the_five_servers() -> None:
    assert {url.rsplit(":", 1)[1] for url in USUAL_URLS} == {
        *("8080", "8000", "30000", "11434", "1234")
    }


def test_our_own_port_is_moved_away_from_a_server_that_has_it() -> None:
    found = Found("llama-cpp", "llama.cpp", "http://127.0.0.1:8080", "openai", 1, ("m",))
    assert parse(config_of([found]), {}).listen.port == 8088


async def test_the_real_llama_cpp_tells_its_slots_and_its_model(model_url: str) -> None:
    (found,) = await asyncio.to_thread(discover, [f"{model_url}/v1"])
    assert (found.server, found.slots, found.models) == ("llama.cpp", SLOTS, ("smollm2",))
    assert found.dialect == "openai"
    assert any("speaks anthropic too" in note for note in found.notes)
    assert json.dumps(model_url) in config_of([found])
