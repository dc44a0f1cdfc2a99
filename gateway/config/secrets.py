"""Kinds of values that nobody may read over a shoulder: credentials and URLs that hold them.

They come from the environment through ``${VAR}``.  Neither a repr, nor a table, nor the message
about a wrong one repeats them.
"""

from __future__ import annotations

import re

from gateway.config.kinds import At, Kind, shown, split_url
from gateway.errors import ConfigError


class Secret(str):
    """A text that a repr, a table or a traceback does not show."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "'***'"


class SecretUrl(Secret):
    """A URL that is shown without its password."""

    __slots__ = ()

    def __repr__(self) -> str:
        return repr(re.sub(r"//.*@", "//***@", str(self)))


class SecretText(Kind):
    """A credential, with ``${VAR}`` anywhere in it read from the environment.

    It travels in a header, so only visible ASCII passes; white space around it, which files and
    environments like to add, is cut off.
    """

    expected = "visible ASCII characters or ${VAR}"

    def read(self, value: object, at: At) -> Secret:
        if not isinstance(value, str):
            raise at.problem(f"expected {self.expected}")
        text = expanded(value, at).strip()
        if not re.fullmatch(r"[!-~]+", text):
            raise at.problem(f"expected {self.expected}")
        return Secret(text)


class RedisUrl(SecretText):
    """Where Redis is; the URL may hold a password."""

    expected = "a URL such as redis://127.0.0.1:6379/0"

    def read(self, value: object, at: At) -> SecretUrl:
        text = super().read(value, at)
        parts = split_url(str(text))
        place = {"redis": "hostname", "rediss": "hostname", "unix": "path"}
        if parts is None or not getattr(parts, place.get(parts.scheme, ""), None):
            raise at.problem(f"expected {self.expected}")
        if parts.scheme != "unix" and not re.fullmatch(r"/?\d*", parts.path):
            raise at.problem("expected the number of a database after the address, such as /0")
        return SecretUrl(text)


class Sha256(Kind):
    """A digest in hexadecimal, as ``sha256sum`` prints it."""

    expected = "64 hexadecimal digits"

    def read(self, value: object, at: At) -> str:
        if not isinstance(value, str) or not re.fullmatch(r"[0-9a-fA-F]{64}", value):
            raise at.problem(f"expected {self.expected}")
        return value.lower()


def expanded(text: str, at: At) -> str:
    """``text`` with each ``${VAR}`` replaced.

    Raises ConfigError naming the missing ones, or for a brace that is.
    """
    if re.fullmatch(r"\$\w+", text.strip()) or re.search(r"\$\{[^}]*\Z", text):
        raise at.problem("expected ${VAR} with both braces")
    names = re.findall(r"\$\{([^}]*)\}", text)
    missing = sorted({name for name in names if not at.environ.get(name)})
    if missing:
        raise ConfigError(*(f"{at.path}: {_why_missing(name)}" for name in missing))
    return re.sub(r"\$\{([^}]*)\}", lambda match: at.environ[match[1]], text)


def _why_missing(name: str) -> str:
    if re.fullmatch(r"\w+", name):
        return f"environment variable {name} is not set"
    return f"expected ${{VAR}} with just a name between the braces, got {shown(f'${{{name}}}')}"
