"""Plug-ins that show what a broker does: DOT files and datagrams. (activemq-broker 1.1)"""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from pyjms.errors import ConfigurationException
from pyjms.jms.destination import Queue, TemporaryQueue, Topic
from pyjms.testing.clock import VirtualClock
from pyjms.wire.openwire.commands import (
    ActiveMQMessage,
    Command,
    ConnectionInfo,
    ConsumerInfo,
    MessageAck,
    ProducerInfo,
    RemoveInfo,
    SessionInfo,
    TransactionInfo,
    TransactionType,
)
from pyjms.wire.openwire.format import OpenWireFormat
from pyjms_broker.plugins.datagram_trace import MulticastTraceBrokerPlugin, UDPTraceBrokerPlugin
from pyjms_broker.plugins.dot_files import ConnectionDotFilePlugin, DestinationDotFilePlugin
from pyjms_broker.service import BrokerService
from pyjms_broker.settings import load_broker_settings
from tests.kit.brokers.multicast import real_multicast
from tests.kit.clients.raw import BrokerWith
from tests.kit.waiting import until

__all__ = ["real_multicast"]

pytestmark = pytest.mark.fact(
    "activemq-broker 1.1/udpTrace / multicastTrace , connectionDotFile, destinationDotFile"
)


async def until_drawn(clock: VirtualClock, file: Path, *lines: str, without: str = "?") -> None:
    """Wait until a file has these lines, and nowhere that text."""

    def is_drawn() -> bool:
        text = file.read_text(encoding="utf-8") if file.exists() else ""
        return set(lines) <= set(text.split("\n")) and without not in text

    await until(is_drawn, turn=lambda: clock.advance(1))


async def test_a_graph_shows_who_uses_what(broker_with: BrokerWith, tmp_path: Path) -> None:
    file = tmp_path / "deep" / "a.dot"
    plugin = ConnectionDotFilePlugin(file=file, redraw_on_remove=True)
    async with VirtualClock() as clock, broker_with(plugins=[plugin]) as (_, client):
        name = client.name
        consumer = await client.consumer(Queue('a "b" \\c'))
        await client.producer(Topic("news"))
        await client.send(Queue("anywhere"), "x")
        await until_drawn(
            clock,
            file,
            'digraph "ActiveMQ Connections" {',
            f'"client {name}" [fillcolor=green, label="Client: {name}"];',
            f'"queue://a \\"b\\" \\\\c" -> "client {name}";',
            f'"client {name}" -> "topic://news";',
            f'"client {name}" -> "queue://anywhere";',
        )
        await client.remove(consumer)
        await until_drawn(clock, file, '"queue://anywhere" [fillcolor=red];', without="queue://a ")


async def test_a_tree_shows_the_destinations(broker_with: BrokerWith, tmp_path: Path) -> None:
    file = tmp_path / "d.dot"
    plugin = DestinationDotFilePlugin(file=file)
    async with VirtualClock() as clock, broker_with(plugins=[plugin]) as (_, client):
        for name in ("orders.new", "orders.old"):
            await client.destination(Queue(name))
        await client.destination(TemporaryQueue(f"{client.name}:1"))
        await until_drawn(
            clock,
            file,
            '"Queues" -> "queue://orders";',
            '"queue://orders" -> "queue://orders.new";',
            '"queue://orders.old" [fillcolor=red, label="old"];',
            f'"TemporaryQueues" -> "temp-queue://{client.name}:1";',
        )
        await client.destination(Queue("orders.old"), operation=1)
        await until_drawn(clock, file, '"Queues" -> "queue://orders";', without="orders.old")


