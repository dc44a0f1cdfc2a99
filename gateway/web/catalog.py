"""The small routes beside messages: which models there are, and how long a prompt is."""

from __future__ import annotations
