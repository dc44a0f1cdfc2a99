"""The configuration: what is accepted, what it becomes, and how every mistake is named."""

from __future__ import annotations

import dataclasses
import hashlib
import re
from ipaddress import ip_network
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from gateway.config import Config, Dialect, check, describe, from_mapping, load, parse
from gateway.errors import ConfigError

ROOT = Path(__file__).parent.parent
UPSTREAM = {"url": "http://127.0.0.1:8000", "dialect": "openai", "slots": 2, "models": ["m"]}


def config_with(upstream: dict[str, Any] | None = None, **settings: Any) -> Config:
    """A sound configuration with some settings changed."""
    environ = {"KEY": "s3cret-key", "EMPTY": "", "LINES": "a\nb", "FILE": "s3cret-key\n"}
    return from_mapping({"upstreams": {"u": UPSTREAM | (upstream or {})}} | settings, environ)


def problems_of(upstream: dict[str, Any] | None = None, **settings: Any) -> list[str]:
    with pytest.raises(ConfigError) as caught:
        config_with(upstream, **settings)
    return list(caught.value.problems)


# --- sound files ---------------------------------------------------------------------------------


def test_only_four_settings_are_required_and_the_rest_has_the_documented_defaults() -> None:
    config = config_with()
    upstream = config.upstreams["u"]
    assert (upstream.name, upstream.models, upstream.dialect) == ("u", {"m": "m"}, Dialect.OPENAI)
    assert (upstream.server, upstream.max_output_tokens, upstream.api_key) == ("auto", None, None)
    assert dataclasses.astuple(upstream.queue) == (100, 300, None)
    assert dataclasses.astuple(upstream.timeouts) == (5, 600, 120)
    assert (config.listen.host, config.listen.port) == ("127.0.0.1", 8080)
    assert config.listen.trusted_proxies == (ip_network("127.0.0.1/32"),)
    assert config.admin is not None
    assert (config.admin.host, config.admin.port) == ("127.0.0.1", 8081)
    assert dataclasses.astuple(config.queue_events) == ("event", 10)
    assert dataclasses.astuple(config.client) == (60, 33554432, 2097152, 268435456)
    assert config.auth.keys == ()
    assert dataclasses.astuple(config.slots) == ("memory", None, 10)
    assert config.shutdown.grace_seconds == 30


@pytest.mark.parametrize("name", ["config.yaml", "scripts/stub.yaml"])
def test_the_committed_files_are_sound(name: str) -> None:
    assert "reasoning" in load(ROOT / name, {}).upstreams["reasoning"].models


def test_what_the_example_shows_as_commented_defaults_are_the_defaults() -> None:
    text = (ROOT / "config.yaml").read_text()
    commented = re.compile(r"^( *)# ( *(?!api_key)\w+:.*)$", re.MULTILINE)
    assert len(commented.findall(text)) == 9
    assert parse(commented.sub(r"\1\2", text), {}) == parse(text, {})


def test_everything_is_frozen() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        config_with().listen.port = 1  # type: ignore[misc]


@pytest.mark.parametrize(
    "written",
    [
        "http://host:8000",
        "http://host:8000/",
        "http://host:8000/v1",
        "http://host:8000/v1/",
        "http://host:8000/v1/chat/completions",
        "http://host:8000/v1/messages",
        "HTTP://host:8000//",
    ],
)
def test_a_pasted_url_is_cut_to_its_base(written: str) -> None:
    assert config_with({"url": written}).upstreams["u"].url == "http://host:8000"


@pytest.mark.parametrize(
    ("written", "kept"),
    [
        ("https://host/openai/v1", "https://host/openai"),
        ("http://[::1]:8000/v1", "http://[::1]:8000"),
        ("http://host/v1beta", "http://host/v1beta"),
    ],
)
def test_any_other_path_stays_as_a_prefix(written: str, kept: str) -> None:
    assert config_with({"url": written}).upstreams["u"].url == kept


def test_models_map_public_names_to_the_upstreams_own() -> None:
    models = config_with({"models": {"public": "own/name:1", "same": None}}).upstreams["u"].models
    assert models == {"public": "own/name:1", "same": "same"}


@pytest.mark.parametrize("section", ["listen", "queue_events", "client", "auth", "slots"])
def test_a_section_whose_settings_are_all_commented_out_has_its_defaults(section: str) -> None:
    assert config_with(**{section: None}) == config_with()


def test_admin_null_turns_the_listener_off() -> None:
    assert config_with(admin=None).admin is None


