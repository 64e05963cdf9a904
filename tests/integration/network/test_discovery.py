"""Brokers find each other, and clients find brokers, by an agent; `peer:` joins a group."""

from __future__ import annotations

import itertools
import os
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any, ClassVar

import pytest

from pyjms.aio import ConnectionFactory
from pyjms.client.producer import ActiveMQMessageProducer
from pyjms.client.session import ActiveMQSession
from pyjms.errors import ConfigurationException, JMSException
from pyjms.jms.destination import Queue, Topic
from pyjms.runtime.event_loop import spawn
from pyjms.transport import create_transport
from pyjms.transport.discovery import DiscoveryAgent, DiscoveryListener, register_agent
from pyjms.transport.mock import RecordingListener
from pyjms.transport.uri import TransportURI
from pyjms_broker.network import NetworkConnector, NetworkConnectorAttributes
from pyjms_broker.network.connector import MAXIMUM_FOUND
from pyjms_broker.service import BrokerService
from pyjms_broker.settings import load_broker_settings
from tests.kit.brokers.multicast import MemoryNetwork, memory_multicast, real_multicast
from tests.kit.brokers.networks import Network, forwarded
from tests.kit.processes.children import BrokerProcess
from tests.kit.servers.java_programs import JavaProgram, java_program
from tests.kit.waiting import LONGEST_WAIT, until

__all__ = ["java_program", "memory_multicast", "real_multicast"]

ORDERS = Queue("orders")
PRICES = Topic("prices")
_groups = itertools.count(1)


class Telling(DiscoveryAgent):
    """A discovery agent that finds the URLs given by the test."""

    agents: ClassVar[list[Telling]] = []

    def __init__(self, uri: TransportURI) -> None:
        self.uri = uri
        self.listener: DiscoveryListener | None = None
        self.service: str | None = None
        self.is_stopped = False

    async def start(
        self, listener: DiscoveryListener | None = None, service: str | None = None
    ) -> None:
        self.listener, self.service = listener, service
        self.agents.append(self)

    async def stop(self) -> None:
        self.is_stopped = True


@pytest.fixture
def telling() -> Iterator[list[Telling]]:
    Telling.agents.clear()
    register_agent("telling", Telling)
    yield Telling.agents
    Telling.agents.clear()


def tcp_broker(network: Network, name: str) -> BrokerService:
    service = network.broker(name)
    service.add_connector("tcp://127.0.0.1:0")
    return service


def listener_of(agents: list[Telling], index: int = -1) -> DiscoveryListener:
    found = agents[index].listener
    assert found is not None
    return found


async def finding(
    network: Network, agents: list[Telling], query: str = ""
) -> tuple[BrokerService, NetworkConnector, DiscoveryListener]:
    """Return a started broker that connects to what an agent finds, and the agent's listener."""
    service = tcp_broker(network, "a")
    connector = service.add_network_connector(f"telling://x{query}")
    await service.start()
    network.at_the_end(service.stop)
    await until(lambda: agents)
    return service, connector, listener_of(agents)


async def test_a_bridge_to_each_broker_that_is_found(
    network: Network, telling: list[Telling]
) -> None:
    source, connector, found = await finding(network, telling)
    target = tcp_broker(network, "b")
    await network.start(target)
    url = target.connect_uri
    for _ in range(2):
        found.service_added(f"{url}?maximumConnections=10")  # its options are not used
    found.service_added(source.connect_uri)
    found.service_added(source.connect_uri.replace("127.0.0.1", "localhost"))  # itself, too
    await until(lambda: connector.bridges)
    assert [each.remote_name for each in connector.bridges] == [target.broker_name]
    assert connector.started
    found.service_removed(f"{url}?maximumConnections=10")  # the bridge lives on
    client = await network.client(target)
    await client.consumer(ORDERS)
    await until(lambda: forwarded(source))
    await target.stop()
    await until(lambda: not connector.bridges)
    await connector.stop()
    assert telling[-1].is_stopped
    assert not connector.started
    connector.start()  # type: ignore[unreachable]
    await until(lambda: len(telling) == 2)


