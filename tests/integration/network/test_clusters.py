"""Clients with `failover:` get the list of the network's brokers and are distributed over them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from pyjms.aio import ConnectionFactory
from pyjms.errors import ConfigurationException
from pyjms.transport.registry import create_transport
from pyjms.wire.openwire.commands import BrokerId, BrokerInfo, ConnectionControl
from pyjms_broker.connector.cluster import ClusterAttributes, ClusterClients
from pyjms_broker.connector.openwire.connection import BrokerConnection
from pyjms_broker.network import NetworkConnectorAttributes
from pyjms_broker.service import BrokerService
from pyjms_broker.settings import load_broker_settings
from tests.kit.brokers.networks import Network
from tests.kit.clients.raw import RawClient
from tests.kit.waiting import until


def cluster_broker(network: Network, name: str, **cluster: Any) -> BrokerService:
    service = network.broker(name)
    door = service.add_connector("tcp://127.0.0.1:0")
    door.cluster.attributes = ClusterAttributes(update_cluster_clients=True, **cluster)
    return service


def join(first: BrokerService, second: BrokerService) -> Any:
    """Have the first broker, which is to be started later, join the second one, both ways."""
    return first.add_network_connector(
        f"static:({second.connect_uri})",
        NetworkConnectorAttributes(name=f"to-{second.broker_name}", duplex=True),
    )


def clients_of(service: BrokerService) -> list[BrokerConnection]:
    """Return the clients of the broker's port, without bridges."""
    (door,) = service.connectors
    found = [each for each in door.connections if isinstance(each, BrokerConnection)]
    return [each for each in found if not each.serves_broker]


@asynccontextmanager
async def client(*services: BrokerService, options: str = "randomize=false") -> AsyncIterator[Any]:
    uris = ",".join(each.connect_uri for each in services)
    factory = ConnectionFactory(f"failover:({uris})?{options}&jms.watchTopicAdvisories=false")
    async with await factory.create_connection() as connection:
        await connection.start()
        yield connection


@pytest.mark.fact("activemq-edges NW10", "activemq-edges U8")
@pytest.mark.parametrize("on_remove", [True, False])
async def test_a_client_goes_to_a_broker_that_it_was_told_of(
    network: Network, on_remove: bool
) -> None:
    """Also if brokers leave the list: one that stops does not take the others off it."""
    first, second = [
        cluster_broker(network, each, update_cluster_clients_on_remove=on_remove) for each in "ab"
    ]
    await network.start(second)
    join(first, second)
    await network.start(first)
    async with client(first):
        await until(lambda: clients_of(first))
        await until(lambda: first.networks.bridges)
        assert first.connectors[0].cluster.brokers == [first.connect_uri, second.connect_uri]
        await until(lambda: second.networks.duplex_bridges)
        assert second.connectors[0].cluster.brokers == [second.connect_uri, first.connect_uri]
        await first.stop()
        await until(lambda: clients_of(second))


@pytest.mark.fact("activemq-edges NW10")
async def test_clients_spread_over_the_brokers(network: Network) -> None:
    first, second = [cluster_broker(network, e, rebalance_cluster_clients=True) for e in "ab"]
    await network.start(second, first)
    async with client(first), client(first), client(first), client(first):
        await until(lambda: len(clients_of(first)) == 4)
        join(second, first).start()
        await until(lambda: len(clients_of(first)) == len(clients_of(second)) == 2)


async def heard(network: Network, service: BrokerService, **fields: Any) -> RawClient:
    """Return a client that has got the list of a new connection."""
    transport = create_transport(f"{service.connect_uri}?wireFormat.maxInactivityDuration=0")
    new = RawClient(transport)
    await network.enter(new)
    await new.connect(manageable=True, fault_tolerant=True, **fields)
    return new


async def told_to(one: RawClient) -> Any:
    """Return the next list that a client is told."""
    return await one.heard(ConnectionControl)


@pytest.mark.parametrize("on_remove", [True, False])
async def test_a_broker_that_leaves(network: Network, on_remove: bool) -> None:
    first, second = [
        cluster_broker(network, each, update_cluster_clients_on_remove=on_remove) for each in "ab"
    ]
    await network.start(second, first)
    both = f"{first.connect_uri},{second.connect_uri}"
    old = await heard(network, first)
    control = await told_to(old)
    assert control.connected_brokers == first.connect_uri
    connector = join(first, second)
    connector.start()
    control = await told_to(old)
    assert (control.connected_brokers, control.rebalance_connection) == (both, False)
    await connector.stop()
    await until(lambda: not first.networks.bridges)
    new = await heard(network, first)
    control = await told_to(new)
    assert control.connected_brokers == (first.connect_uri if on_remove else both)
    told = [each for each in old.commands if isinstance(each, ConnectionControl)]
    assert bool(told) is on_remove


