"""Plug-ins that keep something in a file while the broker is stopped. (activemq-broker 1.1)"""

from __future__ import annotations

import json
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from pyjms.errors import ConfigurationException
from pyjms.jms.destination import Queue, TemporaryQueue, Topic
from pyjms.testing.clock import VirtualClock
from pyjms.wire.openwire.primitives import encode_map
from pyjms_broker.filters.virtual_destinations import VirtualTopic
from pyjms_broker.plugins.destination_list import DestinationsPlugin
from pyjms_broker.plugins.selector_cache import MOST_SELECTORS, VirtualSelectorCacheBrokerPlugin
from pyjms_broker.service import BrokerService
from pyjms_broker.settings import load_broker_settings
from pyjms_broker.testing import EmbeddedTestBroker
from tests.kit.clients.raw import BrokerWith, RawClient
from tests.kit.waiting import until_stored

LISTS = pytest.mark.fact("activemq-broker 1.1/destinationsPlugin")
SELECTORS = pytest.mark.fact("activemq-broker 1.1/virtualSelectorCacheBrokerPlugin")
T, A = Topic("VirtualTopic.T"), Queue("Consumer.A.VirtualTopic.T")


# destinationsPlugin
@LISTS
async def test_destinations_of_a_broker_in_memory_are_there_after_a_restart(
    broker_with: BrokerWith, tmp_path: Path
) -> None:
    file = tmp_path / "deep" / "list"
    plugins = [DestinationsPlugin(location=file)]
    async with broker_with(plugins=plugins) as (broker, client):
        await client.destination(Queue("orders.new"))
        await client.destination(Topic("news"))
        await client.destination(TemporaryQueue(f"{client.name}:1"))
        await client.consumer(Topic("ActiveMQ.Advisory.Queue"))
        await client.destination(Queue("gone"))
        await client.destination(Queue("gone"), operation=1)
    assert file.read_text(encoding="utf-8") == "queue://orders.new\ntopic://news\n"
    async with broker_with(plugins=plugins) as (broker, _):
        found = broker.service.region_broker.destinations()
        assert {Queue("orders.new"), Topic("news")} <= found.keys()
        assert Queue("gone") not in found


