"""``python -m gateway.relay.anthropic_openai < recorded.sse`` prints the translation.

For people who debug an upstream: record what it sends (``curl -N … | tee recorded.sse``), and see
what a client would get of it.  ``--model`` is the name the client asked for, ``--stop`` one of
its stop sequences.
"""

from __future__ import annotations

import argparse
import sys

from gateway.config import Dialect
from gateway.errors import GatewayError
from gateway.relay import Phase
from gateway.relay.dialects import EVENT_STREAM, JSON, stream_step


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m gateway.relay.anthropic_openai")
    parser.add_argument("--model", default="model")
    parser.add_argument("--stop", action="append", default=[], metavar="SEQUENCE")
    options = parser.parse_args()
    recorded = sys.stdin.buffer.read()
    kind = JSON if recorded.lstrip().startswith(b"{") else EVENT_STREAM
    step = stream_step(Dialect.OPENAI, kind, model=options.model, stop_sequences=options.stop)
    try:
        frames = step.feed(recorded)
        if step.phase is not Phase.COMPLETE:
            frames += step.finish()
    except GatewayError as error:
        print(f"status {error.status}, {error.type}: {error.message}", file=sys.stderr)
        return 1
    sys.stdout.buffer.write(frames)
    return 0


if __name__ == "__main__":
    sys.exit(main())
