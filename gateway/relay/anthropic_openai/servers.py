"""What each kind of server wants to hear beyond the common chat completions dialect.

All of it is this table; a server that is not known gets the common dialect only, since strict
ones refuse fields they do not know.  Sources, read in late 2026:

* vLLM 0.33, ``entrypoints/openai/chat_completion/protocol.py``: ``continue_final_message`` needs
  ``add_generation_prompt: false``; history may carry ``reasoning``.
* SGLang 0.5.23, ``srt/entrypoints/openai/protocol.py``: ``continue_final_message``, unknown
  fields ignored; history may carry ``reasoning_content``.
* llama.cpp of October 2026, tried: takes vLLM's switches since its pull request 23012 and before
  continued a last assistant message anyway.  "Assistant response prefill is incompatible with
  enable_thinking" (its issue 20861), and templates that can think do so by default.  A whole
  answer repeats the prefill, a stream does not, so a stream is asked for and collected.
* Ollama 0.33, ``openai/openai.go``: continues a last assistant message; ``reasoning_effort:
  "none"`` switches thinking off, and any other value is an error for models that cannot think.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

Fields = Mapping[str, Any]

NOTHING: Fields = {}
THINK: Fields = {"chat_template_kwargs": {"enable_thinking": True}}
DO_NOT_THINK: Fields = {"chat_template_kwargs": {"enable_thinking": False}}
CONTINUE: Fields = {"continue_final_message": True, "add_generation_prompt": False}
STREAM: Fields = {"stream": True, "stream_options": {"include_usage": True}}


@dataclass(frozen=True)
class ServerTraits:
    """Fields to add to a request, each for one thing the client asked for."""

    prefill: Fields = field(default_factory=dict)
    """The last message is the beginning of the answer."""
    think: Fields = field(default_factory=dict)
    """``thinking: enabled``.  ``adaptive`` leaves it to the model, as does saying nothing."""
    do_not_think: Fields = field(default_factory=dict)
    """``thinking: disabled``."""
    reasoning: str | None = None
    """Where in an assistant message its former thinking goes; None: nowhere."""


UNKNOWN = ServerTraits()

SERVERS: dict[str, ServerTraits] = {
    "vllm": ServerTraits(CONTINUE, THINK, DO_NOT_THINK, "reasoning"),
    "sglang": ServerTraits(CONTINUE, THINK, DO_NOT_THINK, "reasoning_content"),
    "llama.cpp": ServerTraits(
        {**CONTINUE, **DO_NOT_THINK, **STREAM}, THINK, DO_NOT_THINK, "reasoning_content"
    ),
    "ollama": ServerTraits(NOTHING, NOTHING, {"reasoning_effort": "none"}, "reasoning"),
}


def traits_of(server: str | None) -> ServerTraits:
    """``server`` as in the configuration; anything not in the table is treated as unknown."""
    return SERVERS.get(server or "", UNKNOWN)
