"""How long a place in line will probably take.  Pure: no await, no clock.

The estimator remembers how long slots were lately held, for each model.  A forecast plays the
line forward some dozen times: who runs gets a rest out of the hold times that were longer than its
own so far, who waits gets a whole one, and each departure grants the next ticket.  The median over
the plays is the estimate of each position.  So it knows that of six running answers the first to
end is much nearer than the average one, that an answer which has taken long will take longer, and
that one answer of an hour does not make the next one long.

Nothing is said before enough is measured.
"""

from __future__ import annotations

import random
from bisect import bisect_right
from collections import deque
from collections.abc import Callable, Sequence
from heapq import heapify, heappop, heapreplace
from typing import NamedTuple

REMEMBERED = 128
"""Hold times kept of each model, the latest ones: old habits are forgotten."""

ENOUGH = 5
"""Hold times that make a model known."""

PLAYS = 31
"""An odd number, so that there is a median."""

DEPTH = 64
"""Places that are played; farther back the line is taken to move on at its average pace."""

TAIL = (0.1, 0.25, 0.5, 1.0)
"""Who is held longer than nearly all before it: the rest, as shares of the time it took so far."""

FRESH_SECONDS = 1.0
"""A forecast is made anew after this long, or when the line has changed, ..."""

BUSY_SECONDS = 0.1
"""... but in no shorter intervals than this: a forecast takes about a millisecond."""


class Line(NamedTuple):
    """What a forecast starts from."""

    slots: int
    running: Sequence[tuple[str, float]]
    """The leases: model, and for how many seconds the slot is held already."""
    waiting: Sequence[str]
    """The models of the first tickets in line; more than ``DEPTH`` of them change nothing."""


class Forecast(NamedTuple):
    """Seconds until the grant for each of the first positions, and for each one behind them."""

    waits: tuple[float, ...]
    seconds_per_place: float

    def of(self, position: int) -> float:
        beyond = position - len(self.waits)
        if beyond <= 0:
            return self.waits[position - 1]
        return self.waits[-1] + beyond * self.seconds_per_place


class HoldTimes:
    """The latest hold times.  Noting one is all that an exchange pays for."""

    def __init__(self) -> None:
        self._latest: deque[float] = deque(maxlen=REMEMBERED)
        self._sorted: list[float] | None = None

    def add(self, seconds: float) -> None:
        self._latest.append(seconds)
        self._sorted = None

    @property
    def sorted(self) -> list[float]:
        if self._sorted is None:
            self._sorted = sorted(self._latest)
        return self._sorted

    @property
    def known(self) -> bool:
        return len(self._latest) >= ENOUGH

    def rests(self, held: float) -> list[float]:
        """How much longer, for a slot that is held since ``held`` seconds."""
        first = bisect_right(self.sorted, held)
        longer = [seconds - held for seconds in self.sorted[first:]]
        if len(longer) < len(TAIL):
            longer.extend(held * share for share in TAIL[len(longer) :])
        return longer


class Estimator:
    """Learns from slots that are given back, foresees when the next ones will be."""

    def __init__(self) -> None:
        self._of_model: dict[str, HoldTimes] = {}
        self._of_all = HoldTimes()
        self._random = random.Random(0)

    def observe(self, model: str, held_seconds: float) -> None:
        """A slot was held for this long, whatever ended it."""
        self._of_model.setdefault(model, HoldTimes()).add(max(0.0, held_seconds))
        self._of_all.add(max(0.0, held_seconds))

    def forecast(self, line: Line) -> Forecast | None:
        """None before enough is known of most models that the wait depends on."""
        waiting = line.waiting[:DEPTH]
        models = [model for model, _ in line.running] + list(waiting)
        if 2 * sum(self._knows(model) for model in models) <= len(models) or line.slots < 1:
            return None
        rests = [self._draw(self._times(model).rests(held)) for model, held in line.running]
        holds = [self._draw(self._times(model).sorted) for model in waiting]
        idle = [0.0] * (line.slots - len(line.running))
        plays = [
            played(
                [rest[play] for rest in rests] + idle, [hold[play] for hold in holds], line.slots
            )
            for play in range(PLAYS)
        ]
        waits = tuple(sorted(column)[PLAYS // 2] for column in zip(*plays, strict=True))
        return Forecast(waits, self._pace(waits, line.slots))

    def _knows(self, model: str) -> bool:
        times = self._of_model.get(model)
        return times is not None and times.known

    def _times(self, model: str) -> HoldTimes:
        """A model that is not known counts like the others of its upstream."""
        times = self._of_model.get(model)
        return times if times is not None and times.known else self._of_all

    def _draw(self, times: Sequence[float]) -> list[float]:
        return self._random.choices(times, k=PLAYS)

    def _pace(self, waits: Sequence[float], slots: int) -> float:
        half = (len(waits) - 1) // 2
        if half >= slots:
            return (waits[-1] - waits[half]) / (len(waits) - 1 - half)
        return sum(self._of_all.sorted) / len(self._of_all.sorted) / slots


def played(departures: list[float], holds: Sequence[float], slots: int) -> list[float]:
    """One way it may go: when each waiting ticket is granted, and one more behind them."""
    heapify(departures)
    for _ in range(len(departures) - slots):
        heappop(departures)
    grants = []
    for hold in holds:
        grants.append(departures[0])
        heapreplace(departures, departures[0] + hold)
    grants.append(departures[0])
    return grants


class Estimates:
    """The forecast of one pool, kept while it is fresh, so that a place costs a look-up."""

    def __init__(self, line: Callable[[float], Line]) -> None:
        self._line = line
        self._estimator = Estimator()
        self._forecast: Forecast | None = None
        self._made_at = float("-inf")
        self._changed = True

    def observe(self, model: str, held_seconds: float) -> None:
        self._estimator.observe(model, held_seconds)

    def line_changed(self) -> None:
        self._changed = True

    def wait(self, position: int, now: float) -> float | None:
        """Seconds until the grant for a ticket at ``position``; None while they are unknown."""
        age = now - self._made_at
        if age >= (BUSY_SECONDS if self._changed else FRESH_SECONDS):
            self._forecast = self._estimator.forecast(self._line(now))
            self._made_at, self._changed, age = now, False, 0.0
        if self._forecast is None:
            return None
        return max(0.0, self._forecast.of(position) - age)
