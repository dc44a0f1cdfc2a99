"""The decision core: what each verb answers, and the invariants under any order of verbs."""

from __future__ import annotations

import time

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from gateway.slots.base import LineLimits, Outcome
from gateway.slots.fifo import NOTHING, Effects, Fifo

AMPLE = LineLimits(max_waiting=1000, max_wait_seconds=60)


def fifo_of(slots: int, joined: int = 0, limits: LineLimits = AMPLE) -> Fifo:
    """Tickets 1, 2, 3 ... have joined at second 0."""
    fifo = Fifo(slots=slots, limits=limits)
    for _ in range(joined):
        fifo.join(client="c", model="m", now=0)
    return fifo


def positions(fifo: Fifo) -> dict[int, int]:
    return {number: fifo.position(number) for number, _ in fifo.line()}


def test_a_free_slot_is_granted_at_once() -> None:
    assert fifo_of(1).join(client="c", model="m", now=0) == (1, Effects(granted=(1,)))


def test_whoever_finds_no_slot_stands_at_the_end() -> None:
    fifo = fifo_of(1, joined=1)
    assert fifo.join(client="c", model="m", now=0) == (2, NOTHING)
    assert fifo.join(client="c", model="m", now=0) == (3, NOTHING)
    assert positions(fifo) == {2: 1, 3: 2}


def test_a_released_slot_goes_to_the_first_in_line() -> None:
    fifo = fifo_of(1, joined=3)
    assert fifo.leave(1, 1) == Effects(granted=(2,), moved=True)
    assert positions(fifo) == {3: 1}


def test_leaving_after_the_grant_passes_the_slot_to_the_next_ticket() -> None:
    fifo = fifo_of(1, joined=3)
    fifo.leave(1, 1)
    assert fifo.leave(2, 1) == Effects(granted=(3,), moved=True)


def test_leaving_twice_releases_one_slot() -> None:
    fifo = fifo_of(2, joined=4)
    assert fifo.leave(1, 1).granted == (3,)
    assert fifo.leave(1, 1) == NOTHING
    assert fifo.running == 2


def test_leaving_the_line_frees_no_slot() -> None:
    fifo = fifo_of(1, joined=3)
    assert fifo.leave(2, 1) == Effects(ended=((2, Outcome.ABANDONED),), moved=True)
    assert (fifo.running, positions(fifo)) == (1, {3: 1})


def test_lowering_stops_nobody_and_raising_grants_in_order() -> None:
    fifo = fifo_of(3, joined=6)
    assert fifo.reconfigure(slots=1, limits=AMPLE, now=1) == NOTHING
    assert [fifo.leave(number, 1).granted for number in (1, 2)] == [(), ()]
    assert fifo.leave(3, 1).granted == (4,)
    assert fifo.reconfigure(slots=4, limits=AMPLE, now=1).granted == (5, 6)


def test_the_longest_waiting_expire_and_the_others_move_up() -> None:
    fifo = fifo_of(1, joined=3)
    fifo.join(client="c", model="m", now=5)
    assert fifo.next_expiry() == 60
    ended = ((2, Outcome.EXPIRED), (3, Outcome.EXPIRED))
    assert fifo.expire(60) == Effects(ended=ended, moved=True)
    assert (positions(fifo), fifo.next_expiry()) == ({4: 1}, 65)


def test_a_full_line_refuses_and_moves_nobody() -> None:
    fifo = fifo_of(1, joined=2, limits=LineLimits(max_waiting=1, max_wait_seconds=60))
    assert fifo.join(client="c", model="m", now=0)[1] == Effects(
        ended=((3, Outcome.REJECTED_FULL),)
    )


def test_a_line_of_length_zero_still_grants_free_slots() -> None:
    fifo = fifo_of(1, limits=LineLimits(max_waiting=0, max_wait_seconds=60))
    assert fifo.join(client="c", model="m", now=0)[1].granted == (1,)


def test_a_client_may_fill_its_share_of_the_line_only() -> None:
    fifo = fifo_of(1, joined=1, limits=LineLimits(9, 60, max_waiting_per_client=1))
    outcomes = [fifo.join(client=name, model="m", now=0)[1].ended for name in ("a", "a", "b")]
    assert outcomes == [(), ((3, Outcome.REJECTED_CLIENT_LIMIT),), ()]
    fifo.leave(2, 1)
    assert fifo.join(client="a", model="m", now=0)[1].ended == ()


def test_eviction_empties_the_line_and_refuses_newcomers_for_the_same_reason() -> None:
    for reason, refusal in [
        (Outcome.EVICTED_CLOSING, Outcome.REJECTED_CLOSING),
        (Outcome.EVICTED_REMOVED, Outcome.EVICTED_REMOVED),
    ]:
        fifo = fifo_of(1, joined=2)
        assert fifo.evict(reason).ended == ((2, reason),)
        assert fifo.join(client="c", model="m", now=0)[1].ended == ((3, refusal),)
        assert fifo.running == 1


