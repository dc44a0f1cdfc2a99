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
    dialect: Dialect,
    content_type: str,
    *,
    model: str,
    stop_sequences: Iterable[str] = (),
    request_id: str = "",
) -> Step:
    """The step for a client that asked for a stream; ``request_id`` goes into its error frames.

    Only a body that says it is JSON is awaited whole: some servers stream under another name.
    """
    if dialect is Dialect.ANTHROPIC:
        passthrough = Passthrough(request_id=request_id)
        if content_type == JSON:
            return WholeAsStream(native_unfolding, passthrough, request_id=request_id)
        return passthrough
    stream = OpenAIStream(model=model, stop_sequences=stop_sequences, request_id=request_id)
    if content_type == JSON:
        return WholeAsStream(stream.take_whole, stream, request_id=request_id)
    return stream


def answer_step(
    dialect: Dialect, content_type: str, *, model: str, stop_sequences: Iterable[str] = ()
) -> WholeAnswer:
    """The step for a client that asked for a whole answer."""
    is_stream = content_type == EVENT_STREAM
    if dialect is Dialect.ANTHROPIC:
        return Collected(Passthrough()) if is_stream else NativeBody(Passthrough())
    stream = OpenAIStream(model=model, stop_sequences=stop_sequences)
    return Collected(stream) if is_stream else ChatBody(stream)