async def test_what_is_found_is_not_trusted(
    network: Network, telling: list[Telling], caplog: pytest.LogCaptureFixture
) -> None:
    source, connector, found = await finding(network, telling, "?initialReconnectDelay=100")
    for lie in ("vm://other", "failover:(tcp://a:1)", "file:///etc", "tcp://a b", "x" * 9000, ""):
        found.service_added(lie)
        found.service_removed(lie)
    assert "does not connect to vm://other, which was found" in caplog.text
    assert len(max(caplog.text.splitlines(), key=len)) < 600
    for number in range(3 * MAXIMUM_FOUND):
        found.service_added(f"tcp://127.0.0.1:{number % 9 + 1}/?x={number}")
    assert f"{MAXIMUM_FOUND} brokers were found already" in caplog.text
    # one that cannot be reached makes room for the next one
    target = tcp_broker(network, "b")
    await network.start(target)
    await until(lambda: caplog.text.count("no bridge to") >= 20)
    found.service_added(target.connect_uri)
    await until(lambda: connector.bridges)
    for number in range(500):  # no more log lines than before
        found.service_added(f"tcp://127.0.0.1:9/?y={number}")
        found.service_removed(f"tcp://127.0.0.1:9/?y={number}")
    assert caplog.text.count("no bridge to") <= 110
    await source.stop()


async def test_a_client_goes_to_what_is_found(network: Network, telling: list[Telling]) -> None:
    first, second = tcp_broker(network, "a"), tcp_broker(network, "b")
    await network.start(first, second)
    transport = create_transport(
        "discovery:(telling://x)?initialReconnectDelay=1&discovered.soTimeout=1000"
    )

    async def tell() -> None:
        await until(lambda: telling)
        listener_of(telling).service_added("vm://nobody")
        listener_of(telling).service_added(first.connect_uri)

    transport.listener = RecordingListener()
    task = spawn(tell, name="tell")
    await transport.start()
    await task.wait()
    assert transport.remote_address.startswith("tcp://127.0.0.1:")
    (door,) = first.connectors
    assert len(door.connections) == 1
    listener_of(telling).service_added(second.connect_uri)
    await first.stop()
    await until(lambda: str(second.connectors[0].connect_uri) in transport.remote_address)
    await transport.stop()
    assert telling[-1].is_stopped


class Subscriber:
    """A subscriber of prices at one broker."""

    def __init__(self, stack: AsyncExitStack, broker: BrokerService) -> None:
        self._stack = stack
        self.broker = broker
        self.consumer: Any = None

    async def open(self) -> Subscriber:
        factory = ConnectionFactory(self.broker.connect_uri)
        connection = await self._stack.enter_async_context(await factory.create_connection())
        await connection.start()
        self.consumer = await (await connection.create_session()).create_consumer(PRICES)
        return self

    async def next(self, seconds: float = LONGEST_WAIT) -> str | None:
        message = await self.consumer.receive(seconds)
        return None if message is None else message.text


async def joined(
    producer: ActiveMQMessageProducer, session: ActiveMQSession, subscriber: Subscriber
) -> None:
    """Publish until a broker that was found has joined; drop what was published."""
    while True:
        await producer.send(session.create_text_message("probe"))
        if await subscriber.next(0.05) == "probe":
            return


