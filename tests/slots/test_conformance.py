"""What every pool keeps, whatever it keeps its line in."""

from __future__ import annotations

import asyncio
import itertools
import random
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable

import pytest

from gateway.slots.base import LineLimits, Outcome, Place, SlotPool, Ticket, TicketEnded
from gateway.slots.estimate import ENOUGH
from gateway.slots.ticket import NEAR

SECONDS = 5
"""More than anything here takes."""

RARELY = 60.0
"""A keep-alive that never comes within a test."""

OpenPool = Callable[..., Awaitable[SlotPool]]


def join(pool: SlotPool, client: str = "c") -> Ticket:
    return pool.join(model="m", client=client)


async def join_in_line(pool: SlotPool, count: int) -> list[Ticket]:
    """Tickets that stand in line, in this order."""
    before = pool.statistics().waiting
    tickets = [join(pool) for _ in range(count)]
    await until(lambda: pool.statistics().waiting == before + count)
    return tickets


async def granted(*tickets: Ticket) -> None:
    async with asyncio.timeout(SECONDS):
        for ticket in tickets:
            await ticket.wait()


async def until(condition: Callable[[], object]) -> None:
    """A shared pool learns of what happened a moment later."""
    async with asyncio.timeout(SECONDS):
        while not condition():
            await asyncio.sleep(0.001)


async def ended(ticket: Ticket) -> Outcome:
    with pytest.raises(TicketEnded) as end:
        await granted(ticket)
    return end.value.outcome


def close_all(tickets: Iterable[Ticket]) -> None:
    for ticket in tickets:
        ticket.close()


async def check_idle(pool: SlotPool) -> None:
    """Nothing runs, nothing waits, and one more ticket succeeds."""
    await until(lambda: (pool.statistics().running, pool.statistics().waiting) == (0, 0))
    with join(pool) as ticket:
        await granted(ticket)
    await until(lambda: pool.statistics().running == 0)


async def next_place(places: AsyncIterator[Place]) -> Place | None:
    """The next place, or None with the grant."""
    async with asyncio.timeout(SECONDS):
        return await anext(places, None)


class Listener:
    """Reads the places of one ticket as they come."""

    def __init__(self, ticket: Ticket, every: float = RARELY) -> None:
        self.told: list[tuple[float, Place]] = []
        self.ticket = ticket
        self.every = every
        self.task = asyncio.create_task(self._listen())

    async def _listen(self) -> None:
        loop = asyncio.get_running_loop()
        async for place in self.ticket.places(self.every):
            self.told.append((loop.time(), place))

    @property
    def positions(self) -> list[int]:
        return [place.position for _, place in self.told]

    @property
    def times(self) -> list[float]:
        return [time for time, _ in self.told]

    async def end(self) -> None:
        self.task.cancel()
        await asyncio.gather(self.task, return_exceptions=True)


# --- joining and granting ------------------------------------------------------------------------


async def test_a_free_slot_is_granted_without_a_place_to_tell(open_pool: OpenPool) -> None:
    pool = await open_pool(1)
    with join(pool) as ticket:
        assert await next_place(ticket.places(RARELY)) is None
        assert ticket.granted
        await until(lambda: pool.statistics().running == 1)
    await check_idle(pool)


async def test_slots_are_granted_in_the_order_of_joining(open_pool: OpenPool) -> None:
    pool = await open_pool(3)
    tickets = [join(pool) for _ in range(200)]
    order: list[int] = []

    async def run(index: int) -> None:
        await tickets[index].wait()
        order.append(index)
        assert len(running) < 3
        running.add(index)
        await asyncio.sleep(0)
        running.remove(index)
        tickets[index].close()

    running: set[int] = set()
    async with asyncio.timeout(SECONDS), asyncio.TaskGroup() as group:
        for index in reversed(range(200)):
            group.create_task(run(index))
    assert sorted(order) == list(range(200))
    late = [index for place, index in enumerate(order) if abs(place - index) >= 3]
    assert not late, "tasks of one grant may start in any order, but none overtakes its line"
    await check_idle(pool)


