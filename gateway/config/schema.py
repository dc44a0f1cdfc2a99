"""The shape of the configuration: every setting, its kind and its default.

The attribute names are the keys of the YAML file.  Read top-down from ``Config`` at the end.
Everything is frozen; a reload makes a new ``Config``.
"""

from __future__ import annotations

import enum
import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from ipaddress import ip_network
from typing import Annotated, Any

from gateway.config.kinds import (
    At,
    BaseUrl,
    Choice,
    Cidr,
    Kind,
    Network,
    Nullable,
    Seconds,
    Switch,
    Text,
    Whole,
)
from gateway.config.secrets import RedisUrl, Secret, SecretText, SecretUrl, Sha256
from gateway.config.sections import ListOf, Named, Section
from gateway.errors import ConfigError


class Dialect(enum.StrEnum):
    """What an upstream speaks."""

    OPENAI = "openai"
    """Chat completions; translated."""
    ANTHROPIC = "anthropic"
    """Messages; the bytes are relayed as they are."""


class Server(enum.StrEnum):
    """What an upstream is, for the few things in which servers of one dialect differ."""

    AUTO = "auto"
    """Asked once, lazily; never a reason to fail."""
    VLLM = "vllm"
    SGLANG = "sglang"
    LLAMA_CPP = "llama.cpp"
    OLLAMA = "ollama"
    OTHER = "other"


class QueueEventsMode(enum.StrEnum):
    """How streaming waiters are told their place."""

    EVENT = "event"
    """As ``event: queue`` frames."""
    COMMENT = "comment"
    """As SSE comments, ``: queue position=3 …``."""
    OFF = "off"
    """Not at all: only ``: keep-alive`` comments."""


class SlotBackend(enum.StrEnum):
    """Where the line is kept."""

    MEMORY = "memory"
    REDIS = "redis"


class _Models(Kind):
    """A list of names, or a mapping from public names to the upstream's; becomes the mapping."""

    expected = "a list of model names, or a mapping {public name: upstream's name}"

    def read(self, value: object, at: At) -> dict[str, str]:
        if not value or not isinstance(value, list | Mapping):
            raise self.wrong(value, at)
        names = ListOf(Text(), self.expected).read(list(value), at)
        if isinstance(value, Mapping):
            targets = [own if own is not None else name for name, own in value.items()]
            return dict(zip(names, ListOf(Text(), self.expected).read(targets, at), strict=True))
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise ConfigError(*(f'{at.path}: "{name}" is listed twice' for name in twice))
        return {name: name for name in names}


class _Upstreams(Named["UpstreamConfig"]):
    """Upstreams by name; a model belongs to one of them only."""

    def between(self, value: Mapping[Any, object], at: At) -> Iterator[ConfigError]:
        owners: dict[str, str] = {}
        for name, body in value.items():
            models = body.get("models") if isinstance(body, Mapping) else None
            names = models if isinstance(models, list | Mapping) else ()
            for model in dict.fromkeys(name for name in names if isinstance(name, str)):
                if owners.setdefault(model, name) != name:
                    here, there = at.key(name).key("models"), at.key(owners[model]).path
                    yield here.problem(f'"{model}" is a model of {there} already')


class _AuthKeys(Kind):
    """Entries as they are written, hashed at once: a plain key is not kept."""

    expected = "a list of {name, sha256} or {name, key}"

    def read(self, value: object, at: At) -> tuple[AuthKey, ...]:
        entries = ListOf(Section(AuthEntry), self.expected).read(value, at)
        return tuple(entry.hashed() for entry in entries)


@dataclass(frozen=True, kw_only=True)
class ListenConfig:
    """The listener that clients, or the nginx in front, connect to."""

    host: Annotated[str, Text()] = "127.0.0.1"
    port: Annotated[int, Whole(0, 65535)] = 8080
    trusted_proxies: Annotated[tuple[Network, ...], ListOf(Cidr(), "a list of networks")] = (
        ip_network("127.0.0.1/32"),
    )
    workers: Annotated[int, Whole(1)] = 1


@dataclass(frozen=True, kw_only=True)
class AdminConfig:
    """The listener for ``/metrics``, ``/status`` and, if it is wanted, ``/demo``."""

    host: Annotated[str, Text()] = "127.0.0.1"
    port: Annotated[int, Whole(0, 65535)] = 8081
    demo: Annotated[bool, Switch()] = False


@dataclass(frozen=True, kw_only=True)
class QueueConfig:
    """The line in front of one upstream."""

    max_waiting: Annotated[int, Whole(0)] = 100
    max_wait_seconds: Annotated[float, Seconds()] = 300
    max_waiting_per_client: Annotated[int | None, Nullable(Whole(1))] = None


@dataclass(frozen=True, kw_only=True)
class TimeoutsConfig:
    """How patient the gateway is with one upstream."""

    connect_seconds: Annotated[float, Seconds()] = 5
    first_byte_seconds: Annotated[float, Seconds()] = 600
    idle_seconds: Annotated[float, Seconds()] = 120


@dataclass(frozen=True, kw_only=True)
class UpstreamConfig:
    """One model server: where it is, what it speaks, how much it can do at once."""

    name: str
    url: Annotated[str, BaseUrl()]
    dialect: Annotated[Dialect, Choice(Dialect)]
    slots: Annotated[int, Whole(1)]
    models: Annotated[dict[str, str], _Models()]
    """From the public name to the upstream's own."""
    server: Annotated[Server, Choice(Server)] = Server.AUTO
    max_output_tokens: Annotated[int | None, Nullable(Whole(1))] = None
    api_key: Annotated[Secret | None, Nullable(SecretText())] = None
    queue: Annotated[QueueConfig, Section(QueueConfig)] = QueueConfig()
    timeouts: Annotated[TimeoutsConfig, Section(TimeoutsConfig)] = TimeoutsConfig()


