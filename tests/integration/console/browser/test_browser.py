"""The console in a real browser: every page and action, keyboard, themes, phone, accessibility."""

from __future__ import annotations

import re
from typing import Any

import pytest
from playwright.async_api import Browser, Page, expect

from pyjms.jms.destination import Queue
from pyjms_broker.service import BrokerService
from tests.kit.clients.raw import RawClient

pytestmark = pytest.mark.browser

PAGES = (
    *("", "queues", "topics", "subscribers", "connections", "network", "scheduled"),
    *("dead-letters", "send", "warnings", "search?q=or", "browse?queue=orders"),
    *("settings", "policy?kind=queue&name=orders"),
    *("queue?name=orders", "topic?name=news", "confirm?action=purge&kind=queue&name=orders"),
)
VIOLATIONS = "axe.run({resultTypes: ['violations']}).then(result => result.violations)"
"""What axe-core finds, without the report of all that it does not, most of which is large."""


async def notice(page: Page, text: str) -> None:
    await expect(page.locator(".notice")).to_contain_text(text)


async def press(page: Page, button: str) -> None:
    await page.get_by_role("button", name=button, exact=True).click()


async def select(page: Page, *rows: str) -> None:
    """Check the boxes of rows."""
    for row in rows:
        await page.get_by_label(f"Select {row}", exact=True).check()


async def confirm(page: Page) -> None:
    """Press the button of a question."""
    await page.locator("main form[method=post] button.danger").click()


async def linked_pages(page: Page) -> list[str]:
    """Return all pages, with one message and one connection."""
    await page.goto("/admin/dead-letters")
    message = await page.locator("main a:has(code)").first.get_attribute("href")
    await page.goto("/admin/connections")
    connection = await page.locator("main tbody th a").first.get_attribute("href")
    assert message is not None
    assert connection is not None
    return [*(f"/admin/{each}" for each in PAGES), message, connection]


@pytest.mark.timeout(240)
async def test_every_page_opens_from_the_menu(page: Page) -> None:
    await page.goto("/")
    for text in (
        *("Home", "Queues", "Topics", "Subscribers", "Connections", "Network"),
        *("Scheduled", "Dead letters", "Send", "Warnings", "Settings"),
    ):
        link = page.locator("nav.menu a").filter(has_text=text).first
        await link.click()
        await expect(page.locator("nav.menu a[aria-current=page]")).to_contain_text(text)
        await expect(page.locator("h1")).to_be_visible()


@pytest.mark.timeout(240)
async def test_destinations_from_creation_to_deletion(service: BrokerService, page: Page) -> None:
    await page.goto("/admin/queues")
    await page.fill("#create", "inbox")
    await press(page, "Create")
    await notice(page, "The queue inbox was created")
    await select(page, "inbox")
    await press(page, "Pause")
    await notice(page, "inbox is paused")
    await select(page, "inbox")
    await press(page, "Resume")
    await notice(page, "inbox is resumed and dispatches messages again")
    await page.click("[aria-label='Send to inbox']")
    await page.fill("#body", "one\ntwo")
    await page.fill("#properties", "colour=red\nsize:int=5")
    await page.fill("#count", "3")
    await page.locator("main form button.primary").click()
    await notice(page, "3 messages were sent to queue inbox")
    await page.goto("/admin/queues")
    await page.click("[aria-label='Browse inbox']")
    await page.fill("#selector", "JMSXMessageCounter = 2")
    await press(page, "Filter")
    await expect(page.locator("main tbody tr")).to_have_count(1)
    await page.locator("main tbody th a").click()
    await expect(page.locator("pre")).to_have_text("one\ntwo")
    await page.fill("#target", "copies")
    await press(page, "Copy")
    await notice(page, "was copied to copies")
    await page.locator("main tbody th a").first.click()
    await page.fill("#target", "moved")
    await press(page, "Move")
    await notice(page, "was moved to moved")
    await page.locator("main tbody th a").first.click()
    await press(page, "Delete")
    await confirm(page)
    await notice(page, "was deleted")
    await page.goto("/admin/queue?name=inbox")
    await press(page, "Reset counters")
    await notice(page, "The counters of inbox were reset")
    await press(page, "Purge")
    await expect(page.locator("main")).to_contain_text("1 message will be deleted")
    await confirm(page)
    await notice(page, "1 message of inbox was deleted")
    await press(page, "Delete")
    await confirm(page)
    await notice(page, "The queue inbox was deleted")
    sizes = {
        name.physical_name: each.statistics.messages
        for name, each in service.region_broker.destinations().items()
    }
    assert (sizes["copies"], sizes["moved"], "inbox" in sizes) == (1, 1, False)


