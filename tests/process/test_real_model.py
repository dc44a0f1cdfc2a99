"""In front of a real model: llama.cpp's own server, in both dialects."""

from __future__ import annotations

import asyncio
import importlib.util
import json
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from gateway.relay.anthropic_openai.folding import fold
from tests.conftest import missing
from tests.process.gateway_process import ROOT, GatewayProcess, free_port, gateway_process
from tests.web.clients import Stream
from tests.wire import check_wire

MODEL_SECONDS = 120.0
SLOTS = 2


@pytest.fixture
async def model_url() -> AsyncIterator[str]:
    if importlib.util.find_spec("xllamacpp") is None:
        missing("the local model (xllamacpp)")
    command = [sys.executable, ROOT / "scripts" / "model_server.py"]
    process = await asyncio.create_subprocess_exec(
        *map(str, [*command, "--port", free_port(), "--slots", SLOTS]),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
    )
    try:
        assert process.stdout is not None
        async with asyncio.timeout(MODEL_SECONDS):
            while not (line := await process.stdout.readline()).startswith(b"ready "):
                assert line, "the model server ended"
        yield line.split()[1].decode()
    finally:
        process.terminate()
        await process.wait()


@pytest.fixture
async def gateway(model_url: str, tmp_path: Path) -> AsyncIterator[GatewayProcess]:
    common: dict[str, Any] = {"url": model_url, "slots": SLOTS}
    upstreams = {
        "native": common | {"dialect": "anthropic", "models": {"native": "smollm2"}},
        "chat": common | {"dialect": "openai", "models": {"chat": "smollm2"}},
    }
    async with gateway_process(tmp_path, {"upstreams": upstreams}) as gateway:
        yield gateway


def ask(model: str, *, stream: bool, tokens: int = 24, **fields: Any) -> dict[str, Any]:
    message = {"role": "user", "content": "Write one sentence about rain."}
    request = {"model": model, "max_tokens": tokens, "stream": stream, "messages": [message]}
    return request | {"temperature": 0, "seed": 1} | fields


async def whole(stream: Stream) -> bytes:
    async with asyncio.timeout(MODEL_SECONDS):
        return await stream.whole()


def told(message: dict[str, Any]) -> dict[str, Any]:
    """What two ways to one answer must agree on."""
    texts = [block["text"] for block in message["content"] if block["type"] == "text"]
    usage = {name: message["usage"][name] for name in ("input_tokens", "output_tokens")}
    cached = message["usage"].get("cache_read_input_tokens") or 0
    usage["input_tokens"] += cached
    return {"text": "".join(texts), "stop_reason": message["stop_reason"], "usage": usage}


async def test_five_clients_on_two_slots_count_down_and_are_answered(
    gateway: GatewayProcess,
) -> None:
    for model in ("native", "chat"):
        streams = [await gateway.stream(ask(model, stream=True)) for _ in range(5)]
        bodies = [await whole(stream) for stream in streams]
        queued = [stream.places for stream in streams if stream.places]
        assert sorted(places[0] for places in queued) == [1, 2, 3]
        for places in queued:
            assert places == sorted(places, reverse=True)
        for body in bodies:
            assert check_wire(body)[-1]["type"] == "message_stop"


async def test_relayed_and_translated_answers_are_the_same(gateway: GatewayProcess) -> None:
    """The same prompt at temperature 0, streamed and not, through both dialects."""
    answers = {}
    for model in ("native", "chat"):
        for stream in (True, False):
            if stream:
                body = await whole(await gateway.stream(ask(model, stream=True)))
                check_wire(body)
                message = fold(body)
            else:
                reply = await gateway.post(ask(model, stream=False))
                assert reply.status == 200, reply.body
                message = reply.json
            answers[model, stream] = told(message)
    first = answers["native", True]
    assert first["text"] and first["usage"]["output_tokens"] > 1
    assert all(answer == first for answer in answers.values()), json.dumps(list(answers.values()))


async def test_a_cut_at_max_tokens_is_told_by_both(gateway: GatewayProcess) -> None:
    for model in ("native", "chat"):
        reply = await gateway.post(ask(model, stream=False, tokens=3))
        assert reply.json["stop_reason"] == "max_tokens"


async def test_a_prompt_is_counted_by_the_server_itself(gateway: GatewayProcess) -> None:
    counts = []
    for model in ("native", "chat"):
        body = json.dumps(ask(model, stream=False))
        reply = await gateway.request("POST", "/llm/v1/messages/count_tokens", data=body)
        assert "x-gateway-estimate" not in reply.headers
        counts.append(reply.json["input_tokens"])
    answer = await gateway.post(ask("chat", stream=False))
    assert counts[0] == counts[1] == told(answer.json)["usage"]["input_tokens"]


async def test_whoever_leaves_frees_the_model(gateway: GatewayProcess) -> None:
    stream = await gateway.stream(ask("chat", stream=True, tokens=2000))
    await stream.seen(b"text_delta", count=3)
    stream.reset()
    async with asyncio.timeout(2):
        await gateway.free()
