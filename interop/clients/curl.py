"""curl, with the flags a person would use."""

from __future__ import annotations

import json
import subprocess

from order import HEADERS, ORDER, URL, body, call, positions, report


def ask() -> str:
    flags = ["-sS", "--fail-with-body", "--retry", "3", "--retry-all-errors", "-N"]
    headers = {"content-type": "application/json"} | HEADERS
    for name, value in headers.items():
        flags += ["-H", f"{name}: {value}"]
    data = json.dumps(body() | {"stream": ORDER["stream"]})
    command = ["curl", *flags, "-d", data, f"{URL}/v1/messages"]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"{done.stderr.strip()} {done.stdout}")
    return done.stdout


def use() -> str:
    answer = ask()
    if not ORDER["stream"]:
        return "".join(block.get("text", "") for block in json.loads(answer)["content"])
    text, name, arguments = "", "", ""
    for line in answer.splitlines():
        if not line.startswith("data: "):
            continue
        data = json.loads(line.removeprefix("data: "))
        if data["type"] == "error":
            raise RuntimeError(f"{data['error']['type']}: {data['error']['message']}")
        if "position" in data:
            positions.append(data["position"])
        name += data.get("content_block", {}).get("name", "")
        text += data.get("delta", {}).get("text", "")
        arguments += data.get("delta", {}).get("partial_json", "")
    return call(name, arguments) if name else text


release = subprocess.run(["curl", "--version"], capture_output=True, text=True).stdout.split()[1]
report("curl", use, release)
