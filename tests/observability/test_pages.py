"""The status page and the demo, in a real browser."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from gateway.slots.estimate import ENOUGH
from tests.observability.browser import Browser, Tab
from tests.web.clients import Surface, ask
from tests.web.scripted import ScriptedUpstream, native_end, native_start

DEMO = {"admin": {"port": 0, "demo": True}}


def url(surface: Surface, path: str) -> str:
    return f"http://127.0.0.1:{surface.admin_port}{path}"


async def finish(upstream: ScriptedUpstream, number: int) -> None:
    (await upstream.arrival(number)).answer()


# --- the status page ----------------------------------------------------------------------------


async def test_the_status_page_shows_slots_line_and_exchanges_as_they_change(
    make_gateway: Any, upstream: ScriptedUpstream, browser: Browser
) -> None:
    surface = await make_gateway(slots=2)
    page = await browser.tab(url(surface, "/status"))
    await page.until("document.querySelectorAll('.slots .free').length === 2")
    for _ in range(5):
        await surface.stream(ask())
    await page.until("document.querySelectorAll('.slots .held').length === 2")
    await page.until("document.querySelectorAll('.line li').length === 3")
    assert await page.texts(".line .position") == ["1", "2", "3"]
    assert (await page.texts(".line .who"))[0] == "127.0.0.1, m"
    assert "3 waiting" in await page.run("document.title")
    await finish(upstream, 1)
    await page.until("document.querySelectorAll('.line li').length === 2")
    await page.until("document.querySelector('#exchanges td[data-outcome=completed]')")
    surface.streams[-1].close()
    await page.until("document.querySelectorAll('.line li').length === 1")
    await page.until("document.querySelector('#exchanges td[data-outcome=left_waiting]')")
    assert page.problems == []


async def test_what_failed_and_what_is_stalled_stands_out(
    make_gateway: Any, upstream: ScriptedUpstream, browser: Browser
) -> None:
    surface = await make_gateway(timeouts={"first_byte_seconds": 0.6, "idle_seconds": 60})
    page = await browser.tab(url(surface, "/status"))
    await surface.stream(ask())
    (await upstream.arrival(1)).reset()
    await page.until("document.querySelector('#failures').innerText.includes('upstream failed')")
    await surface.stream(ask())
    (await upstream.arrival(2)).open().write(native_start())
    await surface.stream(ask())
    await page.until("document.querySelector('.upstream').dataset.state === 'stalled'")
    assert "one" in await page.text("#summary")
    assert "Stalled." in await page.text(".headline")
    assert "stalled" in await page.run("document.title")


async def test_nothing_that_a_client_made_up_becomes_markup(
    make_gateway: Any, upstream: ScriptedUpstream, browser: Browser
) -> None:
    evil = "<img src=x onerror=document.title='owned'>"
    surface = await make_gateway(models=[evil])
    page = await browser.tab(url(surface, "/status"))
    await surface.stream(ask(model=evil))
    await surface.post(ask(model=f"{evil}2"))
    await page.until("document.querySelectorAll('#exchanges tr').length === 1")
    await page.until("document.querySelector('.slots .held')")
    assert await page.run("document.querySelectorAll('img').length") == 0
    assert "owned" not in await page.run("document.title")


async def test_a_page_that_lost_its_gateway_says_so_and_comes_back_by_itself(
    make_gateway: Any, browser: Browser
) -> None:
    surface = await make_gateway()
    page = await browser.tab(url(surface, "/status"))
    await page.until("document.querySelector('#link').dataset.state === 'live'")
    await surface.service.watch.stop()
    await page.until("document.querySelector('#link').dataset.state === 'lost'")
    await page.until("document.querySelector('#link').dataset.state === 'live'")


async def test_the_page_can_be_used_without_eyes_and_without_a_mouse(
    make_gateway: Any, upstream: ScriptedUpstream, browser: Browser
) -> None:
    surface = await make_gateway()
    page = await browser.tab(url(surface, "/status"))
    for _ in range(2):
        await surface.stream(ask())
    await page.until("document.querySelectorAll('.line li').length === 1")
    tree = await page.call("Accessibility.getFullAXTree")
    named = {
        (node["role"]["value"], node["name"]["value"]) for node in tree["nodes"] if "name" in node
    }
    assert {("region", "Upstream one"), ("list", "Slots"), ("list", "Line")} <= named
    assert any(
        role in ("img", "image") and "now 1 waiting and 1 running" in name for role, name in named
    )
    assert ("region", "Last exchanges") in named
    await page.press("Tab")
    assert await page.run("document.activeElement.id") == "pause"
    await page.press(" ")
    assert await page.run("document.activeElement.getAttribute('aria-pressed')") == "true"


@pytest.mark.parametrize("scheme", ["light", "dark"])
async def test_text_stands_out_from_its_ground_in_light_and_dark(
    make_gateway: Any, upstream: ScriptedUpstream, browser: Browser, scheme: str
) -> None:
    surface = await make_gateway()
    page = await browser.tab(url(surface, "/status"))
    await page.emulate(prefers_color_scheme=scheme)
    for _ in range(2):
        await surface.stream(ask())
    await page.until("document.querySelectorAll('.line li').length === 1")
    assert await page.run(f"({CONTRASTS})()") == []


async def test_the_page_fits_a_phone_and_respects_reduced_motion(
    make_gateway: Any, upstream: ScriptedUpstream, browser: Browser
) -> None:
    surface = await make_gateway()
    page = await browser.tab(url(surface, "/status"))
    await page.emulate(width=360, height=700, prefers_reduced_motion="reduce")
    for _ in range(2):
        await surface.stream(ask())
    await page.until("document.querySelectorAll('.line li').length === 1")
    assert await page.run("document.documentElement.scrollWidth") <= 360
    moving = "getComputedStyle(document.querySelector('.line li')).animationName"
    assert await page.run(moving) == "none"


# --- the demo -----------------------------------------------------------------------------------


async def chat(browser: Browser, surface: Surface, text: str) -> Tab:
    page = await browser.tab(url(surface, "/demo"))
    await page.until("document.querySelector('#model').length > 0")
    await page.type("#text", text)
    await page.press("Enter")
    return page


async def test_closing_a_waiting_tab_moves_the_others_up(
    make_gateway: Any, upstream: ScriptedUpstream, browser: Browser
) -> None:
    surface = await make_gateway(DEMO, slots=2)
    for _ in range(2):
        await surface.stream(ask())
    tabs = []
    for number in (1, 2, 3):
        tabs.append(await chat(browser, surface, f"story {number}"))
        await tabs[-1].until(f"document.querySelector('#position').innerText === '{number}'")
    await tabs[0].close()
    await tabs[1].until("document.querySelector('#told').innerText === 'You are next.'")
    await tabs[2].until("document.querySelector('#position').innerText === '2'")
    await tabs[1].click("#stop")
    await tabs[1].until("document.querySelector('.stopped')")
    await tabs[2].until("document.querySelector('#position').innerText === '1'")
    assert len(upstream.arrivals) == 2, "who left has never reached the upstream"
    assert [problem for tab in tabs[1:] for problem in tab.problems] == []


async def test_three_tabs_share_two_slots_and_the_third_gets_the_first_free_one(
    make_gateway: Any, upstream: ScriptedUpstream, browser: Browser
) -> None:
    surface = await make_gateway(DEMO, slots=2)
    tabs = [await chat(browser, surface, f"story {number}") for number in (1, 2)]
    await upstream.arrival(2)
    third = await chat(browser, surface, "story 3")
    await third.until("document.querySelector('#told').innerText === 'You are next.'")
    first = await upstream.arrival(1)
    first.open().write(native_start("Once upon"))
    await tabs[0].until("document.querySelector('.answer').innerText === 'Once upon'")
    first.write(native_end()).end()
    last = await upstream.arrival(3)
    last.open().write(native_start("a time"))
    await third.until("document.querySelector('.answer').innerText === 'a time'")
    assert await third.run("document.querySelector('#place').hidden")
    await third.click("#stop")
    async with asyncio.timeout(5):
        await last.left.wait()


async def test_the_demo_counts_down_to_the_estimate(
    make_gateway: Any, upstream: ScriptedUpstream, browser: Browser
) -> None:
    surface = await make_gateway(DEMO)
    for _ in range(ENOUGH):
        surface.pool()._estimates.observe("m", 40.0)
    await surface.stream(ask())
    page = await chat(browser, surface, "story")
    await page.until("/about (39|40) s to go/.test(document.querySelector('#countdown').innerText)")
    await page.until("/about 38 s to go/.test(document.querySelector('#countdown').innerText)")


async def test_the_demo_says_what_went_wrong_and_asks_for_a_key(
    make_gateway: Any, upstream: ScriptedUpstream, browser: Browser
) -> None:
    keys = {"auth": {"keys": [{"name": "web", "key": "sesame"}]}}
    surface = await make_gateway(DEMO | keys)
    page = await browser.tab(url(surface, "/demo"))
    await page.until("!document.querySelector('#key').hidden")
    await page.type("#key", "sesame")
    await page.run("document.querySelector('#key').dispatchEvent(new Event('change'))")
    await page.until("document.querySelector('#model').length > 0")
    await page.type("#text", "story")
    await page.press("Enter")
    (await upstream.arrival(1)).reset()
    await page.until("document.querySelector('.failed')")
    assert "failed" in await page.text(".failed")


async def test_without_the_setting_there_is_no_demo_and_no_surface_on_the_admin_listener(
    make_gateway: Any,
) -> None:
    surface = await make_gateway()
    assert (await surface.request("GET", "/demo", admin=True)).status == 404
    assert (await surface.request("POST", "/llm/v1/messages", admin=True)).status == 404
    assert (await surface.request("GET", "/status")).status == 404, "nor status on the surface"


CONTRASTS = """() => {
  // WCAG 2.1: every text against the first opaque ground behind it, at least 4.5 to 1.
  const rgb = (text) => (text.match(/[\\d.]+/g) ?? []).map(Number);
  const linear = (share) => share <= 0.04045 ? share / 12.92 : ((share + 0.055) / 1.055) ** 2.4;
  const light = (color) => {
    const [r, g, b] = color.map((part) => linear(part / 255));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const ground = (node) => { for (let at = node; at; at = at.parentElement) {
    const [r, g, b, alpha = 1] = rgb(getComputedStyle(at).backgroundColor);
    if (alpha === 1 && r !== undefined) return [r, g, b];
  } return [255, 255, 255]; };
  const weak = [];
  for (const node of document.querySelectorAll("body *")) {
    const own = [...node.childNodes].some((child) => child.nodeType === 3 && child.data.trim());
    if (!own || !node.checkVisibility()) continue;
    const [a, b] = [light(rgb(getComputedStyle(node).color).slice(0, 3)), light(ground(node))];
    const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    if (ratio < 4.5) weak.push(`${node.innerText}: ${ratio.toFixed(2)}`);
  }
  return weak;
}"""