async def test_a_newcomer_never_overtakes_in_the_tick_of_a_release(open_pool: OpenPool) -> None:
    pool = await open_pool(1)
    first = join(pool)
    await granted(first)
    (second,) = await join_in_line(pool, 1)
    before = [join(pool) for _ in range(100)]
    first.close()
    after = [join(pool) for _ in range(100)]
    await granted(second)
    for ticket, following in itertools.pairwise([second, *before, *after]):
        assert not following.granted
        ticket.close()
        await granted(following)
    after[-1].close()
    await check_idle(pool)


async def test_wherever_a_ticket_closes_its_slot_is_counted_once(open_pool: OpenPool) -> None:
    pool = await open_pool(1)
    first, second, third = (join(pool) for _ in range(3))
    await granted(first)
    first.close()
    first.close()
    await granted(second)
    assert not third.granted
    first.close()
    await until(lambda: pool.statistics().waiting == 1)
    assert (pool.statistics().running, third.granted) == (1, False)
    close_all([second, third])
    await check_idle(pool)


async def test_leaving_the_line_frees_no_slot(open_pool: OpenPool) -> None:
    pool = await open_pool(1)
    first = join(pool)
    await granted(first)
    second, third = await join_in_line(pool, 2)
    second.close()
    await until(lambda: pool.statistics().waiting == 1)
    assert (pool.statistics().running, third.granted) == (1, False)
    close_all([first, third])
    await check_idle(pool)


# --- the moment of the grant ---------------------------------------------------------------------

RACES = {
    "release, then cancel": lambda first, tasks: (first.close(), tasks[0].cancel()),
    "cancel, then release": lambda first, tasks: (tasks[0].cancel(), first.close()),
    "cancel two": lambda first, tasks: (first.close(), tasks[0].cancel(), tasks[1].cancel()),
}


async def hold(ticket: Ticket, until_set: asyncio.Event) -> None:
    with ticket:
        await ticket.wait()
        await until_set.wait()


@pytest.mark.parametrize("race", RACES)
async def test_leaving_after_the_grant_passes_the_slot_to_the_next_ticket(
    open_pool: OpenPool, race: str
) -> None:
    pool = await open_pool(1)
    first, done = join(pool), asyncio.Event()
    await granted(first)
    tickets = await join_in_line(pool, 2)
    tasks = [asyncio.create_task(hold(ticket, done)) for ticket in tickets]
    await asyncio.sleep(0)
    RACES[race](first, tasks)
    tickets.append(join(pool))
    tasks.append(asyncio.create_task(hold(tickets[-1], done)))
    heir = tickets[2] if race == "cancel two" else tickets[1]
    await until(lambda: heir.granted)
    await until(lambda: pool.statistics().running == 1)
    done.set()
    await asyncio.gather(*tasks, return_exceptions=True)
    await check_idle(pool)


async def test_no_slot_is_lost_in_two_hundred_rounds_of_cancelling(open_pool: OpenPool) -> None:
    pool = await open_pool(2)
    chance = random.Random(5)

    async def run(done: asyncio.Event) -> None:
        await hold(join(pool), done)

    for _ in range(200):
        done = asyncio.Event()
        tasks = [asyncio.create_task(run(done)) for _ in range(5)]
        for _ in range(chance.randrange(4)):
            await asyncio.sleep(0)
        for task in chance.sample(tasks, 3):
            task.cancel()
        done.set()
        async with asyncio.timeout(SECONDS):
            await asyncio.gather(*tasks, return_exceptions=True)
    await check_idle(pool)


# --- telling places ------------------------------------------------------------------------------