@pytest.mark.fact("activemq-edges U6")
async def test_a_client_at_all_brokers_that_are_found(
    network: Network, telling: list[Telling], caplog: pytest.LogCaptureFixture
) -> None:
    brokers = [tcp_broker(network, name) for name in "abc"]
    await network.start(*brokers)
    urls = [f"{each.connect_uri}?maximumConnections=10" for each in brokers]  # not used
    factory = ConnectionFactory("fanout:(telling://x)?initialReconnectDelay=1&maxReconnectDelay=5")

    async def tell() -> None:
        await until(lambda: telling)
        for service in ("vm://other", "tcp://a b", "amqp://a:1", *urls[:2], *urls[:2]):
            listener_of(telling).service_added(service)

    async with AsyncExitStack() as stack:
        first, second, third = [await Subscriber(stack, each).open() for each in brokers]
        task = spawn(tell, name="tell")
        connection = await stack.enter_async_context(await factory.create_connection())
        await task.wait()
        assert "vm://other is not used" in caplog.text
        await connection.start()
        found = listener_of(telling)
        session = await connection.create_session()
        producer = await session.create_producer(PRICES)
        transacted = await connection.create_session(True)
        in_transaction = await transacted.create_producer(PRICES)
        await producer.send(session.create_text_message("1"))
        assert [await first.next(), await second.next()] == ["1", "1"]
        await in_transaction.send(transacted.create_text_message("2"))
        found.service_added(urls[2])  # it gets to know the producers and the transaction
        await joined(producer, session, third)
        await transacted.commit()
        await producer.send(session.create_text_message("3"))
        for subscriber, texts in ((first, ["2", "3"]), (second, ["2", "3"]), (third, ["3"])):
            heard = [text async for text in until_heard(subscriber, "3")]
            assert [text for text in heard if text != "probe"] == texts
        # one leaves: nobody waits for it
        for index in (1, 2):
            found.service_removed(urls[index])
        await brokers[1].stop()
        await producer.send(session.create_text_message("4"))
        assert [await first.next(), await third.next()] == ["4", "4"]
        # fewer than minAckCount: a send waits until another one is found
        await brokers[2].stop()
        sending = spawn(producer.send, session.create_text_message("5"), name="send")
        other = tcp_broker(network, "d")
        await network.start(other)
        assert not sending.done
        found.service_added(other.connect_uri)
        await sending.wait()
        assert sending.error is None
        assert await first.next() == "5"
    assert telling[-1].is_stopped


async def until_heard(subscriber: Subscriber, last: str) -> AsyncIterator[str | None]:
    """Yield a subscriber's messages up to a given text."""
    text = None
    while text != last:
        text = await subscriber.next()
        yield text


@pytest.mark.parametrize(
    ("url", "why"),
    [
        ("discovery:(multicast://10.0.0.1)", "not a multicast address"),
        ("discovery:(multicast://default)?nonsense=1", "nonsense"),
        ("discovery:(zeroconf://x)", "or use the agent multicast"),
        ("fanout:(zeroconf://x)", "or use the agent multicast"),
        ("fanout:(multicast://10.0.0.1)", "not a multicast address"),
        ("fanout:(multicast://default)?nonsense=1", "nonsense"),
        ("failover:(multicast://default)", "discovery:"),
        ("peer://", "names no group"),
        ("peer:///name", "names no group"),
        ("peer://group/name?nonsense=1", "nonsense"),
        ("peer://a%b/name", "is not a valid name"),
    ],
)
def test_mistakes_are_named(url: str, why: str) -> None:
    with pytest.raises(JMSException, match=why):
        create_transport(url)


async def test_the_file_says_where_a_connector_is_announced(
    network: Network, telling: list[Telling], tmp_path: Path
) -> None:
    path = tmp_path / "broker.yaml"
    path.write_text(
        "persistent: false\n"
        "broker_name: announced\n"
        "connectors: [{uri: 'tcp://127.0.0.1:0', discovery_uri: 'telling://x'}]\n"
        "network_connectors: [{uri: 'telling://y?minConnectTime=10'}]\n",
        encoding="utf-8",
    )
    service = BrokerService.from_settings(load_broker_settings(path, environ={}))
    async with service:
        await until(lambda: len(telling) == 2)
        assert telling[0].service == service.connect_uri
        assert (telling[1].service, str(telling[1].uri)) == (None, "telling://y")
    assert [each.is_stopped for each in telling] == [True, True]
    path.write_text(
        "connectors: [{uri: 'tcp://127.0.0.1:0', discovery_uri: 'multicast://10.0.0.1'}]\n",
        encoding="utf-8",
    )
    with pytest.raises(ConfigurationException, match="not a multicast address"):
        load_broker_settings(path, environ={})


def client_ids(broker: BrokerService) -> set[str | None]:
    """Return the client ids at a broker's first connector."""
    return {
        state.info.client_id
        for connection in broker.connectors[0].connections
        for state in connection.resources.connections.values()  # type: ignore[attr-defined]
    }


