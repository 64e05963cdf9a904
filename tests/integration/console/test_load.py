"""What the console costs a broker with many queues."""

from __future__ import annotations

import time

import pytest

from pyjms.jms.destination import Queue
from pyjms_broker.service import BrokerService
from tests.kit.web.console import Console, Live, connected

QUEUES = 2000
MOST_CPU = 0.1
"""Seconds of CPU for a page."""


@pytest.mark.timeout(120)
async def test_pages_of_a_broker_with_many_queues_are_quick(
    service: BrokerService, console: Console
) -> None:
    async with connected(service, "shop") as client:
        for number in range(QUEUES):
            await client.send(Queue(f"area.{number % 40}.queue.{number:04}"), "one")
        for number in range(100):
            await client.consumer(Queue(f"area.{number % 40}.queue.{number:04}"), prefetch_size=1)
        name = "area.3.queue.0003"
        took: dict[str, float] = {}
        for page in (
            *("", "queues", "queues?sort=pending&descending=1", "queues?page=20", "topics"),
            *(f"queue?name={name}", f"browse?queue={name}", "warnings", "connections"),
            *("subscribers", "dead-letters", "search?q=queue.19", "settings", "names?q=19", "send"),
        ):
            times = []
            for _ in range(4):
                began = time.process_time()
                await console.text(page)
                times.append(time.process_time() - began)
            took[page] = min(times)  # the others had to work for somebody else
        assert {page: seconds for page, seconds in took.items() if seconds > MOST_CPU} == {}
        live = Live(console, "queues")
        await live.update()
        await client.send(Queue("area.0.queue.0000"), "two")
        assert 0 < await live.update() < 500, "an update has the changed row alone"
