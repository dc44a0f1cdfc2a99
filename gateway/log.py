"""One log line per exchange, as text for people or as JSON for machines.

Never prompts, never keys: a line is made of an ``ExchangeRecord``, which holds neither.
"""

from __future__ import annotations

import functools
import json
import logging
import re
import sys
import time
from datetime import UTC, datetime

import msgspec

FORMATS = ("text", "json")

UNSAFE = re.compile('[ "=]')


class JsonFormatter(logging.Formatter):
    """One JSON object per line; ``extra={"fields": {...}}`` adds keys.

    ``worker`` is the number of this process among those of one port.
    """

    def __init__(self, worker: int | None = None) -> None:
        super().__init__()
        self._about = {} if worker is None else {"worker": worker}

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, object] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
            **self._about,
        }
        line.update(getattr(record, "fields", {}))
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return msgspec.json.encode(line).decode()


class TextFormatter(logging.Formatter):
    """Time, level, which worker if there are several, message, the fields as ``name=value``."""

    def __init__(self, worker: int | None = None) -> None:
        super().__init__()
        self._prefix = "" if worker is None else f"worker {worker}: "

    def format(self, record: logging.LogRecord) -> str:
        moment = f"{clock(int(record.created))},{int(record.created % 1 * 1000):03d}"
        words = [moment, f"{record.levelname:<7}", f"{self._prefix}{record.getMessage()}"]
        fields: dict[str, object] = getattr(record, "fields", {})
        words += [f"{name}={_plain(value)}" for name, value in fields.items()]
        line = " ".join(words)
        if record.exc_info:
            line += "\n" + self.formatException(record.exc_info)
        return line


@functools.lru_cache(maxsize=1)
def clock(second: int) -> str:
    """Local time; many lines share a second."""
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(second))


def _plain(value: object) -> str:
    """A value that cannot break its line or pretend to be another field."""
    if value is None or value == "":
        return "-"
    if not isinstance(value, str):
        return str(value)
    printable = value.isprintable()
    if printable and not UNSAFE.search(value):
        return value
    return json.dumps(value, ensure_ascii=not printable)  # terminals obey U+009B, editors U+2028


def set_up_logging(form: str, worker: int | None = None) -> None:
    """Sends everything of level INFO and above to standard error."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter((JsonFormatter if form == "json" else TextFormatter)(worker))
    logging.basicConfig(level=logging.INFO, handlers=[handler], force=True)
    collect_only_what_is_shown()


def collect_only_what_is_shown() -> None:
    """No line of ours names its thread, process or source file, and finding them out costs as
    much as the rest of a line (Logging HOWTO, "Optimization")."""
    logging.logThreads = False
    logging.logProcesses = False
    logging.logMultiprocessing = False
    logging._srcfile = None
