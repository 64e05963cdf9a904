"""Each option of a network connector has its effect."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pyjms.errors import ConfigurationException, JMSException
from pyjms.jms.destination import Queue, TemporaryQueue, Topic
from pyjms.testing.clock import VirtualClock
from pyjms_broker.network import NetworkConnectorAttributes, Remote, read_remotes
from pyjms_broker.service import BrokerService
from pyjms_broker.settings import load_broker_settings
from tests.kit.brokers.networks import Network, forwarded
from tests.kit.brokers.security import simple, user
from tests.kit.waiting import until

ORDERS = Queue("orders")
NEWS = Topic("news")
FAR = Queue("far")


def names(service: BrokerService) -> list[str]:
    return sorted(str(info.destination) for info in forwarded(service))


async def pair(network: Network, **attributes: Any) -> tuple[BrokerService, BrokerService]:
    source, target = network.broker("a"), network.broker("b")
    network.link(source, target, **attributes)
    await network.start(target, source)
    return source, target


async def settled(network: Network, source: BrokerService, target: BrokerService) -> None:
    """Wait until the source knows everything that has happened at the target so far."""
    mark = Topic(f"mark-of-{target.broker_name}")
    client = await network.client(target)
    consumer = await client.consumer(mark)
    await until(lambda: mark in [info.destination for info in forwarded(source)])
    await client.remove(consumer)
    await until(lambda: mark not in [info.destination for info in forwarded(source)])


async def test_names_are_in_client_ids_and_reports(network: Network) -> None:
    source, target = await pair(network, name="name-of-it")
    assert source.networks.connectors[0].name == "name-of-it"
    client = await network.client(target)
    await client.consumer(NEWS, subscription_name="d")
    await until(lambda: forwarded(source))
    (subscription,) = [
        each for each in source.region_broker.subscriptions.all() if each.info.network_subscription
    ]
    expected = f"name-of-it_{target.broker_name}_inbound_{source.broker_name}"
    assert subscription.context.client_id == expected


@pytest.mark.parametrize("remote", [None, "other"])
async def test_a_bridge_logs_in(network: Network, remote: str | None) -> None:
    """user_name, password, remote_user_name, remote_password."""
    users = [user("joe", password="x"), user("bridge")]
    there = users if remote is None else [users[0], user("other", password="different")]
    source = network.broker("a", plugins=[simple(*users)])
    target = network.broker("b", plugins=[simple(*there)])
    network.link(
        source,
        target,
        user_name="bridge",
        password="secret",
        remote_user_name=remote,
        remote_password=None if remote is None else "different",
    )
    await network.start(target, source)
    await settled(network, source, target)


async def test_without_a_user_there_is_no_bridge(
    network: Network, caplog: pytest.LogCaptureFixture
) -> None:
    source = network.broker("a")
    users = [user("joe", password="x")]
    target = network.broker("b", plugins=[simple(*users)])
    connector = network.link(source, target, user_name="stranger", password="secret")
    await network.start(target)
    await source.start()
    await until(lambda: "no bridge to" in caplog.text)
    assert connector.bridges == []
    assert "secret" not in caplog.text
    await source.stop()


@pytest.mark.parametrize("conduit_subscriptions", [True, False])
async def test_conduit_subscriptions(network: Network, conduit_subscriptions: bool) -> None:
    source, target = await pair(network, conduit_subscriptions=conduit_subscriptions)
    client = await network.client(target)
    for number in (1, 2):
        await client.consumer(ORDERS, selector=f"n = {number}")
        await client.consumer(NEWS, selector=f"n = {number}")
    await settled(network, source, target)
    selectors = sorted(info.selector or "" for info in forwarded(source))
    assert selectors == (["", ""] if conduit_subscriptions else ["", "n = 1", "n = 2"])


@pytest.mark.parametrize("conduit_network_queue_subscriptions", [True, False])
async def test_conduit_network_queue_subscriptions(
    network: Network, conduit_network_queue_subscriptions: bool
) -> None:
    first, second, third = [network.broker(each) for each in "abc"]
    network.link(second, third)
    network.link(
        first,
        second,
        network_ttl=2,
        conduit_network_queue_subscriptions=conduit_network_queue_subscriptions,
    )
    await network.start(third, second, first)
    near, far = await network.client(second), await network.client(third)
    await near.consumer(ORDERS)
    await far.consumer(ORDERS)
    await settled(network, second, third)
    await settled(network, first, second)
    assert len(forwarded(first)) == (1 if conduit_network_queue_subscriptions else 2)


@pytest.mark.fact("activemq-edges NW7")
@pytest.mark.parametrize(
    ("attributes", "priorities"),
    [
        ({}, [0, 0]),
        ({"decrease_network_consumer_priority": True}, [-8, -5]),
        (
            {"decrease_network_consumer_priority": True, "consumer_priority_base": -20},
            [-23, -20],
        ),
    ],
)
async def test_priorities_of_remote_consumers(
    network: Network, attributes: dict[str, Any], priorities: list[int]
) -> None:
    first, second, third = [network.broker(each) for each in "abc"]
    network.link(second, third)
    network.link(first, second, network_ttl=2, **attributes)
    await network.start(third, second, first)
    near, far = await network.client(second), await network.client(third)
    await near.consumer(ORDERS)
    await far.consumer(FAR)
    await settled(network, second, third)
    await settled(network, first, second)
    assert sorted(info.priority for info in forwarded(first)) == priorities


@pytest.mark.parametrize(
    ("attributes", "known", "comes"),
    [
        ({"network_ttl": 1}, False, False),
        ({"network_ttl": 2}, True, True),
        ({"network_ttl": -1}, True, True),
        ({"network_ttl": 1, "consumer_ttl": 2, "message_ttl": 2}, True, True),
        ({"network_ttl": 2, "message_ttl": 1}, True, False),
        ({"network_ttl": 2, "consumer_ttl": 1}, False, False),
    ],
)
async def test_times_to_live(
    network: Network, attributes: dict[str, int], known: bool, comes: bool
) -> None:
    first, second, third = [network.broker(each) for each in "abc"]
    for source, target in ((second, third), (first, second)):
        network.link(source, target, **attributes)
    await network.start(third, second, first)
    sender, receiver = await network.client(first), await network.client(third)
    await receiver.consumer(ORDERS)
    await settled(network, second, third)
    await settled(network, first, second)
    assert (ORDERS in [info.destination for info in forwarded(first)]) is known
    await sender.send(ORDERS, "x")
    if comes:
        message = await receiver.message()
        assert message.broker_path == [first.broker_id, second.broker_id]
    elif known:
        queues = second.region_broker.destinations
        await until(lambda: queues()[ORDERS].statistics.messages == 1)
        await receiver.nothing_dispatched()


@pytest.mark.parametrize("suppresses", [True, False])
@pytest.mark.parametrize("is_topic", [True, False])
async def test_two_ways_to_a_consumer(network: Network, is_topic: bool, suppresses: bool) -> None:
    """suppress_duplicate_queue_subscriptions, suppress_duplicate_topic_subscriptions."""
    first, left, right, last = [network.broker(each) for each in "abcd"]
    for middle in (left, right):
        network.link(middle, last)
        network.link(
            first,
            middle,
            network_ttl=2,
            suppress_duplicate_queue_subscriptions=suppresses and not is_topic,
            suppress_duplicate_topic_subscriptions=suppresses and is_topic,
        )
    await network.start(last, left, right, first)
    destination = NEWS if is_topic else ORDERS
    client = await network.client(last)
    consumer = await client.consumer(destination)
    for middle in (left, right):
        await settled(network, middle, last)
        await settled(network, first, middle)
    assert len(forwarded(first)) == (1 if suppresses else 2)
    way, other = first.networks.connectors
    if suppresses:  # the other way serves it when this one is gone
        (info,) = forwarded(first)
        if left.broker_id not in (info.broker_path or ()):
            way, other = other, way
        await way.stop()
        await until(lambda: forwarded(first))
        (after,) = forwarded(first)
        assert after.broker_path != info.broker_path
    await client.remove(consumer)
    await until(lambda: not forwarded(first))


@pytest.mark.parametrize("dynamic_only", [True, False])
async def test_dynamic_only(network: Network, dynamic_only: bool) -> None:
    source, target = await pair(network, dynamic_only=dynamic_only)
    client = await network.client(target, "c")
    consumer = await client.consumer(NEWS, subscription_name="d")
    await until(lambda: forwarded(source))
    await client.remove(consumer)
    await settled(network, source, target)
    (connector,) = source.networks.connectors
    await connector.stop()
    connector.start()
    await until(lambda: connector.bridges)
    await settled(network, source, target)
    active = [
        each
        for each in source.region_broker.subscriptions.all()
        if each.info.network_subscription and each.is_active  # type: ignore[attr-defined]
    ]
    assert len(active) == (0 if dynamic_only else 1)


async def test_static_bridge_and_statically_included_destinations(network: Network) -> None:
    source, target = network.broker("a"), network.broker("b")
    network.link(
        source, target, static_bridge=True, statically_included_destinations=(ORDERS, NEWS)
    )
    await network.start(target, source)
    client = await network.client(target)
    await client.consumer(FAR)
    sender = await network.client(source)
    await sender.send(ORDERS, "x")
    queues = target.region_broker.destinations
    await until(lambda: ORDERS in queues() and queues()[ORDERS].statistics.messages == 1)
    assert names(source) == ["queue://orders", "topic://news"]


async def test_dynamically_included_and_excluded_destinations(network: Network) -> None:
    """dynamically_included_destinations, excluded_destinations."""
    source, target = network.broker("a"), network.broker("b")
    mark = Topic(f"mark-of-{target.broker_name}")
    network.link(
        source,
        target,
        dynamically_included_destinations=(Queue("in.>"), mark),
        excluded_destinations=(Queue("in.secret"),),
    )
    await network.start(target, source)
    client = await network.client(target)
    for name in ("in.a", "in.secret", "out.a", "in.b,in.secret"):
        await client.consumer(Queue(name))
    await client.consumer(Topic("in.a"))
    await settled(network, source, target)
    assert names(source) == ["queue://in.a"]


@pytest.mark.parametrize("destination_filter", [None, "ActiveMQ.Advisory.Consumer.Topic.>"])
async def test_destination_filter(network: Network, destination_filter: str | None) -> None:
    source, target = await pair(network, destination_filter=destination_filter)
    client = await network.client(target)
    await client.consumer(ORDERS)
    await client.consumer(NEWS)
    await settled(network, source, target)
    assert names(source) == (
        ["topic://news"] if destination_filter else ["queue://orders", "topic://news"]
    )


@pytest.mark.parametrize("bridge_temp_destinations", [True, False])
async def test_bridge_temp_destinations(network: Network, bridge_temp_destinations: bool) -> None:
    source, target = await pair(network, bridge_temp_destinations=bridge_temp_destinations)
    client = await network.client(target)
    replies = TemporaryQueue(f"{client.name}:1")
    await client.destination(replies)
    await client.consumer(replies)
    await settled(network, source, target)
    assert (replies in source.region_broker.destinations()) is bridge_temp_destinations
    assert len(forwarded(source)) == int(bridge_temp_destinations)


async def test_prefetch_size(network: Network) -> None:
    source, target = network.broker("a"), network.broker("b", memory_limit=1000)
    network.link(source, target, prefetch_size=3)
    await network.start(target, source)
    sender, receiver = await network.client(source), await network.client(target)
    await receiver.consumer(ORDERS)
    await until(lambda: forwarded(source))
    await sender.send(ORDERS, *["x" * 2000] * 6)
    (bridge,) = source.networks.connectors[0].bridges
    await until(lambda: bridge.dequeue_count == 1 and bridge.enqueue_count == 4)


@pytest.mark.parametrize(
    ("attributes", "window", "after"),
    [
        ({"prefetch_size": 10}, 10, 8),
        ({"advisory_prefetch_size": 4}, 4, 3),
        ({"advisory_prefetch_size": 4, "advisory_ack_percentage": 50}, 4, 2),
    ],
)
async def test_advisories_are_acknowledged(
    network: Network, attributes: dict[str, int], window: int, after: int
) -> None:
    source, target = await pair(network, **attributes)
    (advisories,) = [
        each
        for each in target.region_broker.subscriptions.all()
        if "Advisory.Consumer" in str(each.info.destination)
    ]
    assert advisories.prefetch_size == window
    client = await network.client(target)
    for number in range(after - 1):
        await client.consumer(Queue(f"q{number}"))
    await until(lambda: len(forwarded(source)) == after - 1)
    assert advisories.in_flight == after - 1
    await client.consumer(Queue("last"))
    await until(lambda: advisories.in_flight == 0)


@pytest.mark.parametrize("always_sync_send", [True, False])
async def test_always_sync_send(network: Network, always_sync_send: bool) -> None:
    source, target = network.broker("a"), network.broker("b", memory_limit=1000)
    network.link(source, target, always_sync_send=always_sync_send)
    await network.start(target, source)
    sender, receiver = await network.client(source), await network.client(target)
    await receiver.consumer(ORDERS)
    await until(lambda: forwarded(source))
    producer = await sender.producer()
    for text in ("x" * 2000, "y" * 2000):
        message = sender.text(producer, ORDERS, text)
        message.persistent = False
        await sender.request(message)
    (bridge,) = source.networks.connectors[0].bridges
    await until(lambda: bridge.enqueue_count == 2)
    await receiver.dispatched()
    assert bridge.dequeue_count == (1 if always_sync_send else 2)


async def test_the_uri_says_when_it_is_tried_again(network: Network) -> None:
    async with VirtualClock() as clock:
        source = network.broker("a")
        uri = "static:(vm://nobody?create=false)?initialReconnectDelay=2000&maxReconnectDelay=5000"
        connector = source.add_network_connector(uri)
        await source.start()
        for seconds in (1.9, 0.2, 3.7, 0.4, 4.8, 0.4):
            await clock.advance(seconds)
        target = BrokerService("nobody", persistent=False)
        await target.start()
        await clock.advance(4.0)
        assert connector.bridges == []
        await clock.advance(1.0)
        await until(lambda: connector.bridges)
        await source.stop()
        await target.stop()


async def test_a_connector_may_give_up(network: Network, caplog: pytest.LogCaptureFixture) -> None:
    async with VirtualClock() as clock:
        source = network.broker("a")
        uri = "static:(vm://nobody?create=false)?maxReconnectAttempts=2&useExponentialBackOff=false"
        connector = source.add_network_connector(uri)
        await source.start()
        await clock.advance(1.1)
        await until(lambda: not connector.started)
        assert "does not exist" in caplog.text
        await source.stop()


@pytest.mark.parametrize("scheme", ["masterslave", "failover"])
async def test_one_broker_at_several_addresses(network: Network, scheme: str) -> None:
    source, target = network.broker("a"), network.broker("b")
    await network.start(target)
    addresses = f"{scheme}:(vm://nobody?create=false,{target.vm_uri}?create=false)"
    uri = addresses if scheme == "masterslave" else f"static:({addresses}?randomize=false)"
    connector = source.add_network_connector(uri)
    await network.start(source)
    assert [each.remote_name for each in connector.bridges] == [target.broker_name]


def named(uri: str) -> tuple[Remote, ...]:
    remotes = read_remotes(uri)
    assert isinstance(remotes, tuple)
    return remotes


def test_what_a_uri_names() -> None:
    (one,) = named("tcp://a:1")
    assert str(one) == "tcp://a:1"
    two = named("static:(tcp://a:1,ssl://b:2)?minConnectTime=1000&backOffMultiplier=3")
    assert [str(each) for each in two] == ["tcp://a:1", "ssl://b:2"]
    waits = two[0].reconnection.back_off().start()
    assert [waits.next_back_off() for _ in range(4)] == [1, 3, 9, 27]
    (pair,) = named("masterslave:(tcp://a:1,tcp://b:2)")
    assert (str(pair), pair.randomize) == ("tcp://a:1,tcp://b:2", False)
    (shuffled,) = named("static:(failover:(tcp://a:1,tcp://b:2)?maxReconnectAttempts=0)")
    assert shuffled.randomize
    assert sorted(map(str, shuffled.in_order())) == ["tcp://a:1", "tcp://b:2"]


@pytest.mark.parametrize(
    ("uri", "why"),
    [
        ("zeroconf:x", "cannot find brokers by zeroconf"),
        ("discovery:(multicast://10.0.0.1)", "not a multicast address"),
        ("multicast://default?maxReconnectDelay=soon", "Invalid value 'soon'"),
        ("static:()", "names no broker"),
        ("static:(tcp://a:1)?initialDelay=1", "initialDelay"),
        ("static:(tcp://a:1)?minConnectTime=soon", "Invalid value 'soon'"),
        ("static:(failover:(tcp://a:1)?maxReconnectAttempts=3)", "maxReconnectAttempts"),
        ("static:(failover:(tcp://a:1)?backup=true)", "backup"),
        ("static:(udp://a:1)", "udp"),
        ("gopher://a:1", "gopher"),
    ],
)
def test_uris_that_are_refused(uri: str, why: str) -> None:
    with pytest.raises(JMSException, match=why):
        read_remotes(uri)


async def test_the_file_says_all_of_it(tmp_path: Path) -> None:
    path = tmp_path / "broker.yaml"
    path.write_text(
        "network_connectors:\n"
        "  - uri: static:(tcp://h:1)\n"
        "    name: west\n"
        "    network_ttl: 3\n"
        "    excluded_destinations: ['topic://local.>']\n",
        encoding="utf-8",
    )
    service = BrokerService.from_settings(load_broker_settings(path, environ={}))
    (connector,) = service.networks.connectors
    assert connector.attributes == NetworkConnectorAttributes(
        name="west", network_ttl=3, excluded_destinations=(Topic("local.>"),)
    )
    path.write_text("network_connectors:\n  - uri: multicast://nowhere\n", encoding="utf-8")
    with pytest.raises(ConfigurationException, match=r"broker\.yaml:2.*not a multicast address"):
        load_broker_settings(path, environ={})


@pytest.mark.fact("activemq-broker B17")
@pytest.mark.parametrize("monitored", [True, False])
async def test_a_consumer_that_moves_here_ends_its_subscription(
    network: Network, *, monitored: bool
) -> None:
    """monitor_connection_splits: the client has its consumer's id at both brokers."""
    source = network.broker("a", monitor_connection_splits=monitored)
    target = network.broker("b")
    network.link(source, target)
    await network.start(target, source)
    there, here = await network.client(target), await network.client(source)
    consumer = await there.consumer(ORDERS)
    await until(lambda: names(source) == [str(ORDERS)])
    here.take_name(there.name)
    await here.log_in("moved")
    assert await here.consumer(ORDERS, consumer_id=consumer) is not None
    assert names(source) == ([] if monitored else [str(ORDERS)])