def test_plain_words_are_read_by_yaml_1_2() -> None:
    text = """
        queue_events: {mode: off}
        upstreams:
          no: {url: http://h, dialect: openai, slots: 2, models: [yes, 12:30, 2026-12-01, qwen:3b]}
    """
    config = parse(text, {})
    assert config.queue_events.mode == "off"
    assert list(config.upstreams["no"].models) == ["yes", "12:30", "2026-12-01", "qwen:3b"]


def test_anchors_and_merges_work() -> None:
    text = """
        upstreams:
          a: &a {url: http://h:1/, dialect: openai, slots: 2, models: [a]}
          b: {<<: *a, models: [b]}
    """
    assert parse(text, {}).upstreams["b"].url == "http://h:1"


def test_a_byte_order_mark_is_no_problem(tmp_path: Path) -> None:
    path = tmp_path / "config.yaml"
    path.write_bytes(b"\xef\xbb\xbf" + yaml.safe_dump({"upstreams": {"u": UPSTREAM}}).encode())
    assert load(path, {}) == config_with()


# --- mistakes ------------------------------------------------------------------------------------

HEX = "0" * 64
ELSEWHERE = " (${VAR} is read in api_key, auth.keys[].key and slots.url only)"
WRONG_UPSTREAMS = [
    ({"slots": "six"}, 'slots: expected a whole number >= 1, got "six"'),
    ({"slots": 0}, "slots: expected a whole number >= 1, got 0"),
    ({"slots": True}, "slots: expected a whole number >= 1, got true"),
    ({"slots": 2.0}, "slots: expected a whole number >= 1, got 2.0"),
    ({"slots": None}, "slots: expected a whole number >= 1, got nothing"),
    ({"slots": [6]}, "slots: expected a whole number >= 1, got a list"),
    ({"slotz": 1}, "slotz: unknown setting (did you mean slots?)"),
    ({"colour": 1}, "colour: unknown setting"),
    ({"name": "x"}, "name: unknown setting"),
    ({"dialect": "opnai"}, "dialect: expected one of openai, anthropic, got \"opnai\" "
     "(did you mean openai?)"),
    ({"server": "tgi"}, "server: expected one of auto, vllm, sglang, llama.cpp, ollama, other, "
     'got "tgi"'),
    ({"models": []}, "models: expected a list of model names, or a mapping {public name: "
     "upstream's name}, got a list"),
    ({"models": ["a", "a"]}, 'models: "a" is listed twice'),
    ({"models": ["a", 4]}, "models[1]: expected a text, got 4 (put it in quotes to make it a "
     "text)"),
    ({"models": ["a\nb"]}, 'models[0]: expected a text, got "a\\nb"'),
    ({"max_output_tokens": 0}, "max_output_tokens: expected a whole number >= 1, or null, "
     "got 0"),
    ({"queue": {"max_waiting": -1}}, "queue.max_waiting: expected a whole number >= 0, got -1"),
    ({"queue": {"max_wait_seconds": 0}}, "queue.max_wait_seconds: expected a number of seconds "
     "> 0, got 0"),
    ({"queue": 5}, "queue: expected a mapping of settings, got 5"),
    ({"timeouts": {"idle_seconds": float("inf")}}, "timeouts.idle_seconds: expected a number of "
     "seconds > 0, got inf"),
    ({"api_key": "${NOPE}"}, "api_key: environment variable NOPE is not set"),
    ({"api_key": "${EMPTY}"}, "api_key: environment variable EMPTY is not set"),
    ({"api_key": "${LINES}"}, "api_key: expected visible ASCII characters or ${VAR}, or null"),
    ({"api_key": "$KEY"}, "api_key: expected ${VAR} with both braces"),
    ({"api_key": "a${KEY"}, "api_key: expected ${VAR} with both braces"),
    ({"api_key": "${NOPE:-x}"}, "api_key: expected ${VAR} with just a name between the braces, "
     'got "${NOPE:-x}"'),
    ({"slots": "${KEY}"}, 'slots: expected a whole number >= 1, got "${KEY}"' + ELSEWHERE),
    ({"models": ["${KEY}"]}, 'models[0]: expected a text, got "${KEY}"' + ELSEWHERE),
    ({"url": "http://${KEY}:1"}, "url: expected a base URL such as http://127.0.0.1:8000, got "
     '"http://${KEY}:1"' + ELSEWHERE),
    ({"api_key": 12345}, "api_key: expected visible ASCII characters or ${VAR}, or null"),
]  # fmt: skip


@pytest.mark.parametrize(("change", "problem"), WRONG_UPSTREAMS)
def test_a_wrong_upstream_setting_is_named_with_its_path(
    change: dict[str, Any], problem: str
) -> None:
    assert problems_of(change) == [f"upstreams.u.{problem}"]


