"""The copy of a shared line: it follows events, in any order of joining, and forgives repeats."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from gateway.slots.redis_copy import copy_line
from gateway.slots.redis_mirror import Event, Mirror
from gateway.slots.redis_verbs import BATCH, Reply, channel_of, keys_of


def joined(*numbers: int) -> Mirror:
    mirror = Mirror(slots=1)
    for number in numbers:
        mirror.apply(["join", f"r.{number}", str(number), "c", "m"])
    return mirror


def places(mirror: Mirror) -> dict[str, int]:
    return {ticket_id: mirror.position(ticket_id) for ticket_id in mirror.first(mirror.waiting)}


def test_an_older_ticket_that_comes_back_stands_before_the_younger() -> None:
    assert places(joined(10, 30, 20)) == {"r.10": 1, "r.20": 2, "r.30": 3}


def test_a_grant_takes_a_ticket_out_of_the_line_into_a_slot() -> None:
    mirror = joined(10, 20)
    mirror.apply(["grant", "r.10", "40"])
    assert (places(mirror), mirror.leases["r.10"].since) == ({"r.20": 1}, 40)
    mirror.apply(["leave", "r.10"])
    assert (mirror.leases, mirror.turned) == ({}, 40)
    assert repr(mirror) == "<Mirror 0/1 running, 1 waiting>"


def test_replaying_skips_what_the_copy_has_in_it_and_keeps_the_last_version() -> None:
    mirror = joined(10)
    mirror.version = 5
    mirror.replay([(5, [["leave", "r.10"]]), (6, [["slots", "3"]]), (7, [["gathered"]])])
    assert (places(mirror), mirror.slots, mirror.version) == ({"r.10": 1}, 3, 7)


@st.composite
def histories(draw: st.DrawFn) -> list[Event]:
    """What Redis may publish: joins, grants of the first, leaves of anybody."""
    line: list[str] = []
    running: list[str] = []
    events: list[Event] = []
    for number in range(1, draw(st.integers(1, 25)) + 1):
        ticket_id = f"r.{number}"
        line.append(ticket_id)
        events.append(["join", ticket_id, str(number), "c", "m"])
        if draw(st.booleans()) and line:
            running.append(line.pop(0))
            events.append(["grant", running[-1], str(number)])
        leaver = draw(st.sampled_from([None, *line, *running]))
        if leaver is not None:
            (line if leaver in line else running).remove(leaver)
            events.append(["leave", leaver])
    return events


def following(events: list[Event]) -> Mirror:
    mirror = Mirror(slots=1)
    for event in events:
        mirror.apply(event)
    return mirror


@given(histories(), st.data())
def test_applying_again_what_a_copy_has_in_it_changes_nothing(
    events: list[Event], data: st.DataObject
) -> None:
    known = data.draw(st.integers(0, len(events)))
    again = data.draw(st.integers(0, known))
    mirror = following(events[:known])
    for event in events[again:]:
        mirror.apply(event)
    whole = following(events)
    assert (places(mirror), mirror.leases.keys()) == (places(whole), whole.leases.keys())


async def test_a_long_line_is_copied_page_by_page_and_the_leases_last() -> None:
    line = [(number, f"r.{number}".encode()) for number in range(1, 2 * BATCH + 2)]
    asked: list[int] = []

    async def ask(after: int, count: int) -> Reply:
        asked.append(after)
        page = [pair for pair in line if pair[0] > after][:count]
        waiting = [[id, f'["{number}","c","m"]'.encode()] for number, id in page]
        running = [[b"r.0", b"7", b'["0","c","m"]']] if len(page) < count else None
        return Reply("ok", 9 + len(asked), 0, 0, False, [4, 7, waiting, running])

    mirror = await copy_line(ask)
    assert asked == [0, BATCH, 2 * BATCH]
    assert (mirror.waiting, mirror.version, mirror.slots) == (len(line), 10, 4)
    assert mirror.position("r.777") == 777 and mirror.leases["r.0"].since == 7


def test_all_keys_of_an_upstream_share_one_hash_tag_whatever_its_name() -> None:
    names = ["m", "a}b", "{", "a:b", "a b", "é\n"]
    for name in names:
        keys = [*keys_of(name), channel_of(name)]
        tags = {key[key.index("{") + 1 : key.index("}")] for key in keys}
        assert len(tags) == 1 and len(set(keys)) == len(keys)
        assert all(key.isascii() and key.isprintable() and " " not in key for key in keys)
    assert len({channel_of(name) for name in names}) == len(names)
