"""Messages return to the broker they came from when their consumers have left. (activemq-edges NW6)"""

from __future__ import annotations

from typing import Any

import pytest

from pyjms.errors import JMSException
from pyjms.jms.destination import Queue
from pyjms.testing.clock import VirtualClock
from pyjms.wire.openwire.commands import AckType, BrokerId
from pyjms_broker.policy.entry import PolicyEntry, PolicyMap
from pyjms_broker.policy.network_bridges import ConditionalNetworkBridgeFilterFactory
from pyjms_broker.service import BrokerService
from tests.kit.brokers.networks import Network, forwarded
from tests.kit.waiting import until

ORDERS = Queue("orders")


def conditions(**attributes: Any) -> PolicyMap:
    factory = ConditionalNetworkBridgeFilterFactory(**attributes)
    return PolicyMap([PolicyEntry(network_bridge_filter_factory=factory)])


async def pair(network: Network, **attributes: Any) -> tuple[BrokerService, BrokerService]:
    """Return two brokers that forward to each other, started."""
    policies = conditions(**attributes) if attributes else None
    first, second = [network.broker(each, policies=policies) for each in "ab"]
    await network.start(second, first)
    for source, target in ((first, second), (second, first)):
        connector = network.link(source, target)
        connector.start()
        await until(lambda: connector.bridges)  # noqa: B023 - waited for at once
    return first, second


def count(service: BrokerService) -> int:
    queue = service.region_broker.destinations().get(ORDERS)
    return 0 if queue is None else queue.statistics.messages


async def stuck(network: Network, first: BrokerService, second: BrokerService, **ends: Any) -> None:
    """Forward a message to the second broker, whose consumer leaves; one at the first comes."""
    there = await network.client(second)
    consumer = await there.consumer(ORDERS)
    await until(lambda: forwarded(first))
    here = await network.client(first)
    await here.send(ORDERS, "x")
    await there.dispatched()
    await there.remove(consumer)
    await until(lambda: count(second) == 1)
    await until(lambda: not forwarded(first))
    if ends.get("other_selector"):
        await there.consumer(ORDERS, selector="n = 1")
    await here.consumer(ORDERS)
    await until(lambda: [f for f in forwarded(second) if f.destination == ORDERS])


@pytest.mark.fact("activemq-edges NW6", "activemq-broker 2.1/networkBridgeFilterFactory")
@pytest.mark.parametrize("replays", [None, True, False])
async def test_replay_when_no_consumers(network: Network, replays: bool | None) -> None:
    attributes = {} if replays is None else {"replay_when_no_consumers": replays}
    first, second = await pair(network, **attributes)
    await stuck(network, first, second)
    if replays:
        await until(lambda: count(first) == 1)
        await until(lambda: count(second) == 0)
    else:
        await (await network.client(second)).nothing_dispatched()
        assert (count(first), count(second)) == (0, 1)


@pytest.mark.fact("activemq-edges NW6")
@pytest.mark.parametrize("selector_aware", [True, False])
async def test_selector_aware(network: Network, selector_aware: bool) -> None:
    first, second = await pair(
        network, replay_when_no_consumers=True, selector_aware=selector_aware
    )
    await stuck(network, first, second, other_selector=True)
    if selector_aware:
        await until(lambda: count(first) == 1)
    else:
        await (await network.client(second)).nothing_dispatched()
        assert (count(first), count(second)) == (0, 1)


@pytest.mark.fact("activemq-edges NW6")
async def test_replay_delay(network: Network) -> None:
    async with VirtualClock() as clock:
        first, second = await pair(network, replay_when_no_consumers=True, replay_delay=5.0)
        await stuck(network, first, second)
        await clock.advance(4.5)
        assert (count(first), count(second)) == (0, 1)
        await clock.advance(1)
        await until(lambda: count(first) == 1)
        for service in (first, second):
            await service.stop()


@pytest.mark.fact("activemq-edges NW6")
async def test_rate_limit(network: Network) -> None:
    async with VirtualClock() as clock:
        first, second = await pair(network, rate_limit=2, rate_duration=10.0)
        here, there = await network.client(first), await network.client(second)
        await there.consumer(ORDERS)
        await until(lambda: forwarded(first))
        await here.send(ORDERS, *"abcde")
        await until(lambda: count(second) == 2)
        await clock.advance(9)
        assert (count(first), count(second)) == (3, 2)
        await clock.advance(1.5)
        await until(lambda: count(second) == 4)
        await clock.advance(10)
        await until(lambda: count(second) == 5)
        for service in (first, second):
            await service.stop()


@pytest.mark.fact("activemq-edges NW6")
@pytest.mark.parametrize("enable_audit", [True, False])
async def test_what_comes_back_too_early_is_refused(network: Network, enable_audit: bool) -> None:
    """Before the bridge's acknowledgement is here: dropped as a duplicate, it would be lost."""
    policies = PolicyMap([PolicyEntry(enable_audit=enable_audit)])
    service = network.broker("a", policies=policies)
    await network.start(service)
    bridge, other = await network.client(service), await network.client(service)
    forwarding = await bridge.consumer(ORDERS, network_subscription=True)
    producer = await other.producer()
    await other.request(other.text(producer, ORDERS, "x"))
    dispatch = await bridge.dispatched()
    assert dispatch.message is not None
    message_id = dispatch.message.message_id

    async def come_back() -> None:
        message = other.text(producer, ORDERS, "x")
        message.message_id = message_id
        message.broker_path = [service.broker_id, BrokerId("ID:other")]
        await other.request(message)

    with pytest.raises(JMSException, match="comes back while"):
        await come_back()
    assert count(service) == 1
    await bridge.ack(dispatch, AckType.INDIVIDUAL)
    await bridge.remove(forwarding)
    await come_back()
    await come_back()  # the other broker's bridge was lost before it knew
    assert count(service) == 1
    await other.consumer(ORDERS)
    await other.ack(await other.dispatched())
    await other.nothing_dispatched()


@pytest.mark.fact("activemq-edges NW6")
async def test_an_unwanted_message_is_not_lost_between_brokers(
    network: Network,
) -> None:
    async with VirtualClock() as clock:
        first, second = await pair(network, replay_when_no_consumers=True, selector_aware=True)
        here, there = await network.client(first), await network.client(second)
        for client in (here, there):
            await client.consumer(ORDERS, selector="n = 1")
        await until(lambda: forwarded(first) and forwarded(second))
        await here.send(ORDERS, "x")
        for _ in range(8):
            await clock.advance(0.6)
            await until(lambda: count(first) + count(second) == 1)
        for service in (first, second):
            await service.stop()
