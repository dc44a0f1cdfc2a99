"""Token counts: servers say them at the end, all along, in parts or never; clients want numbers."""

from __future__ import annotations

from typing import Final

from gateway.relay.anthropic_openai.chunks import Usage

CHARACTERS_PER_TOKEN: Final = 4
MOST: Final = (1 << 53) - 1
"""What every client's JSON can hold."""


class Tally:
    """What one answer has cost so far.  Later counts replace earlier ones."""

    def __init__(self) -> None:
        self.output_tokens: int | None = None
        self._prompt_tokens: int | None = None
        self._cached_tokens = 0

    def note(self, usage: Usage) -> None:
        if usage.completion_tokens is not None:
            self.output_tokens = counted(usage.completion_tokens)
        if usage.prompt_tokens is not None:
            self._prompt_tokens = counted(usage.prompt_tokens)
        if usage.prompt_tokens_details is not None:
            self._cached_tokens = counted(usage.prompt_tokens_details.cached_tokens or 0)

    def at_first(self) -> dict[str, int]:
        return {"input_tokens": 0, "output_tokens": 0} | self._input()

    def at_last(self, characters: int) -> dict[str, int]:
        """A server that never says is counted for, roughly: better for clients than nothing."""
        output = self.output_tokens
        if output is None:
            output = -(-characters // CHARACTERS_PER_TOKEN)
        return self._input() | {"output_tokens": output}

    def _input(self) -> dict[str, int]:
        """Anthropic counts what came from the prompt's cache apart, OpenAI within."""
        if self._prompt_tokens is None:
            return {}
        cached = min(self._cached_tokens, self._prompt_tokens)
        usage = {"input_tokens": self._prompt_tokens - cached}
        return usage | {"cache_read_input_tokens": cached} if cached else usage


def counted(count: int) -> int:
    return min(max(0, count), MOST)
