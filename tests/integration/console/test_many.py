"""Pages of a broker with many queues, each with a consumer and a message that waits."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator
from types import FrameType, TracebackType
from typing import Self

import pytest

from pyjms.jms.destination import Queue
from pyjms.transport.registry import create_transport
from pyjms_broker.service import BrokerService
from tests.kit.clients.raw import RawClient
from tests.kit.web.console import Console

COUNT = 500
PAGES = (
    *("", "queues", "queues?sort=oldest", "queues?sort=in&descending=1", "queue?name=stock.7"),
    *("warnings", "connections", "subscribers", "search?q=stock"),
)
MOST = 500_000 // 4
"""Calls of functions, of which 500,000 take 0.1 s: the aim of a page with 2,000 queues."""


class Calls:
    """Counts the calls of functions in a block; times depend on the machine, calls do not."""

    def __init__(self) -> None:
        self.count = 0

    def __enter__(self) -> Self:
        sys.setprofile(self._on_event)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        sys.setprofile(None)

    def _on_event(self, _frame: FrameType, event: str, _argument: object) -> None:
        self.count += event in ("call", "c_call")


@pytest.fixture
async def service() -> AsyncIterator[BrokerService]:
    queues = [Queue(f"stock.{number}") for number in range(COUNT)]
    async with BrokerService("many", persistent=False, destinations=queues) as service:
        client = RawClient(create_transport(service.vm_uri))
        await client.open("reader")
        for queue in queues:
            await client.consumer(queue, prefetch_size=1)
            await client.send(queue, "one", "two")
        yield service
        await client.close()


async def test_a_page_of_a_broker_with_many_queues_takes_little_time(console: Console) -> None:
    found: dict[str, int] = {}
    for page in PAGES:
        path, _, query = page.partition("?")
        values = dict(each.split("=") for each in query.split("&")) if query else {}
        await console.text(path, **values)  # compiles the template
        with Calls() as calls:
            await console.text(path, **values)
        found[page] = calls.count
    assert {page: count for page, count in found.items() if count > MOST} == {}
