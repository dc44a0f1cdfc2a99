"""Real clients through a real gateway; ``scripts/interop`` runs many more of them."""

from __future__ import annotations

import pytest

from interop.environments import ready
from interop.forms import form
from interop.registry import CLIENTS, Client
from interop.scenarios import SCENARIOS, Scenario
from interop.trial import trial
from tests.conftest import missing

CORE = [client for client in CLIENTS if client.core]
SLOW = ("full", "queued, error")
"""With whole retry-afters and back-offs slept out: for ``scripts/interop``."""
QUICK = [one for one in SCENARIOS if one.name not in (*SLOW, "free", "queued")]


@pytest.fixture(params=CORE, ids=[client.name for client in CORE])
def client(request: pytest.FixtureRequest) -> Client:
    wanted: Client = request.param
    if not ready(wanted):
        missing(wanted.name)
    return wanted


@pytest.mark.parametrize("scenario", QUICK, ids=[scenario.name for scenario in QUICK])
async def test_a_real_client_has_its_answer_or_a_reported_error(
    client: Client, scenario: Scenario
) -> None:
    report = await trial(client, client.modes[0], scenario)
    assert report.good(scenario), report


async def test_a_clients_own_way_to_set_a_header_chooses_the_form(client: Client) -> None:
    assert "comment" in (forms := await form(client, "comment"))
    assert "event" not in forms