async def test_a_client_that_is_back_is_not_sent_away(network: Network) -> None:
    service = cluster_broker(network, "a", rebalance_cluster_clients=True)
    await network.start(service)
    for is_back in (False, True):
        new = await heard(network, service, failover_reconnect=is_back)
        control = await told_to(new)
        assert control.rebalance_connection is not is_back


def brokers(cluster: ClusterClients, *others: tuple[str, str]) -> list[str]:
    for name, url in others:
        cluster.broker_joined(BrokerInfo(BrokerId(name), url, broker_name=name))
    return cluster.brokers


def made(**attributes: Any) -> ClusterClients:
    cluster = ClusterClients(lambda: "tcp://own:1", list)
    cluster.attributes = ClusterAttributes(update_cluster_clients=True, **attributes)
    return cluster


def test_which_brokers_are_listed() -> None:
    filtered = made(update_cluster_filter="east-.*, west")
    found = brokers(filtered, ("east-1", "tcp://e:1"), ("west-1", "tcp://x:1"), ("west", "ssl://w"))
    assert found == ["tcp://own:1", "tcp://e:1", "ssl://w"]
    with pytest.raises(ConfigurationException, match="update_cluster_filter"):
        ClusterAttributes(update_cluster_filter="(")


def test_what_a_broker_says_of_itself_is_not_trusted(caplog: pytest.LogCaptureFixture) -> None:
    lies = ["vm://x", "tcp://a:1,tcp://b:2", "failover:(tcp://a:1)", "tcp://a:1\n", "mock://x", ""]
    lies += ["tcp://" + "x" * 600, "gopher://a:1", "tcp://a b:1"]
    cluster = made()
    assert brokers(cluster, *[(f"liar{n}", lie) for n, lie in enumerate(lies)]) == ["tcp://own:1"]
    assert "Clients do not learn of broker liar1" in caplog.text
    many = [(f"b{n}", f"tcp://b{n}:1") for n in range(300)]
    assert len(brokers(cluster, *many)) == 101
    cluster.broker_left(BrokerInfo(None, "tcp://b5:1"))
    assert "tcp://b5:1" in brokers(cluster)
    assert "tcp://new:1" in brokers(cluster, ("new", "tcp://new:1"))  # in place of one that left
    assert "tcp://b5:1" not in brokers(cluster)


def test_the_head_of_the_list_changes_and_a_broker_stays_while_it_has_a_bridge() -> None:
    cluster = made(rebalance_cluster_clients=True, update_cluster_clients_on_remove=True)
    pair = BrokerInfo(BrokerId("b"), "tcp://b:1", broker_name="b")
    cluster.broker_joined(pair)
    cluster.broker_joined(pair)
    lists = [cluster.list_for(is_back=False).connected_brokers for _ in range(3)]
    assert lists == ["tcp://own:1,tcp://b:1", "tcp://b:1,tcp://own:1", "tcp://own:1,tcp://b:1"]
    cluster.broker_left(pair)
    assert "tcp://b:1" in cluster.brokers
    cluster.broker_left(pair)
    assert cluster.brokers == ["tcp://own:1"]


async def test_the_file_says_it(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = tmp_path / "broker.yaml"
    path.write_text(
        "connectors:\n"
        "  - uri: tcp://127.0.0.1:0\n"
        "    update_cluster_clients: true\n"
        "    update_cluster_filter: east-.*\n"
        "    audit_network_producers: true\n"
        "  - uri: stomp://127.0.0.1:0\n"
        "    update_cluster_clients: true\n",
        encoding="utf-8",
    )
    with caplog.at_level("INFO"):
        service = BrokerService.from_settings(load_broker_settings(path, environ={}))
    door, other = service.connectors
    assert door.cluster.attributes == ClusterAttributes(
        update_cluster_clients=True, update_cluster_filter="east-.*"
    )
    assert (door.audit_network_producers, other.audit_network_producers) == (True, False)
    assert "update_cluster_clients has no effect" in caplog.text
    path.write_text(
        "connectors:\n  - uri: tcp://127.0.0.1:0\n    update_cluster_filter: '('\n",
        encoding="utf-8",
    )
    with pytest.raises(ConfigurationException, match=r"broker\.yaml:2.*update_cluster_filter"):
        load_broker_settings(path, environ={})
