"""What is kept of one exchange: for its log line, the metrics, and the operator's page.

Never a prompt, never a key.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from gateway.errors import GatewayError, UpstreamFailed


class ExchangeOutcome(enum.Enum):
    """How an exchange ended; each has exactly one."""

    COMPLETED = "completed"
    REJECTED = "rejected"
    """Refused before it had a slot: a bad request, a full line, a wait too long, closing."""
    LEFT_WAITING = "left_waiting"
    """The client went away while it was queued."""
    LEFT_RUNNING = "left_running"
    """The client went away while it held a slot."""
    CLIENT_STALLED = "client_stalled"
    UPSTREAM_FAILED = "upstream_failed"
    INTERRUPTED = "interrupted"
    """The gateway ended it: closing, or its lease was lost."""
    FAILED = "failed"
    """A fault of the gateway itself."""


class Trace(Protocol):
    """One exchange in a distributed trace."""

    @property
    def headers(self) -> Mapping[str, str]:
        """What the upstream is told, so that its own spans belong here."""


class Tracing(Protocol):
    """Begins traces; their ends it learns as an observer."""

    def begin(self, headers: Mapping[str, str]) -> Trace: ...

    async def stop(self) -> None: ...


@dataclass(slots=True)
class ExchangeRecord:
    """Times are loop times in seconds, durations are seconds."""

    request_id: str
    started_at: float
    client: str = ""
    model: str = ""
    upstream: str = ""
    stream: bool = False
    waited: float | None = None
    """In line, until the grant; None for an exchange that never had a slot."""
    first_byte_at: float | None = None
    granted_at: float | None = None
    ended_at: float | None = None
    output_tokens: int | None = None
    outcome: ExchangeOutcome = ExchangeOutcome.FAILED
    error: GatewayError | None = None
    trace: Trace | None = None

    def ended(self, now: float) -> ExchangeRecord:
        self.ended_at = now
        return self

    @property
    def upstream_error(self) -> str | None:
        """The kind of failure, where the upstream has failed."""
        return self.error.kind if isinstance(self.error, UpstreamFailed) else None

    @property
    def duration(self) -> float:
        return (self.ended_at or self.started_at) - self.started_at

    @property
    def time_to_first_byte(self) -> float | None:
        """From the grant to the upstream's first byte."""
        if self.first_byte_at is None or self.granted_at is None:
            return None
        return self.first_byte_at - self.granted_at


Observer = Callable[[ExchangeRecord], None]


@dataclass
class Observers:
    """Those who want to see every record once, when its exchange has ended."""

    observers: list[Observer] = field(default_factory=list)

    def add(self, observer: Observer) -> None:
        self.observers.append(observer)

    def __call__(self, record: ExchangeRecord) -> None:
        for observer in self.observers:
            observer(record)
