"""Kinds of single values: what is accepted, what it becomes, and how a wrong one is answered.

A kind is small and knows its own words: ``Whole(1)`` accepts 6, refuses ``"six"`` with
``expected a whole number >= 1, got "six"``.
"""

from __future__ import annotations

import difflib
import enum
import ipaddress
import json
import math
import re
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple
from urllib.parse import SplitResult, urlsplit

from gateway.errors import ConfigError

Network = ipaddress.IPv4Network | ipaddress.IPv6Network

VARIABLES_ARE_FOR_SECRETS = " (${VAR} is read in api_key, auth.keys[].key and slots.url only)"


class At(NamedTuple):
    """Where in the file a value stands, and the environment that ``${VAR}`` is read from."""

    path: str
    environ: Mapping[str, str]

    def key(self, name: object) -> At:
        plain = str(name) and str(name).isprintable()
        name = str(name) if plain else json.dumps(name)
        return self._replace(path=f"{self.path}.{name}" if self.path else name)

    def item(self, number: int) -> At:
        return self._replace(path=f"{self.path}[{number}]")

    def problem(self, text: str) -> ConfigError:
        return ConfigError(f"{self.path}: {text}" if self.path else text)


class Kind:
    """How one setting is read.  ``expected`` completes "expected …"."""

    expected: str

    def read(self, value: object, at: At) -> Any:
        """The typed value.  Raises ConfigError with every problem found in ``value``."""
        raise NotImplementedError

    def wrong(self, value: object, at: At, hint: str = "") -> ConfigError:
        hint = hint or (VARIABLES_ARE_FOR_SECRETS if has_variable(value) else "")
        return at.problem(f"expected {self.expected}, got {shown(value)}{hint}")


class Whole(Kind):
    """A whole number within bounds; ``true`` is not one, though Python thinks so."""

    def __init__(self, minimum: int, maximum: int | None = None) -> None:
        self.minimum, self.maximum = minimum, maximum
        bounds = f">= {minimum}" if maximum is None else f"from {minimum} to {maximum}"
        self.expected = f"a whole number {bounds}"

    def read(self, value: object, at: At) -> int:
        if not isinstance(value, int) or isinstance(value, bool):
            raise self.wrong(value, at)
        if value < self.minimum or (self.maximum is not None and value > self.maximum):
            raise self.wrong(value, at)
        return value


class Seconds(Kind):
    """A finite time span; ``zero`` says whether none at all is a choice."""

    def __init__(self, *, zero: bool = False) -> None:
        self.zero = zero
        self.expected = f"a number of seconds {'>=' if zero else '>'} 0"

    def read(self, value: object, at: At) -> float:
        if not isinstance(value, int | float) or isinstance(value, bool):
            raise self.wrong(value, at)
        if not math.isfinite(value) or value < 0 or (value == 0 and not self.zero):
            raise self.wrong(value, at)
        return value


class Switch(Kind):
    """On or off, in YAML 1.2's words for it."""

    expected = "true or false"

    def read(self, value: object, at: At) -> bool:
        if not isinstance(value, bool):
            raise self.wrong(value, at)
        return value


class Text(Kind):
    """Some text on one line."""

    expected = "a text"

    def read(self, value: object, at: At) -> str:
        if isinstance(value, bool | int | float):
            raise self.wrong(value, at, " (put it in quotes to make it a text)")
        if not isinstance(value, str) or not value.strip() or not value.isprintable():
            raise self.wrong(value, at)
        if has_variable(value):
            raise self.wrong(value, at)
        return value


class Choice(Kind):
    """One of an enum's values."""

    def __init__(self, choices: type[enum.StrEnum]) -> None:
        self.choices = choices
        self.expected = "one of " + ", ".join(choices)

    def read(self, value: object, at: At) -> enum.StrEnum:
        if isinstance(value, str) and value in list(self.choices):
            return self.choices(value)
        raise self.wrong(value, at, suggestion(value, self.choices))


class Cidr(Kind):
    """A network, or the single address that is one."""

    expected = "an address or a network such as 10.0.0.0/8"

    def read(self, value: object, at: At) -> Network:
        if not isinstance(value, str):
            raise self.wrong(value, at)
        try:
            return ipaddress.ip_network(value)
        except ValueError:
            raise self.wrong(value, at, _masked(value)) from None


class BaseUrl(Kind):
    """Where an upstream lives, kept without what the gateway appends itself.

    People paste what their server printed, so a trailing slash, ``/v1`` and the two endpoints'
    own paths are accepted and cut off; any other path stays as a prefix.
    """

    expected = "a base URL such as http://127.0.0.1:8000"
    _ending = re.compile(r"(?:/v1(?:/chat/completions|/messages)?)?/*\Z")

    def read(self, value: object, at: At) -> str:
        parts = split_url(value)
        scheme_fits = parts is not None and parts.scheme in ("http", "https")
        if parts is None or not scheme_fits or not parts.hostname or has_variable(value):
            raise self.wrong(value, at) if "@" not in str(value) else self._unshown(at)
        if "@" in parts.netloc:
            raise at.problem("expected no user or password in the URL; use api_key")
        if parts.query or parts.fragment or str(value)[-1] in "?#":
            raise self.wrong(value, at, " (remove the part from ? or # on)")
        path = self._ending.sub("", parts.path.rstrip("/"))
        return f"{parts.scheme}://{parts.netloc}{path}"

    def _unshown(self, at: At) -> ConfigError:
        return at.problem(f"expected {self.expected}, without user or password")


class Nullable(Kind):
    """Another kind, or null."""

    def __init__(self, inner: Kind) -> None:
        self.inner = inner
        self.expected = inner.expected = f"{inner.expected}, or null"

    def read(self, value: object, at: At) -> Any:
        return None if value is None else self.inner.read(value, at)


def split_url(value: object) -> SplitResult | None:
    """The parts of a URL, or None where it is not one (a bad port, a space, no text at all)."""
    if not isinstance(value, str) or not re.fullmatch(r"[!-~]+", value):
        return None
    try:
        parts = urlsplit(value)
        return None if parts.port == 0 else parts
    except ValueError:
        return None


def has_variable(value: object) -> bool:
    """Whether ``value`` hopes for the environment, which is read where secrets stand only."""
    return isinstance(value, str) and re.search(r"\$\{[^}]*\}", value) is not None


def suggestion(value: object, known: Iterable[str]) -> str:
    """`` (did you mean x?)``, or nothing where nothing is near."""
    near = difflib.get_close_matches(str(value), list(known), n=1)
    return f" (did you mean {near[0]}?)" if near else ""


def shown(value: object) -> str:
    """A wrong value as its author wrote it, cut where it is long."""
    match value:
        case None:
            return "nothing"
        case dict() | Mapping():
            return "a mapping"
        case list() | tuple():
            return "a list"
        case float() if not math.isfinite(value):
            return str(value)
        case str() | int() | float():
            text = json.dumps(value, ensure_ascii=False)
            return text if len(text) <= 80 else text[:77] + '…"'
        case _:
            return f"a {type(value).__name__}"


def _masked(value: str) -> str:
    try:
        return f" (did you mean {ipaddress.ip_network(value, strict=False)}?)"
    except ValueError:
        return ""
