"""What Prometheus gets, and that dashboard and alerts ask for nothing else."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import prometheus_client
import pytest
import yaml
from prometheus_client.core import Metric
from prometheus_client.parser import text_string_to_metric_families

from gateway import metrics
from gateway.slots.base import Outcome
from gateway.web.record import ExchangeOutcome
from tests.web.clients import Surface, ask
from tests.web.scripted import ScriptedUpstream

DOCS = Path(__file__).parents[2] / "docs"
DASHBOARD = json.loads((DOCS / "grafana" / "gateway.json").read_text())
ALERTS = yaml.safe_load((DOCS / "prometheus" / "alerts.yml").read_text())

#: The interface: what dashboards elsewhere may rely on.
PROMISED = {
    "gateway_requests_waiting": "gauge",
    "gateway_requests_running": "gauge",
    "gateway_slots_limit": "gauge",
    "gateway_queue_oldest_wait_seconds": "gauge",
    "gateway_queue_wait_seconds": "histogram",
    "gateway_tickets_total": "counter",
    "gateway_exchanges_total": "counter",
    "gateway_time_to_first_byte_seconds": "histogram",
    "gateway_exchange_seconds": "histogram",
    "gateway_upstream_errors_total": "counter",
    "gateway_leases_lost_total": "counter",
    "gateway_output_tokens_total": "counter",
}


class Scrape:
    """One answer of ``/metrics``."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.families: dict[str, Metric] = {
            family.name + ("_total" if family.type == "counter" else ""): family
            for family in text_string_to_metric_families(text)
        }

    def value(self, name: str, **labels: str) -> float:
        """Of the sample ``name`` with these labels; 0.0 if there is none yet."""
        found = [
            sample.value
            for family in self.families.values()
            for sample in family.samples
            if sample.name == name and labels.items() <= sample.labels.items()
        ]
        return sum(found)

    @property
    def series(self) -> set[str]:
        """Every name that a query can ask for."""
        names = {s.name for family in self.families.values() for s in family.samples}
        for name, family in self.families.items():
            if family.type == "histogram":
                names |= {f"{name}{end}" for end in ("_bucket", "_sum", "_count")}
            else:
                names.add(name)
        return names


async def scrape(surface: Surface) -> Scrape:
    reply = await surface.request("GET", "/metrics", admin=True)
    assert reply.headers["content-type"] == metrics.CONTENT_TYPE
    return Scrape(reply.body.decode())


async def test_every_promised_metric_is_exported_from_the_start(make_gateway: Any) -> None:
    page = await scrape(await make_gateway())
    for name, kind in PROMISED.items():
        assert page.families[name].type == kind, name
        assert page.families[name].documentation, name


async def test_gauges_show_the_line_as_it_stands(
    make_gateway: Any, upstream: ScriptedUpstream
) -> None:
    surface = await make_gateway(slots=2, queue={"max_waiting": 7})
    for _ in range(5):
        await surface.stream(ask())
    await surface.waits(3)
    page = await scrape(surface)
    assert page.value("gateway_requests_waiting", upstream="one") == 3
    assert page.value("gateway_requests_running", upstream="one") == 2
    assert page.value("gateway_slots_limit", upstream="one") == 2
    assert page.value("gateway_queue_limit", upstream="one") == 7
    assert page.value("gateway_queue_oldest_wait_seconds", upstream="one") > 0
    assert page.value("gateway_upstream_stalled", upstream="one") == 0
    assert page.value("gateway_slots_reachable", upstream="one") == 1


async def test_an_exchange_is_counted_where_it_belongs(
    make_gateway: Any, upstream: ScriptedUpstream
) -> None:
    surface = await make_gateway()
    stream = await surface.stream(ask())
    (await upstream.arrival(1)).answer()
    await stream.whole()
    await surface.free()
    page, labels = await scrape(surface), {"upstream": "one", "model": "m"}
    assert page.value("gateway_exchanges_total", outcome="completed", **labels) == 1
    assert page.value("gateway_tickets_total", upstream="one", outcome="granted") == 1
    for name in ("queue_wait", "time_to_first_byte", "exchange"):
        assert page.value(f"gateway_{name}_seconds_count", **labels) == 1, name
    assert page.value("gateway_output_tokens_total", **labels) == 1


async def test_failures_and_leavers_are_told_apart(
    make_gateway: Any, upstream: ScriptedUpstream
) -> None:
    surface = await make_gateway()
    broken = await surface.stream(ask())
    leaver = await surface.stream(ask())
    await surface.waits(1)
    leaver.close()
    await surface.waits(0)
    (await upstream.arrival(1)).reset()
    await broken.seen(b"error")
    await surface.free()
    page = await scrape(surface)
    assert page.value("gateway_exchanges_total", outcome="left_waiting") == 1
    assert page.value("gateway_exchanges_total", outcome="upstream_failed") == 1
    assert page.value("gateway_tickets_total", outcome="abandoned") == 1
    assert page.value("gateway_upstream_errors_total", upstream="one") == 1


async def test_labels_never_hold_what_a_client_made_up(make_gateway: Any) -> None:
    surface = await make_gateway()
    for number in range(3):
        assert (await surface.post(ask(model=f"made-up-{number}"))).status == 404
    page = await scrape(surface)
    assert "made-up" not in page.text
    assert page.value("gateway_exchanges_total", upstream="", outcome="rejected") == 3


