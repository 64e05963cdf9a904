"""Charts and rates of the console."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator

import pytest

from pyjms.jms.destination import Queue
from pyjms_broker.management.history import History
from pyjms_broker.service import BrokerService
from pyjms_broker.web import WebConfiguration
from tests.kit.web.console import Console, console_of

NAMES = ("a", "b", "c")


@pytest.fixture
async def recorded() -> AsyncIterator[Console]:
    """The console of a broker with a history of three queues."""
    queues = [Queue(name) for name in NAMES]
    service = BrokerService(
        "recorded", persistent=False, destinations=queues, web=WebConfiguration(port=0)
    )
    async with service, console_of(service) as console:
        yield console


def history_of(console: Console) -> History:
    found = console.service.history
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("page", "titles"),
    [
        ("", ["Messages a second", "Messages in queues", "Memory", "Store", "Clients"]),
        ("queue", ["Messages a second", "Messages in queues", "Memory", "Clients"]),
    ],
)
async def test_a_page_has_charts_with_numbers(
    recorded: Console, page: str, titles: list[str]
) -> None:
    statistics = recorded.service.region_broker.destinations()[Queue("a")].statistics
    statistics.messages = statistics.enqueues = 40
    await history_of(recorded).sample()
    text = await recorded.text(page, **({"name": "a"} if page else {}))
    assert re.findall(r"<figcaption><strong>(.*?)</strong>", text) == titles
    assert "messages 40, at most 40" in text
    assert "<span>50</span><span>25</span><span>0</span>" in text
    assert re.search(r'<path class="line1" d="M\d+ 20H\d+"/>', text)


async def test_a_day_is_a_parameter(recorded: Console) -> None:
    hour, day = await recorded.text(""), await recorded.text("", range="day")
    assert "60 min ago" in hour
    assert "24 h ago" in day


async def test_a_queue_without_messages_has_no_charts(recorded: Console) -> None:
    await history_of(recorded).sample()
    text = await recorded.text("queue", name="b")
    assert "Nothing is recorded: it has had no messages, or others are busier" in text


async def test_a_console_without_a_history_says_so(console: Console) -> None:
    assert "This broker records no history" in await console.text("")


@pytest.mark.fact("activemq-edges W31")
@pytest.mark.parametrize("column", ["in", "out", "oldest"])
async def test_rates_and_ages_are_columns_that_sort(recorded: Console, column: str) -> None:
    for number, name in zip((5000, 9000, 1000), NAMES, strict=True):
        queue = recorded.service.region_broker.destinations()[Queue(name)]
        queue.statistics.enqueues = queue.statistics.dequeues = number
    await history_of(recorded).sample()
    text = await recorded.text("queues", sort=column, descending="1")
    rows = re.findall(r'<th scope="row"><a[^>]*>(.*?)</a>', text)
    assert rows == (["a", "b", "c"] if column == "oldest" else ["b", "a", "c"])
    assert "In/s" in text
    assert "Oldest message" in text


async def test_rates_that_are_not_known_are_not_zero(recorded: Console) -> None:
    text = await recorded.text("queues")
    assert text.count('<td class="n">-</td>') == 9  # in, out and oldest of three queues
