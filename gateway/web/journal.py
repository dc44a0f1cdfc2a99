"""The log line of each exchange."""

from __future__ import annotations

import logging
import time

from gateway.web.record import ExchangeRecord

log = logging.getLogger("gateway.exchange")

ALWAYS = log.makeRecord(log.name, logging.INFO, "", 0, "exchange", (), None).__dict__
"""What all these lines have in common; finding it out anew costs more than the rest of a line."""


def write(record: ExchangeRecord) -> None:
    """An observer: one line when an exchange has ended."""
    if log.isEnabledFor(logging.INFO):
        line = logging.LogRecord.__new__(logging.LogRecord)
        now = time.time()
        moment = {"created": now, "msecs": float(int(now % 1 * 1000))}
        line.__dict__ = {**ALWAYS, **moment, "fields": fields_of(record)}
        log.handle(line)


def fields_of(record: ExchangeRecord) -> dict[str, object]:
    return {
        "request_id": record.request_id,
        "client": record.client,
        "model": record.model[:200],
        "upstream": record.upstream,
        "outcome": record.outcome.value,
        "error": record.error.type if record.error else None,
        "kind": record.upstream_error,
        "waited": _rounded(record.waited),
        "first_byte": _rounded(record.time_to_first_byte),
        "duration": _rounded(record.duration),
        "output_tokens": record.output_tokens,
    }


def _rounded(seconds: float | None) -> float | None:
    return None if seconds is None else round(seconds, 3)
