#!/usr/bin/env python3
"""How honest are the estimates? Plays a day of mixed requests through the real queue.

    scripts/bench_estimates.py [--seed N] [--slots N] [--hours N]

In virtual time: seconds for the whole day. Each queue frame that a waiting client would get is
compared with the wait that followed it. Exits with 1 unless the median error is under 25 % of
the true wait and at most 5 % of the frames are more than three times off. For comparison it shows
what "position x mean time / slots" would have said.
"""

from __future__ import annotations

import argparse
import heapq
import itertools
import math
import random
import statistics
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from gateway.slots.base import LineLimits, Outcome
from gateway.slots.estimate import DEPTH, Estimates, Line
from gateway.slots.fifo import Effects, Fifo

NEAR, KEEPALIVE_SECONDS, MERGE_SECONDS = 20, 10.0, 1.0
MEDIAN_LIMIT, FAR_OFF_LIMIT = 0.25, 0.05


class Kind(NamedTuple):
    """Requests of one kind: their share, and how long they hold a slot (log-normal)."""

    model: str
    share: float
    median_seconds: float
    sigma: float


KINDS = (
    Kind("chat", 0.45, 9.0, 0.6),
    Kind("agent", 0.35, 22.0, 0.7),
    Kind("small", 0.20, 1.5, 0.5),
)
HUNG, FAILED, LEAVES = 0.002, 0.02, 0.05
"""Shares of requests that hang for ten minutes, fail at once, or whose client loses patience."""

LOAD_OF_HOUR = (
    [0.3] * 7 + [0.6, 0.8, 0.95, 1.0, 0.9, 0.7, 0.8, 0.95, 1.0, 0.95, 0.9, 0.7] + [0.5] * 5
)
"""Work that comes in, as a share of what the slots can do."""

PLACES = (("1", 1, 1), ("2-4", 2, 4), ("5-9", 5, 9), ("10-19", 10, 19), ("20-", 20, 10**9))


def hold_seconds(kind: Kind, chance: random.Random) -> float:
    dice = chance.random()
    if dice < HUNG:
        return 600.0
    if dice < HUNG + FAILED:
        return 0.2
    return chance.lognormvariate(math.log(kind.median_seconds), kind.sigma)


class Frame(NamedTuple):
    at: float
    position: int
    estimate: float | None
    naive: float


class Judged(NamedTuple):
    at: float
    position: int
    estimate: float | None
    naive: float
    true: float


@dataclass
class Client:
    model: str
    hold: float
    frames: list[Frame] = field(default_factory=list)


