"""The configuration: one YAML file, read once into frozen, typed values.

``schema`` is the shape and the defaults, as data; ``kinds``, ``secrets`` and ``sections`` read
values into it and name the path of everything that is wrong; ``document`` is the YAML file itself;
``table`` shows the result to people.  ``docs/config.md`` documents every setting, which a test
checks.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from gateway.config import document
from gateway.config.kinds import At
from gateway.config.schema import (
    AdminConfig,
    AuthConfig,
    AuthKey,
    ClientConfig,
    Config,
    Dialect,
    ListenConfig,
    QueueConfig,
    QueueEventsConfig,
    QueueEventsMode,
    Server,
    ShutdownConfig,
    SlotBackend,
    SlotsConfig,
    TimeoutsConfig,
    UpstreamConfig,
)
from gateway.config.secrets import Secret, SecretUrl
from gateway.config.sections import Section
from gateway.config.table import Row, changes, check, describe

__all__ = [
    "AdminConfig",
    "AuthConfig",
    "AuthKey",
    "ClientConfig",
    "Config",
    "Dialect",
    "ListenConfig",
    "QueueConfig",
    "QueueEventsConfig",
    "QueueEventsMode",
    "Row",
    "Secret",
    "SecretUrl",
    "Server",
    "ShutdownConfig",
    "SlotBackend",
    "SlotsConfig",
    "TimeoutsConfig",
    "UpstreamConfig",
    "changes",
    "check",
    "describe",
    "from_mapping",
    "load",
    "parse",
]


def load(path: str | Path, environ: Mapping[str, str] = os.environ) -> Config:
    """The configuration in the file at ``path``.

    Raises ConfigError with every problem found: an unreadable file or broken YAML alone, wrong
    settings all together, each with its path (``upstreams.reasoning.slots: expected …``).
    """
    path = Path(path)
    return parse(document.read_text(path), environ, source=str(path))


def parse(
    text: str, environ: Mapping[str, str] = os.environ, *, source: str = "config.yaml"
) -> Config:
    """The configuration in ``text``; problems of the whole file begin with ``source``."""
    return from_mapping(document.parse(text, source), environ)


def from_mapping(data: Mapping[str, object], environ: Mapping[str, str] = os.environ) -> Config:
    """The configuration in plain data, such as a test writes it.  Raises ConfigError."""
    return Section(Config).read(data, At("", environ))
