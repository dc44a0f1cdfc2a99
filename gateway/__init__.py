"""A reverse proxy that lets Anthropic Messages requests wait in one strict FIFO line.

The life of a request, in the order of the rooms:

1. ``web``       admits it: authenticates, reads the body, finds the upstream;
2. ``slots``     gives it a ticket in the upstream's line, then a lease on a slot;
3. ``upstream``  makes the one call that the lease allows;
4. ``relay``     turns the upstream's bytes into the client's bytes;
5. ``web``       writes them, and gives the slot back when the upstream is done.

Imports go one way.  Level 0 (``errors``, ``sse``, ``config``) imports nothing of ours above it;
level 1 (``slots``, ``upstream``, ``relay``) uses level 0 and never each other; ``metrics`` reads
what the slots say of themselves; level 2 (``web``) uses 0 and 1, of slots only ``base``; ``app``
puts them together, ``serving`` runs it until a signal ends it.
``tests/test_architecture.py`` holds this rule as data.
"""

__version__ = "0.1.0"
