"""One log line per exchange, as text for people or as JSON for machines.

Never prompts, never keys: a line is made of an ``ExchangeRecord``, which holds neither.
"""

from __future__ import annotations

import logging
import re
import sys
from datetime import UTC, datetime

import msgspec

FORMATS = ("text", "json")

UNSAFE = re.compile('[ "=]')


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
        message = super().formatMessage(record)
        fields = getattr(record, "fields", None)
        if not fields:
            return message
        return " ".join([message, *[f"{name}={_plain(value)}" for name, value in fields.items()]])


def _plain(value: object) -> str:
    """A value that cannot break its line or pretend to be another field."""
    if value is None or value == "":
        return "-"
    if not isinstance(value, str):
        return str(value)
    safe = value.isprintable() and not UNSAFE.search(value)
    return value if safe else msgspec.json.encode(value).decode()


def set_up_logging(form: str) -> None:
    """Sends everything of level INFO and above to standard error."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonFormatter() if form == "json" else TextFormatter())
    logging.basicConfig(level=logging.INFO, handlers=[handler], force=True)
    collect_only_what_is_shown()


def collect_only_what_is_shown() -> None:
    """No line of ours names its thread, process or source file, and finding them out costs as
    much as the rest of a line (Logging HOWTO, "Optimization")."""
    logging.logThreads = False
    logging.logProcesses = False
    logging.logMultiprocessing = False
    logging._srcfile = None
