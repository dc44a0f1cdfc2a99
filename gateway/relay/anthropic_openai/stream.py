"""Chat completions chunks in, Anthropic events out: one answer's translation.

``chunks`` takes each chunk apart, ``calls`` puts tool calls in single file, ``machine`` says what
each input takes in the present state, ``events`` writes the frames.  Here they meet, together
with the little that must be remembered: the open block's index, usage, why the upstream stopped,
what must wait for a tool call to be said, and blanks that may turn out to be nothing.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterable
from typing import Final

import msgspec

from gateway.errors import GatewayError
from gateway.relay import Phase
from gateway.relay.anthropic_openai import events
from gateway.relay.anthropic_openai.calls import Calls, ToolCall
from gateway.relay.anthropic_openai.chunks import (
    Chunk,
    Delta,
    OddChunk,
    Usage,
    calls_of,
    decode,
    reasoning_of,
    text_of,
)
from gateway.relay.anthropic_openai.halves import Halves
from gateway.relay.anthropic_openai.machine import Action, Input, State, step
from gateway.relay.failures import (
    decoded,
    ended_early,
    error_frame,
    error_of_document,
    garbage,
)
from gateway.sse import Event, FrameTooLarge, Parser

CHARACTERS_PER_TOKEN: Final = 4

KIND_OF_BLOCK: Final = {
    State.TEXT: Input.TEXT,
    State.THINKING: Input.THINKING,
    State.TOOL: Input.ARGUMENTS,
}


class OpenAIStream:
    """See ``relay.Step``.  ``model`` is the name that the client asked for."""

    at_boundary = True

    def __init__(
        self, *, model: str, stop_sequences: Iterable[str] = (), request_id: str = ""
    ) -> None:
        self._request_id = request_id
        self._model = model
        self._stop_sequences = frozenset(stop_sequences)
        self._parser = Parser()
        self._state = State.START
        self._out: list[bytes] = []
        self._id = f"msg_{secrets.token_hex(12)}"
        self._index = -1
        self._calls = Calls()
        self._open_call: ToolCall | None = None
        self._tools = 0
        self._held: list[tuple[Input, str]] = []
        self._blank = ""
        self._halves = Halves()
        self._odd = False
        self._characters = 0
        self._usage = Usage()
        self._finish: str | None = None
        self._matched: str | None = None
        self._refused = False
        self.error: GatewayError | None = None

    # --- the step's side -----------------------------------------------------------------------

    @property
    def phase(self) -> Phase:
        if self._state is State.DONE:
            return Phase.COMPLETE
        if self._finish is not None:
            return Phase.ENDING
        return Phase.EMPTY if self._state is State.START else Phase.OPEN

    @property
    def output_tokens(self) -> int | None:
        return self._usage.completion_tokens

    def feed(self, data: bytes) -> bytes:
        try:
            for event in self._parser.feed(data):
                self._take(event)
        except FrameTooLarge:
            self._fail(garbage("a frame is too large"))
        return self._taken()

    def finish(self) -> bytes:
        for event in self._parser.finish():
            self._take(event)
        if self._state is not State.DONE:
            if self._finish is None:
                self._fail(ended_early())
            else:
                self._end()
        return self._taken()

    def abort(self, error: GatewayError) -> bytes:
        if self._state is State.DONE:
            return b""
        self.error = error
        self._do(Input.FAIL)
        return self._taken()

    def take_whole(self, body: bytes) -> bytes:
        """A whole JSON answer, as if it were the only chunk.  Raises GatewayError."""
        chunk = decode(body)
        if chunk.choice is None or chunk.error:
            raise error_of_document(decoded(body)) or garbage("there is no choice in it")
        self._take_chunk(chunk)
        self._end()
        return self._taken()

    # --- events to inputs ----------------------------------------------------------------------

    def _take(self, event: Event) -> None:
        data = event.data.strip()
        if self._state is State.DONE or not data:
            return
        if data == b"[DONE]":
            self._take_done()
        elif event.name == "error":
            self._fail(error_of_document(decoded(data)) or garbage("an error without words"))
        else:
            self._take_data(data)

    def _take_data(self, data: bytes) -> None:
        try:
            chunk = decode(data)
        except GatewayError as error:
            self._fail(error_of_document(decoded(data)) or error)
            return
        is_odd = bool(chunk.error) or chunk.choices is msgspec.UNSET
        failure = error_of_document(decoded(data)) if is_odd else None
        if failure is not None:
            self._fail(failure)
        else:
            self._take_chunk(chunk)

    def _take_done(self) -> None:
        """The upstream is done.  Without a reason that is good enough, but for a call whose
        arguments it has left half said."""
        self._begin()
        call = self._open_call
        if self._finish is None and call is not None and call.pieces and not call.is_whole():
            self._fail(ended_early())
        else:
            self._end()

    def _take_chunk(self, chunk: Chunk) -> None:
        if chunk.usage is not None:
            self._usage = chunk.usage
        self._begin()
        choice = chunk.choice
        if choice is None:
            return
        self._odd = isinstance(chunk, OddChunk) or bool(self._halves)
        delta = choice.delta or (choice.message if self._index < 0 else None)
        if delta is not None:
            self._take_delta(delta)
        if choice.finish_reason and self._finish is None:
            self._flush()
            self._finish = choice.finish_reason
            self._matched = choice.matched

    def _take_delta(self, delta: Delta) -> None:
        self._say(Input.THINKING, reasoning_of(delta))
        self._say(Input.TEXT, text_of(delta.content))
        if refusal := text_of(delta.refusal):
            self._refused = True
            self._say(Input.TEXT, refusal)
        if delta.tool_calls or delta.function_call:
            for piece in calls_of(delta):
                self._calls.take(piece)
            self._advance_calls()

    # --- text and thinking ---------------------------------------------------------------------

    def _say(self, kind: Input, text: str) -> None:
        if self._odd:
            text = self._halves.joined(kind, text)
        if not text:
            return
        self._characters += len(text)
        if KIND_OF_BLOCK.get(self._state) is kind:
            self._do(kind, text)
        else:
            self._held.append((kind, text))
            self._release()

    def _release(self, *, at_once: bool = False) -> None:
        """Says what was held back while a call was being said."""
        if not at_once:
            self._advance_calls()
            if self._calls.any_named or not self._call_is_over():
                return
        held, self._held = self._held, []
        for kind, text in held:
            self._say_now(kind, text)

    def _say_now(self, kind: Input, text: str) -> None:
        """Blanks where no text is open wait: if a tool call follows they are nothing."""
        if kind is Input.TEXT and self._state is not State.TEXT:
            text = self._blank + text
            if text.isspace():
                self._blank = text
                return
            self._blank = ""
        self._open_call = None
        self._do(kind, text)

    # --- tool calls ----------------------------------------------------------------------------

    def _advance_calls(self) -> None:
        """Says what may be said of the calls now, one after the other."""
        self._tell_open_call()
        while self._call_is_over() and (call := self._calls.next()) is not None:
            self._open(call)

    def _call_is_over(self) -> bool:
        return self._open_call is None or self._open_call.is_whole()

    def _open(self, call: ToolCall) -> None:
        self._open_call = call
        self._tools += 1
        self._blank = ""
        self._do(Input.TOOL, call=call)
        self._tell_open_call()

    def _tell_open_call(self) -> None:
        call = self._open_call
        if call is None or call.told == len(call.pieces):
            return
        news = call.news()
        if self._odd:
            news = self._halves.joined(Input.ARGUMENTS, news)
        if news:
            self._characters += len(news)
            self._do(Input.ARGUMENTS, news)

    # --- the ends ------------------------------------------------------------------------------

    def _begin(self) -> None:
        if self._state is State.START:
            self._do(Input.BEGIN)

    def _flush(self) -> None:
        """Nothing more will come: says all that was held back and closes the open block."""
        self._tell_open_call()
        while (call := self._calls.next()) is not None:
            self._open(call)
        self._release(at_once=True)
        if self._blank and not self._tools:
            self._do(Input.TEXT, self._blank)
        if self._state in KIND_OF_BLOCK:
            kind = KIND_OF_BLOCK[self._state]
            if half := self._halves.rest(kind):
                self._do(kind, half)
            self._do(Input.PAUSE)
        self._open_call = None
        self._blank = ""

    def _end(self) -> None:
        self._flush()
        self._do(Input.END)

    def _fail(self, error: GatewayError) -> None:
        """An error frame or, while nothing has been said, an exception that becomes a status."""
        if self._state is State.START:
            raise error
        if self._state is not State.DONE:
            self.error = error
            self._do(Input.FAIL)

    # --- frames --------------------------------------------------------------------------------

    def _do(self, input: Input, text: str = "", call: ToolCall | None = None) -> None:
        actions, self._state = step(self._state, input)
        for action in actions:
            self._out.append(self._frame(action, text, call))

    def _taken(self) -> bytes:
        frames = b"".join(self._out)
        self._out.clear()
        return frames

    def _frame(self, action: Action, text: str, call: ToolCall | None) -> bytes:
        match action:
            case Action.ADD_TEXT:
                return events.text_delta(self._index, text)
            case Action.ADD_THINKING:
                return events.thinking_delta(self._index, text)
            case Action.ADD_ARGUMENTS:
                return events.input_delta(self._index, text)
            case Action.SIGN:
                return events.signature_delta(self._index)
            case Action.STOP_BLOCK:
                return events.block_stop(self._index)
            case Action.START_MESSAGE:
                return events.message_start(self._id, self._model, self._usage_so_far())
            case Action.STOP_MESSAGE:
                return self._last_frames()
            case Action.SHOW_ERROR:
                assert self.error is not None
                return error_frame(self.error, self._request_id)
        self._index += 1
        return events.block_start(self._index, self._block(action, call))

    def _block(self, action: Action, call: ToolCall | None) -> dict[str, object]:
        if action is Action.START_TEXT:
            return {"type": "text", "text": ""}
        if action is Action.START_THINKING:
            return {"type": "thinking", "thinking": "", "signature": ""}
        assert call is not None
        return {"type": "tool_use", "id": call.public_id, "name": call.name, "input": {}}

    def _last_frames(self) -> bytes:
        reason = self._stop_reason()
        sequence = self._matched if reason == "stop_sequence" else None
        return events.message_delta(reason, sequence, self._usage_at_last()) + events.MESSAGE_STOP

    def _stop_reason(self) -> str:
        """From what was emitted first, then from what the server says."""
        if self._refused or self._finish == "content_filter":
            return "refusal"
        if self._finish == "length":
            return "max_tokens"
        if self._tools:
            return "tool_use"
        return "stop_sequence" if self._matched in self._stop_sequences else "end_turn"

    # --- usage ---------------------------------------------------------------------------------

    def _usage_so_far(self) -> dict[str, int]:
        return {"input_tokens": 0, "output_tokens": 0} | self._input_usage()

    def _usage_at_last(self) -> dict[str, int]:
        """A server that never says is counted for, roughly: better for clients than nothing."""
        output = self._usage.completion_tokens
        if output is None:
            output = -(-self._characters // CHARACTERS_PER_TOKEN)
        return self._input_usage() | {"output_tokens": output}

    def _input_usage(self) -> dict[str, int]:
        """Anthropic counts what came from the prompt's cache apart, OpenAI within."""
        prompt = self._usage.prompt_tokens
        if prompt is None:
            return {}
        details = self._usage.prompt_tokens_details
        cached = min(details.cached_tokens or 0, prompt) if details else 0
        usage = {"input_tokens": prompt - cached}
        return usage | {"cache_read_input_tokens": cached} if cached else usage
