"""The messages that a bridge forwards, also when either broker stops."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from pyjms.errors import ConfigurationException, ConnectionFailedException
from pyjms.jms.destination import Queue, TemporaryQueue, Topic
from pyjms.testing.clock import VirtualClock
from pyjms.transport.registry import create_transport
from pyjms.wire.openwire.commands import AckType, BrokerInfo, ConnectionInfo, RemoveSubscriptionInfo
from pyjms_broker.api.broker import BrokerFilter
from pyjms_broker.api.context import ConnectionContext
from pyjms_broker.network import NetworkConnectorAttributes
from pyjms_broker.service import BrokerService
from tests.kit.brokers.networks import Network, forwarded
from tests.kit.clients.raw import RawClient
from tests.kit.waiting import until

ORDERS = Queue("orders")
NEWS = Topic("news")


def size(service: BrokerService, queue: Queue) -> int:
    found = service.region_broker.destinations().get(queue)
    return 0 if found is None else found.statistics.messages


async def pair(network: Network, **attributes: Any) -> tuple[BrokerService, BrokerService]:
    """Two brokers, the first of which forwards to the second."""
    source, target = network.broker("a"), network.broker("b")
    network.link(source, target, **attributes)
    await network.start(target, source)
    return source, target


@pytest.mark.fact("activemq-edges NW1", "activemq-edges NW4")
async def test_a_message_goes_where_its_consumer_is(
    network: Network, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, logger="pyjms_broker.network")
    source, target = network.broker("a"), network.broker("b")
    door = target.add_connector("tcp://127.0.0.1:0")
    await network.start(target)
    source.add_network_connector(f"static:({door.connect_uri})")
    await network.start(source)
    assert (
        f"Network connector NC: bridge to {target.broker_name} at {door.connect_uri} established"
        in caplog.text
    )
    sender, receiver = await network.client(source), await network.client(target)
    await sender.send(ORDERS, "before the consumer")
    await receiver.consumer(ORDERS)
    await sender.send(ORDERS, "after it")
    for text in ("before the consumer", "after it"):
        dispatch = await receiver.dispatched()
        message = dispatch.message
        assert message is not None
        assert text.encode() in (message.content or b"")
        assert message.broker_path == [source.broker_id]
        assert message.message_id is not None
        assert message.message_id.producer_id is not None
        assert message.message_id.producer_id.connection_id == sender.name
        await receiver.ack(dispatch)
    await until(lambda: size(source, ORDERS) == 0)
    assert size(target, ORDERS) == 0
    (bridge,) = source.networks.connectors[0].bridges
    assert (bridge.enqueue_count, bridge.dequeue_count) == (2, 2)


@pytest.mark.fact("activemq-edges NW3")
async def test_a_topics_messages_come_once_to_each_remote_consumer(network: Network) -> None:
    source, target = await pair(network)
    sender, receiver, other = [await network.client(each) for each in (source, target, target)]
    await receiver.consumer(NEWS)
    await other.consumer(NEWS)
    await until(lambda: forwarded(source))
    await sender.send(NEWS, "extra")
    for each in (receiver, other):
        assert b"extra" in ((await each.message()).content or b"")
        await each.nothing_dispatched()
    assert [info.destination for info in forwarded(source)] == [NEWS]


@pytest.mark.fact("activemq-edges NW2")
async def test_without_a_consumer_messages_stay(network: Network) -> None:
    source, target = await pair(network)
    sender, receiver = await network.client(source), await network.client(target)
    consumer = await receiver.consumer(ORDERS)
    await until(lambda: forwarded(source))
    (info,) = forwarded(source)
    assert info.broker_path == [target.broker_id]
    await receiver.remove(consumer)
    await until(lambda: not forwarded(source))
    await sender.send(ORDERS, "left")
    assert size(source, ORDERS) == 1
    await receiver.consumer(ORDERS, browser=True)
    await receiver.consumer(NEWS)
    await until(lambda: forwarded(source))
    assert [info.destination for info in forwarded(source)] == [NEWS]


async def test_two_brokers_that_forward_to_each_other(network: Network) -> None:
    one, two = network.broker("a"), network.broker("b")
    network.link(one, two)
    network.link(two, one)
    for service in (one, two):
        await service.start()
    await network.start(one, two)
    left, right = await network.client(one), await network.client(two)
    await right.consumer(ORDERS)
    await until(lambda: forwarded(one))
    await left.send(ORDERS, "x")
    dispatch = await right.dispatched()
    assert forwarded(two) == []
    await right.ack(dispatch)
    await left.nothing_dispatched()


async def test_a_connector_to_the_broker_itself_gives_up(
    network: Network, caplog: pytest.LogCaptureFixture
) -> None:
    alone = network.broker("alone")
    connector = network.link(alone, alone)
    await alone.start()
    await until(lambda: not connector.started)
    await alone.stop()
    assert "leads to this broker itself" in caplog.text


async def test_a_bridge_comes_back_with_its_remote_broker(network: Network) -> None:
    async with VirtualClock() as clock:
        source, target = await pair(network)
        sender, receiver = await network.client(source), await network.client(target)
        consumer = await receiver.consumer(ORDERS)
        await until(lambda: forwarded(source))
        await receiver.remove(consumer)
        await receiver.close()
        await target.stop()
        await until(lambda: not source.networks.connectors[0].bridges)
        await sender.send(ORDERS, "kept")
        assert size(source, ORDERS) == 1
        await target.start()
        await clock.advance(31)
        await until(lambda: source.networks.connectors[0].bridges)
        again = await network.client(target)
        await again.consumer(ORDERS)
        dispatch = await again.dispatched()
        assert b"kept" in ((dispatch.message and dispatch.message.content) or b"")
        await again.ack(dispatch)
        await until(lambda: size(source, ORDERS) == 0)


@pytest.mark.fact("activemq-edges NW9")
async def test_replies_find_their_way_back(network: Network) -> None:
    source, target = await pair(network)
    requester, replier = await network.client(target), await network.client(source)
    replies = TemporaryQueue(f"{requester.name}:1")
    await requester.destination(replies)
    await requester.consumer(replies)
    await until(lambda: forwarded(source))
    await replier.send(replies, "the reply")
    dispatch = await requester.dispatched()
    assert b"the reply" in ((dispatch.message and dispatch.message.content) or b"")
    await requester.ack(dispatch)
    await requester.close()
    await until(lambda: replies not in source.region_broker.destinations())


@pytest.mark.fact("activemq-edges NW8")
async def test_a_durable_subscription_outlives_its_consumer_and_the_bridge(
    network: Network,
) -> None:
    source, target = await pair(network, name="N")
    sender, subscriber = await network.client(source), await network.client(target, "client")
    consumer = await subscriber.consumer(NEWS, subscription_name="all")
    await until(lambda: forwarded(source))
    await subscriber.remove(consumer)
    await sender.send(NEWS, "while it is away")
    (connector,) = source.networks.connectors
    await connector.stop()
    await sender.send(NEWS, "while there is no bridge")
    (kept,) = forwarded(source)
    assert kept.subscription_name == f"NC-DS_{source.broker_name}_news"
    connector.start()
    await subscriber.consumer(NEWS, subscription_name="all")
    for text in (b"while it is away", b"while there is no bridge"):
        dispatch = await subscriber.dispatched()
        assert text in ((dispatch.message and dispatch.message.content) or b"")
        await subscriber.ack(dispatch, AckType.INDIVIDUAL)
    consumers = [each.consumer_id for each in target.region_broker.subscriptions.all()]
    await subscriber.close()
    again = await network.client(target, "client")
    await again.request(RemoveSubscriptionInfo(again.connection_id, "all", "client"))
    await until(lambda: not forwarded(source))
    assert consumers


async def test_the_bridge_of_another_broker_is_known_as_such(network: Network) -> None:
    contexts: list[ConnectionContext] = []

    class Recorder(BrokerFilter):
        """Keeps the contexts of connections."""

        def add_connection(self, context: ConnectionContext, info: ConnectionInfo) -> None:
            super().add_connection(context, info)
            contexts.append(context)

    source, target = network.broker("a"), network.broker("b", plugins=(Recorder,))
    network.link(source, target)
    await network.start(target, source)
    assert [each.network_connection for each in contexts] == [True]
    client = await network.client(target)
    assert [each.network_connection for each in contexts] == [True, False]
    client.send_command(BrokerInfo(broker_name="other", network_connection=True))
    await client.producer()
    assert [each.network_connection for each in contexts] == [True, True]


@pytest.mark.fact("activemq-edges NW5")
async def test_a_remote_broker_without_room_holds_the_message_back(network: Network) -> None:
    source, target = network.broker("a"), network.broker("b", memory_limit=1000)
    network.link(source, target)
    await network.start(target, source)
    sender, receiver = await network.client(source), await network.client(target)
    consumer = await receiver.consumer(ORDERS)
    await until(lambda: forwarded(source))
    await sender.send(ORDERS, "x" * 5000, "y" * 5000)
    await receiver.dispatched()
    (connector,) = source.networks.connectors
    (bridge,) = connector.bridges
    await until(lambda: bridge.enqueue_count == 2)
    assert (bridge.dequeue_count, size(source, ORDERS)) == (1, 1)
    await connector.stop()
    assert size(source, ORDERS) == 1
    assert consumer


async def test_consumers_of_a_virtual_topics_queue(network: Network) -> None:
    source, target = await pair(network)
    sender, receiver = await network.client(source), await network.client(target)
    queue = Queue("Consumer.eu.VirtualTopic.prices")
    await receiver.consumer(queue)
    await until(lambda: forwarded(source))
    await sender.send(Topic("VirtualTopic.prices"), "once")
    dispatch = await receiver.dispatched()
    assert dispatch.destination == queue
    await receiver.ack(dispatch)
    await until(lambda: size(source, queue) == 0)
    await receiver.nothing_dispatched()


async def test_a_broker_that_a_client_makes_may_forward(network: Network) -> None:
    target = network.broker("b")
    await network.start(target)
    connector = f"network:static:({target.vm_uri}?create=false)"
    client = RawClient(create_transport(f"vm:(broker:({connector})/made?persistent=false)"))
    await client.open()
    receiver = await network.client(target)
    await receiver.consumer(ORDERS)
    await client.send(ORDERS, "x")
    await receiver.dispatched()
    await client.close()
    with pytest.raises(ConnectionFailedException, match="does not exist"):
        await RawClient(create_transport("vm://made?create=false")).open()


async def test_names_are_unique(network: Network) -> None:
    service = network.broker("a")
    service.add_network_connector("static:(tcp://h:1)", NetworkConnectorAttributes(name="X"))
    with pytest.raises(ConfigurationException, match="two network connectors named 'X'"):
        service.add_network_connector("static:(tcp://g:1)", NetworkConnectorAttributes(name="X"))
