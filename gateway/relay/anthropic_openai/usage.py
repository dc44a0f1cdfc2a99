"""Token counts: servers say them at the end, all along, in parts or never; clients want numbers.

What came from the prompt's cache has a name with everybody: ``prompt_tokens_details`` (OpenAI,
vLLM, SGLang, llama.cpp), ``input_tokens_details`` (OpenAI's newer API), ``prompt_cache_hit_tokens``
(DeepSeek), ``cached_tokens`` (Moonshot), Anthropic's own (LiteLLM).  All but Anthropic count it
within the prompt; who uses Anthropic's names beside ``prompt_tokens`` does so too.
"""

from __future__ import annotations

from typing import Final

from gateway.relay.anthropic_openai.chunks import Details, Usage

CHARACTERS_PER_TOKEN: Final = 4
MOST: Final = (1 << 53) - 1
"""What every client's JSON can hold."""

NOTHING: Final = Details()


class Tally:
    """What one answer has cost so far.  Later counts replace earlier ones."""

    def __init__(self) -> None:
        self.output_tokens: int | None = None
        self._prompt_tokens: int | None = None
        self._cached_tokens = 0
        self._written_tokens = 0

    def note(self, usage: Usage) -> None:
        output = first_of(usage.completion_tokens, usage.output_tokens)
        if output is not None:
            self.output_tokens = output
        cached, written = cached_of(usage), written_of(usage)
        if cached is not None:
            self._cached_tokens = cached
        if written is not None:
            self._written_tokens = written
        prompt = prompt_of(usage)
        if prompt is not None:
            self._prompt_tokens = prompt

    def at_first(self) -> dict[str, int]:
        return {"input_tokens": 0, "output_tokens": 0} | self._input()

    def at_last(self, characters: int) -> dict[str, int]:
        """A server that never says is counted for, roughly: better for clients than nothing."""
        output = self.output_tokens
        if output is None:
            output = -(-characters // CHARACTERS_PER_TOKEN)
        return self._input() | {"output_tokens": output}

    def _input(self) -> dict[str, int]:
        """Anthropic counts what came from the prompt's cache, or went into it, apart."""
        if self._prompt_tokens is None:
            return {}
        cached = min(self._cached_tokens, self._prompt_tokens)
        written = min(self._written_tokens, self._prompt_tokens - cached)
        usage = {"input_tokens": self._prompt_tokens - cached - written}
        if cached:
            usage["cache_read_input_tokens"] = cached
        if written:
            usage["cache_creation_input_tokens"] = written
        return usage


def prompt_of(usage: Usage) -> int | None:
    """All of the prompt, whatever came of it from where."""
    if usage.prompt_tokens is not None or usage.input_tokens is None:
        return first_of(usage.prompt_tokens)
    apart = (
        first_of(usage.cache_read_input_tokens, 0),
        first_of(usage.cache_creation_input_tokens, 0),
    )
    return counted(usage.input_tokens + sum(filter(None, apart)))


def cached_of(usage: Usage) -> int | None:
    details = usage.prompt_tokens_details or usage.input_tokens_details or NOTHING
    return first_of(
        details.cached_tokens,
        usage.prompt_cache_hit_tokens,
        usage.cached_tokens,
        usage.cache_read_input_tokens,
    )


def written_of(usage: Usage) -> int | None:
    details = usage.prompt_tokens_details or usage.input_tokens_details or NOTHING
    return first_of(
        details.cache_write_tokens,
        details.cache_creation_tokens,
        usage.cache_creation_input_tokens,
    )


def first_of(*counts: int | None) -> int | None:
    """The first count that was given, within what clients can hold."""
    return next((counted(count) for count in counts if count is not None), None)


def counted(count: int) -> int:
    return min(max(0, count), MOST)
