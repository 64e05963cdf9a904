"""The views of connectors, connections and producers on a broker in memory."""

from __future__ import annotations

from typing import Any

from pyjms.jms.destination import Queue
from pyjms_broker.management.model import View
from pyjms_broker.service import BrokerService
from tests.kit.raw_client import Connect

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