async def test_counters_begin_at_zero_so_that_the_first_failure_counts(make_gateway: Any) -> None:
    page = await scrape(await make_gateway())
    outcomes = {s.labels["outcome"] for s in page.families["gateway_exchanges_total"].samples}
    assert outcomes == {outcome.value for outcome in ExchangeOutcome}
    outcomes = {s.labels["outcome"] for s in page.families["gateway_tickets_total"].samples}
    assert outcomes == {outcome.value for outcome in Outcome}


def test_buckets_suit_waits_from_a_tenth_of_a_second_to_ten_minutes() -> None:
    assert (metrics.WAITS[0], metrics.WAITS[-1]) == (0.1, 600)
    for buckets in (metrics.WAITS, metrics.FIRST_BYTES, metrics.DURATIONS):
        steps = [after / before for before, after in pairwise(buckets)]
        assert all(1 < step <= 3 for step in steps)


async def test_names_units_and_helps_follow_the_rules_of_prometheus(make_gateway: Any) -> None:
    page = await scrape(await make_gateway())
    for name, family in page.families.items():
        assert re.fullmatch(r"(gateway|process)_[a-z0-9_]*[a-z0-9]", name), name
        assert not re.search(r"milli|micro|minutes|_ms\b", name), f"{name}: base units"
        assert name.endswith("_total") == (family.type == "counter"), name
        assert not name.endswith(("_count", "_sum", "_bucket")), name
        assert family.documentation.strip().endswith("."), name
        kind = "counter" if family.type == "counter" else family.type
        assert kind not in name.split("_"), f"{name}: a name does not say its type"


async def test_promtool_finds_nothing_to_say(make_gateway: Any) -> None:
    promtool = shutil.which("promtool")
    if promtool is None:
        pytest.skip("promtool (Debian's prometheus) is not installed; our own rules above are")
    page = await scrape(await make_gateway())
    checks = {("check", "metrics"): page.text}
    for rules in ("alerts.yml", "alerts_test.yml"):
        verb = ("test", "rules") if "test" in rules else ("check", "rules")
        checks[(*verb, str(DOCS / "prometheus" / rules))] = ""
    for arguments, text in checks.items():
        assert said([promtool, *arguments], text) == (0, "")


def said(command: list[str], text: str) -> tuple[int, str]:
    done = subprocess.run(command, input=text, text=True, capture_output=True)
    return done.returncode, done.stderr


async def test_nothing_is_registered_for_the_whole_process(make_gateway: Any) -> None:
    await make_gateway()
    exported = prometheus_client.generate_latest(prometheus_client.REGISTRY).decode()
    assert "gateway_" not in exported


# --- dashboard and alerts -----------------------------------------------------------------------


def dashboard_queries() -> Iterator[tuple[str, str]]:
    for panel in DASHBOARD["panels"]:
        for target in panel["targets"]:
            yield panel["title"], target["expr"]
    for variable in DASHBOARD["templating"]["list"]:
        if variable["type"] == "query":
            yield variable["name"], variable["query"]["query"]


def alert_queries() -> Iterator[tuple[str, str]]:
    for group in ALERTS["groups"]:
        for rule in group["rules"]:
            yield rule["alert"], rule["expr"]


QUERIES = [*dashboard_queries(), *alert_queries()]


async def test_dashboard_and_alerts_ask_only_for_what_is_exported(make_gateway: Any) -> None:
    series = (await scrape(await make_gateway())).series
    for title, query in QUERIES:
        asked = set(re.findall(r"\bgateway_\w+", query))
        assert asked, title
        assert asked <= series, title


async def test_dashboard_and_alerts_use_only_labels_and_outcomes_that_exist() -> None:
    outcomes = {outcome.value for outcome in ExchangeOutcome} | {o.value for o in Outcome}
    for title, query in QUERIES:
        labels = set(re.findall(r"(\w+)=~?\"", query))
        for group in re.findall(r"by \(([^)]*)\)", query):
            labels |= {label.strip() for label in group.split(",")}
        assert labels <= {"upstream", "model", "outcome", "kind", "le"}, title
        assert set(re.findall(r'outcome="(\w+)"', query)) <= outcomes, title


@pytest.mark.parametrize(
    "metric",
    [
        "gateway_requests_running",
        "gateway_requests_waiting",
        "gateway_queue_oldest_wait_seconds",
        "gateway_queue_wait_seconds_bucket",
        "gateway_time_to_first_byte_seconds_bucket",
        "gateway_exchanges_total",
        "gateway_upstream_errors_total",
    ],
)
def test_the_dashboard_shows(metric: str) -> None:
    assert any(metric in query for _, query in dashboard_queries())


def test_panels_do_not_overlap_and_say_where_their_data_come_from() -> None:
    taken: set[tuple[int, int]] = set()
    for panel in DASHBOARD["panels"]:
        grid = panel["gridPos"]
        cells = {
            (x, y)
            for x in range(grid["x"], grid["x"] + grid["w"])
            for y in range(grid["y"], grid["y"] + grid["h"])
        }
        assert not cells & taken, panel["title"]
        assert max(x for x, _ in cells) < 24
        taken |= cells
        assert panel["datasource"]["uid"] == "${datasource}"


def test_there_is_an_alert_for_each_way_to_get_stuck() -> None:
    about = " ".join(query for _, query in alert_queries())
    for metric in ("upstream_stalled", "queue_limit", "exchanges_total", "leases_lost_total"):
        assert f"gateway_{metric}" in about
