"""What is asked of the interpreter and the C library once the gateway has started."""

from __future__ import annotations

import gc

LARGEST_BUFFER_BYTES = 4 << 20
"""A prompt of this size passes without a call to the kernel for its memory."""


def settle() -> None:
    """To be called once, after start-up."""
    collect_garbage_seldom()
    keep_freed_memory()


def collect_garbage_seldom() -> None:
    """An exchange leaves next to nothing behind that only the collector can free, and looking
    for it stops every stream: through all that start-up made never again, else less often."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(10_000, 20, 20)


def keep_freed_memory() -> None:
    """glibc gives a large buffer back to the kernel as soon as it is freed, and for the next
    prompt of 100 KB the kernel clears a dozen pages again.  One that sees a larger buffer freed
    keeps up to twice its size from then on (mallopt(3), "M_MMAP_THRESHOLD"); to other libraries
    this is a buffer like any."""
    buffer = bytes(LARGEST_BUFFER_BYTES)
    del buffer
