"""The list of models and its pages, as Anthropic's SDKs read them."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.errors import InvalidRequest, NotFound
from gateway.relay.models import model_item, model_page

NAMES = ["a", "b", "c", "d", "e"]


def page(names: list[str], **query: str) -> Any:
    return json.loads(model_page(names, query))


def ids(page: Any) -> list[str]:
    return [model["id"] for model in page["data"]]


def test_a_model_has_anthropics_shape() -> None:
    model = {"type": "model", "id": "a/b:c", "display_name": "a/b:c"}
    assert json.loads(model_item(["a/b:c"], "a/b:c")) == model | {
        "created_at": "1970-01-01T00:00:00Z"
    }


def test_an_unknown_model_is_not_found() -> None:
    with pytest.raises(NotFound, match="Known models: a, b, c, d, e"):
        model_item(NAMES, "z")


@pytest.mark.parametrize(
    ("query", "got", "has_more"),
    [
        ({}, "abcde", False),
        ({"limit": "5"}, "abcde", False),
        ({"limit": "4"}, "abcd", True),
        ({"limit": "2", "after_id": "a"}, "bc", True),
        ({"limit": "2", "after_id": "c"}, "de", False),
        ({"after_id": "e"}, "", False),
        ({"limit": "2", "before_id": "e"}, "cd", True),
        ({"limit": "2", "before_id": "c"}, "ab", False),
        ({"before_id": "a"}, "", False),
        ({"after_id": "", "before_id": "", "limit": ""}, "abcde", False),
        ({"beta": "true", "limit": "1000"}, "abcde", False),
    ],
)
def test_a_page_is_cut_where_it_is_asked(query: Any, got: str, has_more: bool) -> None:
    answer = page(NAMES, **query)
    assert ids(answer) == list(got)
    assert answer["has_more"] is has_more
    assert answer["first_id"] == (got[0] if got else None)
    assert answer["last_id"] == (got[-1] if got else None)


def test_a_page_has_twenty_models_unless_asked_otherwise() -> None:
    assert len(page([str(number) for number in range(21)])["data"]) == 20


@pytest.mark.parametrize("limit", ["0", "-1", "1001", "ten", "1.5", " 1", "+1", "²", "9" * 5000])
def test_a_bad_limit_is_refused(limit: str) -> None:
    with pytest.raises(InvalidRequest, match="limit: Input should be a whole number from 1 to"):
        page(NAMES, limit=limit)


@pytest.mark.parametrize("parameter", ["after_id", "before_id"])
def test_an_id_that_is_gone_is_no_silent_end_of_the_list(parameter: str) -> None:
    with pytest.raises(InvalidRequest, match=f"{parameter}: there is no model 'z'"):
        page(NAMES, **{parameter: "z"})


def test_a_page_has_one_direction() -> None:
    with pytest.raises(InvalidRequest, match="after_id"):
        page(NAMES, after_id="a", before_id="c")


@given(st.lists(st.text(min_size=1), unique=True), st.integers(1, 9))
@settings(deadline=None)
def test_following_the_pages_gives_every_model_once(names: list[str], limit: int) -> None:
    seen: list[str] = []
    answer = page(names, limit=str(limit))
    while True:
        seen += ids(answer)
        if not answer["has_more"]:
            break
        answer = page(names, limit=str(limit), after_id=answer["last_id"])
    assert seen == names