def group() -> str:
    """Return the name of a group that no other test has, on this machine."""
    return f"g{os.getpid()}-{next(_groups)}"


@pytest.mark.fact("activemq-edges U7", "activemq-edges U8")
@pytest.mark.parametrize("carrier", ["memory_multicast", "real_multicast"])
async def test_brokers_of_a_multicast_group_join(
    network: Network, request: pytest.FixtureRequest, carrier: str
) -> None:
    """Datagrams within the process, and over a network."""
    request.getfixturevalue(carrier)
    uri = f"multicast://default?group={group()}&keepAliveInterval=50"
    brokers = [tcp_broker(network, each) for each in "abc"]
    for each in brokers:
        each.connectors[0].announcer.uri = TransportURI.parse(uri)
        each.add_network_connector(uri, NetworkConnectorAttributes(name="nc"))
        await each.start()
        network.at_the_end(each.stop)
    await until(lambda: all(len(each.networks.bridges) == 2 for each in brokers))
    here, there = await network.client(brokers[0]), await network.client(brokers[2])
    await there.consumer(ORDERS)
    await until(lambda: forwarded(brokers[0]))
    await here.send(ORDERS, "x")
    await there.message()
    await brokers[1].stop()
    await until(lambda: all(len(each.networks.bridges) == 1 for each in brokers[::2]))
    async with await ConnectionFactory(f"discovery:({uri})").create_connection() as connection:
        await connection.start()
    factory = ConnectionFactory(f"fanout:({uri})?jms.clientID=fan")
    async with await factory.create_connection() as connection:
        await connection.start()
        for each in brokers[::2]:
            await until(lambda: "fan" in client_ids(each))  # noqa: B023 - called at once


@pytest.mark.fact("activemq-edges U2")
async def test_peers_join(memory_multicast: MemoryNetwork) -> None:
    """`peer:` starts a broker for each name; those of a group forward to each other."""
    name = group()
    first = ConnectionFactory(f"peer://{name}/first")
    second = ConnectionFactory(f"peer://{name}/second?persistent=false")
    async with (
        await first.create_connection() as one,
        await second.create_connection() as other,
        await first.create_connection() as same,
    ):
        for each in (one, other, same):
            await each.start()
        receiving = await other.create_session()
        consumer = await receiving.create_consumer(receiving.create_queue("orders"))
        sending = await one.create_session()
        producer = await sending.create_producer(sending.create_queue("orders"))
        await producer.send(sending.create_text_message("to a peer"))
        message = await consumer.receive(30)
        assert message is not None
        assert message.text == "to a peer"  # type: ignore[attr-defined]


@pytest.mark.activemq
@pytest.mark.usefixtures("real_multicast")
@pytest.mark.fact("activemq-edges U7", "activemq-edges U8")
async def test_activemq_and_ours_find_each_other(
    network: Network, java_program: JavaProgram, tmp_path: Path
) -> None:
    uri = f"multicast://default?group={group()}"
    command = [*java_program(Path(__file__).parent / "program"), "NetworkBroker"]
    theirs = BrokerProcess([*command, str(tmp_path / "data")], tmp_path / "log")
    ours = tcp_broker(network, "ours")
    ours.connectors[0].announcer.uri = TransportURI.parse(uri)
    connector = ours.add_network_connector(f"{uri}&minConnectTime=100&initialReconnectDelay=100")
    await ours.start()
    network.at_the_end(ours.stop)
    try:
        theirs.start(uri, "false")
        await until(lambda: connector.bridges)
        assert connector.bridges[0].remote_name == "activemq"
        bridges = ours.connectors[0].connections
        await until(lambda: any(each.serves_broker for each in bridges))  # type: ignore[attr-defined]
        here = await network.client(ours)
        await here.consumer(ORDERS)
        for scheme in ("discovery", "fanout"):  # the latter connects to both brokers
            async with await ConnectionFactory(f"{scheme}:({uri})").create_connection() as client:
                await client.start()
        theirs.stop()
        await until(lambda: not connector.bridges)
    finally:
        theirs.end()