def test_fifty_thousand_waiters_join_leave_and_expire_in_linear_time() -> None:
    fifo = fifo_of(1, joined=50_001, limits=LineLimits(50_000, 60))
    started = time.process_time()
    for number in range(1, 1001):
        assert fifo.leave(number, 1).granted == (number + 1,)
    assert len(fifo.expire(60).ended) == 49_000
    assert time.process_time() - started < 1, "it takes some 0.1 s; square time took minutes"


def test_its_repr_speaks_of_slots_and_the_line() -> None:
    assert repr(fifo_of(1, joined=3)) == "<Fifo 1/1 running, waiting [2, 3]>"


class AnyOrder(RuleBasedStateMachine):
    """Any verbs in any order, against a model that only knows what each ticket was told."""

    @initialize(slots=st.integers(1, 4), max_waiting=st.integers(0, 8))
    def begin(self, slots: int, max_waiting: int) -> None:
        self.now = 0.0
        self.fifo = Fifo(slots=slots, limits=LineLimits(max_waiting, 10, 3))
        self.running: set[int] = set()
        self.line: list[int] = []
        self.told: dict[int, int] = {}
        self.ends: dict[int, Outcome] = {}
        self.last_granted = 0

    def carry_out(self, effects: Effects) -> None:
        assert list(effects.granted) == self.line[: len(effects.granted)], "strict order"
        for number in effects.granted:
            assert number > self.last_granted, "a newcomer never overtakes"
            self.last_granted = number
            self.end(number, Outcome.GRANTED)
            self.running.add(number)
        assert not effects.granted or len(self.running) <= self.fifo.slots
        for number, outcome in effects.ended:
            self.end(number, outcome)
        if not effects.moved:
            assert self.line == [number for number, _ in self.fifo.line()]

    def end(self, number: int, outcome: Outcome) -> None:
        assert self.ends.setdefault(number, outcome) is outcome, "one outcome each"
        self.line.remove(number)
        self.told.pop(number, None)

    @rule(client=st.sampled_from("abc"))
    def join(self, client: str) -> None:
        number, effects = self.fifo.join(client=client, model="m", now=self.now)
        self.line.append(number)
        self.carry_out(effects)

    @precondition(lambda self: self.running)
    @rule(data=st.data())
    def release(self, data: st.DataObject) -> None:
        number = data.draw(st.sampled_from(sorted(self.running)))
        self.running.remove(number)
        self.carry_out(self.fifo.leave(number, self.now))

    @precondition(lambda self: self.line)
    @rule(data=st.data())
    def leave(self, data: st.DataObject) -> None:
        self.carry_out(self.fifo.leave(data.draw(st.sampled_from(self.line)), self.now))

    @rule(number=st.integers(0, 30))
    def leave_when_gone(self, number: int) -> None:
        if number not in self.running and number not in self.line:
            assert self.fifo.leave(number, self.now) is NOTHING

    @rule(slots=st.integers(0, 6), max_waiting=st.integers(0, 8), seconds=st.sampled_from((5, 10)))
    def reconfigure(self, slots: int, max_waiting: int, seconds: int) -> None:
        limits = LineLimits(max_waiting, seconds, 3)
        self.carry_out(self.fifo.reconfigure(slots=slots, limits=limits, now=self.now))

    @rule(seconds=st.integers(0, 6))
    def expire(self, seconds: int) -> None:
        self.now += seconds
        effects = self.fifo.expire(self.now)
        assert all(outcome is Outcome.EXPIRED for _, outcome in effects.ended)
        self.carry_out(effects)
        expiry = self.fifo.next_expiry()
        assert expiry is None or expiry > self.now

    @precondition(lambda self: self.now > 20)
    @rule()
    def evict(self) -> None:
        self.carry_out(self.fifo.evict(Outcome.EVICTED_CLOSING))
        assert not self.line

    @rule()
    def reopen(self) -> None:
        self.fifo.reopen()

    @invariant()
    def nobody_waits_while_a_slot_is_free(self) -> None:
        assert self.fifo.running == len(self.running)
        assert len(self.running) >= self.fifo.slots or not self.line

    @invariant()
    def positions_have_no_gaps_and_never_rise(self) -> None:
        assert [self.fifo.position(number) for number in self.line] == list(
            range(1, self.fifo.waiting + 1)
        )
        for position, number in enumerate(self.line, start=1):
            assert position <= self.told.get(number, position)
            self.told[number] = position

    @invariant()
    def each_ticket_is_counted_once(self) -> None:
        assert sum(self.fifo.outcomes.values()) == len(self.ends)


AnyOrder.TestCase.settings = settings(max_examples=150, stateful_step_count=40, deadline=None)
TestAnyOrder = AnyOrder.TestCase
