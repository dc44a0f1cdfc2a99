"""``python -m gateway discover``: looks for model servers and writes a configuration for them.

``probe`` asks, ``servers`` knows what each kind of server tells of itself, ``write`` makes the
YAML, with comments on whatever could not be found out.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

from gateway.discover.probe import Http
from gateway.discover.servers import Found, look_at
from gateway.discover.write import config_of

USUAL_URLS = (
    "http://127.0.0.1:8080",  # llama.cpp
    "http://127.0.0.1:8000",  # vLLM
    "http://127.0.0.1:30000",  # SGLang
    "http://127.0.0.1:11434",  # Ollama
    "http://127.0.0.1:1234",  # LM Studio
)


def run(urls: Sequence[str]) -> int:
    """Prints a configuration for what is found, or says that nothing is.  Returns the exit code."""
    asked = list(urls) or list(USUAL_URLS)
    found = discover(asked)
    if not found:
        print("No model server answers at " + ", ".join(asked) + ".", file=sys.stderr)
        print("Give its address with --url http://host:port.", file=sys.stderr)
        return 1
    print(config_of(found), end="")
    return 0


def discover(urls: Sequence[str]) -> list[Found]:
    """The servers among ``urls``, in their order, all asked at once."""
    with ThreadPoolExecutor(max_workers=max(1, len(urls))) as pool:
        answers = pool.map(lambda url: look_at(Http(url)), urls)
        return [found for found in answers if found is not None]
