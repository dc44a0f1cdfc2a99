"""Which upstream serves which model, and the pool of slots in front of each.

A reload makes the directory follow a new config: pools live on under their upstream's name, so a
changed cap counts the same slots; only an upstream that is gone loses its line.  While its last
exchanges run it is still shown; if it comes back meanwhile, they still count.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from yarl import URL

from gateway.config import Config, UpstreamConfig
from gateway.errors import NotFound
from gateway.slots.base import LineLimits, Outcome, SlotPool

PoolFactory = Callable[[UpstreamConfig], SlotPool]


@dataclass
class Upstream:
    """One configured upstream: what the config says now, and its line."""

    config: UpstreamConfig
    pool: SlotPool
    removed: bool = False
    """By a reload; what runs may finish."""

    @property
    def name(self) -> str:
        return self.config.name

    def url(self, path: str) -> URL:
        """``path`` begins with ``/`` and may hold a query."""
        return joined(self.config.url, path)

    @property
    def stalled(self) -> bool:
        """At its cap, with waiters, and no slot given back for longer than a first byte may
        take."""
        statistics = self.pool.statistics(most_tickets=0)
        return (
            statistics.running >= statistics.limit
            and statistics.waiting > 0
            and statistics.seconds_since_release > self.config.timeouts.first_byte_seconds
        )


@functools.lru_cache(maxsize=1024)
def joined(base: str, path: str) -> URL:
    return URL(base.rstrip("/") + path)


def line_limits(config: UpstreamConfig) -> LineLimits:
    queue = config.queue
    return LineLimits(queue.max_waiting, queue.max_wait_seconds, queue.max_waiting_per_client)


class Directory:
    """All upstreams by name and all models by public name."""

    def __init__(self, make_pool: PoolFactory) -> None:
        self._make_pool = make_pool
        self._upstreams: dict[str, Upstream] = {}
        self._by_model: dict[str, Upstream] = {}
        self._removed: dict[str, Upstream] = {}

    def __iter__(self) -> Iterator[Upstream]:
        return iter(self._upstreams.values())

    def with_removed(self) -> Iterator[Upstream]:
        """Also those that a reload has removed while they have exchanges here that still run."""
        yield from self
        yield from (upstream for upstream in self._removed.values() if upstream.pool.busy)

    @property
    def models(self) -> list[str]:
        """Public names, in the order of the config."""
        return list(self._by_model)

    def find(self, model: str) -> tuple[Upstream, str]:
        """The upstream of a public model name, and the name it goes by there.  Raises NotFound."""
        upstream = self._by_model.get(model)
        if upstream is None:
            known = ", ".join(sorted(self._by_model))
            raise NotFound(f"model: {model[:200]!r} is not known here. Known models: {known}.")
        return upstream, upstream.config.models[model]

    async def apply(self, config: Config) -> None:
        """Follows ``config``: new upstreams get a pool, changed ones their new bounds, and those
        that are gone end their waiters and let the running exchanges finish."""
        known, followed = self._removed | self._upstreams, {}
        for name, upstream_config in config.upstreams.items():
            followed[name] = await self._follow(known.pop(name, None), upstream_config)
        self._upstreams, self._removed = followed, known
        for upstream in known.values():
            upstream.removed = True
            upstream.pool.evict(Outcome.EVICTED_REMOVED)
        self._by_model = {model: upstream for upstream in self for model in upstream.config.models}
        await self._forget_finished()

    def close(self) -> None:
        """Ends everybody's wait and rejects newcomers."""
        for upstream in self:
            upstream.pool.evict(Outcome.EVICTED_CLOSING)

    async def stop(self) -> None:
        """After the last exchange: ends what the pools run of their own."""
        for upstream in [*self, *self._removed.values()]:
            await upstream.pool.stop()

    async def _follow(self, known: Upstream | None, config: UpstreamConfig) -> Upstream:
        if known is None:
            pool = self._make_pool(config)
            await pool.start()
            return Upstream(config, pool)
        known.config = config
        if known.removed:
            known.removed = False
            known.pool.reopen()
        known.pool.reconfigure(slots=config.slots, limits=line_limits(config))
        return known

    async def _forget_finished(self) -> None:
        for upstream in list(self._removed.values()):
            if not upstream.pool.busy:
                del self._removed[upstream.name]
                await upstream.pool.stop()
