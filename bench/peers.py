"""Peers beside the gateway, where ``.bench-peers`` has them; ``bench/README.md`` installs them.

Each runs as one process, without logging, retries or checks that cost it time, and in front of
the same stub.  *Relayed* is an Anthropic upstream, *translated* an OpenAI one.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import NamedTuple

FOLDER = Path(__file__).resolve().parent.parent / ".bench-peers"
MODULES = FOLDER / "node_modules"


class Peer(NamedTuple):
    """How to start a peer and what to ask it."""

    command: list[object]
    environ: dict[str, str]
    relayed: str
    translated: str
    models: dict[str, str]
    headers: dict[str, str]


def peer(name: str, port: int, stub: int, folder: Path) -> Peer:
    """Raises FileNotFoundError where it is not installed."""
    return PEERS[name](port, f"http://127.0.0.1:{stub}", folder)


def installed(path: Path) -> Path:
    if not path.exists():
        raise FileNotFoundError(path.relative_to(FOLDER.parent))
    return path


def litellm(port: int, stub: str, folder: Path) -> Peer:
    config = folder / "litellm.json"
    served = {
        "native": {"model": "anthropic/native", "api_base": stub, "api_key": "none"},
        "chat": {"model": "hosted_vllm/chat", "api_base": f"{stub}/v1", "api_key": "none"},
    }
    models = [{"model_name": name, "litellm_params": params} for name, params in served.items()]
    settings = {"telemetry": False, "num_retries": 0}
    config.write_text(json.dumps({"model_list": models, "litellm_settings": settings}))
    program = installed(FOLDER / "litellm/bin/litellm")
    return Peer(
        [program, "--config", config, "--host", "127.0.0.1", "--port", port],
        {
            "LITELLM_DANGEROUSLY_PERMIT_WEAK_OR_UNSET_MASTER_KEY": "true",
            "LITELLM_LOG": "ERROR",
            "LITELLM_LOCAL_MODEL_COST_MAP": "True",
        },
        "/v1/messages",
        "/v1/messages",
        {},
        {},
    )


def portkey(port: int, stub: str, folder: Path) -> Peer:
    """It translates the other way only: OpenAI requests to an Anthropic upstream."""
    program = installed(MODULES / "@portkey-ai/gateway/build/start-server.js")
    return Peer(
        ["node", program, f"--port={port}", "--headless"],
        {"TRUSTED_CUSTOM_HOSTS": "127.0.0.1", "NODE_ENV": "production"},
        "/v1/messages",
        "/v1/chat/completions",
        {},
        {
            "x-portkey-provider": "anthropic",
            "x-portkey-custom-host": f"{stub}/v1",
            "Authorization": "Bearer none",
        },
    )


def claude_code_router(port: int, stub: str, folder: Path) -> Peer:
    home = folder / "claude-code-router"
    (home / ".claude-code-router").mkdir(parents=True, exist_ok=True)
    providers = [
        {
            "name": "native",
            "api_base_url": f"{stub}/v1/messages",
            "api_key": "none",
            "models": ["native"],
            "transformer": {"use": ["Anthropic"]},
        },
        {
            "name": "chat",
            "api_base_url": f"{stub}/v1/chat/completions",
            "api_key": "none",
            "models": ["chat"],
        },
    ]
    config = {
        "HOST": "127.0.0.1",
        "PORT": port,
        "LOG": False,
        "API_TIMEOUT_MS": 600_000,
        "Providers": providers,
        "Router": {"default": "native,native"},
    }
    (home / ".claude-code-router/config.json").write_text(json.dumps(config))
    program = installed(MODULES / "@musistudio/claude-code-router/dist/cli.js")
    return Peer(
        ["node", program, "start"],
        {"HOME": str(home), "NODE_ENV": "production"},
        "/v1/messages",
        "/v1/messages",
        {"native": "native,native", "chat": "chat,chat"},
        {},
    )


PEERS = {
    "litellm": litellm,
    "portkey": portkey,
    "claude-code-router": claude_code_router,
}
