"""What a broker reports of its bridges: advisories and counts."""

from __future__ import annotations

from typing import Any

import pytest

from pyjms.errors import DestinationDoesNotExistException
from pyjms.jms.destination import Queue, TemporaryQueue, Topic
from pyjms.wire.openwire.commands import ActiveMQMessage, BrokerInfo, DestinationInfo
from pyjms.wire.openwire.primitives import decode_map
from pyjms_broker.api.broker import BrokerFilter
from pyjms_broker.api.completion import Completion
from pyjms_broker.api.context import ProducerExchange
from pyjms_broker.network import NetworkConnectorAttributes
from tests.kit.brokers.networks import Network, forwarded
from tests.kit.waiting import until

ORDERS = Queue("orders")
BRIDGES = Topic("ActiveMQ.Advisory.NetworkBridge")
FAILURES = Topic("ActiveMQ.Advisory.NetworkBridge.ForwardFailure")


def properties(message: ActiveMQMessage) -> dict[str, Any]:
    return decode_map(message.marshalled_properties or b"")


def told(message: ActiveMQMessage) -> tuple[Any, Any, Any]:
    """Return whether a bridge has started, who has opened it, and to which broker it leads."""
    about = message.data_structure
    assert isinstance(about, BrokerInfo)
    assert about.network_properties is None
    values = properties(message)
    return values["started"], values.get("createdByDuplex"), about.broker_name


@pytest.mark.fact("activemq-edges NW1", "activemq-broker 11/NetworkBridge")
async def test_bridges_are_reported_and_count_what_they_receive(network: Network) -> None:
    source, target = network.broker("a"), network.broker("b")
    door = target.add_connector("tcp://127.0.0.1:0")
    await network.start(target)
    connector = source.add_network_connector(
        f"static:({door.connect_uri})", NetworkConnectorAttributes(duplex=True, password="secret")
    )
    await network.start(source)
    here, there = await network.client(source), await network.client(target)
    await here.consumer(BRIDGES)
    assert told(await here.message()) == (True, False, target.broker_name)  # it is replayed
    await until(lambda: target.networks.bridges)
    await there.consumer(BRIDGES)
    assert told(await there.message()) == (True, True, source.broker_name)

    await there.consumer(ORDERS)
    await until(lambda: forwarded(source))
    await here.send(ORDERS, "one", "two")
    assert [await there.message(), await there.message()]
    (reverse,) = target.networks.duplex_bridges
    await until(lambda: reverse.received_count == 2)
    reverse.reset_counts()
    assert reverse.received_count == 0

    await connector.stop()
    assert told(await here.message()) == (False, None, target.broker_name)
    assert told(await there.message()) == (False, None, source.broker_name)
    assert target.networks.joined == []
    late = await network.client(source)
    await late.consumer(BRIDGES)
    await late.nothing_dispatched()


class Refusing(BrokerFilter):
    """Refuses messages: those of temporary queues as if they were gone."""

    def send(self, exchange: ProducerExchange, message: ActiveMQMessage) -> Completion:
        if message.destination is not None and message.destination.is_temporary:
            raise DestinationDoesNotExistException(f"{message.destination} does not exist")
        return super().send(exchange, message)


@pytest.mark.fact("activemq-broker 11/NetworkBridge.ForwardFailure")
@pytest.mark.parametrize("wanted", [True, False])
async def test_advisory_for_failed_forward(network: Network, wanted: bool) -> None:
    source = network.broker("a")
    target = network.broker("b", plugins=[Refusing])
    connector = network.link(source, target, advisory_for_failed_forward=wanted)
    await network.start(target, source)
    here, there = await network.client(source), await network.client(target)
    replies = TemporaryQueue(f"{there.name}:1")
    await there.request(DestinationInfo(there.connection_id, replies))
    await there.consumer(replies)
    await until(lambda: forwarded(source))
    await here.consumer(FAILURES)
    await here.send(replies, "lost")
    (queue,) = [q for d, q in source.region_broker.destinations().items() if d == replies]
    await until(lambda: queue.statistics.messages == 0)
    assert connector.bridges  # the bridge goes on
    if not wanted:
        await here.nothing_dispatched()
        return
    advisory = await here.message()
    assert "does not exist" in properties(advisory)["cause"]
    about = advisory.data_structure
    assert isinstance(about, ActiveMQMessage)
    assert about.destination == replies
