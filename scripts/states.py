"""Prints docs/states.md from the translator's state table, or writes it with --write."""

from __future__ import annotations

import sys
from pathlib import Path

from gateway.relay.anthropic_openai.machine import diagram

TARGET = Path(__file__).resolve().parent.parent / "docs" / "states.md"

PAGE = """\
# The translator's states

How chat completions become an Anthropic stream. The diagram is printed by `scripts/states --write`
from the table in `gateway/relay/anthropic_openai/machine.py`, and a test compares them. An arrow
reads *input / frames*; what has no arrow is illegal and raises.

```mermaid
{diagram}
```

What reaches the machine has been put in order before: `chunks.py` takes a chunk apart, `calls.py`
finds the call that each piece belongs to, `order.py` holds back what must wait for an open call to
be said, and blanks that may turn out to be nothing. `writer.py` writes the frames. What becomes of
each part of an answer is in [answers.md](answers.md).

## Seeing what becomes of a recording

Record an upstream's own stream and translate it without any gateway:

```bash
python -m gateway.relay.anthropic_openai < recorded.sse
```

`--model` is the name that the client asked for, `--stop` one of its stop sequences. A recorded JSON
body is translated too. An error that came first, which a client would get as an HTTP status, goes
to standard error.
"""


def page() -> str:
    return PAGE.format(diagram=diagram())


if __name__ == "__main__":
    if "--write" in sys.argv[1:]:
        TARGET.write_text(page())
    else:
        print(page(), end="")