async def test_the_files_of_a_configured_broker_are_in_its_directory(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    yaml = tmp_path / "broker.yaml"
    yaml.write_text(
        f"{{broker_name: b, persistent: false, data_directory: {tmp_path},"
        " plugins: [connection_dot_file, destination_dot_file]}",
        encoding="utf-8",
    )
    (tmp_path / "b" / "ActiveMQConnections.dot").mkdir(parents=True)
    async with BrokerService.from_settings(load_broker_settings(yaml)):
        await until((tmp_path / "b" / "ActiveMQDestinations.dot").exists)
        await until(lambda: "The graph is not written to" in caplog.text)
    for plugin in (ConnectionDotFilePlugin(), DestinationDotFilePlugin()):
        with pytest.raises(ConfigurationException, match="has no file"):
            await BrokerService("x", plugins=[plugin], persistent=False).start()


class Receiver:
    """Reads the commands of datagrams."""

    def __init__(self) -> None:
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._socket.bind(("127.0.0.1", 0))
        self._socket.setblocking(False)
        self.port = self._socket.getsockname()[1]
        self._format = OpenWireFormat()
        self._format.negotiate(self._format.local_info())

    def commands(self) -> list[Command]:
        """Return those that have arrived since the last call."""
        found: list[Command] = []
        while True:
            try:
                found += self._format.receive_data(self._socket.recv(65_536))
            except BlockingIOError:
                return found

    def close(self) -> None:
        self._socket.close()


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    made = Receiver()
    yield made
    made.close()


async def test_commands_are_sent_as_datagrams(
    broker_with: BrokerWith, receiver: Receiver, caplog: pytest.LogCaptureFixture
) -> None:
    plugin = UDPTraceBrokerPlugin(destination=f"udp://localhost:{receiver.port}")
    async with broker_with(plugins=[plugin]) as (_, client):
        consumer = await client.consumer(Queue("q"))
        await client.send(Queue("q"), "the body")
        await client.transaction(TransactionType.BEGIN, client.local(1))
        await client.ack(await client.dispatched(), transaction_id=client.local(1))
        await client.transaction(TransactionType.COMMIT_ONE_PHASE, client.local(1))
        await client.remove(consumer)
        found = receiver.commands()
        connection = found[0]
        assert isinstance(connection, ConnectionInfo)
        assert (connection.user_name, connection.password) == ("joe", None)
        kinds = [type(each) for each in found]
        for kind in (ConsumerInfo, ProducerInfo, SessionInfo, MessageAck, RemoveInfo):
            assert kind in kinds
        ends = [each.type for each in found if isinstance(each, TransactionInfo)]
        assert ends == [TransactionType.BEGIN, TransactionType.COMMIT_ONE_PHASE]
        assert messages(found) == [Queue("q")]
        await client.send(Queue("large"), "x" * 5000)
        assert messages(receiver.commands()) == []
        assert "1 datagrams were not sent" in caplog.text
        assert "ActiveMQTextMessage: it has 5" in caplog.text


def messages(commands: list[Command]) -> list[object]:
    return [each.destination for each in commands if isinstance(each, ActiveMQMessage)]


@pytest.mark.usefixtures("real_multicast")
async def test_a_client_does_not_notice_that_nobody_receives(broker_with: BrokerWith) -> None:
    nobody = UDPTraceBrokerPlugin(destination="udp://127.0.0.1:9", broadcast=False)
    group = MulticastTraceBrokerPlugin(destination="multicast://239.255.2.3:9", time_to_live=0)
    async with broker_with(plugins=[nobody, group]) as (_, client):
        await client.consumer(Queue("q"))
        await client.send(Queue("q"), "one", "two")
        assert [(await client.message()).destination for _ in range(2)] == [Queue("q")] * 2


@pytest.mark.parametrize(
    ("plugin", "destination"),
    [
        (UDPTraceBrokerPlugin, "tcp://localhost:1"),
        (UDPTraceBrokerPlugin, "udp://localhost"),
        (UDPTraceBrokerPlugin, "udp://localhost:x"),
        (MulticastTraceBrokerPlugin, "multicast://127.0.0.1:1"),
        (MulticastTraceBrokerPlugin, "multicast://default:1"),
    ],
)
def test_wrong_addresses(plugin: type[UDPTraceBrokerPlugin], destination: str) -> None:
    with pytest.raises(ConfigurationException, match="destination: "):
        plugin(destination=destination)
