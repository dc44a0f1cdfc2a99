"""What an upstream is, asked once, lazily, and never a reason to fail.

Each kind answers something on a path of its own:

* vLLM: ``GET /version`` -> ``{"version": …}``
* SGLang: ``GET /get_model_info`` -> ``{"model_path": …}``
* llama.cpp: ``GET /props`` -> ``{"default_generation_settings": …}``
* Ollama: ``GET /api/version`` -> ``{"version": …}``
"""

from __future__ import annotations

import asyncio
from typing import NamedTuple

import aiohttp
import msgspec
from yarl import URL

from gateway.upstream.session import UpstreamSession

PROBE_SECONDS = 2.0
MOST_BYTES = 1 << 20


class Mark(NamedTuple):
    """A path that only one kind of server answers with an object that has this key."""

    server: str
    path: str
    key: str


MARKS = (
    Mark("llama.cpp", "/props", "default_generation_settings"),
    Mark("sglang", "/get_model_info", "model_path"),
    Mark("ollama", "/api/version", "version"),
    Mark("vllm", "/version", "version"),
)


async def ask_server(session: UpstreamSession, base: URL, *, api_key: str | None) -> str | None:
    """The kind of server at ``base``, ``"other"`` if it answers none of the marks, or None if it
    did not answer at all (ask again later)."""
    headers = {"Authorization": f"Bearer {api_key}"} if api_key else {}
    answers = await asyncio.gather(*(_answers(session, base, mark, headers) for mark in MARKS))
    for mark, answer in zip(MARKS, answers, strict=True):
        if answer:
            return mark.server
    return None if all(answer is None for answer in answers) else "other"


async def _answers(
    session: UpstreamSession, base: URL, mark: Mark, headers: dict[str, str]
) -> bool | None:
    try:
        async with (
            asyncio.timeout(PROBE_SECONDS),
            session.http.get(
                str(base).rstrip("/") + mark.path, headers=headers, allow_redirects=False
            ) as response,
        ):
            if response.status != 200:
                return False
            body = bytearray()
            async for piece in response.content.iter_any():
                body += piece
                if len(body) > MOST_BYTES:
                    return False
            answer = msgspec.json.decode(body)
            return isinstance(answer, dict) and mark.key in answer
    except (msgspec.DecodeError, RecursionError):
        return False
    except (aiohttp.ClientError, OSError, ValueError, TimeoutError):
        return None