BASE_URL = "upstreams.u.url: expected a base URL such as http://127.0.0.1:8000"


@pytest.mark.parametrize(
    "url",
    [
        "host:8000",
        "ftp://host",
        "http://",
        "http:///v1",
        "http://host:0",
        "http://host:99999",
        "http://host:port",
        "http://ho st",
        "http://[::1",
        "http://höst",
        "",
        8000,
        None,
    ],
)
def test_what_is_no_base_url_is_refused(url: object) -> None:
    (problem,) = problems_of({"url": url})
    assert problem.startswith(f"{BASE_URL}, got ")


@pytest.mark.parametrize("url", ["http://h/?a=b", "http://h/#top", "http://h?", "http://h/#"])
def test_a_url_with_query_or_fragment_is_refused(url: str) -> None:
    (problem,) = problems_of({"url": url})
    assert problem.endswith("(remove the part from ? or # on)")


@pytest.mark.parametrize("url", ["http://me:s3cret@h", "ftp://me:s3cret@h", "http://s3cret@h:x"])
def test_a_url_with_a_password_is_refused_without_repeating_it(url: str) -> None:
    (problem,) = problems_of({"url": url})
    assert "user or password" in problem and "s3cret" not in problem


WRONG_SETTINGS = [
    ({"lisen": {}}, "lisen: unknown setting (did you mean listen?)"),
    ({4: {}}, "the top level: expected the name of a setting, got 4"),
    ({"listen": {"prot": 1}}, "listen.prot: unknown setting (did you mean port?)"),
    ({"listen": {"port": 70000}}, "listen.port: expected a whole number from 0 to 65535, "
     "got 70000"),
    ({"listen": {"host": ""}}, 'listen.host: expected a text, got ""'),
    ({"listen": {"trusted_proxies": "10.0.0.0/8"}}, "listen.trusted_proxies: expected a list of "
     'networks, got "10.0.0.0/8"'),
    ({"listen": {"trusted_proxies": ["::1", "10.0.0.1/8"]}}, "listen.trusted_proxies[1]: expected "
     'an address or a network such as 10.0.0.0/8, got "10.0.0.1/8" (did you mean 10.0.0.0/8?)'),
    ({"listen": {"trusted_proxies": ["nginx"]}}, "listen.trusted_proxies[0]: expected an address "
     'or a network such as 10.0.0.0/8, got "nginx"'),
    ({"": {}}, '"": unknown setting'),
    ({"admin": False}, "admin: expected a mapping of settings, or null, got false"),
    ({"admin": {"port": 8080}}, "admin.port: expected another port than listen.port, got 8080 "
     "twice"),
    ({"queue_events": {"mode": False}}, "queue_events.mode: expected one of event, comment, off, "
     "got false"),
    ({"client": {"max_queued_body_bytes": 1}}, "client.max_queued_body_bytes: expected at least "
     "client.max_body_bytes (33554432), got 1"),
    ({"auth": {"keys": None}}, "auth.keys: expected a list of {name, sha256} or {name, key}, "
     "got nothing"),
    ({"auth": {"keys": [{"name": "a"}]}}, "auth.keys[0].key: expected exactly one of sha256 and "
     "key"),
    ({"auth": {"keys": [{"name": "a", "key": "k", "sha256": HEX}]}}, "auth.keys[0].key: expected "
     "exactly one of sha256 and key"),
    ({"auth": {"keys": [{"name": "a", "sha256": "abc"}]}}, "auth.keys[0].sha256: expected 64 "
     "hexadecimal digits, or null"),
    ({"auth": {"keys": [{"key": "k"}]}}, "auth.keys[0].name: is required"),
    ({"auth": {"keys": [{"name": "a", "key": "k"}, {"name": "a", "key": "l"}]}},
     'auth.keys[1].name: "a" is the name of another key too'),
    ({"auth": {"keys": [{"name": "a", "key": "k"}, {"name": "b", "key": "k"}]}},
     'auth.keys[1].key: is the same key as that of "a"'),
    ({"listen": {"workers": 2}}, "listen.workers: expected 1 with slots.backend: memory, got 2: "
     "each worker would keep a line and a cap of its own; with slots.backend: redis they share "
     "one"),
    ({"slots": {"backend": "redis"}}, "slots.url: is required with backend: redis, such as "
     "redis://127.0.0.1:6379/0"),
    ({"slots": {"backend": "redis", "url": "http://h"}}, "slots.url: expected a URL such as "
     "redis://127.0.0.1:6379/0, or null"),
    ({"slots": {"backend": "redis", "url": "redis://h/main"}}, "slots.url: expected the number of "
     "a database after the address, such as /0"),
    ({"listen": {"workers": 10}, "admin": {"port": 65530}, "slots": {"backend": "redis",
      "url": "redis://h"}}, "admin.port: expected at most 65526, as worker N has admin.port + N, "
     "got 65530"),
    ({"slots": {"lease_seconds": "10s"}}, "slots.lease_seconds: expected a number of seconds > 0, "
     'got "10s"'),
    ({"shutdown": {"grace_seconds": -1}}, "shutdown.grace_seconds: expected a number of seconds "
     ">= 0, got -1"),
    ({"upstreams": {}}, "upstreams: expected at least one upstream, each under its name, got a "
     "mapping"),
    ({"upstreams": None}, "upstreams: expected at least one upstream, each under its name, got "
     "nothing"),
    ({"upstreams": {7: UPSTREAM}}, "upstreams.7: expected a text, got 7 (put it in quotes to make "
     "it a text)"),
    ({"upstreams": {"a": UPSTREAM, "b": UPSTREAM}}, 'upstreams.b.models: "m" is a model of '
     "upstreams.a already"),
]  # fmt: skip