@dataclass(frozen=True, kw_only=True)
class QueueEventsConfig:
    """What waiting clients are sent unless they ask for something else."""

    mode: Annotated[QueueEventsMode, Choice(QueueEventsMode)] = QueueEventsMode.EVENT
    keepalive_seconds: Annotated[float, Seconds()] = 10


@dataclass(frozen=True, kw_only=True)
class ClientConfig:
    """What one client may cost."""

    write_timeout_seconds: Annotated[float, Seconds()] = 60
    max_body_bytes: Annotated[int, Whole(1)] = 32 * 1024**2
    max_buffered_bytes: Annotated[int, Whole(1)] = 2 * 1024**2
    max_queued_body_bytes: Annotated[int, Whole(1)] = 256 * 1024**2

    def problems(self) -> Iterator[tuple[str, str]]:
        if self.max_queued_body_bytes < self.max_body_bytes:
            text = f"expected at least client.max_body_bytes ({self.max_body_bytes})"
            yield "max_queued_body_bytes", f"{text}, got {self.max_queued_body_bytes}"


@dataclass(frozen=True, kw_only=True)
class AuthKey:
    """A client's key as it is kept: the SHA-256 of it, in hexadecimal."""

    name: str
    sha256: str = field(repr=False)


@dataclass(frozen=True, kw_only=True)
class AuthEntry:
    """A client's key as it is written."""

    name: Annotated[str, Text()]
    sha256: Annotated[str | None, Nullable(Sha256())] = field(default=None, repr=False)
    key: Annotated[Secret | None, Nullable(SecretText())] = None

    def problems(self) -> Iterator[tuple[str, str]]:
        if (self.sha256 is None) == (self.key is None):
            yield "key", "expected exactly one of sha256 and key"

    def hashed(self) -> AuthKey:
        digest = self.sha256 or hashlib.sha256(str(self.key).encode()).hexdigest()
        return AuthKey(name=self.name, sha256=digest)


@dataclass(frozen=True, kw_only=True)
class AuthConfig:
    """Who may use the surface; without keys it is open."""

    keys: Annotated[tuple[AuthKey, ...], _AuthKeys()] = ()

    def problems(self) -> Iterator[tuple[str, str]]:
        for index, entry in enumerate(self.keys):
            for earlier in self.keys[:index]:
                if entry.name == earlier.name:
                    yield f"keys[{index}].name", f'"{entry.name}" is the name of another key too'
                elif entry.sha256 == earlier.sha256:
                    yield f"keys[{index}].key", f'is the same key as that of "{earlier.name}"'


@dataclass(frozen=True, kw_only=True)
class SlotsConfig:
    """Where the line is kept: in this process, or in Redis and shared by replicas."""

    backend: Annotated[SlotBackend, Choice(SlotBackend)] = SlotBackend.MEMORY
    url: Annotated[SecretUrl | None, Nullable(RedisUrl())] = None
    lease_seconds: Annotated[float, Seconds()] = 10

    def problems(self) -> Iterator[tuple[str, str]]:
        if self.backend is SlotBackend.REDIS and self.url is None:
            yield "url", "is required with backend: redis, such as redis://127.0.0.1:6379/0"


@dataclass(frozen=True, kw_only=True)
class ShutdownConfig:
    """How the gateway goes."""

    grace_seconds: Annotated[float, Seconds(zero=True)] = 30


@dataclass(frozen=True, kw_only=True)
class Config:
    """The whole file."""

    listen: Annotated[ListenConfig, Section(ListenConfig)] = ListenConfig()
    admin: Annotated[AdminConfig | None, Nullable(Section(AdminConfig))] = AdminConfig()
    upstreams: Annotated[dict[str, UpstreamConfig], _Upstreams(UpstreamConfig, "upstream")]
    queue_events: Annotated[QueueEventsConfig, Section(QueueEventsConfig)] = QueueEventsConfig()
    client: Annotated[ClientConfig, Section(ClientConfig)] = ClientConfig()
    auth: Annotated[AuthConfig, Section(AuthConfig)] = AuthConfig()
    slots: Annotated[SlotsConfig, Section(SlotsConfig)] = SlotsConfig()
    shutdown: Annotated[ShutdownConfig, Section(ShutdownConfig)] = ShutdownConfig()

    def problems(self) -> Iterator[tuple[str, str]]:
        listen, admin = self.listen, self.admin
        if admin and admin.port and (admin.host, admin.port) == (listen.host, listen.port):
            yield "admin.port", f"expected another port than listen.port, got {admin.port} twice"
        yield from self._problems_of_workers()

    def _problems_of_workers(self) -> Iterator[tuple[str, str]]:
        workers = self.listen.workers
        if workers == 1:
            return
        if self.slots.backend is not SlotBackend.REDIS:
            yield (
                "listen.workers",
                f"expected 1 with slots.backend: memory, got {workers}: each worker would keep "
                "a line and a cap of its own; with slots.backend: redis they share one",
            )
        admin = self.admin
        if admin and 0 < self.listen.port - admin.port < workers:
            taken = f"admin.port {admin.port} and the {workers - 1} after it belong to the workers"
            yield "listen.port", f"expected a port outside the admin listeners': {taken}"
        if admin and admin.port + workers > 65536:
            text = f"expected at most {65536 - workers}, as worker N has admin.port + N"
            yield "admin.port", f"{text}, got {admin.port}"
        if not self.listen.port:
            yield "listen.port", "expected a port that all workers can share, got 0"