@LISTS
async def test_names_that_cannot_be_created_do_not_stop_the_others(
    broker_with: BrokerWith, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    file = tmp_path / "list"
    file.write_text("queue://\n\nqueue://good\n", encoding="utf-8")
    async with broker_with(plugins=[DestinationsPlugin(location=file)]) as (broker, _):
        assert Queue("good") in broker.service.region_broker.destinations()
    assert f"{file}:1: 'queue://' could not be created" in caplog.text


@LISTS
async def test_the_list_is_in_the_brokers_directory_and_may_be_unreadable(tmp_path: Path) -> None:
    file = tmp_path / "broker.yaml"
    text = f"{{broker_name: kept, persistent: false, data_directory: {tmp_path}, plugins: [destinations]}}"
    file.write_text(text, encoding="utf-8")
    service = BrokerService.from_settings(load_broker_settings(file))
    async with service:
        service.broker.add_destination(service.region_broker.context, Queue("q"))
    kept = tmp_path / "kept" / "destinations"
    assert kept.read_text(encoding="utf-8") == "queue://q\n"
    kept.write_bytes(b"queue://\xff\n")
    with pytest.raises(ConfigurationException, match=f"{kept} cannot be read"):
        await service.start()
    assert kept.read_bytes() == b"queue://\xff\n"  # a broker that did not run writes nothing


@LISTS
async def test_a_list_that_cannot_be_written_is_an_error_in_the_log(
    broker_with: BrokerWith, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "file").touch()
    plugin = DestinationsPlugin(location=tmp_path / "list")
    async with broker_with(plugins=[plugin]):
        (tmp_path / "list").mkdir()
    assert "The list of destinations could not be written" in caplog.text


@LISTS
def test_the_list_needs_a_place() -> None:
    with pytest.raises(ConfigurationException, match="no location"):
        BrokerService(plugins=[DestinationsPlugin()]).plugins[0].install_plugin(None)  # type: ignore[union-attr,arg-type]


# virtualSelectorCacheBrokerPlugin
Start = Callable[..., AbstractAsyncContextManager[Any]]


class Selecting:
    """A broker with a selector-aware virtual topic, and what arrives in its queue."""

    def __init__(self, broker: EmbeddedTestBroker, client: RawClient) -> None:
        self.broker = broker
        self.client = client

    async def consumer_was_there(self, selector: str | None = None, queue: Queue = A) -> None:
        await self.client.remove(await self.client.consumer(queue, selector=selector))

    async def copies(self, **properties: object) -> int:
        """Send a message with these properties to the topic; return the number of new messages in A."""
        before = self.broker.queue_statistics(A.physical_name).messages
        message = self.client.text(await self.client.producer(), T, "x")
        message.marshalled_properties = encode_map(properties)
        await self.client.request(message)
        after: int = self.broker.queue_statistics(A.physical_name).messages
        return after - before


@pytest.fixture
def selecting(broker_with: BrokerWith) -> Start:
    """Starts a broker with a plug-in of these options."""

    @asynccontextmanager
    async def start(**options: Any) -> AsyncIterator[Selecting]:
        plugin = VirtualSelectorCacheBrokerPlugin(**options)
        async with broker_with([VirtualTopic(selector_aware=True)], plugins=[plugin]) as found:
            yield Selecting(*found)

    return start


@SELECTORS
@pytest.mark.fact("activemq-broker V3")
async def test_a_queue_gets_what_its_last_consumers_selected(selecting: Start) -> None:
    async with selecting() as it:
        await it.client.destination(A)
        assert await it.copies(colour="red") == 0
        await it.consumer_was_there("colour = 'red'")
        await it.consumer_was_there("size > 5")
        assert await it.copies(colour="red") == 1
        assert await it.copies(size=9) == 1
        assert await it.copies(colour="blue") == 0
        await it.consumer_was_there()
        assert await it.copies(colour="blue") == 1


@SELECTORS
async def test_browsers_and_other_queues_do_not_count_nor_does_a_queue_that_was_removed(
    selecting: Start,
) -> None:
    async with selecting() as it:
        await it.client.destination(A)
        await it.client.remove(await it.client.consumer(A, browser=True))
        await it.consumer_was_there(queue=Queue("Consumer.B.VirtualTopic.T"))
        assert await it.copies() == 0
        await it.consumer_was_there()
        await it.client.destination(A, operation=1)
        await it.client.destination(A)
        assert await it.copies() == 0


@SELECTORS
async def test_only_the_last_selector_counts_where_it_is_the_single_one(selecting: Start) -> None:
    async with selecting(single_selector_per_destination=True) as it:
        await it.consumer_was_there("n = 1")
        await it.consumer_was_there("n = 2")
        assert (await it.copies(n=1), await it.copies(n=2)) == (0, 1)
        await it.consumer_was_there()
        await it.consumer_was_there("n = 3")
        assert await it.copies(n=1) == 1  # none at all is remembered beside it


@SELECTORS
@pytest.mark.parametrize(
    ("selector", "ignored"),
    [("n LIKE 'a%'", True), ("n like 'a_c'", True), ("n LIKE 'abc'", False), ("n = '%'", False)],
)
async def test_selectors_with_wildcards_may_be_ignored(
    selecting: Start, selector: str, ignored: bool
) -> None:
    async with selecting(ignore_wildcard_selectors=True) as it:
        await it.consumer_was_there(selector)
        value = "%" if "=" in selector else "abc"
        assert await it.copies(n=value) == (0 if ignored else 1)


@SELECTORS
async def test_only_so_many_selectors_of_a_queue_are_remembered(selecting: Start) -> None:
    async with selecting() as it:
        for number in range(MOST_SELECTORS + 1):
            await it.consumer_was_there(f"n = {number}")
        assert (await it.copies(n=0), await it.copies(n=1)) == (0, 1)


@SELECTORS
async def test_a_file_keeps_the_selectors(selecting: Start, tmp_path: Path) -> None:
    file = tmp_path / "selectors.json"
    options: dict[str, Any] = {"persist_file": file, "persist_interval": 30.0}
    async with VirtualClock(autojump=False) as clock, selecting(**options) as it:
        await it.consumer_was_there("n = 1")
        await clock.advance(30)
        await until_stored(file.exists)
        await it.consumer_was_there("n = 2")
    found = json.loads(file.read_text(encoding="utf-8"))
    assert found == {A.qualified_name: ["n = 1", "n = 2"]}
    async with selecting(persist_file=file) as it:
        await it.client.destination(A)
        assert (await it.copies(n=2), await it.copies(n=3)) == (1, 0)


@SELECTORS
@pytest.mark.parametrize("text", ["{", "[]", '{"queue://a": "b"}', '{"queue://a": [1]}'])
async def test_a_file_of_something_else_is_an_error(
    selecting: Start, tmp_path: Path, text: str
) -> None:
    file = tmp_path / "selectors.json"
    file.write_text(text, encoding="utf-8")
    with pytest.raises(ConfigurationException, match="cannot be read"):
        async with selecting(persist_file=file):
            pass


@SELECTORS
async def test_a_wrong_selector_of_the_file_is_forgotten(
    selecting: Start, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    file = tmp_path / "selectors.json"
    file.write_text(json.dumps({A.qualified_name: ["n = = 1", "n = 2"]}), encoding="utf-8")
    with caplog.at_level(logging.ERROR):
        async with selecting(persist_file=file) as it:
            await it.client.destination(A)
            assert (await it.copies(n=2), await it.copies(n=2)) == (1, 1)
    assert caplog.text.count(f"A selector of {A.qualified_name} is no longer remembered") == 1


@SELECTORS
def test_an_interval_of_nothing_is_an_error() -> None:
    with pytest.raises(ConfigurationException, match="persist_interval"):
        VirtualSelectorCacheBrokerPlugin(persist_interval=0)
