"""Bridges in both directions over one connection, and what their properties say."""

from __future__ import annotations

import pytest

from pyjms.errors import JMSException, JMSSecurityException
from pyjms.jms.destination import Queue, TemporaryQueue, Topic
from pyjms.transport.registry import create_transport
from pyjms.wire.openwire.commands import BrokerInfo, ConnectionInfo
from pyjms_broker.network import NetworkConnectorAttributes
from pyjms_broker.network.attributes import read_properties_of, written_properties
from tests.kit.brokers.networks import Network, forwarded
from tests.kit.brokers.security import simple, user
from tests.kit.clients.raw import RawClient
from tests.kit.waiting import until

ORDERS = Queue("orders")


@pytest.mark.parametrize("duplex", [True, False])
async def test_duplex(network: Network, duplex: bool) -> None:
    source, target = network.broker("a"), network.broker("b")
    door = target.add_connector("tcp://127.0.0.1:0")
    await network.start(target)
    source.add_network_connector(
        f"static:({door.connect_uri})", NetworkConnectorAttributes(duplex=duplex)
    )
    await network.start(source)
    there, here = await network.client(target), await network.client(source)
    await there.consumer(ORDERS)
    await until(lambda: forwarded(source))
    await here.send(ORDERS, "there")
    dispatch = await there.dispatched()
    assert b"there" in ((dispatch.message and dispatch.message.content) or b"")
    await there.ack(dispatch)
    assert len(target.networks.duplex_bridges) == int(duplex)
    if not duplex:
        return
    back = Queue("back")
    await here.consumer(back)
    await until(lambda: forwarded(target))
    await there.send(back, "and back")
    dispatch = await here.dispatched()
    assert b"and back" in ((dispatch.message and dispatch.message.content) or b"")
    assert dispatch.message is not None
    assert dispatch.message.broker_path == [target.broker_id]
    await here.ack(dispatch)
    await until(lambda: target.region_broker.destinations()[back].statistics.messages == 0)
    (own,), (reverse,) = source.networks.bridges, target.networks.duplex_bridges
    assert (own.received_count, reverse.dequeue_count) == (1, 1)
    assert (own.created_by_duplex, reverse.created_by_duplex) == (False, True)
    replies = TemporaryQueue(f"{here.name}:1")
    await here.destination(replies)
    await here.consumer(replies)
    await until(lambda: replies in target.region_broker.destinations())


async def test_a_duplex_bridge_ends_with_its_connector(network: Network) -> None:
    source, target = network.broker("a"), network.broker("b")
    connector = network.link(source, target, duplex=True)
    await network.start(target, source)
    client = await network.client(source)
    await client.consumer(ORDERS)
    await until(lambda: forwarded(target))
    await connector.stop()
    await until(lambda: not target.networks.duplex_bridges)
    assert forwarded(target) == []
    connector.start()
    await until(lambda: forwarded(target))
    assert len(target.networks.duplex_bridges) == 1


async def test_a_duplex_bridge_must_log_in(
    network: Network, caplog: pytest.LogCaptureFixture
) -> None:
    users = [user("joe", password="x"), user("bridge")]
    there = [users[0], user("other", password="different")]
    source = network.broker("a", plugins=[simple(*users)])
    target = network.broker("b", plugins=[simple(*there)])
    connector = network.link(source, target, duplex=True, user_name="bridge", password="wrong")
    await network.start(target)
    await source.start()
    await until(lambda: "tried again" in caplog.text)
    assert "wrong" not in caplog.text
    assert forwarded(target) == []
    await connector.stop()
    await source.networks.remove(connector.name)
    good = network.link(
        source,
        target,
        duplex=True,
        user_name="bridge",
        password="secret",
        remote_user_name="other",
        remote_password="different",
    )
    good.start()
    client = await network.client(source)
    await client.consumer(ORDERS)
    await until(lambda: forwarded(target))

    # a stranger who says to be the same broker ends nothing before it has logged in
    stranger = RawClient(create_transport(f"{target.vm_uri}?create=false"))
    await stranger.transport.start()
    stranger.send_command(
        BrokerInfo(
            source.broker_id,
            broker_name=source.broker_name,
            network_connection=True,
            duplex_connection=True,
            network_properties=written_properties(good.attributes),
        )
    )
    (before,) = target.networks.duplex_bridges
    with pytest.raises(JMSSecurityException):
        await stranger.request(
            ConnectionInfo(stranger.connection_id, "s", user_name="other", password="guessed")
        )
    assert target.networks.duplex_bridges == [before]
    await stranger.cut()
    await source.stop()


def test_properties() -> None:
    attributes = NetworkConnectorAttributes(
        name="x",
        password=" a\\b=c:d\né",
        message_ttl=4,
        network_ttl=2,
        conduit_subscriptions=False,
        destination_filter="ActiveMQ.Advisory.Consumer.Queue.>",
        excluded_destinations=(Queue("a"), Topic("b.>")),
    )
    text = written_properties(attributes)
    assert "messageTTL=4\nconsumerTTL=2\n" in text
    assert "excludedDestinations=[queue://a,topic://b.>]\n" in text
    read = read_properties_of(text)
    assert (read.password, read.messages_hops, read.consumers_hops) == (
        attributes.password,
        4,
        2,
    )
    assert (read.conduit_subscriptions, read.excluded_destinations) == (
        False,
        attributes.excluded_destinations,
    )
    assert read_properties_of("#comment\nunknown=1\nprefetchSize=7").prefetch_size == 7
    with pytest.raises(JMSException, match="prefetchSize"):
        read_properties_of("prefetchSize=many")
    with pytest.raises(JMSException, match="characters"):
        read_properties_of("x" * ((64 << 10) + 1))