class Day:
    """The queue of one upstream, its clients, and a clock that jumps from event to event."""

    def __init__(self, seed: int, slots: int, hours: int) -> None:
        self.chance = random.Random(seed)
        self.hours = hours
        self.now = 0.0
        self.fifo = Fifo(slots=slots, limits=LineLimits(max_waiting=100, max_wait_seconds=600))
        self.estimates = Estimates(self.line)
        self.clients: dict[int, Client] = {}
        self.events: list[tuple[float, int, str, int]] = []
        self.order = itertools.count()
        self.running: dict[int, tuple[str, float]] = {}
        self.held_seconds: list[float] = []
        self.judged: list[Judged] = []
        self.asking_seconds = 0.0

    def line(self, now: float) -> Line:
        return Line(
            self.fifo.slots,
            [(lease.model, now - lease.granted_at) for lease in self.fifo.leases()],
            [waiting.model for _, waiting in self.fifo.line()[:DEPTH]],
        )

    def at(self, when: float, what: str, number: int = 0) -> None:
        heapq.heappush(self.events, (when, next(self.order), what, number))

    def run(self) -> None:
        self.at(0.0, "arrive")
        self.at(1.0, "sweep")
        while self.events:
            self.now, _, what, number = heapq.heappop(self.events)
            getattr(self, what)(number)

    # --- what happens ----------------------------------------------------------------------------

    def arrive(self, _: int) -> None:
        kind = self.chance.choices(KINDS, [kind.share for kind in KINDS])[0]
        number, effects = self.fifo.join(client="", model=kind.model, now=self.now)
        self.clients[number] = Client(kind.model, hold_seconds(kind, self.chance))
        self.carry_out(effects)
        if number in self.clients and not effects.granted:
            self.tell(number)
            if self.chance.random() < LEAVES:
                self.at(self.now + self.chance.expovariate(1 / 60), "leave", number)
        if self.now < self.hours * 3600:
            load = LOAD_OF_HOUR[int(self.now / 3600) % 24]
            self.at(self.now + self.chance.expovariate(load * self.capacity), "arrive")

    @property
    def capacity(self) -> float:
        """Requests per second that the slots can do."""
        mean = sum(k.share * k.median_seconds * math.exp(k.sigma**2 / 2) for k in KINDS)
        return self.fifo.slots / mean

    def depart(self, number: int) -> None:
        model, held = self.running.pop(number)
        self.estimates.observe(model, held)
        self.held_seconds.append(held)
        self.carry_out(self.fifo.leave(number, self.now))

    def leave(self, number: int) -> None:
        if number in self.clients:
            self.carry_out(self.fifo.leave(number, self.now))

    def sweep(self, _: int) -> None:
        self.carry_out(self.fifo.expire(self.now))
        for position, (number, _waiting) in enumerate(self.fifo.line(), start=1):
            last = self.clients[number].frames[-1]
            age = self.now - last.at
            if age >= KEEPALIVE_SECONDS or (position < last.position and age >= MERGE_SECONDS):
                self.tell(number)
        if self.events:
            self.at(self.now + 1.0, "sweep")

    # --- who hears of it -------------------------------------------------------------------------

    def carry_out(self, effects: Effects) -> None:
        if effects != Effects():
            self.estimates.line_changed()
        for number in effects.granted:
            client = self.clients.pop(number)
            self.judged += [Judged(*frame, self.now - frame.at) for frame in client.frames]
            self.running[number] = (client.model, client.hold)
            self.at(self.now + client.hold, "depart", number)
        for number, outcome in effects.ended:
            assert outcome is not Outcome.GRANTED
            self.clients.pop(number)
        if effects.moved:
            for position, number in enumerate(self.fifo.first(NEAR), start=1):
                if position < self.clients[number].frames[-1].position:
                    self.tell(number)

    def tell(self, number: int) -> None:
        began = time.perf_counter()
        position = self.fifo.position(number)
        estimate = self.estimates.wait(position, self.now)
        self.asking_seconds += time.perf_counter() - began
        mean = statistics.fmean(self.held_seconds[-128:] or [0.0])
        naive = position * mean / self.fifo.slots
        self.clients[number].frames.append(Frame(self.now, position, estimate, naive))


class Verdict(NamedTuple):
    frames: int
    median_error: float
    """As a share of the true wait."""
    far_off: float
    """The share of frames more than three times off, either way."""


def verdict_of(pairs: list[tuple[float, float]]) -> Verdict:
    """Of pairs of an estimate, as frames show it in whole seconds, and the truth."""
    pairs = [(float(round(estimate)), true) for estimate, true in pairs]
    errors = [abs(estimate - true) / true for estimate, true in pairs if true > 0]
    far = [not true / 3 <= estimate <= 3 * true for estimate, true in pairs]
    return Verdict(len(pairs), statistics.median(errors), statistics.fmean(far))


def table(judged: list[Judged]) -> Iterator[str]:
    for name, first, last in (*PLACES, ("all", 1, 10**9)):
        there = [frame for frame in judged if first <= frame.position <= last]
        if there:
            ours = verdict_of([(f.estimate, f.true) for f in there if f.estimate is not None])
            naive = verdict_of([(f.naive, f.true) for f in there])
            yield (
                f"{name:>8} {ours.frames:>9} {ours.median_error:>9.1%} {ours.far_off:>8.1%}"
                f" {naive.median_error:>15.1%} {naive.far_off:>8.1%}"
            )


def main() -> int:
    parser = argparse.ArgumentParser(description="How honest are the estimates?")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--slots", type=int, default=4)
    parser.add_argument("--hours", type=int, default=24)
    arguments = parser.parse_args()
    day = Day(arguments.seed, arguments.slots, arguments.hours)
    day.run()
    known = [(frame.estimate, frame.true) for frame in day.judged if frame.estimate is not None]
    verdict = verdict_of(known)
    print(f"{len(day.judged)} frames, {len(day.judged) - len(known)} without an estimate, ", end="")
    print(f"{day.asking_seconds / len(day.judged) * 1e6:.0f} us each")
    print("position    frames    median  3x off    naive: median  3x off")
    print(*table(day.judged), sep="\n")
    honest = verdict.median_error < MEDIAN_LIMIT and verdict.far_off <= FAR_OFF_LIMIT
    print("pass" if honest else "fail")
    return 0 if honest else 1


if __name__ == "__main__":
    sys.exit(main())
