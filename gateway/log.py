"""One log line per exchange, as text for people or as JSON for machines.

Never prompts, never keys: a line is made of an ``ExchangeRecord``, which holds neither.
"""

from __future__ import annotations

import logging
import sys
from datetime import UTC, datetime

import msgspec

FORMATS = ("text", "json")


class JsonFormatter(logging.Formatter):
    """One JSON object per line; ``extra={"fields": {...}}`` adds keys."""

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, object] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        line.update(getattr(record, "fields", {}))
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return msgspec.json.encode(line).decode()


class TextFormatter(logging.Formatter):
    """Time, level, message, then the fields as ``name=value``."""

    def __init__(self) -> None:
        super().__init__("%(asctime)s %(levelname)-7s %(message)s")

    def formatMessage(self, record: logging.LogRecord) -> str:
        fields = getattr(record, "fields", {})
        about = "".join(f" {name}={_plain(value)}" for name, value in fields.items())
        return super().formatMessage(record) + about


def _plain(value: object) -> str:
    """A value that cannot break its line or pretend to be another field."""
    text = "-" if value is None or value == "" else str(value)
    safe = text.isprintable() and not any(character in text for character in ' "=')
    return text if safe else msgspec.json.encode(text).decode()


def set_up_logging(form: str) -> None:
    """Sends everything of level INFO and above to standard error."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonFormatter() if form == "json" else TextFormatter())
    logging.basicConfig(level=logging.INFO, handlers=[handler], force=True)
