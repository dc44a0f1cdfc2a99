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


class Setting(NamedTuple):
    """One setting with its value as it is, secrets and all."""

    path: str
    value: object
    is_default: bool


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
    return [
        Row(setting.path, shown(setting.value), "default" if setting.is_default else "set")
        for setting in _settings("", config)
    ]


def changes(before: Config, after: Config) -> list[str]:
    """What differs, a line for each setting (``upstreams.one.slots: 2, now 3``) or each upstream
    that has come or gone; secrets are starred out."""
    old, new = ({each.path: each for each in _settings("", config)} for config in (before, after))
    known, wanted = before.upstreams, after.upstreams
    lines = [f"upstreams.{name}: removed" for name in known if name not in wanted]
    lines += [f"upstreams.{name}: added" for name in wanted if name not in known]
    whole = tuple(f"{line.split(':')[0]}." for line in lines)
    for path in old | new:
        was, now = old.get(path), new.get(path)
        if (was and was.value) != (now and now.value) and not path.startswith(whole):
            lines.append(f"{path}: {_difference(was, now)}")
    return lines


def _difference(was: Setting | None, now: Setting | None) -> str:
    old, new = (shown(each.value) if each else "nothing" for each in (was, now))
    return f"{old}, now {new}" if old != new else "changed"


def lines_of(rows: list[Row]) -> list[str]:
    """The rows as aligned columns."""
    width = [max(len(cell) for cell in column) for column in zip(*rows, strict=True)]
    return [f"{row.path:{width[0]}}  {row.source:{width[2]}}  {row.value}".rstrip() for row in rows]


def _settings(path: str, section: object) -> Iterator[Setting]:
    assert dataclasses.is_dataclass(section)
    defaults = defaults_of(type(section))
    for field in dataclasses.fields(section):
        value = getattr(section, field.name)
        at = f"{path}.{field.name}" if path else field.name
        if dataclasses.is_dataclass(value):
            yield from _settings(at, value)
        elif field.name == "upstreams":
            for name, upstream in value.items():
                yield from _settings(f"{at}.{name}", upstream)
        elif field.name != "name":
            is_default = field.name in defaults and value == defaults[field.name]
            yield Setting(at, value, is_default)


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
