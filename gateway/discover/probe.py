"""Small questions to a server, each with a short patience and without any proxy."""

from __future__ import annotations

import json
from http.client import HTTPException
from typing import Any
from urllib.error import HTTPError
from urllib.request import ProxyHandler, Request, build_opener

ANSWER_SECONDS = 3.0
MOST_BYTES = 4 << 20


class Http:
    """One server.  No method raises; whoever does not answer sensibly has answered nothing."""

    def __init__(self, url: str) -> None:
        self.url = url.rstrip("/").removesuffix("/v1")
        self._opener = build_opener(ProxyHandler({}))

    def get(self, path: str) -> Any:
        """The JSON of a 200, otherwise None."""
        status, body = self._ask(Request(self.url + path))
        return decoded(body) if status == 200 else None

    def status(self, path: str) -> int:
        """0 if nobody answers."""
        return self._ask(Request(self.url + path))[0]

    def takes_posts(self, path: str) -> bool:
        """Whether an empty object is refused as a bad request and not as an unknown path.

        llama.cpp refuses it with 500, the others with 400 or 422.
        """
        request = Request(self.url + path, data=b"{}", headers={"content-type": "application/json"})
        return self._ask(request)[0] in (400, 422, 500)

    def _ask(self, request: Request) -> tuple[int, bytes]:
        try:
            with self._opener.open(request, timeout=ANSWER_SECONDS) as answer:
                return answer.status, answer.read(MOST_BYTES)
        except HTTPError as error:
            with error:
                return error.code, b""
        except (OSError, HTTPException, ValueError):
            return 0, b""


def decoded(body: bytes) -> Any:
    try:
        return json.loads(body)
    except (ValueError, RecursionError):
        return None