@pytest.mark.timeout(240)
async def test_dead_letters_are_retried_moved_and_purged(
    service: BrokerService, page: Page
) -> None:
    await page.goto("/admin/dead-letters")
    await expect(page.locator("main")).to_contain_text("refused at once: ValueError in invoices")
    await page.locator("[aria-label^='Select ID:']").first.check()
    await press(page, "Retry")
    await confirm(page)
    await notice(page, "was moved back to the original destination")
    await page.click("summary")
    await page.fill("#target", "parked")
    await page.locator("details button").click()
    await confirm(page)
    await notice(page, "1 message of ActiveMQ.DLQ was moved to parked")
    assert service.region_broker.destinations()[Queue("parked")].statistics.messages == 1
    await page.goto("/admin/queues")
    await select(page, "orders")
    await press(page, "Purge")
    await expect(page.locator("main")).to_contain_text("61 messages will be deleted")
    await page.click("text=Cancel")
    await expect(page.locator("h1")).to_have_text("Queues")
    assert service.region_broker.destinations()[Queue("orders")].statistics.messages == 61


@pytest.mark.timeout(240)
async def test_clients_and_jobs_are_ended(page: Page) -> None:
    await page.goto("/admin/subscribers")
    await page.click("[aria-label='Delete nightly']")
    await expect(page.locator("main")).to_contain_text("2 messages kept for it will be lost")
    await confirm(page)
    await notice(page, "The subscription nightly of archive was deleted")
    await page.goto("/admin/scheduled")
    await page.locator("a[aria-label^='Delete ']").click()
    await confirm(page)
    await notice(page, "was deleted")
    await page.goto("/admin/connections")
    await page.locator("main tbody th a").filter(has_text="shop").click()
    await expect(page.locator("h2").filter(has_text="Session 1")).to_be_visible()
    await press(page, "Close")
    await confirm(page)
    await notice(page, "The connection shop is being closed")


async def test_bridges_are_shown_reset_stopped_and_started(page: Page, shop: RawClient) -> None:
    await page.goto("/admin/network")
    rows = page.locator("main tbody tr")
    await expect(rows).to_have_count(2)
    await expect(rows.filter(has_text="madrid")).to_contain_text("to-madrid")
    await page.click("[aria-label='Reset counters of berlin']")
    await notice(page, "The counters of the bridge to berlin were reset")
    await page.goto("/admin/connections")
    await page.click("[aria-label='Stop to-berlin']")
    await notice(page, "to-berlin is stopped")
    await page.goto("/admin/network")
    await expect(rows).to_have_count(1)
    await page.goto("/admin/connections")
    await page.click("[aria-label='Start to-berlin']")
    await notice(page, "to-berlin connects to its remote brokers")
    await page.goto("/admin/network")
    await expect(rows).to_have_count(2)


async def test_numbers_and_charts_are_live(page: Page, shop: RawClient) -> None:
    await page.goto("/admin/queue?name=orders")
    pending = page.locator("dd").first
    await expect(pending).to_contain_text("61")
    await shop.send(Queue("orders"), "one more")
    await expect(pending).to_contain_text("62")
    await expect(page.locator("path.line1").first).to_have_attribute("d", re.compile(r"M\d"))


@pytest.mark.parametrize("width", [390, 1280])
async def test_charts_of_an_hour_and_of_a_day(
    service: BrokerService, page: Page, width: int
) -> None:
    assert service.history is not None
    await service.history.sample()
    await page.set_viewport_size({"width": width, "height": 900})
    await page.goto("/admin/queue?name=orders")
    plots = page.locator(".plot")
    await expect(plots).to_have_count(4)
    await expect(plots.nth(1).locator(".scale span")).to_have_text(["100", "50", "0"])
    await expect(plots.nth(1)).to_contain_text("messages 61, at most 61")
    await expect(plots.nth(1).locator(".times")).to_contain_text("60 min ago")
    box = await plots.nth(1).locator("svg").bounding_box()
    assert box is not None
    assert 200 < box["width"] < width
    await page.get_by_role("link", name="Day").click()
    await expect(plots.nth(1).locator(".times")).to_contain_text("24 h ago")
    await expect(page.locator("a[aria-current=true]")).to_have_text("Day")


async def test_a_warning_is_muted_and_shown_again(page: Page) -> None:
    await page.goto("/admin/warnings")
    group = page.locator("section.card").filter(has_text="queues with messages have no consumer")
    await expect(page.locator(".badge")).to_have_text("3")
    await group.get_by_role("combobox").select_option("8 hours")
    await group.get_by_role("button", name="Mute").click()
    await notice(page, "All warnings of the kind Nobody listens are muted for 8 hours")
    await expect(page.locator(".badge")).to_have_text("2")
    await expect(page.locator("main")).to_contain_text("3 warnings of these kinds are not shown")
    await page.get_by_label("Show Nobody listens").click()
    await notice(page, "Nobody listens is shown again")
    await expect(group).to_be_visible()


