"""JSON from clients into typed values, and msgspec's complaints into Anthropic's words.

Anthropic names the place with dots and says what it wanted there: ``messages.0.role: Field
required``, ``max_tokens: Input should be a whole number``.  Clients match on such texts, so ours
read alike.
"""

from __future__ import annotations

import re
from typing import Any, TypeVar

import msgspec

from gateway.errors import InvalidRequest

T = TypeVar("T")

#: msgspec ends its messages with where in the document it was, ``- at `$.messages[0].role```.
PLACE = re.compile(r"(?P<what>.*) - at `\$(?P<place>.*)`", re.DOTALL)
MISSING = re.compile(r"Object missing required field `(?P<field>.*)`", re.DOTALL)
EXPECTED = re.compile(
    r"Expected `(?P<kind>[^`]+)`(?: (?P<bound>>=|<=|of length >=) (?P<most>\S+))?(?:, got .*)?"
)
UNKNOWN = re.compile(r"Invalid value (?P<value>.*)", re.DOTALL)

KINDS = {
    "str": "a string",
    "int": "a whole number",
    "float": "a number",
    "bool": "true or false",
    "array": "a list",
    "object": "an object",
    "null": "null",
}


def decode(decoder: msgspec.json.Decoder[T], document: bytes | msgspec.Raw, at: str = "") -> T:
    """The document as the decoder's type.

    ``at`` is where the document stands in the request, such as ``messages.3.content.0``.
    Raises InvalidRequest that names the place and what was wanted there.
    """
    try:
        return decoder.decode(document)
    except msgspec.ValidationError as error:
        raise InvalidRequest(in_our_words(str(error), at)) from None
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise InvalidRequest(f"The request body is not valid JSON: {error}") from None
    except RecursionError:
        raise InvalidRequest("The request body is not usable: nested too deeply") from None


def decode_any(document: bytes | msgspec.Raw, at: str) -> Any:
    """Any JSON value.  Raises InvalidRequest."""
    return decode(ANYTHING, document, at)


ANYTHING: msgspec.json.Decoder[Any] = msgspec.json.Decoder()


def compact(value: Any) -> str:
    """A decoded value as JSON text again.  Raises InvalidRequest if it is nested too deeply."""
    try:
        return msgspec.json.encode(value).decode()
    except RecursionError:
        raise InvalidRequest("The request body is not usable: nested too deeply") from None


def in_our_words(complaint: str, at: str = "") -> str:
    """``Expected `int`, got `str` - at `$.max_tokens``` as ``max_tokens: Input should be …``."""
    what, place = complaint, at
    if found := PLACE.fullmatch(complaint):
        what, place = found["what"], joined(at, dotted(found["place"]))
    if found := MISSING.fullmatch(what):
        return f"{joined(place, found['field'])}: Field required"
    if found := UNKNOWN.fullmatch(what):
        return f"{place}: {found['value'][:200]} is not supported here"
    if found := EXPECTED.fullmatch(what):
        return f"{place or 'body'}: Input should be {wanted(found)}"
    return f"{place or 'body'}: {what}"


def wanted(found: re.Match[str]) -> str:
    names = [name.strip() for name in found["kind"].split("|")]
    unsaid = {"null", "int"} if "float" in names else {"null"}
    kind = " or ".join(KINDS.get(name, name) for name in names if name not in unsaid) or "null"
    match found["bound"]:
        case ">=":
            return f"{kind} greater than or equal to {found['most']}"
        case "<=":
            return f"{kind} less than or equal to {found['most']}"
        case "of length >=":
            return f"{kind} that is not empty"
        case _:
            return kind


def dotted(place: str) -> str:
    """``.messages[0].role`` as ``messages.0.role``; ``[...]``, any member of a map, is left out."""
    return re.sub(r"\[(\d+)\]", r".\1", place.replace("[...]", "")).strip(".")


def joined(*parts: str) -> str:
    return ".".join(part for part in parts if part)
