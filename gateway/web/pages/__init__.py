"""The pages for people: HTML, CSS and JavaScript as package data, put together when first read.

A page is one self-contained file.  Its Content-Security-Policy names its own script and style by
their hashes and forbids all else, so nothing that a client made up can become active on it.
"""

from __future__ import annotations

import base64
import hashlib
from functools import cache
from importlib.resources import files
from typing import NamedTuple


class Page(NamedTuple):
    html: bytes
    policy: str
    """Its Content-Security-Policy."""


@cache
def page(name: str) -> Page:
    """``NAME.html`` with ``common.css`` and ``NAME.css`` and ``NAME.js`` inside."""
    style = text("common.css") + text(f"{name}.css")
    script = text(f"{name}.js")
    html = text(f"{name}.html").replace("/* style */", style).replace("/* script */", script)
    policy = "; ".join(
        (
            "default-src 'none'",
            f"style-src '{digest(style)}'",
            f"script-src 'self' '{digest(script)}'",
            "connect-src 'self'",
            "img-src data:",
            "base-uri 'none'",
            "form-action 'none'",
            "frame-ancestors 'none'",
        )
    )
    return Page(html.encode(), policy)


@cache
def text(name: str) -> str:
    return files(__name__).joinpath(name).read_text(encoding="utf-8")


def digest(source: str) -> str:
    """As a Content-Security-Policy names an inline script or style."""
    return "sha256-" + base64.b64encode(hashlib.sha256(source.encode()).digest()).decode()
