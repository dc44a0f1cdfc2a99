"""One stay with Redis: two connections, opened together and given up together.

One carries the verbs, in order and in batches; the other what Redis publishes.  Nothing is retried
here and nothing reconnects by itself: whatever fails ends the stay, and the next one begins by
comparing what Redis knows with what this process knows.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Collection, Sequence
from typing import Any, NamedTuple

from redis.asyncio import ConnectionPool, Redis
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff

from gateway.slots.redis_verbs import Command, Reply, Verb, reply_of

TIMEOUT_SECONDS = 1.5
"""For connecting and for each batch of verbs; a frozen Redis is a lost one."""


class Server(NamedTuple):
    """Which run of a Redis server this is."""

    run: str
    uptime_seconds: int


class Session:
    """See the module.  Raises redis.RedisError, OSError and TimeoutError from everything."""

    def __init__(self, url: str, name: str) -> None:
        self._redis: Any = Redis.from_url(
            url,
            single_connection_client=True,
            client_name=name,
            socket_timeout=TIMEOUT_SECONDS,
            socket_connect_timeout=TIMEOUT_SECONDS,
            retry=Retry(NoBackoff(), 0),
            protocol=2,
        )
        self._subscription: Any = self._redis.pubsub()

    async def open(self, channels: Collection[str]) -> Server:
        """Subscribes first: nothing may happen unseen between the copy of a line and its news."""
        await self._redis.initialize()
        for verb in Verb:
            await self._redis.script_load(verb.source)
        if channels:
            await self._subscription.subscribe(*channels)
            for _ in channels:
                await self._subscription.get_message(timeout=TIMEOUT_SECONDS)
        server = await self._redis.info("server")
        end_if_cancelled()
        return Server(server["run_id"], server["uptime_in_seconds"])

    async def send(self, commands: Sequence[Command]) -> None:
        """Executes them in this order and hands out the answers."""
        pipeline = self._redis.pipeline(transaction=False)
        for command in commands:
            pipeline.evalsha(command.verb.sha, len(command.keys), *command.keys, *command.arguments)
        answers = await pipeline.execute(raise_on_error=False)
        end_if_cancelled()
        for command, answer in zip(commands, answers, strict=True):
            if isinstance(answer, Exception):
                raise answer  # as it is: redis-py would quote the whole command before it
            command.answer(reply_of(answer))

    async def call(self, command: Command) -> Reply:
        """Executes one, whose answer the caller waits for."""
        replies: list[Reply] = []
        await self.send([command._replace(answer=replies.append)])
        return replies[0]

    async def messages(self) -> AsyncIterator[tuple[str, bytes]]:
        """Channel and payload of what is published, as it comes."""
        while True:
            message = await self._subscription.get_message(
                ignore_subscribe_messages=True, timeout=None
            )
            end_if_cancelled()
            if message is not None:
                yield message["channel"].decode(), message["data"]

    async def close(self) -> None:
        try:
            await self._subscription.aclose()
        finally:
            await self._redis.aclose()


def refuse_unknown_options(url: str) -> None:
    """Raises ValueError for what redis-py would refuse in ``url`` at each attempt to connect."""
    try:
        pool: Any = ConnectionPool.from_url(url)
        pool.make_connection()
    except (TypeError, ValueError) as error:
        raise ValueError(f"an option in it is unknown or wrong ({error})") from None


def end_if_cancelled() -> None:
    """redis-py can lose a cancellation that comes in the same tick as an answer."""
    task = asyncio.current_task()
    if task is not None and task.cancelling():
        raise asyncio.CancelledError
