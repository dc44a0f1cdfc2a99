"""The log line of each exchange."""

from __future__ import annotations

import logging

from gateway.web.record import ExchangeRecord

log = logging.getLogger("gateway.exchange")


def write(record: ExchangeRecord) -> None:
    """An observer: one line when an exchange has ended."""
    log.info("exchange", extra={"fields": fields_of(record)})


def fields_of(record: ExchangeRecord) -> dict[str, object]:
    return {
        "request_id": record.request_id,
        "client": record.client,
        "model": record.model[:200],
        "upstream": record.upstream,
        "outcome": record.outcome.value,
        "error": record.error.type if record.error else None,
        "waited": _rounded(record.waited),
        "first_byte": _rounded(record.time_to_first_byte),
        "duration": _rounded(record.duration),
        "output_tokens": record.output_tokens,
    }


def _rounded(seconds: float | None) -> float | None:
    return None if seconds is None else round(seconds, 3)