async def test_places_count_down_and_end_with_the_grant(open_pool: OpenPool) -> None:
    pool = await open_pool(1)
    running = join(pool)
    await granted(running)
    tickets = await join_in_line(pool, 3)
    listeners = [Listener(ticket) for ticket in tickets]
    await until(lambda: [listener.positions for listener in listeners] == [[1], [2], [3]])
    tickets[0].close()
    await until(lambda: [listener.positions for listener in listeners[1:]] == [[2, 1], [3, 2]])
    running.close()
    await until(lambda: tickets[1].granted and listeners[2].positions == [3, 2, 1])
    tickets[1].close()
    await until(listeners[2].task.done)
    assert listeners[1].positions == [2, 1], "the grant wins over any further place"
    close_all(tickets)
    await asyncio.gather(*(listener.task for listener in listeners), return_exceptions=True)
    await check_idle(pool)


async def test_a_place_says_how_long_the_line_and_the_wait_are(open_pool: OpenPool) -> None:
    pool = await open_pool(1)
    tickets = [join(pool) for _ in range(3)]
    place = await next_place(tickets[1].places(RARELY))
    assert place is not None
    assert (place.position, place.estimated_wait_seconds) == (1, None)
    assert place.queue_length in (1, 2)
    assert 0 <= place.waited_seconds < SECONDS
    close_all(tickets)


async def test_the_next_grant_is_foreseen_once_enough_is_measured(open_pool: OpenPool) -> None:
    pool = await open_pool(1)
    assert pool.next_grant_seconds() is None
    for _ in range(ENOUGH):
        with join(pool) as ticket:
            await granted(ticket)
    with join(pool) as ticket:
        await granted(ticket)
        await until(lambda: pool.next_grant_seconds() is not None)
        foreseen = pool.next_grant_seconds()
        assert foreseen is not None and foreseen < SECONDS


async def test_the_first_places_hear_of_every_change_at_once(open_pool: OpenPool) -> None:
    pool = await open_pool(1)
    tickets = [join(pool) for _ in range(NEAR + 1)]
    await granted(tickets[0])
    await until(lambda: pool.statistics().waiting == NEAR)
    listeners = [Listener(ticket) for ticket in tickets]
    await until(lambda: all(listener.told for listener in listeners[1:]))
    for position in range(NEAR, 1, -1):
        tickets[NEAR - position].close()
        await until(lambda: listeners[-1].positions[-1] == position - 1)  # noqa: B023
    assert listeners[-1].positions == list(range(NEAR, 0, -1))
    close_all(tickets)
    await asyncio.gather(*(listener.task for listener in listeners), return_exceptions=True)
    await check_idle(pool)


async def test_far_places_hear_of_merged_changes_once_a_second(open_pool: OpenPool) -> None:
    pool = await open_pool(1)
    tickets = [join(pool) for _ in range(90)]
    await granted(tickets[0])
    await until(lambda: pool.statistics().waiting == 89)
    near, far = Listener(tickets[15]), Listener(tickets[-1])
    await until(lambda: near.told and far.told)
    for ticket in tickets[:14]:
        ticket.close()
        await asyncio.sleep(0.01)
    await until(lambda: near.positions[-1] == 1)
    assert far.positions == [89]
    await until(lambda: far.positions[-1] == 75)
    assert len(far.told) == 2
    assert 1 <= far.times[1] - far.times[0] < 2
    await far.end()
    close_all(tickets)
    await near.end()
    await check_idle(pool)


async def test_a_change_during_a_slow_write_is_told_right_after_it(open_pool: OpenPool) -> None:
    pool = await open_pool(1)
    first = join(pool)
    await granted(first)
    tickets = await join_in_line(pool, 2)
    places = tickets[1].places(RARELY)
    assert (await next_place(places)).position == 2
    tickets[0].close()
    await until(lambda: pool.statistics().waiting == 1)
    async with asyncio.timeout(0.2):
        assert (await anext(places)).position == 1
    close_all([first, *tickets])
    await check_idle(pool)


