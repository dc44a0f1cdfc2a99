"""One thing after the other: what a model says, in the order in which blocks can hold it.

What must wait waits here: text and thinking until the open tool call has been said, calls until
it is their turn, blanks that may turn out to be nothing, halves of characters.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from gateway.relay.anthropic_openai.calls import Calls, ToolCall
from gateway.relay.anthropic_openai.chunks import Call
from gateway.relay.anthropic_openai.halves import Halves
from gateway.relay.anthropic_openai.machine import Input, State
from gateway.relay.anthropic_openai.writer import Writer

KIND_OF_BLOCK: Final = {
    State.TEXT: Input.TEXT,
    State.THINKING: Input.THINKING,
    State.TOOL: Input.ARGUMENTS,
}


class Order:
    """Text, thinking and pieces of calls in; inputs that the writer may take out."""

    def __init__(self, writer: Writer) -> None:
        self._writer = writer
        self._calls = Calls()
        self._open_call: ToolCall | None = None
        self._held: list[tuple[Input, str]] = []
        self._blank = ""
        self._halves = Halves()
        self._odd = False
        self._has_odd_calls = False
        """Some pieces of calls that are odd may be told much later."""
        self.tools = 0
        """How many calls have been said."""
        self.characters = 0

    @property
    def is_inside_call(self) -> bool:
        """Whether the open call's arguments have begun and not ended."""
        call = self._open_call
        return call is not None and bool(call.pieces) and not call.is_whole()

    def expect_halves(self, odd: bool) -> None:
        """``odd``: the texts that follow may begin or end with half a character."""
        self._odd = odd or bool(self._halves)

    def say(self, kind: Input, text: str) -> None:
        """Some text or thinking."""
        if self._odd:
            text = self._halves.joined(kind, text)
        if not text:
            return
        self.characters += len(text)
        if KIND_OF_BLOCK.get(self._writer.state) is kind:
            self._writer.take(kind, text)
        else:
            self._held.append((kind, text))
            self._advance_calls()
            if not self._calls.any_named and self._call_is_over():
                self._release()

    def take_calls(self, pieces: Iterable[Call]) -> None:
        self._has_odd_calls = self._has_odd_calls or self._odd
        self._calls.take(pieces)
        self._advance_calls()

    def flush(self) -> None:
        """Nothing more will come: says all that was held back."""
        self._advance_calls(is_all=True)
        self._release()
        if self._blank and not self.tools:
            self._writer.take(Input.TEXT, self._blank)
        if kind := KIND_OF_BLOCK.get(self._writer.state):
            self._say_half(kind)

    def _say_half(self, kind: Input) -> None:
        """What was kept for a second half that does not come now."""
        if half := self._halves.rest(kind):
            self._writer.take(kind, half)

    # --- text and thinking ---------------------------------------------------------------------

    def _release(self) -> None:
        """Says what was held back while calls were being said."""
        held, self._held = self._held, []
        for kind, text in held:
            self._say_now(kind, text)

    def _say_now(self, kind: Input, text: str) -> None:
        """Blanks where no text is open wait: if a tool call follows they are nothing."""
        if kind is Input.TEXT and self._writer.state is not State.TEXT:
            text = self._blank + text
            if text.isspace():
                self._blank = text
                return
            self._blank = ""
        self._close_call()
        self._writer.take(kind, text)

    # --- tool calls ----------------------------------------------------------------------------

    def _advance_calls(self, *, is_all: bool = False) -> None:
        """Says what may be said of the calls now, one after the other."""
        self._tell(is_all=is_all)
        while is_all or (self._call_is_over() and not self._is_placeholder()):
            call = self._calls.next(is_all=is_all)
            if call is None:
                return
            self._close_call()
            self._open(call)
            self._tell(is_all=is_all)

    def _call_is_over(self) -> bool:
        return self._open_call is None or self._open_call.is_whole()

    def _is_placeholder(self) -> bool:
        """Whether the open call's real arguments may follow still: so far each call has only been
        announced."""
        call = self._open_call
        return call is not None and call.is_placeholder and not self._calls.any_has_arguments

    def _open(self, call: ToolCall) -> None:
        self._open_call = call
        self._blank = ""
        self.tools += 1
        self._writer.take(Input.TOOL, call=call)

    def _close_call(self) -> None:
        self._tell(is_all=True)
        self._say_half(Input.ARGUMENTS)
        self._open_call = None

    def _tell(self, *, is_all: bool) -> None:
        """Passes on the news of the open call."""
        if self._open_call is None:
            return
        news = self._open_call.news(is_all=is_all)
        if self._has_odd_calls:
            news = self._halves.joined(Input.ARGUMENTS, news)
        if news:
            self.characters += len(news)
            self._writer.take(Input.ARGUMENTS, news)
