"""The views of connectors, connections and producers on a broker in memory."""

from __future__ import annotations

from typing import Any, cast

from pyjms.jms.destination import Queue, Topic
from pyjms.wire.openwire.commands import ProducerId, ProducerInfo, SessionId, SessionInfo
from pyjms_broker.management.model import View
from pyjms_broker.service import BrokerService
from tests.kit.clients.raw import Connect

Q = Queue("orders")


def views(service: BrokerService, keys: str) -> list[View[Any]]:
    return service.management.find(f"org.apache.activemq:{keys}")


async def test_a_connection_has_two_names_and_lists_what_it_has(
    service: BrokerService, connect: Connect
) -> None:
    client = await connect()
    await client.consumer(Q)
    await client.send(Q, "one")
    (by_id,) = views(service, "connectionViewType=clientId,*")
    (by_address,) = views(service, "connectionViewType=remoteAddress,*")
    assert by_id.get_all() == by_address.get_all()
    values = by_id.get_all()
    assert (values["ClientId"], values["UserName"]) == (client.name, "joe")
    assert (values["Slow"], values["Blocked"], values["ActiveTransactionCount"]) == (
        False,
        False,
        0,
    )
    consumers, producers = values["Consumers"], values["Producers"]
    assert consumers == [str(each.name) for each in views(service, "endpoint=Consumer,*")]
    assert producers == [str(each.name) for each in views(service, "endpoint=dynamicProducer,*")]


async def test_a_connection_tells_what_each_of_its_sessions_does(
    service: BrokerService, connect: Connect
) -> None:
    client, other = await connect(), await connect()
    await other.consumer(Topic("news"))
    found = views(service, "connectionViewType=clientId,*")
    (view,) = [each for each in found if each.get("ClientId") == client.name]
    assert view.get("SessionCount") == 1
    second = SessionId(client.name, 7)
    await client.request(SessionInfo(second))
    producer = ProducerId(client.name, 1, 7)
    await client.request(ProducerInfo(producer, Q))
    consumer = await client.consumer(Q, prefetch_size=2)
    for text in ("one", "two", "three"):
        await client.request(client.text(producer, Q, text))
    message = await client.dispatched()
    await client.ack(message)
    assert view.get("SessionCount") == 2
    nothing = dict.fromkeys(
        ("SentCount", "BlockedSends", "DispatchedCounter", "DequeueCounter", "DispatchedQueueSize"),
        0,
    )
    first, last = cast("list[object]", await view.invoke("sessions"))
    assert first == {
        **nothing,
        "SessionId": consumer.session_id,
        "ConsumerCount": 1,
        "ProducerCount": 0,
        "DispatchedCounter": 3,
        "DequeueCounter": 1,
        "DispatchedQueueSize": 2,
    }
    assert last == {
        **nothing,
        "SessionId": 7,
        "ConsumerCount": 0,
        "ProducerCount": 1,
        "SentCount": 3,
    }


async def test_a_producer_counts_what_it_has_sent(service: BrokerService, connect: Connect) -> None:
    client = await connect()
    producer = await client.producer(Q)
    for text in ("one", "two"):
        await client.request(client.text(producer, Q, text))
    (view,) = views(service, "endpoint=Producer,*")
    assert view.name.keys["destinationName"] == "orders"
    assert (view.get("SentCount"), view.get("DestinationName")) == (2, "orders")
    (queue,) = views(service, "destinationName=orders,destinationType=Queue,type=*,brokerName=*")
    assert queue.get("ProducerCount") == 1
    assert view.get("ProducerId") == str(producer)
    await client.remove(producer)
    assert views(service, "endpoint=Producer,*") == []


async def test_stopping_a_connection_closes_it(service: BrokerService, connect: Connect) -> None:
    await connect()
    (view,) = views(service, "connectionViewType=clientId,*")
    await view.invoke("stop")
    await view.target.it.transport.wait_stopped()
    assert views(service, "connectionViewType=clientId,*") == []


async def test_a_connector_is_stopped_and_started(service: BrokerService) -> None:
    connector = service.add_connector("tcp://127.0.0.1:0", name="openwire")
    await connector.start()
    (view,) = views(service, "connectorName=openwire,connector=*,type=*,brokerName=*")
    assert (view.get("Started"), await view.invoke("connectionCount")) == (True, 0)
    await view.invoke("stop")
    assert view.get("Started") is False
    await view.invoke("start")
    assert view.get("Started") is True
