"""Several gateways, one line: against a real Redis that is stopped, killed, emptied and frozen."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import logging
import os
import random
import re
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from pathlib import Path
from typing import Any

import pytest

from gateway.slots.base import LineLimits, Outcome, SlotPool, Ticket, TicketEnded
from gateway.slots.redis import RedisPool
from gateway.slots.redis_line import RedisLine
from gateway.slots.redis_verbs import channel_of

ROOT = Path(__file__).parents[2]
SECONDS = 30
LEASE = 0.6
BEAT = LEASE / 3
RARELY = 60.0

OpenReplica = Callable[..., Awaitable[RedisPool]]


def join(pool: SlotPool, client: str = "c") -> Ticket:
    return pool.join(model="m", client=client)


async def until(condition: Callable[[], object]) -> None:
    async with asyncio.timeout(SECONDS):
        while not condition():
            await asyncio.sleep(0.001)


async def join_in_line(pool: SlotPool, count: int = 1) -> list[Ticket]:
    """Tickets that Redis has put in line, or granted, in this order."""
    tickets = [join(pool) for _ in range(count)]
    await until(lambda: all(ticket.number for ticket in tickets))
    return tickets


async def until_all(pools: Iterable[SlotPool], *, running: int, waiting: int) -> None:
    """Every replica sees the same line."""
    for pool in pools:
        await until(
            lambda: (
                (pool.statistics().running, pool.statistics().waiting)  # noqa: B023
                == (running, waiting)
            )
        )


def close_all(tickets: Iterable[Ticket]) -> None:
    for ticket in tickets:
        ticket.close()


class Events:
    """What Redis publishes about a line, heard by somebody outside."""

    def __init__(self, server: Any, name: str) -> None:
        self._client = server.client()
        self._subscription = self._client.pubsub(ignore_subscribe_messages=True)
        self._subscription.subscribe(channel_of(name))
        assert self._subscription.get_message(timeout=5) is None

    def read(self) -> list[list[str]]:
        events: list[list[str]] = []
        while (message := self._subscription.get_message(timeout=0.05)) is not None:
            events += json.loads(message["data"])[1:]
        self._subscription.close()
        self._client.close()
        return events


class Listener:
    """Reads the places of one ticket, as a streaming client does."""

    def __init__(self, ticket: Ticket, every: float = RARELY) -> None:
        self.ticket = ticket
        self.positions: list[int] = []
        self.task = asyncio.create_task(self._listen(every))

    async def _listen(self, every: float) -> None:
        with contextlib.suppress(TicketEnded):
            async for place in self.ticket.places(every):
                self.positions.append(place.position)


class OtherReplica:
    """``replica_process.py``: a gateway that can be killed and paused."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self.process = process
        self.said: list[str] = []
        self._reading = asyncio.create_task(self._read())

    async def _read(self) -> None:
        assert self.process.stdout is not None
        while line := await self.process.stdout.readline():
            self.said.append(line.decode().strip())

    async def end(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            self.process.kill()
        await self.process.wait()
        await self._reading


@contextlib.asynccontextmanager
async def other_replica(url: str, name: str, slots: int, tickets: int) -> AsyncIterator[Any]:
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        str(Path(__file__).parent / "replica_process.py"),
        *(url, name, str(slots), str(LEASE), str(tickets)),
        stdout=asyncio.subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    replica = OtherReplica(process)
    try:
        yield replica
    finally:
        await replica.end()


# --- one line ------------------------------------------------------------------------------------


async def test_three_replicas_share_one_cap_and_one_order(
    shared_redis: Any, open_replica: OpenReplica, upstream_name: str
) -> None:
    pools = [await open_replica(shared_redis, upstream_name, 4) for _ in range(3)]
    events = Events(shared_redis, upstream_name)
    running: set[int] = set()
    snapshots = 0

    async def run(index: int) -> None:
        nonlocal snapshots
        with join(pools[index % 3]) as ticket:
            await ticket.wait()
            running.add(index)
            assert len(running) <= 4
            await asyncio.sleep(0)
            statistics = pools[index // 3 % 3].statistics()
            positions = [view.position for view in statistics.tickets]
            assert positions == list(range(1, statistics.waiting + 1))
            assert statistics.running <= 4
            snapshots += 1
            running.remove(index)

    async with asyncio.timeout(SECONDS), asyncio.TaskGroup() as group:
        for index in range(300):
            group.create_task(run(index))
    await until_all(pools, running=0, waiting=0)
    assert snapshots == 300
    seen = events.read()
    joined = [event[1] for event in seen if event[0] == "join"]
    granted = [event[1] for event in seen if event[0] == "grant"]
    assert len(granted) == 300 and granted == joined


async def test_positions_count_over_all_replicas(
    shared_redis: Any, open_replica: OpenReplica, upstream_name: str
) -> None:
    a, b = [await open_replica(shared_redis, upstream_name, 1) for _ in range(2)]
    tickets = [(await join_in_line(pool))[0] for pool in (a, b, a, b)]
    await until(lambda: tickets[0].granted)
    listeners = [Listener(ticket) for ticket in tickets]
    await until(lambda: [listener.positions for listener in listeners[1:]] == [[1], [2], [3]])
    tickets[1].close()
    await until(lambda: [listener.positions for listener in listeners[2:]] == [[2, 1], [3, 2]])
    tickets[0].close()
    await until(lambda: tickets[2].granted and listeners[3].positions == [3, 2, 1])
    close_all(tickets)
    await until(lambda: all(listener.task.done() for listener in listeners))


async def test_limits_of_the_line_count_over_all_replicas(
    shared_redis: Any, open_replica: OpenReplica, upstream_name: str
) -> None:
    limits = LineLimits(2, 60, max_waiting_per_client=1)
    a, b = [await open_replica(shared_redis, upstream_name, 1, limits) for _ in range(2)]
    tickets = await join_in_line(a)
    tickets.append(join(a, "x"))
    await until_all([a, b], running=1, waiting=1)
    refused = [join(b, "x")]
    tickets.append(join(b, "y"))
    await until_all([a, b], running=1, waiting=2)
    refused.append(join(b, "z"))
    for ticket, outcome in zip(
        refused, [Outcome.REJECTED_CLIENT_LIMIT, Outcome.REJECTED_FULL], strict=True
    ):
        with pytest.raises(TicketEnded) as ended:
            await ticket.wait()
        assert ended.value.outcome is outcome
    close_all(tickets)


async def test_the_last_to_set_slots_decides_and_the_others_say_so(
    shared_redis: Any,
    open_replica: OpenReplica,
    upstream_name: str,
    caplog: pytest.LogCaptureFixture,
) -> None:
    a = await open_replica(shared_redis, upstream_name, 4)
    b = await open_replica(shared_redis, upstream_name, 6)
    await until(lambda: (a.statistics().limit, b.statistics().limit) == (6, 6))
    record = next(record for record in caplog.records if record.levelno == logging.WARNING)
    assert "another replica has set slots to 6" in record.message
    assert "configured as 4" in record.message
    a.reconfigure(slots=5, limits=LineLimits(10, 60))
    await until(lambda: (a.statistics().limit, b.statistics().limit) == (5, 5))
    b.reconfigure(slots=7, limits=LineLimits(10, 60))
    await until(lambda: a.statistics().limit == 7)
    a.reconfigure(slots=5, limits=LineLimits(10, 60))
    await until(lambda: b.statistics().limit == 5)
    b.reconfigure(slots=7, limits=LineLimits(10, 60))
    await until(lambda: a.statistics().limit == 7)
    before = a._link.mirror
    a._road.restart("a new session decides nothing anew")
    await until(lambda: a._link.mirror is not before)
    assert a.statistics().limit == 7


async def test_stopping_hands_everything_back_at_once(
    shared_redis: Any, open_replica: OpenReplica, upstream_name: str
) -> None:
    a, b = [await open_replica(shared_redis, upstream_name, 1) for _ in range(2)]
    held = await join_in_line(a, 2)
    await until(lambda: held[0].granted)
    (waiting,) = await join_in_line(b)
    await a.stop()
    async with asyncio.timeout(BEAT / 2):
        await waiting.wait()
    close_all([*held, waiting])


# --- replicas that die or sleep ------------------------------------------------------------------


async def test_a_killed_replicas_slots_and_places_lapse_and_the_others_keep_their_order(
    shared_redis: Any, open_replica: OpenReplica, upstream_name: str
) -> None:
    pool = await open_replica(shared_redis, upstream_name, 2)
    async with other_replica(shared_redis.url, upstream_name, 2, 3) as other:
        await until(lambda: {"granted 0", "granted 1", "waiting 2"} <= set(other.said))
        tickets = await join_in_line(pool, 3)
        listeners = [Listener(ticket) for ticket in tickets]
        await until(lambda: [listener.positions for listener in listeners] == [[2], [3], [4]])
        other.process.kill()
        loop = asyncio.get_running_loop()
        killed = loop.time()
        await until(lambda: tickets[0].granted and tickets[1].granted)
        assert LEASE - BEAT <= loop.time() - killed <= LEASE + 2 * BEAT
    await until(lambda: listeners[2].positions[-1] == 1)
    await until_all([pool], running=2, waiting=1)
    close_all(tickets)
    await until(lambda: all(listener.task.done() for listener in listeners))


async def test_a_replica_that_slept_past_its_lease_learns_that_it_is_lost(
    shared_redis: Any, open_replica: OpenReplica, upstream_name: str
) -> None:
    pool = await open_replica(shared_redis, upstream_name, 1)
    async with other_replica(shared_redis.url, upstream_name, 1, 2) as other:
        await until(lambda: {"granted 0", "waiting 1"} <= set(other.said))
        (ticket,) = await join_in_line(pool)
        other.process.send_signal(signal.SIGSTOP)
        await until(lambda: ticket.granted)
        other.process.send_signal(signal.SIGCONT)
        await until(lambda: "lost 0" in other.said)
        await until_all([pool], running=1, waiting=1)
        ticket.close()
        await until(lambda: "granted 1" in other.said)


async def test_a_short_sleep_loses_nothing(
    shared_redis: Any, open_replica: OpenReplica, upstream_name: str
) -> None:
    pool = await open_replica(shared_redis, upstream_name, 1)
    async with other_replica(shared_redis.url, upstream_name, 1, 1) as other:
        await until(lambda: "granted 0" in other.said)
        (ticket,) = await join_in_line(pool)
        other.process.send_signal(signal.SIGSTOP)
        await asyncio.sleep(BEAT)
        other.process.send_signal(signal.SIGCONT)
        await asyncio.sleep(LEASE + BEAT)
        assert (ticket.granted, "lost 0" in other.said) == (False, False)
        ticket.close()


async def test_a_lost_message_is_made_up_for_within_one_beat(
    shared_redis: Any,
    open_replica: OpenReplica,
    upstream_name: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    a, b = [await open_replica(shared_redis, upstream_name, 1) for _ in range(2)]
    (first,) = await join_in_line(a)
    (second,) = await join_in_line(b)
    await until(lambda: first.granted)
    loop = asyncio.get_running_loop()
    with monkeypatch.context() as patch:
        lost: list[bytes] = []
        patch.setattr(b._link, "feed", lost.append)
        first.close()
        await until(lambda: lost)
    lost_at = loop.time()
    await until(lambda: second.granted)
    assert loop.time() - lost_at <= BEAT + 0.1
    second.close()
    await until_all([a, b], running=0, waiting=0)


# --- Redis that goes away ------------------------------------------------------------------------


async def test_without_redis_the_running_run_on_and_the_waiting_keep_their_place(
    redis_server: Any, open_replica: OpenReplica, upstream_name: str
) -> None:
    redis_server.start()
    pool = await open_replica(redis_server, upstream_name, 1, LineLimits(10, 60))
    running, waiting = await join_in_line(pool, 2)
    await until(lambda: running.granted)
    listener = Listener(waiting, every=0.05)
    await until(lambda: listener.positions)
    redis_server.kill()
    await until(lambda: not pool.reachable)
    told = len(listener.positions)
    newcomers = [join(pool), join(pool)]
    others = [Listener(ticket) for ticket in newcomers]
    await until(lambda: [other.positions for other in others] == [[2], [3]])
    await until(lambda: len(listener.positions) >= told + 3)
    assert set(listener.positions) == {1}
    running.close()
    newcomers[0].close()
    pool.reconfigure(slots=1, limits=LineLimits(10, 0.2))
    await until(lambda: all(other.task.done() for other in [listener, *others]))
    assert newcomers[1].outcome is waiting.outcome is Outcome.EXPIRED
    assert not any(ticket.granted for ticket in newcomers)


@pytest.mark.parametrize("keep", [True, False], ids=["with its file", "empty"])
async def test_when_redis_comes_back_the_line_goes_on_in_its_old_order(
    redis_server: Any, open_replica: OpenReplica, upstream_name: str, keep: bool
) -> None:
    redis_server.start(keep=keep)
    pools = [await open_replica(redis_server, upstream_name, 2) for _ in range(3)]
    tickets = [(await join_in_line(pools[index % 3]))[0] for index in range(12)]
    await until(lambda: tickets[0].granted and tickets[1].granted)
    listeners = [Listener(ticket) for ticket in tickets]
    redis_server.kill()
    await until(lambda: not any(pool.reachable for pool in pools))
    newcomers = [join(pool) for pool in pools]
    tickets[0].close()
    tickets[5].close()
    redis_server.start(keep=keep)
    order: list[int] = []

    async def run(index: int) -> None:
        await until(lambda: all_tickets[index].granted)
        order.append(index)
        assert sum(ticket.granted for ticket in all_tickets) <= 2
        await asyncio.sleep(0.005)
        all_tickets[index].close()

    all_tickets = tickets + newcomers
    async with asyncio.TaskGroup() as group:
        for index in range(15):
            if index not in (0, 5):
                group.create_task(run(index))
    ages = [min(index, 12) for index in order]
    for place, age in enumerate(ages):
        # The two that share a slot each may be seen in either order.
        assert age >= max(ages[: max(0, place - 1)], default=0)
    await until(lambda: all(listener.task.done() for listener in listeners))
    for listener in listeners:
        assert listener.positions == sorted(listener.positions, reverse=True)
    await until_all(pools, running=0, waiting=0)


async def test_a_line_that_gathers_does_not_count_as_one_that_stands_still(
    redis_server: Any, open_replica: OpenReplica, upstream_name: str
) -> None:
    redis_server.start(keep=True)
    async with other_replica(redis_server.url, upstream_name, 1, 2) as other:
        await until(lambda: {"granted 0", "waiting 1"} <= set(other.said))
        redis_server.kill()
    redis_server.start(keep=True)
    pool = await open_replica(redis_server, upstream_name, 1)
    seen = pool.statistics()
    assert (pool._link.gathering, seen.running, seen.waiting) == (True, 1, 1)
    assert seen.seconds_since_release == 0
    await until_all([pool], running=0, waiting=0)


async def test_redis_killed_again_and_again_under_load_never_overdraws_the_slots(
    redis_server: Any, open_replica: OpenReplica, upstream_name: str
) -> None:
    redis_server.start()
    pools = [await open_replica(redis_server, upstream_name, 3) for _ in range(2)]
    running: set[int] = set()
    done = 0

    async def run(index: int) -> None:
        nonlocal done
        with join(pools[index % 2]) as ticket:
            await ticket.wait()
            running.add(index)
            assert len(running) <= 3
            await asyncio.sleep(0.01)
            running.remove(index)
            done += 1

    async with asyncio.timeout(30), asyncio.TaskGroup() as group:
        for index in range(150):
            group.create_task(run(index))
        for goal in (20, 60, 100):
            await until(lambda: done >= goal)  # noqa: B023
            redis_server.kill()
            await asyncio.sleep(0.05)
            redis_server.start()
    await until_all(pools, running=0, waiting=0)


async def test_a_redis_emptied_under_load_is_filled_again_in_order(
    shared_redis: Any, open_replica: OpenReplica, upstream_name: str
) -> None:
    pools = [await open_replica(shared_redis, upstream_name, 1) for _ in range(2)]
    tickets = [(await join_in_line(pools[index % 2]))[0] for index in range(4)]
    await until(lambda: tickets[0].granted)
    with shared_redis.client() as client:
        client.flushall()
    for ticket, following in itertools.pairwise(tickets):
        assert not following.granted
        ticket.close()
        await until(lambda: following.granted)  # noqa: B023
    tickets[-1].close()
    await until_all(pools, running=0, waiting=0)


@pytest.mark.parametrize("behind", [False, True], ids=["in step", "behind"])
async def test_a_replica_of_redis_that_takes_over_its_address_goes_on_with_the_line(
    redis_server: Any,
    open_replica: OpenReplica,
    upstream_name: str,
    tmp_path: Path,
    behind: bool,
) -> None:
    (folder := tmp_path / "replica").mkdir()
    redis_server.start("--repl-diskless-sync-delay", "0")
    heir = type(redis_server)(folder)
    heir.start("--replicaof", f"127.0.0.1 {redis_server.port}")
    try:
        pools = [await open_replica(redis_server, upstream_name, 1) for _ in range(2)]
        with heir.client() as client, redis_server.client() as old:
            tickets = [(await join_in_line(pools[index % 2]))[0] for index in range(4)]
            await until(lambda: tickets[0].granted)
            await until(lambda: old.wait(1, 100) == 1)
            if behind:
                client.replicaof("no", "one")
                tickets.pop(0).close()
                await until(lambda: tickets[0].granted)
            tickets += await join_in_line(pools[0], 2)
            redis_server.kill()
            client.replicaof("no", "one")
            client.config_set("port", redis_server.port)
        await until(lambda: all(pool.reachable and not pool._link.gathering for pool in pools))
        await until_all(pools, running=1, waiting=len(tickets) - 1)
        for ticket, following in itertools.pairwise(tickets):
            assert ticket.granted and not following.granted
            ticket.close()
            await until(lambda: following.granted)  # noqa: B023
        tickets[-1].close()
        await until_all(pools, running=0, waiting=0)
    finally:
        heir.kill()


def self_signed(folder: Path, openssl: str) -> tuple[Path, Path]:
    """A key and its certificate, for 127.0.0.1."""
    key, certificate = folder / "key.pem", folder / "certificate.pem"
    command = [openssl, "req", "-x509", "-nodes", "-newkey", "rsa:2048", "-subj", "/CN=redis"]
    command += ["-addext", "subjectAltName=IP:127.0.0.1"]
    paths = ["-keyout", str(key), "-out", str(certificate)]
    subprocess.run([*command, *paths], check=True, capture_output=True)
    return key, certificate


async def test_tls_is_spoken_to_a_redis_whose_certificate_is_trusted(
    redis_server: Any,
    open_replica: OpenReplica,
    upstream_name: str,
    tmp_path: Path,
    program: Callable[[str], str],
    caplog: pytest.LogCaptureFixture,
) -> None:
    key, certificate = self_signed(tmp_path, program("openssl"))
    strange = f"rediss://127.0.0.1:{redis_server.port}/0"
    redis_server.url = f"{strange}?ssl_ca_certs={certificate}"
    redis_server.start(
        *("--port", "0", "--tls-port", str(redis_server.port), "--tls-auth-clients", "no"),
        *("--tls-cert-file", certificate, "--tls-key-file", key),
    )
    pool = await open_replica(redis_server, upstream_name, 1)
    with pool.join(model="m", client="c") as ticket:
        await ticket.wait()
    line = RedisLine(strange, lease_seconds=LEASE)
    distrusting = await open_replica(redis_server, upstream_name, 1, line=line)
    assert not distrusting.reachable
    assert "certificate verify failed" in caplog.text


async def test_a_redis_frozen_past_the_lease_takes_nobodys_slot(
    redis_server: Any, open_replica: OpenReplica, upstream_name: str
) -> None:
    redis_server.start()
    pools = [await open_replica(redis_server, upstream_name, 1) for _ in range(2)]
    tickets = [(await join_in_line(pools[index % 2]))[0] for index in range(3)]
    await until(lambda: tickets[0].granted)
    lost: list[bool] = []
    tickets[0].on_lost(lambda: lost.append(True))
    redis_server.signal(signal.SIGSTOP)
    await until(lambda: not any(pool.reachable for pool in pools))
    redis_server.signal(signal.SIGCONT)
    await until(lambda: all(pool.reachable for pool in pools))
    await until_all(pools, running=1, waiting=2)
    assert not lost and not tickets[1].granted
    close_all(tickets)
    await until_all(pools, running=0, waiting=0)


async def test_a_gateway_that_starts_without_redis_grants_when_there_is_one(
    redis_server: Any, open_replica: OpenReplica, upstream_name: str
) -> None:
    pool = await open_replica(redis_server, upstream_name, 1)
    assert not pool.reachable
    ticket = join(pool)
    listener = Listener(ticket)
    await until(lambda: listener.positions == [1])
    redis_server.start()
    await until(lambda: ticket.granted)
    ticket.close()
    await until_all([pool], running=0, waiting=0)


# --- all of it -----------------------------------------------------------------------------------


async def trouble(server: Any, pools: list[RedisPool], chance: random.Random) -> None:
    """One of the things that happen to Redis, and the end of it."""
    kind = chance.choice(["kill", "freeze", "empty", "forget scripts", "hang up", "begin anew"])
    if kind == "kill":
        server.kill()
        await asyncio.sleep(chance.random() * LEASE)
        server.start()
    elif kind == "freeze":
        server.signal(signal.SIGSTOP)
        await asyncio.sleep(chance.random() * 3 * LEASE)
        server.signal(signal.SIGCONT)
    elif kind == "begin anew":
        chance.choice(pools)._road.restart("a test")
    else:
        commands = {"empty": "FLUSHALL", "forget scripts": "SCRIPT FLUSH"}
        hang_up = f"CLIENT KILL TYPE {chance.choice(['pubsub', 'normal'])} SKIPME yes"
        with server.client() as client:
            client.execute_command(*commands.get(kind, hang_up).split())


@pytest.mark.parametrize("seed", [1, 3])
async def test_any_trouble_in_any_order_costs_no_ticket_and_overdraws_no_slot(
    redis_server: Any, open_replica: OpenReplica, upstream_name: str, seed: int
) -> None:
    redis_server.start()
    pools = [await open_replica(redis_server, upstream_name, 3) for _ in range(3)]
    chance = random.Random(seed)
    running: set[int] = set()
    outcomes: list[Outcome | None] = []

    async def ask(index: int) -> None:
        with join(chance.choice(pools)) as ticket:
            ticket.on_lost(lambda: outcomes.append(None))
            told = [place.position async for place in ticket.places(0.2)]
            running.add(index)
            assert len(running) <= 3
            assert told == sorted(told, reverse=True)
            await asyncio.sleep(chance.random() * 0.02)
            running.remove(index)
        outcomes.append(ticket.outcome)

    async with asyncio.timeout(60), asyncio.TaskGroup() as group:
        troubles = [group.create_task(trouble(redis_server, pools, chance))]
        for index in itertools.count():
            if troubles[-1].done() and len(troubles) == 8:
                break
            if troubles[-1].done():
                troubles.append(group.create_task(trouble(redis_server, pools, chance)))
            asked = group.create_task(ask(index))
            if chance.random() < 0.1:
                await asyncio.sleep(0)
                asked.cancel()
            await asyncio.sleep(0.01)
    assert set(outcomes) == {Outcome.GRANTED}
    await until_all(pools, running=0, waiting=0)


@pytest.mark.parametrize(
    ("setting", "value", "words"),
    [
        ("maxmemory", "1", "refuses what the gateway asks (command not allowed when used memory"),
        ("requirepass", "sesame", "refuses what the gateway asks (Authentication required)"),
    ],
)
async def test_a_redis_that_is_there_but_unwilling_is_said_in_its_own_words(
    redis_server: Any,
    open_replica: OpenReplica,
    upstream_name: str,
    caplog: pytest.LogCaptureFixture,
    setting: str,
    value: str,
    words: str,
) -> None:
    redis_server.start()
    pool = await open_replica(redis_server, upstream_name, 1)
    with redis_server.client() as client:
        client.config_set(setting, value)
        client.client_kill_filter(_type="normal", skipme=True)
    await until(lambda: not pool.reachable)
    await until(lambda: words in caplog.text)
    (line,) = [line for line in caplog.messages if "nobody new is granted" in line]
    assert f"redis://127.0.0.1:{redis_server.port}/0" in line and "EVALSHA" not in line


async def test_forgotten_scripts_are_no_reason_for_alarm(
    shared_redis: Any,
    open_replica: OpenReplica,
    upstream_name: str,
    caplog: pytest.LogCaptureFixture,
) -> None:
    pool = await open_replica(shared_redis, upstream_name, 1)
    with shared_redis.client() as client:
        client.script_flush()
    with pool.join(model="m", client="c") as ticket:
        await ticket.wait()
    assert [line for line in caplog.records if line.levelname == "ERROR"] == []


async def test_the_documented_user_of_redis_may_do_all_that_the_gateway_needs(
    redis_server: Any, open_replica: OpenReplica, upstream_name: str
) -> None:
    redis_server.start()
    (rule,) = re.findall(r"ACL SETUSER .*", (ROOT / "docs" / "replicas.md").read_text())
    with redis_server.client() as client:
        client.execute_command(*rule.split())
    url = f"redis://gateway:PASSWORD@127.0.0.1:{redis_server.port}/1"
    line = RedisLine(url, lease_seconds=LEASE)
    pool = await open_replica(redis_server, upstream_name, 1, line=line)
    tickets = await join_in_line(pool, 3)
    await tickets[0].wait()
    pool.reconfigure(slots=2, limits=LineLimits(max_waiting=5, max_wait_seconds=60))
    await tickets[1].wait()
    for ticket in tickets:
        ticket.close()
    await until_all([pool], running=0, waiting=0)
    await pool.stop()
    with redis_server.client() as client:
        assert client.acl_log() == []
