"""What each exchange will be, drawn from a seed: the same seed and number, the same plan."""

from __future__ import annotations

import enum
import json
import random
from dataclasses import dataclass

TOKENS = 8
"""How many words a good answer has."""


class Client(enum.Enum):
    """How the client behaves."""

    READ = "reads the stream to its end"
    READ_SLOWLY = "reads a little at a time"
    WHOLE = "asks for a whole answer"
    LEAVE_AT_ONCE = "closes right after asking"
    LEAVE_IN_LINE = "closes after its first queue frame"
    LEAVE_IN_STREAM = "closes after the first words"
    RESET_IN_STREAM = "resets the connection after the first words"
    LEAVE_WHOLE = "asks for a whole answer and closes"
    STALL = "stops reading for good"
    BAD_JSON = "sends half a JSON document"
    BAD_MODEL = "asks for a model nobody has"


class Upstream(enum.Enum):
    """How the upstream treats the request, if it gets there."""

    ANSWER = "answers"
    ANSWER_SLOWLY = "answers word by word, with pauses"
    FLOOD = "answers with several megabytes"
    STATUS_400 = "400"
    STATUS_500 = "500"
    STATUS_503 = "503"
    RESET_BEFORE = "resets before the headers"
    RESET_WITHIN = "resets in the middle"
    END_WITHIN = "ends the body in the middle, properly"
    ERROR_WITHIN = "reports an error in the middle"
    SILENT = "accepts and says nothing"

    @property
    def good(self) -> bool:
        return self in (Upstream.ANSWER, Upstream.ANSWER_SLOWLY, Upstream.FLOOD)


CLIENTS: dict[Client, float] = {
    Client.READ: 60,
    Client.READ_SLOWLY: 3,
    Client.WHOLE: 12,
    Client.LEAVE_AT_ONCE: 4,
    Client.LEAVE_IN_LINE: 6,
    Client.LEAVE_IN_STREAM: 5,
    Client.RESET_IN_STREAM: 4,
    Client.LEAVE_WHOLE: 3,
    Client.STALL: 0.3,
    Client.BAD_JSON: 1,
    Client.BAD_MODEL: 1,
}
UPSTREAMS: dict[Upstream, float] = {
    Upstream.ANSWER: 72,
    Upstream.ANSWER_SLOWLY: 6,
    Upstream.FLOOD: 0.5,
    Upstream.STATUS_400: 3,
    Upstream.STATUS_500: 3,
    Upstream.STATUS_503: 3,
    Upstream.RESET_BEFORE: 3,
    Upstream.RESET_WITHIN: 3,
    Upstream.END_WITHIN: 3,
    Upstream.ERROR_WITHIN: 3,
    Upstream.SILENT: 0.3,
}


@dataclass(frozen=True)
class Plan:
    number: int
    client: Client
    upstream: Upstream
    model: str

    @property
    def stream(self) -> bool:
        return self.client not in (Client.WHOLE, Client.LEAVE_WHOLE)

    @property
    def complete(self) -> bool:
        """Whether the client must have the whole answer in the end."""
        reads = self.client in (Client.READ, Client.READ_SLOWLY, Client.WHOLE)
        return reads and self.upstream.good

    def body(self) -> bytes:
        if self.client is Client.BAD_JSON:
            return b'{"model": "native", "messages": ['
        text = json.dumps({"number": self.number, "upstream": self.upstream.name})
        return json.dumps(
            {
                "model": "nobody" if self.client is Client.BAD_MODEL else self.model,
                "max_tokens": 64,
                "stream": self.stream,
                "messages": [{"role": "user", "content": text}],
            }
        ).encode()


def draw(seed: int, number: int) -> Plan:
    chance = random.Random(f"{seed}/{number}")
    client = chance.choices(list(CLIENTS), list(CLIENTS.values()))[0]
    upstream = chance.choices(list(UPSTREAMS), list(UPSTREAMS.values()))[0]
    if client is Client.STALL:
        upstream = Upstream.FLOOD
    return Plan(number, client, upstream, chance.choice(("native", "chat")))
