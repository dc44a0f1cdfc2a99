"""What is typed wrong is answered in one line that names it, and with exit status 2."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from gateway.command import main

ROOT = Path(__file__).parents[2]
URL = "expected a base URL such as http://127.0.0.1:8000"


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (["serve", "--host", ""], 'argument --host: expected a text, got ""'),
        (["--port", "x"], "argument --port: expected a whole number from 0 to 65535, got 'x'"),
        (["discover", "--url", "a b"], f'argument --url: {URL}, got "http://a b"'),
        (["discover", "--url", ""], f'argument --url: {URL}, got "http://"'),
        (["discover", "--url", "http://[::1"], f'argument --url: {URL}, got "http://[::1"'),
        (["top", "--admin", "ftp://h"], f'argument --admin: {URL}, got "ftp://h"'),
    ],
)
def test_a_wrong_argument_is_named(
    arguments: list[str], problem: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as caught:
        main(arguments)
    assert caught.value.code == 2
    assert capsys.readouterr().err.splitlines()[-1].endswith(f"error: {problem}")


def test_top_says_in_one_line_that_something_else_answers(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        answering = threading.Thread(target=answer_with_a_banner, args=(server,))
        answering.start()
        assert main(["top", "--once", "--admin", f"127.0.0.1:{server.getsockname()[1]}"]) == 1
        answering.join()
    assert "no gateway's admin listener answers there" in capsys.readouterr().err


def test_a_terminal_that_is_closed_ends_what_runs_in_it() -> None:
    """Only ``serve`` makes its own sense of SIGHUP."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        url = f"http://127.0.0.1:{server.getsockname()[1]}"
        command = [sys.executable, "-m", "gateway", "discover", "--url", url]
        with subprocess.Popen(command, cwd=ROOT) as process:
            connection, _ = server.accept()
            process.send_signal(signal.SIGHUP)
            connection.close()
            server.close()
            assert process.wait(20) == -signal.SIGHUP


def answer_with_a_banner(server: socket.socket) -> None:
    connection, _ = server.accept()
    with connection:
        connection.recv(4096)
        connection.sendall(b"SSH-2.0-OpenSSH_9.2\r\n")


@pytest.mark.parametrize(
    ("output", "said"),
    [("/dev/full", "standard output cannot be written: No space left on device\n"), (None, "")],
)
def test_an_output_that_takes_nothing_is_no_traceback(output: str | None, said: str) -> None:
    command = [sys.executable, "-m", "gateway", "check", "--config", ROOT / "config.yaml"]
    if output is None:
        reading, writing = os.pipe()
        os.close(reading)
    else:
        writing = os.open(output, os.O_WRONLY)
    try:
        done = subprocess.run(command, cwd=ROOT, stdout=writing, stderr=subprocess.PIPE, text=True)
    finally:
        os.close(writing)
    assert (done.returncode, done.stderr) == (1, said)


def test_an_output_that_knows_no_other_letters_gets_them_spelled_out(tmp_path: Path) -> None:
    path = tmp_path / "config.yaml"
    upstream = "{url: 'http://h', dialect: openai, slots: 1, models: [模型]}"
    path.write_text(f"upstreams: {{u: {upstream}}}", encoding="utf-8")
    command = [sys.executable, "-m", "gateway", "check", "--config", path]
    environ = os.environ | {"PYTHONIOENCODING": "ascii"}
    done = subprocess.run(command, cwd=ROOT, env=environ, capture_output=True)
    assert (done.returncode, done.stderr) == (0, b"")
    assert rb"\u6a21\u578b" in done.stdout


def test_ctrl_c_while_it_looks_for_servers_is_no_traceback() -> None:
    server = socket.create_server(("127.0.0.1", 0))
    url = f"127.0.0.1:{server.getsockname()[1]}"
    command = [sys.executable, "-m", "gateway", "discover", "--url", url]
    with subprocess.Popen(command, cwd=ROOT, stderr=subprocess.PIPE, text=True) as process:
        connection, _ = server.accept()
        process.send_signal(signal.SIGINT)  # while it waits for an answer
        connection.close()
        server.close()
        assert process.stderr is not None
        assert process.stderr.read() == ""
    assert process.returncode == 130


@pytest.mark.parametrize("option", ["db=x", "colour=red"])
def test_an_option_of_redis_that_does_not_exist_is_a_wrong_setting(
    option: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("redis")
    path = tmp_path / "config.yaml"
    path.write_text(
        "listen: {port: 0}\nadmin: null\n"
        f"slots: {{backend: redis, url: 'redis://127.0.0.1:1/?{option}'}}\n"
        "upstreams: {u: {url: 'http://127.0.0.1:1', dialect: openai, slots: 1, models: [m]}}\n"
    )
    assert main(["--config", str(path)]) == 2
    (problem,) = capsys.readouterr().err.splitlines()
    assert problem.startswith("slots.url: an option in it is unknown or wrong (")
