"""sync_durable_subs and use_virtual_dest_subs: subscribers that a bridge knows besides consumers."""

from __future__ import annotations

import pytest

from pyjms.jms.destination import Queue, Topic
from pyjms.wire.openwire.commands import RemoveSubscriptionInfo
from pyjms_broker.network import NetworkConnectorAttributes
from pyjms_broker.service import BrokerService
from tests.kit.brokers.networks import Network, forwarded
from tests.kit.waiting import until

NEWS = Topic("news")
PRICES = Topic("VirtualTopic.prices")
QUEUE = Queue("Consumer.eu.VirtualTopic.prices")


def topics(service: BrokerService) -> list[Topic]:
    return [each.destination for each in forwarded(service) if isinstance(each.destination, Topic)]


@pytest.mark.parametrize("duplex", [False, True])
@pytest.mark.parametrize("synchronized", [True, False])
async def test_sync_durable_subs(network: Network, duplex: bool, synchronized: bool) -> None:
    """A subscription without a consumer is known, and one that was deleted meanwhile is not."""
    source, target = network.broker("a"), network.broker("b")
    other = source if duplex else target  # where the subscriber is; it forwards the other way
    forwarding = target if duplex else source
    door = target.add_connector("tcp://127.0.0.1:0")
    await network.start(target)
    attributes = NetworkConnectorAttributes(duplex=duplex, sync_durable_subs=synchronized)
    connector = source.add_network_connector(f"static:({door.connect_uri})", attributes)
    await source.start()
    await connector.stop()
    client = await network.client(other, "subscriber")
    consumer = await client.consumer(NEWS, subscription_name="d")
    await client.remove(consumer)
    connector.start()
    await until(lambda: forwarding.networks.bridges)
    if not synchronized:
        assert topics(forwarding) == []
    else:
        await until(lambda: topics(forwarding) == [NEWS])
        producer = await network.client(forwarding)
        await producer.send(NEWS, "for the subscriber")
        consumer = await client.consumer(NEWS, subscription_name="d")
        await client.message()
        await connector.stop()
        await until(lambda: not forwarding.networks.bridges)
        await client.remove(consumer)
        await client.request(RemoveSubscriptionInfo(client.connection_id, "d", "subscriber"))
        assert topics(forwarding) == [NEWS]  # it was kept for the next bridge
        connector.start()
        await until(lambda: forwarding.networks.bridges)
        await until(lambda: topics(forwarding) == [])
    await source.stop()


async def test_a_bridge_is_told_of_as_many_subscriptions_as_one_command_may_have(
    network: Network, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("pyjms_broker.network.demand.MAXIMUM_SENT_DURABLES", 3)
    source, target = network.broker("a"), network.broker("b")
    await network.start(target)
    client = await network.client(target, "subscriber")
    subscribed = [Topic(f"news.{number}") for number in range(5)]
    for topic in subscribed:
        await client.remove(await client.consumer(topic, subscription_name=topic.physical_name))
    network.link(source, target, sync_durable_subs=True)
    await network.start(source)
    await until(lambda: len(topics(source)) == 3)
    assert set(topics(source)) < set(subscribed)
    assert f"the first 3 durable subscriptions of broker {target.broker_name} only" in caplog.text


@pytest.mark.parametrize("wanted", [True, False])
async def test_use_virtual_dest_subs(network: Network, wanted: bool) -> None:
    """A consumer of a queue that a virtual topic feeds there is one of the topic here."""
    source, target = network.broker("a"), network.broker("b", use_virtual_dest_subs=True)
    network.link(
        source, target, use_virtual_dest_subs=wanted, dynamically_included_destinations=(PRICES,)
    )
    await network.start(target, source)
    here, there = await network.client(source), await network.client(target)
    consumer = await there.consumer(QUEUE)
    mark = await there.consumer(PRICES)
    await until(lambda: topics(source) == [PRICES])
    await there.remove(mark)
    if not wanted:
        await until(lambda: topics(source) == [])
        return
    await here.send(PRICES, "once")
    dispatch = await there.dispatched()
    assert dispatch.destination == QUEUE
    await there.ack(dispatch)
    await there.nothing_dispatched()
    assert topics(source) == [PRICES]
    await there.remove(consumer)
    await until(lambda: topics(source) == [])
