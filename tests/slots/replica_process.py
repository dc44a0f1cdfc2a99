"""A replica in a process of its own, to be killed or paused.

``replica_process.py URL NAME SLOTS LEASE_SECONDS TICKETS`` joins so many tickets and says on
stdout what happens to each: ``waiting 2``, ``granted 2``, ``lost 2``.
"""

from __future__ import annotations

import asyncio
import sys

from gateway.slots.base import LineLimits, Ticket
from gateway.slots.redis import RedisPool
from gateway.slots.redis_line import RedisLine


def say(what: str, index: int) -> None:
    print(what, index, flush=True)


async def live(ticket: Ticket, index: int) -> None:
    ticket.on_lost(lambda: say("lost", index))
    async for _ in ticket.places(60):
        say("waiting", index)
    say("granted", index)


async def main(url: str, name: str, slots: int, lease_seconds: float, count: int) -> None:
    limits = LineLimits(max_waiting=1000, max_wait_seconds=60)
    line = RedisLine(url, lease_seconds=lease_seconds)
    pool = RedisPool(line, name=name, slots=slots, limits=limits)
    await pool.start()
    async with asyncio.TaskGroup() as group:
        for index in range(count):
            group.create_task(live(pool.join(model="m", client="other"), index))
    await asyncio.Event().wait()


if __name__ == "__main__":
    _, url, name, slots, lease_seconds, count = sys.argv
    asyncio.run(main(url, name, int(slots), float(lease_seconds), int(count)))
