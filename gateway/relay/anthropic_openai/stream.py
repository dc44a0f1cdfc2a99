"""Chat completions chunks in, Anthropic events out: one answer's translation.

``chunks`` takes each chunk apart, ``order`` puts what it says one after the other, ``machine``
says what each input takes in the present state, ``writer`` and ``events`` write the frames.  Here
they meet, and here the answer begins and ends.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterable
from typing import Final

import msgspec

from gateway.errors import GatewayError
from gateway.relay import Phase
from gateway.relay.anthropic_openai import events
from gateway.relay.anthropic_openai.chunks import (
    Choice,
    Chunk,
    Delta,
    OddChunk,
    calls_of,
    decode,
)
from gateway.relay.anthropic_openai.lenient import documents, is_whole
from gateway.relay.anthropic_openai.machine import Input, State
from gateway.relay.anthropic_openai.order import Order
from gateway.relay.anthropic_openai.reasons import is_failure, is_said, stop_reason
from gateway.relay.anthropic_openai.texts import reasoning_of, text_of
from gateway.relay.anthropic_openai.usage import Tally
from gateway.relay.anthropic_openai.writer import Writer
from gateway.relay.failures import (
    decoded,
    ended_early,
    error_frame,
    error_of_document,
    error_of_event,
    garbage,
    gave_up,
)
from gateway.sse import Event, FrameTooLarge, Parser, parse

DONE: Final = b"[DONE]"
SIGNS_OF_LIFE: Final = frozenset({"ping", "keep-alive", "keepalive", "heartbeat"})
"""Events that say nothing, whatever their data."""
NAMES_OF_CHUNKS: Final = frozenset({"", "message"})
"""What events are called that must be chunks; others may be, or may be for other readers."""


class OpenAIStream:
    """See ``relay.Step``.  ``model`` is the name that the client asked for."""

    at_boundary = True

    def __init__(
        self, *, model: str, stop_sequences: Iterable[str] = (), request_id: str = ""
    ) -> None:
        self._model = model
        self._stop_sequences = frozenset(stop_sequences)
        self._request_id = request_id
        self._parser = Parser()
        self._writer = Writer()
        self._order = Order(self._writer)
        self._tally = Tally()
        self._finish: str | None = None
        self._matched: str | None = None
        self._refused = False
        self._in_messages = False
        self.error: GatewayError | None = None

    # --- the step's side -----------------------------------------------------------------------

    @property
    def phase(self) -> Phase:
        if self._writer.state is State.DONE:
            return Phase.COMPLETE
        if self._finish is not None:
            return Phase.ENDING
        return Phase.EMPTY if self._writer.state is State.START else Phase.OPEN

    @property
    def output_tokens(self) -> int | None:
        return self._tally.output_tokens

    def feed(self, data: bytes) -> bytes:
        try:
            for event in self._parser.feed(data):
                self._take(event)
        except FrameTooLarge:
            if self._finish is None:
                self._fail(garbage("a frame is too large"))
            else:
                self._end()
        return self._writer.taken()

    def finish(self) -> bytes:
        rest = self._parser.take_rest()
        if self._writer.state is State.START and rest.lstrip().startswith(b"{"):
            return self.take_whole(rest)  # a JSON body under another name
        self._take_last(rest)
        if self._writer.state is not State.DONE:
            if self._finish is None:
                self._fail(ended_early())
            else:
                self._end()
        return self._writer.taken()

    def abort(self, error: GatewayError) -> bytes:
        """A message that has told why it stopped is whole: only its end is missing."""
        if self._writer.state is State.DONE:
            return b""
        if self._finish is None:
            self._show(error)
        else:
            self._end()
        return self._writer.taken()

    def take_whole(self, body: bytes) -> bytes:
        """A whole JSON answer, as if it were the only chunk.  Raises GatewayError."""
        chunk = decode(body)
        if chunk.choice is None or chunk.error:
            raise error_of_document(decoded(body)) or garbage("there is no choice in it")
        self._take_chunk(chunk)
        if self.error is not None:
            raise self.error
        self._end()
        return self._writer.taken()

    # --- events to chunks ----------------------------------------------------------------------

    def _take(self, event: Event) -> None:
        data = event.data.strip()
        if not data or event.name in SIGNS_OF_LIFE or self._writer.state is State.DONE:
            return
        if data == DONE:
            self._take_done()
        elif event.name == "error":
            self._fail(error_of_event(data))
        else:
            self._take_data(event)

    def _take_last(self, rest: bytes) -> None:
        """What stood behind the last blank line: servers forget the one at the end.  A frame that
        was torn is none, and what it would have been is not known."""
        event = parse(rest + b"\n\n")
        for data in documents(event.data) if event else ():
            if data.strip() == DONE or is_whole(data):
                self._take(Event(event.name if event else "", data))

    def _take_data(self, event: Event) -> None:
        data = event.data
        try:
            chunk = decode(data)
        except GatewayError as error:
            self._take_garbage(event, error)
            return
        is_odd = bool(chunk.error) or chunk.choices is msgspec.UNSET
        failure = error_of_document(decoded(data)) if is_odd else None
        if failure is not None or chunk.error:
            self._fail(failure or error_of_event(data))
        else:
            self._take_chunk(chunk)

    def _take_garbage(self, event: Event, error: GatewayError) -> None:
        """Several chunks in one frame, or an error of an odd shape; otherwise it costs the answer,
        unless that is whole already or the event was for other readers."""
        lines = documents(event.data)
        failure = error_of_document(decoded(event.data))
        if len(lines) > 1:
            for line in lines:
                self._take(Event(event.name, line))
        elif failure or (self._finish is None and event.name in NAMES_OF_CHUNKS):
            self._fail(failure or error)

    def _take_done(self) -> None:
        """The upstream is done.  Without a reason that is good enough, but for a call whose
        arguments it has left half said."""
        self._begin()
        if self._finish is None and self._order.is_inside_call:
            self._fail(ended_early())
        else:
            self._end()

    # --- chunks to inputs ----------------------------------------------------------------------

    def _take_chunk(self, chunk: Chunk) -> None:
        if chunk.usage is not None:
            self._tally.note(chunk.usage)
        if self._writer.state is State.START:
            self._begin()
        choice = chunk.choice
        if choice is None:
            return
        self._order.expect_halves(isinstance(chunk, OddChunk))
        if delta := choice.delta or self._message_of(choice):
            self._take_delta(delta)
        if choice.error or choice.finish_reason:
            self._take_finish(choice)

    def _message_of(self, choice: Choice) -> Delta | None:
        """A message where a delta should be; not one that says at the end what the deltas said."""
        if choice.message is not None and self._writer.index < 0:
            self._in_messages = True
        return choice.message if self._in_messages else None

    def _take_delta(self, delta: Delta) -> None:
        order = self._order
        if thinking := reasoning_of(delta):
            order.say(Input.THINKING, thinking)
        if delta.content:
            order.say(Input.TEXT, text_of(delta.content))
        if delta.refusal and (refusal := text_of(delta.refusal)):
            self._refused = True
            order.say(Input.TEXT, refusal)
        if delta.tool_calls or delta.function_call:
            order.take_calls(calls_of(delta))

    def _take_finish(self, choice: Choice) -> None:
        """The first reason counts, but for a failure, which always does.  It is not the end yet:
        usage follows, and of some servers the last piece of a call."""
        if choice.usage is not None:
            self._tally.note(choice.usage)
        if choice.error or is_failure(choice.finish_reason):
            self._fail(error_of_document({"error": choice.error}) or gave_up())
        elif self._finish is None and is_said(choice.finish_reason):
            self._finish = choice.finish_reason
            self._matched = choice.matched

    # --- the beginning and the ends ------------------------------------------------------------

    def _begin(self) -> None:
        if self._writer.state is State.START:
            id = f"msg_{secrets.token_hex(12)}"
            frame = events.message_start(id, self._model, self._tally.at_first())
            self._writer.take(Input.BEGIN, frame=frame)

    def _end(self) -> None:
        self._order.flush()
        reason, sequence = stop_reason(
            self._finish,
            self._matched,
            self._stop_sequences,
            refused=self._refused,
            has_tools=self._order.tools > 0,
        )
        usage = self._tally.at_last(self._order.characters)
        frame = events.message_delta(reason, sequence, usage) + events.MESSAGE_STOP
        self._writer.take(Input.END, frame=frame)

    def _fail(self, error: GatewayError) -> None:
        """An error frame or, while nothing has been said, an exception that becomes a status."""
        if self._writer.state is State.START:
            raise error
        if self._writer.state is not State.DONE:
            self._show(error)

    def _show(self, error: GatewayError) -> None:
        self.error = error
        self._writer.take(Input.FAIL, frame=error_frame(error, self._request_id))
