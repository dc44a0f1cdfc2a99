"""A YAML file as plain data: strict about duplicate keys, modern about plain words.

PyYAML follows YAML 1.1, where an unquoted ``off`` is false and ``12:30`` is the number 750.  The
loader here reads plain scalars by YAML 1.2's core schema, so ``mode: off`` means what it says.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import yaml

from gateway.errors import ConfigError

_PLAIN = (
    ("tag:yaml.org,2002:null", r"~|null|Null|NULL|", "~nN\0"),
    ("tag:yaml.org,2002:bool", r"true|True|TRUE|false|False|FALSE", "tTfF"),
    ("tag:yaml.org,2002:int", r"[-+]?(0|[1-9][0-9_]*)", "-+0123456789"),
    (
        "tag:yaml.org,2002:float",
        r"[-+]?(\.[0-9]+|[0-9]+\.[0-9]*|[0-9]+(?=[eE]))([eE][-+]?[0-9]+)?|[-+]?\.inf|\.nan",
        "-+.0123456789",
    ),
    ("tag:yaml.org,2002:merge", r"<<", "<"),
)


class _Loader(yaml.SafeLoader):
    """PyYAML's safe loader with the plain scalars above and no others."""

    def construct_object(self, node: yaml.Node, deep: bool = False) -> object:
        """``!!int six``: PyYAML lets Python's own error through, which knows no line."""
        try:
            return super().construct_object(node, deep=deep)
        except (ValueError, TypeError, LookupError, AttributeError, ArithmeticError):
            kind = node.tag.rpartition(":")[2]
            problem = f"this cannot be read as {kind}"
            raise yaml.constructor.ConstructorError(None, None, problem, node.start_mark) from None


_Loader.yaml_implicit_resolvers = {}
for _tag, _pattern, _first in _PLAIN:
    _first_characters = ["" if character == "\0" else character for character in _first]
    _Loader.add_implicit_resolver(_tag, re.compile(rf"(?:{_pattern})\Z"), _first_characters)


def read_text(path: Path) -> str:
    """The text of the file at ``path``.  Raises ConfigError if it cannot be read as UTF-8."""
    try:
        return path.read_bytes().decode("utf-8-sig")
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read: {error.strerror}") from None
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path}: is not UTF-8 text (at byte {error.start})") from None


def parse(text: str, source: str) -> dict[str, object]:
    """The top-level mapping of ``text``.

    Raises ConfigError with the line of a syntax error, or with every duplicate key.
    """
    try:
        loader = _Loader(text)
        try:
            node = loader.get_single_node()
            duplicates = list(_duplicate_keys(node, "", set()))
            data = None if duplicates or node is None else loader.construct_document(node)
        finally:
            loader.dispose()
    except (yaml.YAMLError, RecursionError) as error:
        raise ConfigError(f"{source}: {_in_one_line(error, text)}") from None
    if duplicates:
        raise ConfigError(*duplicates)
    if data is None:
        raise ConfigError(f"{source}: is empty; it needs at least one entry under upstreams")
    if not isinstance(data, dict):
        raise ConfigError(f"{source}: expected settings such as `upstreams:` at the top level")
    return data


def _duplicate_keys(node: yaml.Node | None, path: str, seen: set[int]) -> Iterator[str]:
    """One problem per key that stands twice in the same mapping, all the way down."""
    if node is None or id(node) in seen:
        return
    seen.add(id(node))
    if isinstance(node, yaml.SequenceNode):
        for index, item in enumerate(node.value):
            yield from _duplicate_keys(item, f"{path}[{index}]", seen)
    if isinstance(node, yaml.MappingNode):
        lines: dict[object, int] = {}
        for key, value in node.value:
            name = f"{path}.{key.value}" if path else str(key.value)
            line = key.start_mark.line + 1
            if isinstance(key, yaml.ScalarNode):
                if key.value in lines:
                    yield f"{name}: given twice, in line {lines[key.value]} and in line {line}"
                lines[key.value] = line
            yield from _duplicate_keys(value, name, seen)


def _in_one_line(error: Exception, text: str) -> str:
    match error:
        case RecursionError():
            return "is nested too deeply"
        case yaml.reader.ReaderError():
            line = text.count("\n", 0, error.position) + 1
            return f"line {line}: is not valid YAML: it holds U+{error.character:04X}"
    mark = getattr(error, "problem_mark", None) or getattr(error, "context_mark", None)
    problem = getattr(error, "problem", None) or " ".join(str(error).split())
    if problem.startswith("but "):
        problem = f"{getattr(error, 'context', '')}, {problem}"
    if mark is None:
        return f"is not valid YAML: {problem}"
    if text[mark.index - 1 : mark.index + 1] == "${":
        problem = "inside { } a ${VAR} must be put in quotes"
    return f"line {mark.line + 1}, column {mark.column + 1}: is not valid YAML: {problem}"
