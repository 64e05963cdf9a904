"""Network connectors and bridges in the management."""

from __future__ import annotations

from pyjms.jms.destination import Queue
from pyjms_broker.service import BrokerService
from tests.kit.brokers.networks import Network, forwarded
from tests.kit.waiting import until

BROKER = "org.apache.activemq:type=Broker,brokerName="


def bridge_of(service: BrokerService, connector: str) -> dict[str, object]:
    pattern = f"{BROKER}{service.broker_name},connector={connector},networkBridge=*,*"
    (view,) = service.management.find(pattern)
    return view.get_all()


async def test_a_network_connector_and_its_bridges(network: Network) -> None:
    source, target = network.broker("a"), network.broker("b")
    network.link(source, target, name="to-b", duplex=True, message_ttl=3)
    await network.start(target, source)
    client, there = await network.client(source), await network.client(target)
    await there.consumer(Queue("q"))
    await until(lambda: forwarded(source))
    await client.send(Queue("q"), "x")
    await there.dispatched()
    views = source.management
    name = f"{BROKER}{source.broker_name},connector=networkConnectors,networkConnectorName=to-b"
    shown = views.view(name).get_all()
    assert shown["Name"] == "to-b"
    assert (shown["MessageTTL"], shown["ConsumerTTL"], shown["Duplex"]) == (3, 1, True)
    assert "Password" not in shown
    assert shown["DispatchAsync"] is forwarded(source)[0].dispatch_async is True
    (bridge,) = source.networks.bridges
    await until(lambda: bridge.dequeue_count == 1)
    shown = bridge_of(source, "networkConnectors")
    assert shown == {
        **shown,
        "LocalBrokerName": source.broker_name,
        "RemoteBrokerName": target.broker_name,
        "RemoteBrokerId": str(target.broker_id),
        "EnqueueCounter": 1,
        "DequeueCounter": 1,
        "ReceivedCounter": 0,
        "CreatedByDuplex": False,
    }
    pattern = f"{BROKER}{source.broker_name},connector=networkConnectors,networkBridge=*,*"
    await views.find(pattern)[0].invoke("resetStats")
    assert bridge_of(source, "networkConnectors")["DequeueCounter"] == 0
    reverse = bridge_of(target, "duplexNetworkConnectors")
    assert (reverse["RemoteBrokerName"], reverse["CreatedByDuplex"]) == (source.broker_name, True)
    await views.invoke(name, "stop")
    assert source.networks.bridges == []
    await views.invoke(name, "start")
    await until(lambda: source.networks.bridges)


async def test_network_connectors_of_a_running_broker(network: Network) -> None:
    source, target = network.broker("a"), network.broker("b")
    await network.start(target, source)
    views, broker = source.management, f"{BROKER}{source.broker_name}"
    uri = f"static:({target.vm_uri}?create=false)"
    assert await views.invoke(broker, "addNetworkConnector", uri) == "NC"
    assert await views.invoke(broker, "addNetworkConnector", uri) == "NC-2"
    await until(lambda: len(source.networks.bridges) == 2)
    assert await views.invoke(broker, "removeNetworkConnector", "NC-2") is True
    assert await views.invoke(broker, "removeNetworkConnector", "NC-2") is False
    assert len(source.networks.bridges) == 1