@pytest.mark.parametrize(("settings", "problem"), WRONG_SETTINGS)
def test_a_wrong_setting_is_named_with_its_path(settings: dict[Any, Any], problem: str) -> None:
    with pytest.raises(ConfigError) as caught:
        from_mapping({"upstreams": {"u": UPSTREAM}} | settings, {})
    assert list(caught.value.problems) == [problem]


def test_every_problem_is_found_in_one_run() -> None:
    with pytest.raises(ConfigError) as caught:
        from_mapping(
            {
                "listen": {"port": "x", "prot": 1},
                "upstreams": {
                    "a": {"url": "x", "dialect": "x", "slots": 0, "models": ["m"]},
                    "b": {"models": ["m"], "api_key": "${ONE}${TWO}"},
                },
            },
            {},
        )
    paths = [problem.split(": ")[0] for problem in caught.value.problems]
    assert paths == [
        "listen.prot",
        "listen.port",
        "upstreams.a.url",
        "upstreams.a.dialect",
        "upstreams.a.slots",
        "upstreams.b.url",
        "upstreams.b.dialect",
        "upstreams.b.slots",
        "upstreams.b.api_key",
        "upstreams.b.api_key",
        "upstreams.b.models",
    ]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "c.yaml: is empty; it needs at least one entry under upstreams"),
        ("# nothing yet\n", "c.yaml: is empty; it needs at least one entry under upstreams"),
        ("- a\n", "c.yaml: expected settings such as `upstreams:` at the top level"),
        ("listen: {}\n", "upstreams: is required"),
        ("a: b: c\n", "c.yaml: line 1, column 5: is not valid YAML: mapping values are not "
         "allowed here"),
        ("a:\n\t- b\n", "c.yaml: line 2, column 1: is not valid YAML: found character '\\t' that "
         "cannot start any token"),
        ("a: 1\n---\nb: 2\n", "c.yaml: line 2, column 1: is not valid YAML: expected a single "
         "document in the stream, but found another document"),
        ("a: 1\nb: \0\n", "c.yaml: line 2: is not valid YAML: it holds U+0000"),
        ("a: !!bool x\n", "c.yaml: line 1, column 4: is not valid YAML: this cannot be read as "
         "bool"),
        ("a: {b: ${VAR}}\n", "c.yaml: line 1, column 9: is not valid YAML: inside { } a ${VAR} "
         "must be put in quotes"),
        ("a: !!python/object:os.system {}\n", "c.yaml: line 1, column 4: is not valid YAML: could "
         "not determine a constructor for the tag 'tag:yaml.org,2002:python/object:os.system'"),
    ],
)  # fmt: skip
def test_a_broken_file_is_named_with_its_line(text: str, problem: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse(text, {}, source="c.yaml")
    assert list(caught.value.problems) == [problem]


@pytest.mark.parametrize("text", ["a: \0", "a: " + "[" * 5000, "&a [*a]", "? [a]\n: b", "a: *b",
    "a: !!timestamp x", "a: !!timestamp 2020-99-99", "a: !!int x", "a: !!float x", "a: !!binary é",
    "a: " + "9" * 5000])  # fmt: skip
def test_a_hostile_file_is_a_problem_and_not_a_crash(text: str) -> None:
    with pytest.raises(ConfigError):
        parse(text, {})


def test_every_duplicate_key_is_named_with_both_lines() -> None:
    with pytest.raises(ConfigError) as caught:
        parse("listen:\n  port: 1\n  port: 2\nupstreams: {}\nlisten: {}\n", {})
    assert set(caught.value.problems) == {
        "listen.port: given twice, in line 2 and in line 3",
        "listen: given twice, in line 1 and in line 5",
    }


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    binary = tmp_path / "binary.yaml"
    binary.write_bytes(b"a: \xff")
    for path, problem in [
        (tmp_path / "none.yaml", "cannot be read: No such file or directory"),
        (tmp_path, "cannot be read: Is a directory"),
        (binary, "is not UTF-8 text (at byte 3)"),
    ]:
        with pytest.raises(ConfigError) as caught:
            load(path, {})
        assert caught.value.problems == (f"{path}: {problem}",)


plain = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.text(max_size=5) | st.integers() | st.none(), inner, max_size=3)
    ),
    max_leaves=8,
)
KEYS = ["listen", "admin", "queue_events", "client", "auth", "slots", "shutdown"]


