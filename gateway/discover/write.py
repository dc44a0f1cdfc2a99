"""What was found, as a ``config.yaml`` that ``check`` accepts.  Pure.

Strings go in as JSON, which is YAML too, so that no name can break the file.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence

from gateway.discover.servers import Found

HEAD = """\
# Written by `python -m gateway discover`; docs/config.md explains every setting.
# Look through the comments, then: python -m gateway check --config THIS_FILE

listen:
  host: 127.0.0.1
  port: 8080

admin:
  host: 127.0.0.1
  port: 8081

upstreams:
"""

NOTHING_USABLE = """\
# None of the servers that were found names its models, so none can be an upstream yet: put their
# models in and take the # away.
"""


def config_of(found: Sequence[Found]) -> str:
    head = HEAD
    if any(server.url.endswith(":8080") for server in found):
        head = head.replace(
            "  port: 8080\n", "  port: 8088 # 8080, the default, belongs to a model server\n"
        )
    if not any(server.models for server in found):
        head += NOTHING_USABLE
    names = Names()
    return head + "\n".join(upstream(server, names) for server in found)


class Names:
    """Names that are given once only: of upstreams, and of models."""

    def __init__(self) -> None:
        self._taken: set[str] = set()

    def free(self, wanted: str) -> str:
        name, number = wanted, 1
        while name in self._taken:
            number += 1
            name = f"{wanted}-{number}"
        self._taken.add(name)
        return name


def upstream(server: Found, names: Names) -> str:
    """The section of one server; commented out if it cannot work as it stands."""
    lines = [f"  {names.free(server.name)}:"]
    lines += [f"    {line}" for line in settings(server, names)]
    if not server.models:
        lines = [f"  # {line[2:]}" for line in lines]
    return "\n".join(lines) + "\n"


def settings(server: Found, names: Names) -> Iterator[str]:
    yield f"url: {json.dumps(server.url)}"
    yield f"dialect: {server.dialect}"
    yield f"slots: {server.slots}"
    if server.needs_key:
        yield "api_key: ${API_KEY} # it asks for one; read from the environment"
    yield from models(server, names)
    yield f"server: {server.server}"
    for note in server.notes:
        yield f"# {note}"


def models(server: Found, names: Names) -> Iterator[str]:
    if not server.models:
        yield "models: [] # it does not say; put their names here"
        return
    public = {names.free(f"model {model}").removeprefix("model "): model for model in server.models}
    if all(name == model for name, model in public.items()):
        yield "models:"
        for name in public:
            yield f"  - {json.dumps(name)}"
        return
    yield "models: # public name: the server's; another upstream has a model of the same name"
    for name, model in public.items():
        yield f"  {json.dumps(name)}: {json.dumps(model)}"