async def test_an_unchanged_place_is_told_again_in_time(open_pool: OpenPool) -> None:
    pool = await open_pool(1)
    tickets = [join(pool) for _ in range(40)]
    await granted(tickets[0])
    every = 0.1
    near, far = Listener(tickets[1], every), Listener(tickets[-1], every)
    await until(lambda: len(near.told) >= 5 and len(far.told) >= 5)
    for listener in (near, far):
        assert len(set(listener.positions)) == 1
        gaps = [after - before for before, after in itertools.pairwise(listener.times)]
        assert every / 2 <= sorted(gaps)[len(gaps) // 2] <= every * 1.1
        await listener.end()
    close_all(tickets)
    await check_idle(pool)


async def test_positions_are_one_to_n_and_never_rise_in_any_shuffle(open_pool: OpenPool) -> None:
    pool = await open_pool(3)
    chance = random.Random(7)
    tickets = [join(pool) for _ in range(60)]
    listeners = [Listener(ticket, 0.05) for ticket in tickets]
    left = list(tickets)
    while left:
        leaver = left.pop(chance.randrange(min(len(left), 12)))
        leaver.close()
        await asyncio.sleep(0)
        statistics = pool.statistics()
        assert [view.position for view in statistics.tickets] == list(
            range(1, statistics.waiting + 1)
        )
        assert len(statistics.leases) == statistics.running <= 3
    await asyncio.gather(*(listener.task for listener in listeners), return_exceptions=True)
    for listener in listeners:
        assert listener.positions == sorted(listener.positions, reverse=True)
        assert all(position >= 1 for position in listener.positions)
    await check_idle(pool)


# --- ends ----------------------------------------------------------------------------------------


async def test_whoever_waits_too_long_is_told_and_never_runs(open_pool: OpenPool) -> None:
    pool = await open_pool(1, LineLimits(max_waiting=10, max_wait_seconds=0.3))
    first = join(pool)
    await granted(first)
    second = join(pool)
    assert await ended(second) is Outcome.EXPIRED
    assert 0.299 <= second.waited_seconds < 0.6, "uvloop counts whole milliseconds"
    await until(lambda: pool.statistics().waiting == 0)
    second.close()
    assert (pool.statistics().running, second.granted) == (1, False)
    first.close()
    await check_idle(pool)


async def test_a_full_line_and_a_greedy_client_are_refused(open_pool: OpenPool) -> None:
    pool = await open_pool(1, LineLimits(2, 60, max_waiting_per_client=1))
    tickets = [join(pool, client) for client in ("a", "a", "a", "b", "c")]
    assert await ended(tickets[2]) is Outcome.REJECTED_CLIENT_LIMIT
    assert await ended(tickets[4]) is Outcome.REJECTED_FULL
    with pytest.raises(TicketEnded):
        await anext(tickets[4].places(RARELY))
    close_all(tickets[2:3] + tickets[4:])
    await until(lambda: (pool.statistics().running, pool.statistics().waiting) == (1, 2))
    tickets[1].close()
    again = join(pool, "a")
    await until(lambda: pool.statistics().waiting == 2)
    close_all([*tickets, again])
    await check_idle(pool)


async def test_eviction_ends_the_line_and_lets_the_running_finish(open_pool: OpenPool) -> None:
    pool = await open_pool(1)
    running = join(pool)
    await granted(running)
    waiting = await join_in_line(pool, 2)
    pool.evict(Outcome.EVICTED_CLOSING)
    assert [await ended(ticket) for ticket in waiting] == [Outcome.EVICTED_CLOSING] * 2
    assert await ended(join(pool)) is Outcome.REJECTED_CLOSING
    assert running.granted
    await until(lambda: pool.statistics().waiting == 0)
    assert pool.statistics().running == 1
    close_all([running, *waiting])
    await until(lambda: pool.statistics().running == 0)


async def test_a_removed_upstream_says_so_to_waiters_and_newcomers(open_pool: OpenPool) -> None:
    pool = await open_pool(1)
    running = join(pool)
    await granted(running)
    (waiting,) = await join_in_line(pool, 1)
    pool.evict(Outcome.EVICTED_REMOVED)
    assert [await ended(waiting), await ended(join(pool))] == [Outcome.EVICTED_REMOVED] * 2
    close_all([running, waiting])


async def test_a_removed_upstream_that_comes_back_still_counts_what_runs(
    open_pool: OpenPool,
) -> None:
    pool = await open_pool(1)
    running = join(pool)
    await granted(running)
    pool.evict(Outcome.EVICTED_REMOVED)
    assert pool.busy
    pool.reopen()
    (waiting,) = await join_in_line(pool, 1)
    assert pool.statistics().running == 1
    running.close()
    await granted(waiting)
    waiting.close()
    assert not pool.busy


async def test_lowering_stops_nobody_and_raising_grants_at_once(open_pool: OpenPool) -> None:
    pool = await open_pool(3)
    limits = LineLimits(max_waiting=10, max_wait_seconds=60)
    running = [join(pool) for _ in range(3)]
    await granted(*running)
    waiting = await join_in_line(pool, 5)
    pool.reconfigure(slots=1, limits=limits)
    await until(lambda: pool.statistics().limit == 1)
    close_all(running[:2])
    await until(lambda: pool.statistics().running == 1)
    assert running[2].granted and not any(ticket.granted for ticket in waiting)
    running[2].close()
    await granted(waiting[0])
    pool.reconfigure(slots=4, limits=limits)
    await granted(*waiting[1:4])
    pool.reconfigure(slots=4, limits=limits)
    await until(lambda: pool.statistics().running == 4)
    assert not waiting[4].granted
    close_all(waiting)
    await check_idle(pool)


# --- views ---------------------------------------------------------------------------------------


async def test_statistics_show_one_consistent_moment(open_pool: OpenPool) -> None:
    pool = await open_pool(1)
    tickets = [
        pool.join(model=model, client=client) for model, client in [("m1", "é"), ("m2", "}:{")]
    ]
    await granted(tickets[0])
    await until(lambda: pool.statistics().waiting == 1)
    statistics = pool.statistics()
    assert (statistics.limit, statistics.running, statistics.waiting) == (1, 1, 1)
    (lease,), (ticket,) = statistics.leases, statistics.tickets
    assert (lease.model, lease.client) == ("m1", "é")
    assert (ticket.position, ticket.model, ticket.client) == (1, "m2", "}:{")
    for seconds in (lease.held_seconds, ticket.waited_seconds, statistics.seconds_since_release):
        assert 0 <= seconds < SECONDS
    assert 0 <= statistics.oldest_wait_seconds < SECONDS
    tickets[0].close()
    await granted(tickets[1])
    assert pool.statistics().outcomes == {Outcome.GRANTED: 2}
    tickets[1].close()
    await check_idle(pool)


async def test_every_ticket_ends_with_one_counted_outcome(open_pool: OpenPool) -> None:
    pool = await open_pool(1, LineLimits(max_waiting=2, max_wait_seconds=60))
    tickets = [join(pool) for _ in range(4)]
    await granted(tickets[0])
    assert await ended(tickets[3]) is Outcome.REJECTED_FULL
    tickets[1].close()
    pool.evict(Outcome.EVICTED_CLOSING)
    close_all([*tickets, join(pool)])
    assert pool.statistics().outcomes == {
        Outcome.GRANTED: 1,
        Outcome.REJECTED_FULL: 1,
        Outcome.ABANDONED: 1,
        Outcome.EVICTED_CLOSING: 1,
        Outcome.REJECTED_CLOSING: 1,
    }


async def test_a_snapshot_may_be_limited_to_the_first_places_and_still_counts_them_all(
    open_pool: OpenPool,
) -> None:
    pool = await open_pool(slots=1)
    tickets = [join(pool)]
    await granted(*tickets)
    tickets += await join_in_line(pool, 5)
    await until(lambda: pool.statistics().oldest_wait_seconds > 0)
    for most, shown in ((0, []), (2, [1, 2]), (None, [1, 2, 3, 4, 5])):
        statistics = pool.statistics(most_tickets=most)
        assert [ticket.position for ticket in statistics.tickets] == shown
        assert statistics.waiting == 5
        assert statistics.oldest_wait_seconds > 0
    close_all(tickets)