async def test_an_update_leaves_what_is_focused_and_selected(page: Page, shop: RawClient) -> None:
    await page.goto("/admin/queues")
    box = page.get_by_label("Select orders", exact=True)
    await box.check()
    await expect(page.locator(".selected")).to_have_text("1 selected:")
    pending = page.locator("tr", has=box).locator("td.n").first
    await shop.send(Queue("orders"), "one more")
    await page.wait_for_timeout(4000)  # more than the time between two updates
    await expect(box).to_be_focused()
    await expect(pending).to_have_text("61")
    await page.locator("h1").click()
    await expect(pending).to_have_text("62")
    await expect(box).to_be_checked()
    await expect(page.locator(".selected")).to_have_text("1 selected:")


async def test_all_rows_are_selected_and_told_before_they_are_deleted(page: Page) -> None:
    await page.goto("/admin/browse?queue=orders")
    await expect(page.get_by_role("button", name="Delete")).to_be_disabled()
    await page.get_by_label("Select all rows").check()
    await expect(page.locator(".selected")).to_have_text("25 selected:")
    await press(page, "Delete")
    await expect(page.locator("h1")).to_have_text("Delete 25 messages of orders?")
    await confirm(page)
    await notice(page, "25 messages of orders were deleted")


async def test_names_are_completed_while_they_are_typed(page: Page) -> None:
    await page.goto("/admin/browse?queue=orders")
    await page.fill("#bulk-target", "pri")
    await expect(page.locator("#bulk-target-names option")).to_have_attribute("value", "prices")


async def test_the_keyboard_reaches_everything(page: Page) -> None:
    await page.goto("/admin/queues")
    await page.keyboard.press("Tab")
    await expect(page.locator(".skip")).to_be_focused()
    await page.keyboard.press("Enter")
    await page.keyboard.press("Tab")
    await expect(page.locator("#filter")).to_be_focused()
    await page.locator("h1").click()
    await page.keyboard.press("/")
    await expect(page.locator("#find")).to_be_focused()
    await page.keyboard.type("orders")
    await page.keyboard.press("Enter")
    await expect(page.locator("h1")).to_have_text("Search")
    assert await page.locator("nav.menu a[accesskey='2']").text_content() == "Queues"


async def test_the_theme_is_chosen_and_kept(page: Page) -> None:
    await page.goto("/admin/")
    colour = "getComputedStyle(document.body).backgroundColor"
    light = await page.evaluate(colour)
    await page.click("#theme")
    assert await page.evaluate(colour) == light
    await page.click("#theme")
    dark = await page.evaluate(colour)
    assert dark != light
    await page.goto("/admin/queues")
    assert await page.evaluate(colour) == dark


@pytest.mark.timeout(240)
async def test_a_phone_shows_every_page_without_sideways_scrolling(page: Page) -> None:
    await page.set_viewport_size({"width": 360, "height": 740})
    for path in await linked_pages(page):
        await page.goto(path)
        excess = await page.evaluate("document.documentElement.scrollWidth - innerWidth")
        assert excess <= 0, path


async def test_the_menu_of_a_phone_shows_which_page_is_open(page: Page) -> None:
    await page.set_viewport_size({"width": 360, "height": 740})
    for path in ("", "warnings", "scheduled", "queues"):
        await page.goto(f"/admin/{path}")
        await expect(page.locator(".menu [aria-current]")).to_be_in_viewport(ratio=0.99)
        assert await page.evaluate("scrollY") == 0


async def test_nothing_hostile_runs(page: Page) -> None:
    await page.goto("/admin/browse?queue=maps")
    await page.locator("main tbody th a").click()
    await expect(page.locator("main")).to_contain_text("<script>document.title='caught'</script>")
    assert "caught" not in await page.title()
    assert await page.locator("img[src='x']").count() == 0


async def test_pages_work_without_scripts(
    service: BrokerService, shop: RawClient, browser: Browser
) -> None:
    context = await browser.new_context(base_url=service.website.url, java_script_enabled=False)
    page = await context.new_page()
    await page.goto("/admin/queues")
    await select(page, "orders", "prices")
    await press(page, "Purge")
    await expect(page.locator("main")).to_contain_text("orders, prices.")
    await confirm(page)
    await notice(page, "62 messages of 2 queues were deleted")
    await context.close()


@pytest.mark.maven
@pytest.mark.timeout(600)
@pytest.mark.parametrize("theme", ["light", "dark"])
async def test_axe_finds_nothing_serious(page: Page, axe: str, theme: Any) -> None:
    await page.emulate_media(color_scheme=theme)
    found: list[str] = []
    for path in await linked_pages(page):
        await page.goto(path)
        await page.evaluate(axe)
        violations = await page.evaluate(VIOLATIONS)
        found += [
            f"{path}: {each['id']} {each['nodes'][0]['html'][:150]}"
            for each in violations
            if each["impact"] in ("serious", "critical")
        ]
    assert found == []
