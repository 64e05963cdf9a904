"""Messages that a bridge sends again, that it compresses, and the names of its clients."""

from __future__ import annotations

import zlib
from typing import Any

import pytest

from pyjms.errors import JMSException
from pyjms.jms.destination import Queue
from pyjms.transport.registry import create_transport
from pyjms.wire.openwire.commands import (
    ActiveMQBytesMessage,
    ActiveMQMessage,
    BrokerId,
    BrokerInfo,
    MessageId,
    ProducerId,
)
from pyjms.wire.openwire.primitives import encode_text
from pyjms_broker.api.broker import Broker, BrokerFilter
from pyjms_broker.api.completion import Completion
from pyjms_broker.api.context import ProducerExchange
from pyjms_broker.network import NetworkConnector, NetworkConnectorAttributes
from pyjms_broker.network.attributes import written_properties
from pyjms_broker.policy.entry import PolicyEntry, PolicyMap
from pyjms_broker.service import BrokerService
from tests.kit.brokers.networks import Network, forwarded
from tests.kit.clients.raw import RawClient
from tests.kit.waiting import until

ORDERS = Queue("orders")
ORIGIN = ProducerId("ID:origin:1", 1, 1)
OTHER = Queue("other")
NO_AUDIT = PolicyMap([PolicyEntry(enable_audit=False)])  # of queues, which would do the same
BRIDGE = BrokerId("ID:elsewhere:1")


async def bridge_to(network: Network, service: BrokerService, **attributes: Any) -> RawClient:
    """Return a client that says to be the bridge of another broker."""
    client = RawClient(create_transport(service.connect_uri))
    await network.enter(client)
    await client.transport.start()
    client.send_command(
        BrokerInfo(
            BRIDGE,
            broker_name="elsewhere",
            network_connection=True,
            network_properties=written_properties(NetworkConnectorAttributes(**attributes)),
        )
    )
    await client.log_in()
    return client


async def forward(client: RawClient, number: int, **fields: Any) -> None:
    producer = await client.producer()
    message = client.text(producer, ORDERS, f"number {number}")
    message.message_id = MessageId(None, ORIGIN, number)
    for field, value in fields.items():
        setattr(message, field, value)
    await client.request(message)


def audited(network: Network, *, audits: bool, **attributes: Any) -> BrokerService:
    service = network.broker("a", policies=NO_AUDIT, **attributes)
    service.add_connector("tcp://127.0.0.1:0").audit_network_producers = audits
    return service


@pytest.mark.fact("activemq-edges NW5")
@pytest.mark.parametrize(
    ("by_connector", "by_bridge"), [(True, False), (False, True), (False, False)]
)
async def test_what_a_bridge_sends_again_is_dropped(
    network: Network, by_connector: bool, by_bridge: bool
) -> None:
    """audit_network_producers, check_duplicate_messages_on_duplex: also once it was consumed."""
    service = audited(network, audits=by_connector)
    await network.start(service)
    consumer = await network.client(service)
    await consumer.consumer(ORDERS)
    for is_again in (False, True):
        client = await bridge_to(network, service, check_duplicate_messages_on_duplex=by_bridge)
        await forward(client, 2)
        await forward(client, 1)  # in whichever order
        if is_again and (by_connector or by_bridge):
            await consumer.nothing_dispatched()
        else:
            for _ in range(2):
                await consumer.ack(await consumer.dispatched())


async def test_invalid_repetitions(network: Network) -> None:
    """Other destinations, messages that return from where they were forwarded, failed sends."""
    service = audited(network, audits=True, plugins=[FailsOnce])
    await network.start(service)
    consumer = await network.client(service)
    await consumer.consumer(ORDERS)
    await consumer.consumer(OTHER)
    client = await bridge_to(network, service)
    with pytest.raises(JMSException, match="only this once"):
        await forward(client, 1)
    fields: Any
    for fields in (
        {},
        {"destination": OTHER},  # as of a virtual topic
        {"broker_path": [service.broker_id, BRIDGE]},
    ):
        await forward(client, 1, **fields)
        await consumer.ack(await consumer.dispatched())


class FailsOnce(BrokerFilter):
    def __init__(self, next_broker: Broker) -> None:
        super().__init__(next_broker)
        self.fails = True

    def send(self, exchange: ProducerExchange, message: ActiveMQMessage) -> Completion:
        if self.fails and message.destination is not None and message.destination.is_queue:
            self.fails = False
            raise JMSException("only this once")
        return super().send(exchange, message)


def received(connector: NetworkConnector) -> int:
    return sum(bridge.received_count for bridge in connector.bridges)


async def test_the_initiator_of_a_duplex_bridge_audits_too(network: Network) -> None:
    source, target = [network.broker(each, policies=NO_AUDIT) for each in "ab"]
    connector = network.link(source, target, duplex=True, check_duplicate_messages_on_duplex=True)
    await network.start(target, source)
    here, there = await network.client(source), await network.client(target)
    await here.consumer(ORDERS)
    await until(lambda: forwarded(target))
    producer = await there.producer()
    for _ in range(2):
        message = there.text(producer, ORDERS, "again")
        message.message_id = MessageId(None, ORIGIN, 7)
        await there.request(message)
        queue = target.region_broker.destinations()[ORDERS]
        await until(lambda: queue.statistics.messages == 0)  # noqa: B023 - the same one
    assert received(connector) == 2
    await here.ack(await here.dispatched())
    await here.nothing_dispatched()


@pytest.mark.parametrize("wanted", [True, False])
async def test_use_compression(network: Network, wanted: bool) -> None:
    source, target = network.broker("a"), network.broker("b")
    network.link(source, target, use_compression=wanted)
    await network.start(target, source)
    here, there = await network.client(source), await network.client(target)
    await there.consumer(ORDERS)
    await until(lambda: forwarded(source))
    text, data = "x" * 1000, b"y" * 1000
    await here.send(ORDERS, text)
    producer = await here.producer()
    number = MessageId(None, producer, 1)
    await here.request(
        ActiveMQBytesMessage(producer, ORDERS, message_id=number, persistent=True, content=data)
    )
    first, second = await there.message(), await there.message()
    assert (first.compressed, second.compressed) == (wanted, wanted)
    bodies = bytes(first.content or b""), bytes(second.content or b"")
    if wanted:
        assert len(bodies[0]) < 100
        assert bodies[1][:4] == len(data).to_bytes(4, "big")
        bodies = zlib.decompress(bodies[0]), zlib.decompress(bodies[1][4:])
    assert bodies == (encode_text(text), data)


async def test_client_id_token(network: Network) -> None:
    source, target = network.broker("a"), network.broker("b")
    network.link(source, target, name="west", client_id_token="+")
    await network.start(target, source)

    def client_ids(service: BrokerService) -> set[str | None]:
        owners = service.connections.by_id.values()
        return {s.context.client_id for o in owners for s in o.resources.connections.values()}  # type: ignore[attr-defined]

    assert f"west+{source.broker_name}+outbound" in client_ids(target)
    assert f"west+{target.broker_name}+inbound+{source.broker_name}" in client_ids(source)
