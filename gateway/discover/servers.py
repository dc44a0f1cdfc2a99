"""What each kind of model server tells of itself, and what it keeps to itself.

Sources: the servers' own routes, as their documentation and code have them: llama.cpp's ``/props``
(``total_slots``) and ``/slots``, SGLang's ``/get_server_info`` (``max_running_requests``), Ollama's
``/api/tags`` and ``/api/ps``, LM Studio's ``/api/v0/models``; ``/v1/models`` everywhere.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from gateway.discover.probe import Http


@dataclass(frozen=True)
class Found:
    """A server as it presented itself; ``notes`` say what it did not tell."""

    name: str
    """What its upstream may be called."""
    server: str
    """As ``upstreams.NAME.server`` wants it."""
    url: str
    dialect: str
    slots: int
    models: tuple[str, ...]
    needs_key: bool = False
    notes: tuple[str, ...] = field(default=())


class Told(NamedTuple):
    """How many slots a server has, as far as it says, and what to note about that."""

    slots: int
    notes: tuple[str, ...] = ()


class Kind(NamedTuple):
    name: str
    server: str
    is_it: Callable[[Http], bool]
    slots: Callable[[Http], Told]
    models: Callable[[Http], list[str]]
    native: bool = True
    """Whether its own Messages route, where it has one, is the better choice."""


def look_at(http: Http) -> Found | None:
    """None if nobody answers, or nobody who looks like a model server.

    Who says nothing at all is asked once only: seven kinds would cost seven times the patience.
    """
    if not http.status("/v1/models"):
        return None
    for kind in KINDS:
        if kind.is_it(http):
            return described(kind, http)
    return None


def described(kind: Kind, http: Http) -> Found:
    models = kind.models(http)
    needs_key = not models and http.status("/v1/models") in (401, 403)
    told = kind.slots(http)
    speaks_both = http.takes_posts("/v1/messages")
    return Found(
        name=kind.name,
        server=kind.server,
        url=http.url,
        dialect="anthropic" if speaks_both and kind.native else "openai",
        slots=told.slots,
        models=tuple(dict.fromkeys(models)),
        needs_key=needs_key,
        notes=(*told.notes, *dialect_notes(kind, speaks_both)),
    )


def dialect_notes(kind: Kind, speaks_both: bool) -> Iterator[str]:
    if speaks_both and kind.native:
        yield "It speaks both dialects; `dialect: openai` would let the gateway translate."
    elif speaks_both:
        yield "It speaks anthropic too, with gaps of its own; then bytes would pass as they are."


# --- slots --------------------------------------------------------------------------------------


def llama_cpp_slots(http: Http) -> Told:
    total = number(http.get("/props"), "total_slots")
    if total is None and isinstance(slots := http.get("/slots"), list):
        total = len(slots) or None
    if total is None:
        return Told(1, ("It does not say how many slots it has: its option --parallel.",))
    return Told(total)


def sglang_slots(http: Http) -> Told:
    most = number(http.get("/get_server_info"), "max_running_requests")
    if most is None:
        return Told(8, ("It does not say how many slots it has: its --max-running-requests.",))
    return Told(most, ("As many as it can run at once; fewer of them run faster.",))


def vllm_slots(http: Http) -> Told:
    return Told(
        8,
        (
            "A guess: vLLM does not say its --max-num-seqs. Take as many as run well side by side,"
            " not as many as fit.",
        ),
    )


def ollama_slots(http: Http) -> Told:
    return Told(1, ("A guess: Ollama does not say its OLLAMA_NUM_PARALLEL (1 unless set).",))


def lm_studio_slots(http: Http) -> Told:
    return Told(4, ("A guess: LM Studio does not say its Max Concurrent Predictions (4).",))


def unknown_slots(http: Http) -> Told:
    return Told(
        1, ("A guess: what it is, and how much it can do at once, could not be found out.",)
    )


# --- models -------------------------------------------------------------------------------------


def listed_models(http: Http) -> list[str]:
    return names(http.get("/v1/models"), "data", "id")


def ollama_models(http: Http) -> list[str]:
    """Those in memory first."""
    return names(http.get("/api/ps"), "models", "name") + names(
        http.get("/api/tags"), "models", "name"
    )


def lm_studio_models(http: Http) -> list[str]:
    """Without those that only make embeddings."""
    answer = http.get("/api/v0/models")
    entries = answer.get("data", []) if isinstance(answer, dict) else []
    chatting = [entry for entry in entries if entry.get("type") in ("llm", "vlm")]
    return names({"data": chatting}, "data", "id") or listed_models(http)


# --- which is which -----------------------------------------------------------------------------


def answers(path: str, *keys: str) -> Callable[[Http], bool]:
    def is_it(http: Http) -> bool:
        answer = http.get(path)
        return isinstance(answer, dict) and all(key in answer for key in keys)

    return is_it


def asks_for_a_key(http: Http) -> bool:
    return http.status("/v1/models") in (401, 403)


def is_lm_studio(http: Http) -> bool:
    answer = http.get("/api/v0/models")
    entries = answer.get("data") if isinstance(answer, dict) else None
    return isinstance(entries, list) and all("state" in entry for entry in entries)


KINDS = (
    Kind(
        "llama-cpp",
        "llama.cpp",
        answers("/props", "default_generation_settings"),
        llama_cpp_slots,
        listed_models,
        native=False,
    ),
    Kind("sglang", "sglang", answers("/get_model_info", "model_path"), sglang_slots, listed_models),
    Kind(
        "ollama",
        "ollama",
        answers("/api/version", "version"),
        ollama_slots,
        ollama_models,
        native=False,
    ),
    Kind("lm-studio", "other", is_lm_studio, lm_studio_slots, lm_studio_models),
    Kind("vllm", "vllm", answers("/version", "version"), vllm_slots, listed_models),
    Kind("model-server", "other", answers("/v1/models", "data"), unknown_slots, listed_models),
    Kind("model-server", "other", asks_for_a_key, unknown_slots, listed_models),
)


def number(answer: Any, key: str) -> int | None:
    value = answer.get(key) if isinstance(answer, dict) else None
    return value if isinstance(value, int) and value >= 1 else None


def names(answer: Any, of: str, key: str) -> list[str]:
    entries = answer.get(of) if isinstance(answer, dict) else None
    if not isinstance(entries, list):
        return []
    values = [entry.get(key) for entry in entries if isinstance(entry, dict)]
    return [value for value in values if isinstance(value, str) and value.isprintable()]
