"""httpx-sse: a plain parser of event streams."""

from __future__ import annotations

import json

import httpx
from httpx_sse import connect_sse
from order import HEADERS, ORDER, URL, body, call, positions, report


def use() -> str:
    asked = body() | {"stream": ORDER["stream"]}
    with httpx.Client(timeout=60, headers=HEADERS) as client:
        if not ORDER["stream"]:
            message = client.post(f"{URL}/v1/messages", json=asked).raise_for_status().json()
            return "".join(block.get("text", "") for block in message["content"])
        with connect_sse(client, "POST", f"{URL}/v1/messages", json=asked) as source:
            source.response.raise_for_status()
            return folded(json.loads(event.data) for event in source.iter_sse())


def folded(events) -> str:
    text, name, arguments = "", "", ""
    for data in events:
        if data["type"] == "error":
            raise RuntimeError(f"{data['error']['type']}: {data['error']['message']}")
        if "position" in data:
            positions.append(data["position"])
        name += data.get("content_block", {}).get("name", "")
        text += data.get("delta", {}).get("text", "")
        arguments += data.get("delta", {}).get("partial_json", "")
    return call(name, arguments) if name else text


report("httpx-sse", use)
