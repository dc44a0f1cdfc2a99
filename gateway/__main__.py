"""``python -m gateway``: holds back the one signal that comes too early, then ``command``."""

from __future__ import annotations

import signal
import sys


def main() -> int:
    """Until somebody hears SIGHUP it would end the process, and loading the rest takes a while:
    ``systemctl reload`` right behind a start would stop the service for good."""
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGHUP})
    from gateway.command import from_a_shell

    return from_a_shell()


if __name__ == "__main__":
    sys.exit(main())
