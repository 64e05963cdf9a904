"""The statistics plug-in in a whole broker."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from pyjms.errors import IllegalStateException, ResourceAllocationException
from pyjms.jms.destination import Queue, Topic
from pyjms.wire.openwire.commands import Response
from pyjms.wire.openwire.primitives import decode_map, encode_map
from pyjms_broker.management import statistics
from pyjms_broker.management.statistics import StatisticsBrokerPlugin
from pyjms_broker.region.region_broker import RegionBroker
from pyjms_broker.service import BrokerService
from pyjms_broker.settings import load_broker_settings
from pyjms_broker.store.memory import MemoryPersistenceAdapter
from pyjms_broker.testing import EmbeddedTestBroker
from tests.kit.clients.raw import BrokerWith, RawClient, broker_with

__all__ = ["broker_with"]

REPLIES = Queue("replies")
BROKER_KEYS = """
        brokerName brokerId size enqueueCount dequeueCount dispatchCount expiredCount inflightCount
        averageMessageSize messagesCached memoryPercentUsage memoryUsage memoryLimit
        storePercentUsage storeUsage storeLimit tempPercentUsage tempUsage tempLimit
        averageEnqueueTime maxEnqueueTime minEnqueueTime consumerCount producerCount openwire stomp
        ssl stomp+ssl vm dataDirectory
        """
SUBSCRIPTION_KEYS = """
        destinationName clientId connectionId sessionId selector enqueueCounter dequeueCounter
        dispatchedCounter dispatchedQueueSize prefetchSize maximumPendingMessageLimit exclusive
        retroactive slowConsumer
        """


class Requester:
    """A client that requests statistics."""

    def __init__(self, client: RawClient, broker: EmbeddedTestBroker) -> None:
        self.client = client
        self.service = broker.service

    async def ask(
        self, name: str, kind: type[Queue | Topic] = Queue, **properties: object
    ) -> Response:
        client = self.client
        request = client.text(await client.producer(), kind(name), "")
        request.reply_to = REPLIES
        request.correlation_id = "c1"
        request.marshalled_properties = encode_map(
            {key.replace("_", "."): value for key, value in properties.items()}
        )
        return await client.request(request)

    async def reply(self) -> dict[str, object]:
        message = await self.client.message()
        assert (message.type, message.correlation_id) == ("Advisory", "c1")
        assert not message.persistent
        assert message.content is not None
        return decode_map(bytes(message.content))


@pytest.fixture
async def requester(broker_with: BrokerWith) -> AsyncIterator[Requester]:
    async with broker_with(plugins=[StatisticsBrokerPlugin()]) as (broker, client):
        await client.consumer(REPLIES, prefetch_size=2000)
        yield Requester(client, broker)


@pytest.mark.fact("activemq-broker Z2", "activemq-broker 1.1/statisticsBrokerPlugin")
async def test_statistics_of_the_broker(requester: Requester) -> None:
    await requester.client.send(Queue("q"), "one", "two")
    await requester.ask("ActiveMQ.Statistics.Broker")
    values = await requester.reply()
    assert sorted(values) == sorted(BROKER_KEYS.split())
    assert values["brokerName"] == requester.service.broker_name
    assert (values["size"], values["messagesCached"]) == (2, 2)
    assert (values["openwire"], values["vm"]) == ("", requester.service.vm_uri)
    enqueued = values["enqueueCount"]
    assert isinstance(enqueued, int) and enqueued >= 2
    await requester.ask("ActiveMQ.Statistics.Broker", ActiveMQ_Statistics_Broker_Reset="yes")
    assert (await requester.reply())["enqueueCount"] == 0


@pytest.mark.fact("activemq-broker Z1", "activemq-broker Z3")
@pytest.mark.parametrize("dot", [".", ""], ids=["dot", "no-dot"])
@pytest.mark.parametrize("kind", [Queue, Topic])
async def test_statistics_of_destinations(
    kind: type[Queue | Topic], dot: str, requester: Requester
) -> None:
    for name in ("a.b", "a.c", "d"):
        await requester.client.send(kind(name), "one")
    await requester.ask(f"ActiveMQ.Statistics.Destination{dot}d", kind)
    values = await requester.reply()
    assert values["destinationName"] == str(kind("d"))
    assert (values["enqueueCount"], values["consumerCount"]) == (1, 0)
    assert "firstMessageTimestamp" not in values
    await requester.ask(
        f"ActiveMQ.Statistics.Destination{dot}a.*",
        kind,
        ActiveMQ_Statistics_Destination_List_End_With_Null="",
        ActiveMQ_Statistics_Destination_Include_First_Message_Timestamp="",
    )
    found = [await requester.reply(), await requester.reply()]
    assert {each["destinationName"] for each in found} == {str(kind("a.b")), str(kind("a.c"))}
    assert all(("firstMessageTimestamp" in each) == (kind is Queue) for each in found)
    assert await requester.reply() == {}
    known = requester.service.broker.destinations()
    assert not any("Statistics" in each.physical_name for each in known), "requests are consumed"


async def test_the_end_of_the_list_may_be_asked_for_in_the_name(requester: Requester) -> None:
    end = "ActiveMQ.Statistics.Destination.List.End.With.Null"
    await requester.ask(f"ActiveMQ.Statistics.Destination.none{end}")
    assert await requester.reply() == {}


@pytest.mark.fact("activemq-broker Z4")
async def test_statistics_of_subscriptions(requester: Requester) -> None:
    await requester.client.consumer(Topic("t"), selector="a = 1", prefetch_size=7)
    await requester.ask("ActiveMQ.Statistics.Subscription")
    replies = [await requester.reply(), await requester.reply()]
    (values,) = [each for each in replies if each["destinationName"] == "topic://t"]
    assert sorted(values) == sorted(SUBSCRIPTION_KEYS.split())
    assert (values["selector"], values["prefetchSize"]) == ("a = 1", 7)
    assert values["clientId"] == requester.client.name


async def test_a_message_without_a_reply_destination_is_a_message(requester: Requester) -> None:
    name = Queue("ActiveMQ.Statistics.Broker")
    await requester.client.send(name, "kept")
    assert requester.service.broker.destinations()[name].statistics.messages == 1


async def test_a_request_that_matches_too_much_is_refused(
    requester: Requester, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(statistics, "MOST_REPLIES", 2)
    for name in ("a.b", "a.c", "a.d"):
        await requester.client.send(Queue(name), "x")
    with pytest.raises(ResourceAllocationException, match="more than 2 replies"):
        await requester.ask("ActiveMQ.Statistics.Destination.a.*")
    await requester.client.nothing_dispatched()


async def test_replies_go_only_where_the_requester_may_send(requester: Requester) -> None:
    client = requester.client
    request = client.text(await client.producer(), Queue("ActiveMQ.Statistics.Broker"), "")
    request.reply_to = Queue("PyJMS.Ranges.Marks")
    with pytest.raises(IllegalStateException, match="reserved for the broker"):
        await client.request(request)


async def test_broker_yaml_has_the_plug_in(tmp_path: Path) -> None:
    file = tmp_path / "broker.yaml"
    file.write_text("persistent: false\nplugins: [statistics]\n")
    service = BrokerService.from_settings(load_broker_settings(file))
    async with EmbeddedTestBroker(service) as broker:
        (plugin,) = broker.service.plugins
        configured: Any = plugin
        with pytest.raises(IllegalStateException, match="management model"):
            configured.install_plugin(RegionBroker(MemoryPersistenceAdapter()))
