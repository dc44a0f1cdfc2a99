"""Which upstream serves which model, and the pool of slots in front of each.

A reload makes the directory follow a new config: pools live on under their upstream's name, so a
changed cap counts the same slots; only an upstream that is gone loses its line.
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
        self._retired: list[SlotPool] = []

    def __iter__(self) -> Iterator[Upstream]:
        return iter(self._upstreams.values())

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
        before, followed = dict(self._upstreams), {}
        for name, upstream_config in config.upstreams.items():
            followed[name] = await self._follow(before.pop(name, None), upstream_config)
        self._upstreams = followed
        for upstream in before.values():
            upstream.pool.evict(Outcome.EVICTED_REMOVED)
            self._retired.append(upstream.pool)
        self._by_model = {model: upstream for upstream in self for model in upstream.config.models}
        await self._stop_idle_retired()

    def close(self) -> None:
        """Ends everybody's wait and rejects newcomers."""
        for upstream in self:
            upstream.pool.evict(Outcome.EVICTED_CLOSING)

    async def stop(self) -> None:
        """After the last exchange: ends what the pools run of their own."""
        for pool in [upstream.pool for upstream in self] + self._retired:
            await pool.stop()

    async def _follow(self, known: Upstream | None, config: UpstreamConfig) -> Upstream:
        if known is None:
            pool = self._make_pool(config)
            await pool.start()
            return Upstream(config, pool)
        known.config = config
        known.pool.reconfigure(slots=config.slots, limits=line_limits(config))
        return known

    async def _stop_idle_retired(self) -> None:
        still_running = []
        for pool in self._retired:
            if pool.statistics(most_tickets=0).running:
                still_running.append(pool)
            else:
                await pool.stop()
        self._retired = still_running
