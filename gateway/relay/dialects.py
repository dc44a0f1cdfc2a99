"""Which step an answer takes: by the upstream's dialect and by what it says its body is."""

from __future__ import annotations

from collections.abc import Iterable

from gateway.config import Dialect
from gateway.relay import Step
from gateway.relay.anthropic_openai.stream import OpenAIStream
from gateway.relay.passthrough import Passthrough
from gateway.relay.whole import (
    ChatBody,
    Collected,
    NativeBody,
    WholeAnswer,
    WholeAsStream,
    native_unfolding,
)

EVENT_STREAM = "text/event-stream"
JSON = "application/json"


def stream_step(
    dialect: Dialect, content_type: str, *, model: str, stop_sequences: Iterable[str] = ()
) -> Step:
    """The step for a client that asked for a stream.

    Only a body that says it is JSON is taken for JSON: some servers stream under another name.
    """
    if dialect is Dialect.ANTHROPIC:
        return WholeAsStream(native_unfolding) if content_type == JSON else Passthrough()
    stream = OpenAIStream(model=model, stop_sequences=stop_sequences)
    return WholeAsStream(stream.take_whole) if content_type == JSON else stream


def answer_step(
    dialect: Dialect, content_type: str, *, model: str, stop_sequences: Iterable[str] = ()
) -> WholeAnswer:
    """The step for a client that asked for a whole answer."""
    is_stream = content_type == EVENT_STREAM
    if dialect is Dialect.ANTHROPIC:
        return Collected(Passthrough()) if is_stream else NativeBody()
    stream = OpenAIStream(model=model, stop_sequences=stop_sequences)
    return Collected(stream) if is_stream else ChatBody(stream)
