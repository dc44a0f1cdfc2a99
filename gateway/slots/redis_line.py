"""A process's road to Redis, shared by the pools of all its upstreams.

One task keeps a session open, for as long as there are pools.  Whatever goes wrong in it (Redis
gone, a message missed, a lease lapsed while this process was paused) ends the session, and a new
one puts everything right from what the pools know.  So there is one way back, always the same.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import random
from collections import deque
from collections.abc import Iterable, Sequence
from functools import partial
from typing import Protocol

from redis.exceptions import AuthenticationError, NoScriptError, RedisError, ResponseError

from gateway.config import SecretUrl
from gateway.slots.redis_session import Server, Session
from gateway.slots.redis_verbs import BATCH, Command, Reply

log = logging.getLogger(__name__)

PATIENCE_SECONDS = 0.25
"""How long news may take to come through before they count as lost."""

BACKOFF_SECONDS = (0.05, 1.0)
"""Between two attempts to reach Redis: the first pause and the longest."""

RESTART_SECONDS = 0.01
"""Before a new session where Redis is not at fault."""

ATTACH_SECONDS = 4.0
"""How long a pool's start waits for its first answer; without one it starts all the same."""

LAST_WORDS_SECONDS = 3.0


class Follower(Protocol):
    """What the road needs of a pool."""

    channel: str

    async def meet(self, session: Session, server: Server) -> None:
        """Brings Redis and this process together; may talk to Redis, others wait meanwhile."""

    def feed(self, payload: bytes) -> None:
        """Something was published on the pool's channel."""

    def beats(self) -> Iterable[Command]:
        """The signs of life that are due."""

    def cut_off(self) -> None:
        """The session is over.  Nothing that was posted may be relied upon."""

    def strand(self) -> None:
        """Redis is away, until there is another meeting."""


class Restart(Exception):
    """The session is to be begun anew, for this reason."""


