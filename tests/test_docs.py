"""The documentation is held to the code: settings, links, commands."""

from __future__ import annotations

import re
import runpy
from collections.abc import Iterator
from pathlib import Path

import pytest

from gateway.config import Config, describe, from_mapping
from gateway.config.kinds import Kind, Nullable
from gateway.config.schema import AuthEntry
from gateway.config.sections import Named, Section, defaults_of, settings_of
from gateway.config.table import shown
from gateway.slots.base import Outcome
from gateway.web import routes

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
PAGES = [ROOT / "README.md", ROOT / "CHANGELOG.md", *sorted(DOCS.rglob("*.md"))]
ROW = re.compile(r"^\| `([^`]+)` \| (?:`([^`]+)`|(required)) \| (.+) \|$", re.MULTILINE)


def settings(section: type, path: str = "") -> Iterator[tuple[str, str]]:
    """Every setting of the schema with the default that ``check`` would show, or "required"."""
    defaults = defaults_of(section)
    for name, kind in settings_of(section).items():
        inner: Kind = kind.inner if isinstance(kind, Nullable) else kind
        if isinstance(inner, Section):
            yield from settings(inner.into, f"{path}{name}.")
        elif isinstance(inner, Named):
            yield from settings(inner.section.into, f"{path}{name}.NAME.")
        else:
            yield f"{path}{name}", shown(defaults[name]) if name in defaults else "required"
        if (path, name) == ("auth.", "keys"):
            yield from settings(AuthEntry, "auth.keys[].")


def test_every_setting_is_documented_with_its_default_in_the_order_of_the_schema() -> None:
    rows = ROW.findall((DOCS / "config.md").read_text())
    documented = [(path, default or required) for path, default, required, _ in rows]
    assert documented == list(settings(Config))


def test_the_table_of_check_has_the_documented_settings() -> None:
    upstream = {"url": "http://h", "dialect": "openai", "slots": 1, "models": ["m"]}
    rows = describe(from_mapping({"upstreams": {"NAME": upstream}}, {}))
    schema = [path for path, _ in settings(Config) if "[]" not in path]
    assert [row.path for row in rows] == schema


@pytest.mark.parametrize("page", PAGES, ids=[str(page.relative_to(ROOT)) for page in PAGES])
def test_links_between_pages_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)#\s]+)", page.read_text()):
        if not target.startswith(("https:", "http:", "mailto:")):
            assert (page.parent / target.replace("\\", "")).exists(), target


def test_every_script_that_the_readme_names_is_there_and_can_be_run() -> None:
    names = set(re.findall(r"\bscripts/([\w-]+)", (ROOT / "README.md").read_text()))
    assert names >= {"run", "test", "check", "verify"}
    for name in names:
        assert (ROOT / "scripts" / name).stat().st_mode & 0o111, name


def test_the_readme_shows_the_same_commands_as_scripts_run() -> None:
    demo: str = runpy.run_path(str(ROOT / "scripts" / "launch.py"))["DEMO"]
    lines = [line.strip() for line in demo.format(url="http://127.0.0.1:8080").splitlines()]
    assert "\n".join(lines) in (ROOT / "README.md").read_text()


def test_every_route_is_documented() -> None:
    pages = "".join((DOCS / name).read_text() for name in ("llm.md", "operations.md"))
    words = set(re.findall(r"(?<!\w)/[\w./]*", pages))
    paths = {route.path.partition("{")[0] for route in routes.surface() + routes.admin(demo=True)}
    assert paths - words == set()


def test_every_outcome_is_a_documented_word() -> None:
    terms = (DOCS / "terms.md").read_text()
    assert all(f"`{outcome.value}`" in terms for outcome in Outcome)


def test_every_kind_of_failure_is_documented() -> None:
    code = "".join(path.read_text() for path in (ROOT / "gateway").rglob("*.py"))
    kinds = set(re.findall(r'kind="(\w+)"', code)) | set(
        re.findall(r'_failed\(".*", "(\w+)"', code)
    )
    assert kinds >= {"connect", "dns", "broken", "busy"}
    operations = (DOCS / "operations.md").read_text()
    assert [kind for kind in sorted(kinds) if f"`{kind}`" not in operations] == []
