"""The effective configuration for people: what ``python -m gateway check`` prints."""

from __future__ import annotations

import dataclasses
import os
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from gateway.config.secrets import Secret
from gateway.config.sections import defaults_of
from gateway.errors import ConfigError

if TYPE_CHECKING:
    from gateway.config.schema import Config


class Row(NamedTuple):
    """One setting: its path, its value without secrets, and ``set`` or ``default``."""

    path: str
    value: str
    source: str


def check(path: str | Path, environ: Mapping[str, str] = os.environ) -> int:
    """Prints the effective configuration, or every problem to standard error.

    Returns the exit code: 0, or 2 for a configuration that cannot be used.
    """
    from gateway.config import load

    try:
        config = load(path, environ)
    except ConfigError as error:
        print(*error.problems, sep="\n", file=sys.stderr)
        return error.exit_code
    print(*lines_of(describe(config)), sep="\n")
    return 0


def describe(config: Config) -> list[Row]:
    """A row for each setting, in the order of the schema; secrets are starred out."""
    return list(_rows("", config))


def lines_of(rows: list[Row]) -> list[str]:
    """The rows as aligned columns."""
    width = [max(len(cell) for cell in column) for column in zip(*rows, strict=True)]
    return [f"{row.path:{width[0]}}  {row.source:{width[2]}}  {row.value}".rstrip() for row in rows]


def _rows(path: str, section: object) -> Iterator[Row]:
    assert dataclasses.is_dataclass(section)
    defaults = defaults_of(type(section))
    for field in dataclasses.fields(section):
        value = getattr(section, field.name)
        at = f"{path}.{field.name}" if path else field.name
        if dataclasses.is_dataclass(value):
            yield from _rows(at, value)
        elif field.name == "upstreams":
            for name, upstream in value.items():
                yield from _rows(f"{at}.{name}", upstream)
        elif field.name != "name":
            is_default = field.name in defaults and value == defaults[field.name]
            yield Row(at, shown(value), "default" if is_default else "set")


def shown(value: object) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return "true" if value else "false"
        case Secret():
            return repr(value).strip("'")
        case dict():
            pairs = (name if name == own else f"{name}: {own}" for name, own in value.items())
            return ", ".join(pairs)
        case tuple():
            return ", ".join(getattr(item, "name", None) or str(item) for item in value) or "none"
        case _:
            return str(value)