class RedisLine:
    """``url`` as in the configuration; ``lease_seconds`` is how long silence is forgiven."""

    def __init__(self, url: str, *, lease_seconds: float) -> None:
        self._url = url
        self._shown_url = repr(SecretUrl(url)).strip("'")
        self.lease_seconds = lease_seconds
        self.patience = min(PATIENCE_SECONDS, lease_seconds / 20)
        self._name = f"gateway-{os.getpid()}"
        self.reachable = False
        self._followers: list[Follower] = []
        self._outbox: deque[Command] = deque()
        self._posted = asyncio.Event()
        self._restarting = asyncio.Event()
        self._restart_reason = ""
        self._tried = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    def __repr__(self) -> str:
        return f"<RedisLine {'reachable' if self.reachable else 'cut off'}>"

    # --- the pools' side -----------------------------------------------------------------------

    async def attach(self, follower: Follower) -> None:
        """Returns when the pool has met Redis, or when Redis turns out to be away."""
        self._followers.append(follower)
        self._tried.clear()
        if self._task is None:
            self._task = asyncio.create_task(self._run(), name="the road to Redis")
        else:
            self.restart("another upstream")
        try:
            async with asyncio.timeout(ATTACH_SECONDS):
                await self._tried.wait()
        except TimeoutError:
            log.warning("redis: no answer yet; new requests wait until there is one")

    async def detach(self, follower: Follower, last_words: Command) -> None:
        """Says the pool's last words if Redis is there; ends with the last pool."""
        if follower not in self._followers:
            return
        if self.reachable:
            await self._say(last_words)
        self._followers.remove(follower)
        if not self._followers and self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
            self._task = None

    def post(self, command: Command) -> None:
        """To be executed soon, in the order of posting, unless the session ends before."""
        self._outbox.append(command)
        self._posted.set()

    def restart(self, reason: str) -> None:
        """Ends the session, so that everything is compared anew."""
        self._restart_reason = reason
        self._restarting.set()

    async def _say(self, last_words: Command) -> None:
        """Until nothing is left to be done for them, but not for long."""
        loop = asyncio.get_running_loop()
        end = loop.time() + LAST_WORDS_SECONDS
        while self.reachable and loop.time() < end:
            heard: asyncio.Future[Reply] = loop.create_future()
            self.post(last_words._replace(answer=partial(hand_over, heard)))
            await asyncio.wait((heard,), timeout=LAST_WORDS_SECONDS / 4)
            if heard.done() and not heard.result().more:
                return
        log.warning("redis: did not hear our last words; what was held lapses by itself")

    # --- the road ------------------------------------------------------------------------------

    async def _run(self) -> None:
        pause, longest = BACKOFF_SECONDS
        while True:
            try:
                await self._stay()
            except Restart as restart:
                log.info("redis: comparing anew: %s", restart)
                await asyncio.sleep(RESTART_SECONDS)
                continue
            except NoScriptError:
                log.info("redis: comparing anew: it has forgotten our scripts")
                await asyncio.sleep(RESTART_SECONDS)
                continue
            except (RedisError, OSError, TimeoutError) as error:
                pause = BACKOFF_SECONDS[0] if self.reachable else min(2 * pause, longest)
                self._lost(error)
            except Exception as error:
                log.exception("redis: a fault of the gateway itself")
                pause = longest
                self._lost(error)
            await asyncio.sleep(pause * random.uniform(0.5, 1))

    def _lost(self, error: BaseException) -> None:
        if self.reachable or not self._tried.is_set():
            what = in_words(error)
            log.error("redis: %s %s; nobody new is granted a slot", self._shown_url, what)
            for follower in self._followers:
                follower.strand()
        self.reachable = False
        self._tried.set()

    async def _stay(self) -> None:
        """One session, to its end, which is always an error of some kind."""
        session = Session(self._url, self._name)
        self._restarting.clear()
        tasks: list[asyncio.Task[None]] = []
        try:
            followers = list(self._followers)
            server = await session.open({follower.channel for follower in followers})
            tasks += map(
                asyncio.create_task,
                (
                    self._listen(session),
                    self._talk(session, server, followers),
                    self._beat(),
                    self._until_restart(),
                ),
            )
            await first_failure(tasks)
        finally:
            try:
                await cancelled(tasks)
            finally:
                self._outbox.clear()
                for follower in self._followers:
                    follower.cut_off()
                with contextlib.suppress(RedisError, OSError):
                    await session.close()

    def _found(self) -> None:
        if not self.reachable:
            log.info("redis: reached")
        self.reachable = True
        self._tried.set()

    async def _until_restart(self) -> None:
        await self._restarting.wait()
        raise Restart(self._restart_reason)

    async def _listen(self, session: Session) -> None:
        async for channel, payload in session.messages():
            for follower in self._followers:
                if follower.channel == channel:
                    follower.feed(payload)

    async def _talk(self, session: Session, server: Server, followers: Sequence[Follower]) -> None:
        for follower in followers:
            await follower.meet(session, server)
        self._found()
        while True:
            self._posted.clear()
            while self._outbox:
                size = min(len(self._outbox), BATCH)
                await session.send([self._outbox.popleft() for _ in range(size)])
            await self._posted.wait()

    async def _beat(self) -> None:
        while True:
            await asyncio.sleep(self.lease_seconds / 3 - self.patience)
            for follower in self._followers:
                for command in follower.beats():
                    self.post(command)


def in_words(error: BaseException) -> str:
    """What is the matter with Redis: away, or there and unwilling (read-only, full, a password)."""
    if isinstance(error, ResponseError | AuthenticationError):
        said, _, _ = str(error).partition(" script: ")
        return f"refuses what the gateway asks ({said.rstrip('.')})"
    return f"cannot be reached ({str(error).rstrip('.') or type(error).__name__})"


def hand_over(heard: asyncio.Future[Reply], reply: Reply) -> None:
    if not heard.done():
        heard.set_result(reply)


async def first_failure(tasks: Sequence[asyncio.Task[None]]) -> None:
    """Raises it."""
    done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    for task in done:
        task.result()


async def cancelled(tasks: Sequence[asyncio.Task[None]]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
