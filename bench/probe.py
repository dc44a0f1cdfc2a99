"""How long the gateway keeps anybody waiting: ``python -m bench.probe PORT SECONDS``, prints JSON.

Asks for ``/healthz`` every few milliseconds; what an answer takes longer than usual is a time in
which the event loop did something else.  A process of its own, so that the clients' work in the
measuring process does not look like the gateway's.
"""

from __future__ import annotations

import json
import socket
import sys
import time

EVERY_SECONDS = 0.005
ASK = b"GET /healthz HTTP/1.1\r\nHost: bench\r\n\r\n"


def main() -> None:
    port, seconds = int(sys.argv[1]), float(sys.argv[2])
    taken = []
    with socket.create_connection(("127.0.0.1", port)) as connection:
        ends = time.monotonic() + seconds
        while (begun := time.monotonic()) < ends:
            connection.sendall(ASK)
            connection.recv(4096)
            taken.append((time.monotonic() - begun) * 1000)
            time.sleep(EVERY_SECONDS)
    taken.sort()
    usual, late = taken[len(taken) // 2], taken[len(taken) * 99 // 100]
    print(json.dumps({"usual": usual, "stall": late - usual, "longest": taken[-1] - usual}))


if __name__ == "__main__":
    main()