@given(st.fixed_dictionaries({"upstreams": plain}, optional=dict.fromkeys(KEYS, plain)))
def test_whatever_stands_in_a_section_it_is_a_config_or_a_list_of_problems(data: Any) -> None:
    try:
        assert isinstance(from_mapping(data, {}), Config)
    except ConfigError as error:
        assert error.problems and all("\n" not in problem for problem in error.problems)


@given(st.sampled_from([*sorted(UPSTREAM), "server", "api_key", "queue", "timeouts"]), plain)
def test_whatever_stands_in_an_upstream_it_is_a_config_or_a_problem(key: str, value: Any) -> None:
    try:
        config_with({key: value})
    except ConfigError as error:
        assert all(problem.startswith(f"upstreams.u.{key}") for problem in error.problems)


# --- secrets -------------------------------------------------------------------------------------


def test_variables_are_read_from_the_environment_wherever_secrets_stand() -> None:
    config = config_with(
        {"api_key": "${KEY}"},
        auth={"keys": [{"name": "web", "key": "${FILE}"}]},
        slots={"backend": "redis", "url": "redis://:${KEY}@h:6379/0"},
    )
    assert config.upstreams["u"].api_key == "s3cret-key"
    assert config.slots.url == "redis://:s3cret-key@h:6379/0"
    assert config.auth.keys[0].sha256 == hashlib.sha256(b"s3cret-key").hexdigest()


def test_secrets_are_in_no_repr_and_in_no_row() -> None:
    config = config_with(
        {"api_key": "${KEY}"},
        auth={"keys": [{"name": "web", "key": "${KEY}"}]},
        slots={"backend": "redis", "url": "redis://me:${KEY}@h:6379/0"},
    )
    rows = {row.path: row.value for row in describe(config)}
    assert rows["upstreams.u.api_key"] == "***"
    assert rows["slots.url"] == "redis://***@h:6379/0"
    assert rows["auth.keys"] == "web"
    shown = repr(config) + repr(rows)
    assert "s3cret" not in shown
    assert hashlib.sha256(b"s3cret-key").hexdigest() not in shown


@pytest.mark.parametrize(
    "settings",
    [
        {"auth": {"keys": [{"name": "web", "key": "s3cret key"}]}},
        {"auth": {"keys": [{"name": "web", "sha256": "s3cret"}]}},
        {"slots": {"url": "http://:s3cret@h"}},
    ],
)
def test_a_wrong_secret_is_not_repeated(settings: dict[str, Any]) -> None:
    (problem,) = problems_of(**settings)
    assert "s3cret" not in problem


# --- check ---------------------------------------------------------------------------------------


def test_check_prints_what_is_in_force(capsys: pytest.CaptureFixture[str]) -> None:
    assert check(ROOT / "config.yaml", {}) == 0
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert ["upstreams.reasoning.slots", "set", "2"] in lines
    assert ["upstreams.reasoning.models", "set", "reasoning:", "smollm2"] in lines
    assert ["client.max_body_bytes", "default", "33554432"] in lines


def test_check_prints_every_problem_to_standard_error(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "config.yaml"
    path.write_text("upstreams: {u: {url: http://h, dialect: openai, slots: six, models: [m, m]}}")
    assert check(path, {}) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.splitlines() == [
        'upstreams.u.slots: expected a whole number >= 1, got "six"',
        'upstreams.u.models: "m" is listed twice',
    ]


def test_a_turned_off_listener_has_a_row_of_its_own() -> None:
    assert ("admin", "null", "set") in describe(config_with(admin=None))
