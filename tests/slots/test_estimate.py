"""Estimates: silent before enough is known, never negative, and unimpressed by outliers."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.slots.base import LineLimits
from gateway.slots.estimate import DEPTH, ENOUGH, REMEMBERED, Estimates, Estimator, Line
from gateway.slots.local import LocalPool

ROOT = Path(__file__).parents[2]

seconds = st.floats(0, 1e6)
models = st.sampled_from("abc")


def learned(times: list[float], model: str = "m") -> Estimator:
    estimator = Estimator()
    for time_held in times:
        estimator.observe(model, time_held)
    return estimator


def waits(estimator: Estimator, line: Line) -> tuple[float, ...]:
    forecast = estimator.forecast(line)
    assert forecast is not None
    return forecast.waits


def test_nothing_is_said_before_enough_is_known() -> None:
    line = Line(1, [("m", 0.0)], ["m"])
    assert learned([3.0] * (ENOUGH - 1)).forecast(line) is None
    assert learned([3.0] * ENOUGH).forecast(line) is not None


def test_nothing_is_said_while_most_of_the_line_waits_for_models_that_are_not_known() -> None:
    estimator = learned([3.0] * ENOUGH)
    assert estimator.forecast(Line(1, [("m", 0.0)], ["m", "new"])) is not None
    assert estimator.forecast(Line(1, [("new", 0.0)], ["new", "m"])) is None


def test_equal_times_make_an_exact_forecast() -> None:
    line = Line(2, [("m", 1.0), ("m", 7.0)], ["m"] * 4)
    assert waits(learned([10.0] * 8), line) == (3.0, 9.0, 13.0, 19.0, 23.0)


def test_each_model_counts_with_its_own_times() -> None:
    estimator = learned([100.0] * 8, "slow")
    for _ in range(8):
        estimator.observe("fast", 1.0)
    assert waits(estimator, Line(1, [("fast", 0.0)], ["slow", "fast"])) == (1.0, 101.0, 102.0)


def test_an_hour_long_answer_does_not_make_the_next_one_long() -> None:
    first, *_ = waits(learned([9.0, 10.0, 11.0] * 10 + [3600.0] * 2), Line(1, [("m", 0.0)], []))
    assert 9 <= first <= 11


def test_the_first_of_many_to_end_is_nearer_than_the_average() -> None:
    spread = [float(second) for second in range(1, 61)]
    one, *_ = waits(learned(spread), Line(1, [("m", 0.0)], []))
    of_six, *_ = waits(learned(spread), Line(6, [("m", 0.0)] * 6, []))
    assert of_six < one / 2


def test_who_has_taken_longer_than_all_before_will_take_longer_still() -> None:
    estimator = learned([10.0] * 8)
    late, *_ = waits(estimator, Line(1, [("m", 100.0)], []))
    later, *_ = waits(estimator, Line(1, [("m", 1000.0)], []))
    assert 0 < late < later


def test_old_times_are_forgotten() -> None:
    estimator = learned([500.0] * 40 + [2.0] * REMEMBERED)
    assert waits(estimator, Line(1, [("m", 0.0)], [])) == (2.0,)


def test_a_lowered_cap_waits_for_more_departures() -> None:
    line = Line(1, [("m", 9.0), ("m", 5.0), ("m", 1.0)], ["m"])
    assert waits(learned([10.0] * 8), line) == (9.0, 19.0)


@given(
    st.lists(st.tuples(models, seconds), min_size=3 * ENOUGH),
    st.integers(1, 8),
    st.lists(st.tuples(models, seconds), max_size=12),
    st.lists(models, max_size=2 * DEPTH),
)
def test_no_forecast_is_negative_and_none_overtakes(
    observed: list[tuple[str, float]],
    slots: int,
    running: list[tuple[str, float]],
    waiting: list[str],
) -> None:
    estimator = Estimator()
    for model, held in observed:
        estimator.observe(model, held)
    if forecast := estimator.forecast(Line(slots, running, waiting)):
        by_position = [forecast.of(position) for position in range(1, len(waiting) + 3)]
        assert by_position[0] >= 0
        assert by_position == sorted(by_position)


def test_places_far_behind_cost_nothing_and_still_grow() -> None:
    forecast = learned([10.0] * 8).forecast(Line(2, [("m", 0.0)] * 2, ["m"] * 5000))
    assert forecast is not None
    assert len(forecast.waits) == DEPTH + 1
    assert forecast.of(1001) == pytest.approx(5010, rel=0.02)


class Counted:
    def __init__(self) -> None:
        self.lines = 0

    def __call__(self, now: float) -> Line:
        self.lines += 1
        return Line(1, [("m", 0.0)], ["m"] * 20)


def test_a_forecast_is_shared_until_the_line_changes_or_a_second_has_passed() -> None:
    line = Counted()
    estimates = Estimates(line)
    for _ in range(ENOUGH):
        estimates.observe("m", 10.0)
    assert [estimates.wait(position, 100.0) for position in (1, 2)] == [10.0, 20.0]
    assert estimates.wait(1, 100.9) == pytest.approx(9.1), "it counts down meanwhile"
    assert line.lines == 1
    estimates.line_changed()
    assert estimates.wait(1, 100.95) == 10.0
    estimates.wait(1, 102.0)
    assert line.lines == 3


def test_a_storm_of_changes_makes_ten_forecasts_a_second_at_most() -> None:
    line = Counted()
    estimates = Estimates(line)
    for step in range(1000):
        estimates.line_changed()
        estimates.wait(1, step / 1000)
    assert line.lines <= 11


def test_a_forecast_of_a_deep_line_takes_milliseconds() -> None:
    estimator = learned([float(second) for second in range(1, REMEMBERED)])
    line = Line(8, [("m", 3.0)] * 8, ["m"] * 1000)
    took = []
    for _ in range(5):
        began = time.perf_counter()
        estimator.forecast(line)
        took.append(time.perf_counter() - began)
    assert min(took) < 0.02


async def test_the_pool_learns_from_slots_that_are_given_back() -> None:
    pool = LocalPool(slots=1, limits=LineLimits(max_waiting=9, max_wait_seconds=60))
    for _ in range(ENOUGH):
        pool.join(model="m", client="c").close()
    with pool.join(model="m", client="c"), pool.join(model="m", client="c") as waiting:
        place = await anext(aiter(waiting.places(60)))
        assert place.estimated_wait_seconds is not None
        assert place.estimated_wait_seconds < 1
        assert pool.statistics().tickets[0].estimated_wait_seconds is not None
    await pool.stop()


def test_a_days_estimates_are_honest() -> None:
    bench = ROOT / "scripts" / "bench_estimates.py"
    done = subprocess.run([sys.executable, bench], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.endswith("pass\n")
