"""The views of consumers and durable subscriptions on a broker in memory."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pyjms.errors import IllegalStateException, InvalidDestinationException
from pyjms.jms.destination import Destination, Queue, Topic
from pyjms.transport.registry import create_transport
from pyjms.wire.openwire.commands import ConsumerControl
from pyjms_broker.management.model import View
from pyjms_broker.policy.entry import PolicyEntry, PolicyMap
from pyjms_broker.service import BrokerService
from tests.kit.clients.raw import Connect, RawClient
from tests.kit.stores.small import SMALL_SEGMENTS

ATTRIBUTES = """
    ClientId ConnectionId SessionId SubscriptionId DestinationName DestinationQueue
    DestinationTopic DestinationTemporary Selector Active Network PendingQueueSize
    DispatchedQueueSize MessageCountAwaitingAcknowledge DispatchedCounter EnqueueCounter
    DequeueCounter ConsumedCount PrefetchSize MaximumPendingMessageLimit Retroactive Exclusive
    Durable NoLocal DispatchAsync Priority SlowConsumer SubscriptionName UserName Connection
"""
OWN = ("Credit", "SettleMode")
"""What ActiveMQ does not have."""
T = Topic("news")
DURABLE = {"client_id": "me", "subscription_name": "s"}


def consumers(service: BrokerService) -> list[View[Any]]:
    return service.management.find("org.apache.activemq:endpoint=Consumer,*")


@pytest.mark.parametrize(
    ("destination", "fields", "more"),
    [
        (Queue("q"), {}, []),
        (T, {}, ["DiscardedCount", "MaximumPendingQueueSize"]),
        (T, DURABLE, ["CursorFull", "CursorMemoryUsage", "CursorPercentUsage", "FirstMessageAge"]),
    ],
    ids=["queue", "topic", "durable"],
)
async def test_consumers_have_the_attributes_of_activemq(
    destination: Destination,
    fields: dict[str, object],
    more: list[str],
    service: BrokerService,
    connect: Connect,
) -> None:
    client = await connect()
    consumer = await client.consumer(destination, selector="a = 1", **fields)
    (view,) = consumers(service)
    values = view.get_all()
    assert sorted(values) == sorted([*ATTRIBUTES.split(), *OWN, *more])
    assert values["ConnectionId"] == client.name
    assert (values["SessionId"], values["SubscriptionId"]) == (1, consumer.value)
    assert (values["DestinationTopic"], values["Durable"]) == (
        destination.is_topic,
        bool(fields),
    )
    assert (values["Selector"], values["UserName"]) == ("a = 1", "joe")
    name = destination.physical_name
    assert await view.invoke("isMatchingTopic", name) is destination.is_topic
    assert await view.invoke("isMatchingQueue", name) is not destination.is_topic


async def test_counters_of_a_consumer_follow_its_window(
    service: BrokerService, connect: Connect
) -> None:
    client = await connect()
    await client.consumer(T, prefetch_size=1)
    await client.send(T, "one", "two")
    await client.message()
    (view,) = consumers(service)
    counted = ("DispatchedQueueSize", "PendingQueueSize", "EnqueueCounter", "DequeueCounter")
    assert [view.get(name) for name in counted] == [1, 1, 2, 0]
    await view.invoke("resetStatistics")
    assert [view.get(name) for name in counted] == [1, 1, 0, 0]


async def test_a_durable_subscription_keeps_its_name_while_inactive(
    service: BrokerService, connect: Connect
) -> None:
    client = await connect()
    consumer = await client.consumer(T, **DURABLE)
    (view,) = consumers(service)
    assert view.name.keys["consumerId"] == "Durable(me_s)"
    assert view.get("Active") is True
    with pytest.raises(IllegalStateException, match="in use"):
        await view.invoke("destroy")
    await client.remove(consumer)
    await client.send(T, "missed")
    (inactive,) = consumers(service)
    assert inactive.name == view.name
    assert inactive.get("Active") is False
    assert await inactive.invoke("cursorSize") == 1
    (broker,) = service.management.find("*:type=Broker,brokerName=*")
    assert broker.get("InactiveDurableTopicSubscribers") == [str(view.name)]
    assert broker.get("DurableTopicSubscribers") == []
    await inactive.invoke("destroy")
    assert consumers(service) == []


async def texts(view: View[Any]) -> list[str]:
    items = await view.invoke("browse")
    assert isinstance(items, list)
    return [item["Text"] for item in items]


@pytest.mark.parametrize("page_size", [200, 2], ids=["in-memory", "paged-out"])
async def test_messages_of_a_durable_subscription_are_browsed_and_removed(
    tmp_path: Path, page_size: int
) -> None:
    def service() -> BrokerService:
        policy = PolicyEntry(destination=T, max_page_size=page_size, use_cache=page_size > 2)
        return BrokerService(
            "durable",
            data_directory=tmp_path,
            persistence=SMALL_SEGMENTS,
            policies=PolicyMap([policy]),
        )

    async with service() as broker:
        client = RawClient(create_transport(f"{broker.vm_uri}?create=false"))
        await client.open()
        consumer = await client.consumer(T, prefetch_size=1, **DURABLE)
        await client.send(T, "a", "b", "c", "d", "e")
        await client.message()
        (view,) = consumers(broker)
        assert await texts(view) == ["a", "b", "c", "d", "e"]
        items: Any = await view.invoke("browseAsTable")
        with pytest.raises(InvalidDestinationException, match="no waiting message"):
            await view.invoke("removeMessage", items[0]["JMSMessageID"])
        await client.remove(consumer)
        (view,) = consumers(broker)
        for index in (0, 4):
            await view.invoke("removeMessage", items[index]["JMSMessageID"])
        assert await texts(view) == ["b", "c", "d"]
        assert (await view.invoke("cursorSize"), view.get("PendingQueueSize")) == (3, 3)
        assert await view.invoke("doesCursorHaveMessagesBuffered") is True
        await client.close()
    async with service() as broker:
        (view,) = consumers(broker)
        assert await texts(view) == ["b", "c", "d"]


@pytest.mark.fact("activemq-edges JX11")
@pytest.mark.parametrize("answers", [True, False], ids=["obedient", "deaf"])
async def test_one_consumer_is_closed_and_its_messages_go_to_another(
    service: BrokerService, connect: Connect, answers: bool
) -> None:
    client = await connect()
    first = await client.consumer(Queue("q"))
    await client.send(Queue("q"), "one")
    assert (await client.dispatched()).consumer_id == first
    (view,) = consumers(service)
    await view.invoke("close")
    control = await client.heard(ConsumerControl)
    assert isinstance(control, ConsumerControl)
    assert (control.close, control.consumer_id) == (True, first)
    second = await client.consumer(Queue("q"))
    if answers:
        await client.remove(first)
    assert (await client.dispatched()).consumer_id == second


@pytest.mark.fact("activemq-edges JX11")
async def test_an_inactive_subscription_has_no_consumer_to_close(
    service: BrokerService, connect: Connect
) -> None:
    client = await connect()
    await client.remove(await client.consumer(T, **DURABLE))
    (view,) = consumers(service)
    with pytest.raises(IllegalStateException, match="no client that could close it"):
        await view.invoke("close")
