"""Upstream bytes in, client bytes out: the pure part of an exchange, without any I/O.

A step is fed whatever the upstream's socket delivered, cut anywhere, and returns what the client
is to get for it, always in whole frames where the step translates.  The exchange owns both
connections; a step never waits and never writes.
"""

from __future__ import annotations

import enum
from typing import Protocol

from gateway.errors import GatewayError


class Phase(enum.Enum):
    """How far the client's stream has come; it only moves downwards in this list."""

    EMPTY = "empty"
    """Nothing has been emitted: the error of a bad upstream can still be an HTTP status."""
    OPEN = "open"
    """``message_start`` is out: silence is bridged with ``event: ping``."""
    ENDING = "ending"
    """The upstream has said why it stopped; only usage or its last frames may still come, so the
    exchange gives it a short grace and then calls ``finish``."""
    COMPLETE = "complete"
    """``message_stop`` or ``error`` is out; nothing may follow, whatever the upstream sends."""


class Step(Protocol):
    """One answer's way from the upstream's dialect to the client's."""

    @property
    def phase(self) -> Phase: ...

    @property
    def at_boundary(self) -> bool:
        """Whether a frame of the gateway's own may go out now (not inside a relayed frame)."""

    @property
    def output_tokens(self) -> int | None:
        """Tokens the upstream has reported so far; ``None`` while it has said nothing."""

    @property
    def error(self) -> GatewayError | None:
        """The error this step has put into the stream, if it ended that way."""

    def feed(self, data: bytes) -> bytes:
        """Takes some upstream bytes; returns client bytes, often none.

        Raises GatewayError only in phase EMPTY (an error reported in-band as the first thing);
        later the error becomes a frame in the returned bytes and ``phase`` COMPLETE.
        """

    def finish(self) -> bytes:
        """The upstream's body has ended: what is still owed, or the error frame that says it
        ended too early.  Raises GatewayError in phase EMPTY.  Owes nothing the second time."""

    def abort(self, error: GatewayError) -> bytes:
        """Ends the client's stream with ``error`` in whatever phase: one whole error frame on a
        frame boundary, or nothing where the stream is already complete."""
