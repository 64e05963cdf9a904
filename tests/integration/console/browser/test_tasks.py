"""The fourteen tasks of an operator's week, each in at most three clicks from the first page."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable

import pytest
from playwright.async_api import Locator, Page, expect

pytestmark = pytest.mark.browser

MOST_CLICKS = 3


class Operator:
    """Somebody who looks for things on the page, and clicks. Typing is no click."""

    def __init__(self, page: Page) -> None:
        self.page = page
        self.clicks = 0

    async def click(self, what: Locator) -> None:
        """Click something that is visible without scrolling sideways."""
        await expect(what).to_be_visible()
        await what.scroll_into_view_if_needed()
        await expect(what).to_be_in_viewport()
        assert await what.evaluate("each => each.closest('.scroll')?.scrollLeft || 0") == 0
        self.clicks += 1
        await what.click()

    async def menu(self, name: str) -> None:
        await self.click(self.page.locator("nav.menu a").filter(has_text=name).first)

    async def link(self, name: str) -> None:
        await self.click(self.page.locator("main").get_by_role("link", name=name, exact=True).first)

    async def button(self, name: str | re.Pattern[str]) -> None:
        await self.click(self.page.locator("main").get_by_role("button", name=name).first)

    async def type(self, label: str, text: str) -> None:
        await self.page.locator("main").get_by_label(label, exact=True).fill(text)

    async def sees(self, text: str | re.Pattern[str]) -> None:
        await expect(self.page.locator("main")).to_contain_text(text)

    async def is_told(self, text: str) -> None:
        await expect(self.page.locator(".notice")).to_contain_text(text)


async def growing_queue(o: Operator) -> None:
    row = o.page.get_by_role("row").filter(has=o.page.get_by_role("link", name="orders"))
    await expect(row.first).to_contain_text("61")


async def consumers(o: Operator) -> None:
    await o.menu("Queues")
    await o.link("billing")
    await o.sees("colour = 'red'")


async def browse(o: Operator) -> None:
    await o.link("Browse orders")
    await o.sees("order number 24")


async def search(o: Operator) -> None:
    await o.page.keyboard.press("/")
    await o.page.keyboard.type("order number 33")
    await o.page.keyboard.press("Enter")
    await o.sees("order number 33")


async def body(o: Operator) -> None:
    await o.link("Browse orders")
    await o.click(o.page.locator("main tbody th a").first)
    await expect(o.page.locator("pre")).to_have_text("order number 0")


async def move(o: Operator) -> None:
    await o.link("orders")
    await o.type("Move all messages to", "parked")
    await o.button("Move")
    await o.button("Move 61 messages")
    await o.is_told("61 messages of orders were moved to parked")


async def retry_dead_letters(o: Operator) -> None:
    await o.menu("Dead letters")
    await o.button("Retry all ActiveMQ.DLQ")
    await o.button("Retry 2 messages")
    await o.is_told("2 messages of ActiveMQ.DLQ were sent to the original destinations")


async def purge(o: Operator) -> None:
    await o.link("orders")
    await o.button("Purge")
    await o.button("Delete 61 messages")
    await o.is_told("61 messages of orders were deleted")


async def pause(o: Operator) -> None:
    await o.link("orders")
    await o.button("Pause")
    await o.is_told("orders is paused")


async def send_test_message(o: Operator) -> None:
    await o.menu("Send")
    await o.type("Destination", "orders")
    await o.type("Body", "a test")
    await o.button("Send")
    await o.is_told("was sent to queue orders")


async def end_connection(o: Operator) -> None:
    await o.menu("Connections")
    await o.link("Close shop")
    await o.button("Close connection")
    await o.is_told("The connection shop is being closed")


async def schedule(o: Operator) -> None:
    await o.menu("Send")
    await o.type("Destination", "orders")
    await o.type("Delay", "60000")
    await o.button("Send")
    await o.is_told("was sent to queue orders")
    await o.menu("Scheduled")
    await o.sees("60,000 ms")


async def durable_subscription(o: Operator) -> None:
    await o.menu("Subscribers")
    await o.link("Delete nightly")
    await o.sees("2 messages kept for it will be lost")
    await o.button("Delete subscription")
    await o.is_told("The subscription nightly of archive was deleted")


async def why_is_nothing_delivered(o: Operator) -> None:
    await o.link("orders")
    await o.sees("Why nothing is delivered")
    await o.sees("start a consumer, or move or purge the messages")


TASKS: tuple[Callable[[Operator], Awaitable[None]], ...] = (
    *(growing_queue, consumers, browse, search, body, move, retry_dead_letters, purge, pause),
    *(send_test_message, end_connection, schedule, durable_subscription, why_is_nothing_delivered),
)


@pytest.mark.timeout(120)
@pytest.mark.parametrize("width", [1280, 390])
@pytest.mark.parametrize("task", TASKS, ids=lambda task: task.__name__)
async def test_a_task_takes_three_clicks(
    page: Page, task: Callable[[Operator], Awaitable[None]], width: int
) -> None:
    await page.set_viewport_size({"width": width, "height": 844})
    await page.goto("/admin/")
    operator = Operator(page)
    await task(operator)
    assert operator.clicks <= MOST_CLICKS
    assert await page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0
