"""Kinds that hold other kinds: a section of settings, named sections, lists.

Each reads all of its parts before it complains, so that one run names every problem.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Generic, TypeVar, get_type_hints

from gateway.config.kinds import At, Kind, Text, shown, suggestion
from gateway.errors import ConfigError

T = TypeVar("T")


class Section(Kind, Generic[T]):
    """A frozen dataclass whose settings are the fields annotated with a kind.

    A class with a method ``problems()`` is asked, once all its parts are sound, for what is wrong
    between them: pairs of a key and a text.
    """

    expected = "a mapping of settings"

    def __init__(self, into: type[T]) -> None:
        self.into = into

    def read(self, value: object, at: At, **extra: object) -> T:
        value = {} if value is None else value
        if not isinstance(value, Mapping):
            raise self.wrong(value, at)
        kinds = settings_of(self.into)
        unknown = [_unknown(key, kinds, at) for key in value if key not in kinds]
        with_default = defaults_of(self.into)
        missing = [
            at.key(key).problem("is required")
            for key in kinds
            if key not in value and key not in with_default
        ]
        given = {key: kind for key, kind in kinds.items() if key in value}
        parts = _read_all((key, given[key], value[key], at.key(key)) for key in given)
        raise_all([*unknown, *missing, *parts.problems])
        return self._consistent(self.into(**parts.values, **extra), at)

    def _consistent(self, section: T, at: At) -> T:
        problems: Callable[[], Iterable[tuple[str, str]]] | None
        problems = getattr(section, "problems", None)
        if problems is not None:
            raise_all([at.key(key).problem(text) for key, text in problems()])
        return section


class Named(Kind, Generic[T]):
    """A mapping from names to sections of one class, which learn their ``name``."""

    def __init__(self, into: type[T], what: str) -> None:
        self.section = Section(into)
        self.expected = f"at least one {what}, each under its name"

    def read(self, value: object, at: At) -> dict[str, T]:
        if not isinstance(value, Mapping) or not value:
            raise self.wrong(value, at)
        parts = _read_all(
            (name, functools.partial(self._entry, name), body, at.key(name))
            for name, body in value.items()
        )
        raise_all([*parts.problems, *self.between(value, at)])
        return parts.values

    def _entry(self, name: object, value: object, at: At) -> T:
        return self.section.read(value, at, name=Text().read(name, at))

    def between(self, value: Mapping[Any, object], at: At) -> Iterator[ConfigError]:
        """Problems between the entries as they were written; others may be wrong themselves."""
        yield from ()


class ListOf(Kind):
    """A list of one kind, kept as a tuple."""

    def __init__(self, item: Kind, expected: str) -> None:
        self.item = item
        self.expected = expected

    def read(self, value: object, at: At) -> tuple[Any, ...]:
        if not isinstance(value, list | tuple):
            raise self.wrong(value, at)
        parts = _read_all(
            (index, self.item, item, at.item(index)) for index, item in enumerate(value)
        )
        raise_all(parts.problems)
        return tuple(parts.values.values())


def settings_of(section: type) -> dict[str, Kind]:
    """The settings of a section in their order, each with its kind."""
    hints = get_type_hints(section, include_extras=True)
    return {
        name: kind
        for name, hint in hints.items()
        for kind in getattr(hint, "__metadata__", ())
        if isinstance(kind, Kind)
    }


def defaults_of(section: type) -> dict[str, Any]:
    """The value of each setting that may be left out."""
    defaults: dict[str, Any] = {}
    for field in dataclasses.fields(section):
        if field.default is not dataclasses.MISSING:
            defaults[field.name] = field.default
        elif field.default_factory is not dataclasses.MISSING:
            defaults[field.name] = field.default_factory()
    return defaults


def raise_all(problems: Iterable[ConfigError]) -> None:
    """One ConfigError out of many, or nothing out of none."""
    texts = [text for problem in problems for text in problem.problems]
    if texts:
        raise ConfigError(*texts)


@dataclasses.dataclass
class _Parts:
    values: dict[Any, Any]
    problems: list[ConfigError]


def _read_all(
    parts: Iterable[tuple[object, Kind | Callable[[object, At], Any], object, At]],
) -> _Parts:
    read = _Parts({}, [])
    for key, kind, value, at in parts:
        reader = kind.read if isinstance(kind, Kind) else kind
        try:
            read.values[key] = reader(value, at)
        except ConfigError as error:
            read.problems.append(error)
    return read


def _unknown(key: object, known: Iterable[str], at: At) -> ConfigError:
    if not isinstance(key, str):
        where = at._replace(path=at.path or "the top level")
        return where.problem(f"expected the name of a setting, got {shown(key)}")
    return at.key(key).problem(f"unknown setting{suggestion(key, known)}")
