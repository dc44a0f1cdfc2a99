"""The configured models in the shapes of Anthropic's Models API (platform.claude.com, "Models").

``created_at`` is the epoch, which is Anthropic's own answer for a release date nobody knows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import msgspec

from gateway.errors import InvalidRequest, NotFound

DEFAULT_LIMIT: Final = 20
MOST: Final = 1000


class Model(msgspec.Struct, frozen=True):
    id: str
    display_name: str
    type: str = "model"
    created_at: str = "1970-01-01T00:00:00Z"


class ModelPage(msgspec.Struct, frozen=True):
    data: list[Model]
    has_more: bool
    first_id: str | None
    last_id: str | None


def model_item(names: Sequence[str], name: str) -> bytes:
    """The JSON of one model.  Raises NotFound."""
    if name not in names:
        raise NotFound(f"model: {name[:200]!r} is not known here. Known models: {listed(names)}.")
    return msgspec.json.encode(Model(name, name))


def model_page(names: Sequence[str], query: Mapping[str, str]) -> bytes:
    """The JSON of one page of models, in the order of ``names``.

    ``query`` may hold ``limit`` (1..1000, 20 if absent), and ``after_id`` or ``before_id``: the
    page begins right after the one or ends right before the other.  Raises InvalidRequest.
    """
    limit = limit_of(query.get("limit"))
    after, before = query.get("after_id"), query.get("before_id")
    if after and before:
        raise InvalidRequest("after_id: cannot be used together with before_id")
    if before:
        candidates = names[: place_of(before, names, "before_id")]
        page = candidates[-limit:]
    else:
        candidates = names[place_of(after, names, "after_id") + 1 :] if after else names
        page = candidates[:limit]
    return msgspec.json.encode(
        ModelPage(
            data=[Model(name, name) for name in page],
            has_more=len(candidates) > len(page),
            first_id=page[0] if page else None,
            last_id=page[-1] if page else None,
        )
    )


def limit_of(text: str | None) -> int:
    if not text:
        return DEFAULT_LIMIT
    if not (text.isascii() and text.isdigit() and len(text) <= 4 and 1 <= int(text) <= MOST):
        raise InvalidRequest(f"limit: Input should be a whole number from 1 to {MOST}")
    return int(text)


def place_of(name: str, names: Sequence[str], parameter: str) -> int:
    """An id that is gone, say after a reload, is an error: an empty page would look like the
    end of the list."""
    if name not in names:
        raise InvalidRequest(f"{parameter}: there is no model {name[:200]!r}")
    return names.index(name)


def listed(names: Sequence[str]) -> str:
    return ", ".join(sorted(names))
