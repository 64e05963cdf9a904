"""Raw commands over TCP and vm with a complete broker, as seen by any client."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any, Protocol

import pytest

from pyjms.errors import (
    DestinationDoesNotExistException,
    InvalidClientIDException,
    JMSException,
    TransactionRolledBackException,
    XAException,
)
from pyjms.jms.destination import Queue, TemporaryQueue, Topic
from pyjms.transport.mock import RecordingListener
from pyjms.transport.openwire import RequestTransport
from pyjms.transport.registry import create_transport
from pyjms.wire.openwire.commands import (
    AckType,
    ActiveMQTextMessage,
    ConnectionId,
    ConnectionInfo,
    ConsumerId,
    ConsumerInfo,
    DestinationInfo,
    IntegerResponse,
    LocalTransactionId,
    MessageAck,
    MessageDispatch,
    MessageId,
    ProducerAck,
    ProducerId,
    ProducerInfo,
    RemoveInfo,
    SessionId,
    SessionInfo,
    TransactionId,
    TransactionInfo,
    TransactionType,
    XATransactionId,
)
from pyjms.wire.openwire.commands import ConnectionError as ConnectionErrorCommand
from pyjms.wire.openwire.primitives import decode_text, encode_text
from pyjms_broker.service import BrokerService
from tests.kit.values import present

Q = Queue("test.q")


class Client:
    """A connection with one session, one anonymous producer and one consumer at most."""

    def __init__(self, url: str, name: str) -> None:
        self.transport: RequestTransport = create_transport(url)
        self.heard = self.transport.listener = RecordingListener()
        self.name = name
        self.id = ConnectionId(name)
        self.producer_id = ProducerId(name, 1, 1)
        self.consumer_id = ConsumerId(name, 1, 1)
        self.ask = self.transport.request
        self.tell = self.transport.oneway
        self._sent = 0

    async def open(self, window: int = 0) -> None:
        await self.transport.start()
        await self.ask(ConnectionInfo(self.id, f"client-{self.name}", manageable=True))
        self.tell(SessionInfo(SessionId(self.name, 1)))
        await self.ask(ProducerInfo(self.producer_id, None, window_size=window))

    async def consume(self, destination: Queue | Topic = Q, prefetch: int = 100) -> None:
        await self.ask(
            ConsumerInfo(self.consumer_id, destination=destination, prefetch_size=prefetch)
        )

    def message(
        self, text: str, destination: Queue | Topic = Q, xid: TransactionId | None = None
    ) -> ActiveMQTextMessage:
        self._sent += 1
        return ActiveMQTextMessage(
            producer_id=self.producer_id,
            destination=destination,
            transaction_id=xid,
            message_id=MessageId(None, self.producer_id, self._sent),
            persistent=True,
            priority=4,
            content=encode_text(text),
        )

    async def receive(self) -> tuple[str | None, MessageDispatch]:
        dispatch = await self.heard.next(MessageDispatch)
        assert dispatch.message is not None
        return decode_text(present(dispatch.message.content)), dispatch

    def ack(self, dispatch: MessageDispatch, **fields: Any) -> MessageAck:
        assert dispatch.message is not None
        identifier = dispatch.message.message_id
        fields = {"ack_type": AckType.STANDARD, "message_count": 1, **fields}
        return MessageAck(
            destination=dispatch.destination,
            consumer_id=dispatch.consumer_id,
            first_message_id=identifier,
            last_message_id=identifier,
            **fields,
        )

    async def depth(self, destination: Queue = Q) -> int:
        """Number of messages that a browser sees there."""
        browser = ConsumerId(self.name, 1, 99)
        await self.ask(
            ConsumerInfo(browser, browser=True, destination=destination, prefetch_size=100)
        )
        seen = 0
        while (await self.heard.next(MessageDispatch)).message is not None:
            seen += 1
        await self.ask(RemoveInfo(browser))
        return seen


@pytest.fixture
async def service() -> AsyncIterator[BrokerService]:
    service = BrokerService("e2e", persistent=False)
    service.add_connector("tcp://127.0.0.1:0")
    async with service:
        yield service


class Connect(Protocol):
    """Opens a new client's connection, with a session and a producer."""

    async def __call__(self, name: str = "c1", *, window: int = 0) -> Client: ...


@pytest.fixture(params=["tcp", "vm", "vm?marshal=true", "tight+cache"])
async def connect(request: pytest.FixtureRequest, service: BrokerService) -> AsyncIterator[Connect]:
    url = service.connect_uri
    if request.param == "tight+cache":  # offered by both ends only if both say so: falls back
        url += "?wireFormat.tightEncodingEnabled=true&wireFormat.cacheEnabled=true"
    elif request.param != "tcp":
        url = request.param.replace("vm", "vm://e2e")
    clients: list[Client] = []

    async def connect(name: str = "c1", *, window: int = 0) -> Client:
        client = Client(url, name)
        clients.append(client)
        await client.open(window)
        return client

    yield connect
    for client in clients:
        await client.transport.stop()


async def test_send_and_receive(connect: Connect) -> None:
    producer, consumer = await connect("p"), await connect("c")
    await consumer.consume()
    for n in range(50):
        producer.tell(producer.message(f"m{n}"))
    await producer.ask(producer.message("last"))
    for expected in [*(f"m{n}" for n in range(50)), "last"]:
        text, dispatch = await consumer.receive()
        assert text == expected
        consumer.tell(consumer.ack(dispatch))
    assert await consumer.depth() == 0


@pytest.mark.fact(
    "activemq-broker C1",
    "openwire-encoding 14/clientId in use",
    "openwire-encoding 14/no clientId",
)
async def test_client_ids_are_unique_and_needed(connect: Connect, service: BrokerService) -> None:
    first = await connect("one")
    second = await connect("two")
    with pytest.raises(InvalidClientIDException) as caught:
        await second.ask(ConnectionInfo(ConnectionId("three"), "client-one"))
    address = next(
        c.remote_address
        for door in (*service.connectors, service_vm_door())
        if door is not None
        for c in door.connections
        if first.id in c.resources.connections
    )
    assert caught.value.reason == (
        f"Broker: e2e - Client: client-one already connected from {address}"
    )
    third = await connect("four")
    with pytest.raises(InvalidClientIDException) as caught:
        await third.ask(ConnectionInfo(ConnectionId("five"), None))
    assert caught.value.reason == "No clientID specified for connection request"


def service_vm_door() -> Any:
    from pyjms_broker.connector.vm import registry as vm_registry

    registration = vm_registry.find("e2e")
    return registration.connector if registration is not None else None


@pytest.mark.fact("activemq-broker C3")
async def test_replayed_adds_change_nothing(connect: Connect) -> None:
    client = await connect()
    xid = LocalTransactionId(1, client.id)
    for _ in range(2):
        await client.ask(ConnectionInfo(client.id, "client-c1"))
        await client.ask(SessionInfo(SessionId("c1", 1)))
        await client.ask(ProducerInfo(client.producer_id))
        await client.consume()
        await client.ask(DestinationInfo(client.id, Queue("other"), 0))
        await client.ask(DestinationInfo(client.id, TemporaryQueue("c1:1"), 0))
        await client.ask(TransactionInfo(client.id, xid, TransactionType.BEGIN))
    client.tell(client.message("once", xid=xid))
    await client.ask(TransactionInfo(client.id, xid, TransactionType.COMMIT_ONE_PHASE))
    assert (await client.receive())[0] == "once"
    unknown = SessionId("c1", 9)
    with pytest.raises(JMSException) as caught:
        await client.ask(ConsumerInfo(ConsumerId("c1", 9, 1), destination=Q))
    assert caught.value.reason == (
        f"Cannot add a consumer to a session that had not been registered: {unknown}"
    )


@pytest.mark.fact("activemq-broker C4")
@pytest.mark.parametrize("politely", [True, False])
async def test_a_closed_connection_leaves_no_resources(connect: Connect, politely: bool) -> None:
    going, staying = await connect("going"), await connect("staying")
    await going.consume(prefetch=10)
    await staying.ask(staying.message("in flight"))
    assert (await going.receive())[0] == "in flight"
    temporary = TemporaryQueue("going:1")
    await going.ask(DestinationInfo(going.id, temporary, 0))
    local = LocalTransactionId(1, going.id)
    branch, prepared = XATransactionId(1, b"g", b"1"), XATransactionId(1, b"g", b"2")
    for xid in (local, branch, prepared):
        await going.ask(TransactionInfo(going.id, xid, TransactionType.BEGIN))
        await going.ask(going.message(f"in {xid}", Queue("uncommitted"), xid))
    vote = await going.ask(TransactionInfo(going.id, prepared, TransactionType.PREPARE))
    assert isinstance(vote, IntegerResponse)

    if politely:
        await going.ask(RemoveInfo(going.id, -1))
    else:
        await going.transport.stop()
    # consumer gone: its message goes to another one
    await staying.consume()
    assert (await staying.receive())[0] == "in flight"
    # producer gone
    if politely:
        with pytest.raises(JMSException, match="invalid \\(null\\) producer state"):
            await going.ask(going.message("late"))
    # temporary destination gone
    with pytest.raises(DestinationDoesNotExistException, match="temp-queue://going:1"):
        await staying.ask(staying.message("late", temporary))
    # transactions gone, but the prepared branch
    with pytest.raises(XAException) as caught:
        await staying.ask(TransactionInfo(staying.id, branch, TransactionType.COMMIT_TWO_PHASE))
    assert caught.value.xa_error_code == -4
    await staying.ask(TransactionInfo(staying.id, prepared, TransactionType.COMMIT_TWO_PHASE))
    assert await staying.depth(Queue("uncommitted")) == 1


@pytest.mark.fact("activemq-broker C5")
async def test_a_oneway_failure_is_reported_and_makes_the_transaction_rollback_only(
    connect: Connect,
) -> None:
    client = await connect()
    nowhere = TemporaryQueue("nobody:1")
    client.tell(client.message("x", nowhere))
    error = await client.heard.next(ConnectionErrorCommand)
    assert error.exception is not None
    assert str(nowhere) in str(error.exception.message)

    xid = LocalTransactionId(1, client.id)
    client.tell(TransactionInfo(client.id, xid, TransactionType.BEGIN))
    client.tell(client.message("good", xid=xid))
    client.tell(client.message("bad", nowhere, xid))
    with pytest.raises(TransactionRolledBackException):
        await client.ask(TransactionInfo(client.id, xid, TransactionType.COMMIT_ONE_PHASE))
    assert await client.depth() == 0


@pytest.mark.fact("activemq-broker C7")
async def test_acks_of_unknown_consumers_and_messages(
    connect: Connect, caplog: pytest.LogCaptureFixture
) -> None:
    client = await connect()
    await client.consume()
    await client.ask(client.message("m"))
    _, dispatch = await client.receive()
    stranger = client.ack(dispatch)
    stranger.consumer_id = ConsumerId("c1", 1, 77)
    await client.ask(stranger)
    assert caplog.text == ""
    stranger.transaction_id = LocalTransactionId(1, client.id)
    await client.ask(stranger)
    assert "WARNING" in caplog.text
    wrong = client.ack(dispatch)
    wrong.first_message_id = wrong.last_message_id = MessageId(None, client.producer_id, 999)
    with pytest.raises(JMSException, match="^Unmatched acknowledge: "):  # noqa: RUF043
        await client.ask(wrong)
    await client.ask(client.ack(dispatch))  # the connection still serves
    assert await client.depth() == 0


@pytest.mark.fact("activemq-broker C9")
async def test_commands_that_make_no_sense(connect: Connect) -> None:
    client = await connect(window=10_000)
    message = client.message("m")
    message.producer_id = ProducerId("c1", 9, 1)
    with pytest.raises(JMSException) as caught:
        await client.ask(message)
    assert caught.value.reason == (
        "Cannot send message to queue://test.q with invalid (null) producer state"
    )
    await client.ask(SessionInfo(SessionId("nobody", 1)))
    with pytest.raises(JMSException) as caught:
        await client.ask(DestinationInfo(client.id, Q, 7))
    assert caught.value.reason == "Unknown operation type: 7"
    expired = client.message("old")
    expired.expiration = 1
    client.tell(expired)
    assert (await client.heard.next(ProducerAck)).producer_id == client.producer_id
    assert await client.depth() == 0


@pytest.mark.fact("activemq-broker M6")
async def test_a_window_opens_by_the_size_of_each_unanswered_send(connect: Connect) -> None:
    client = await connect(window=10_000)
    message = client.message("ab")
    client.tell(message)
    ack = await client.heard.next(ProducerAck)
    assert (ack.producer_id, ack.size) == (client.producer_id, 1024 + 6)
    await client.ask(client.message("answered"))
    assert sum(isinstance(c, ProducerAck) for c in client.heard.commands) == 1
    plain = await connect("plain")
    plain.tell(plain.message("no window"))
    assert await plain.depth() == 3
    assert not any(isinstance(c, ProducerAck) for c in plain.heard.commands)


async def test_the_error_names_a_deleted_temporary_destination(connect: Connect) -> None:
    client = await connect()
    with pytest.raises(DestinationDoesNotExistException) as caught:
        await client.ask(client.message("x", TemporaryQueue("nobody:1")))
    assert "temp-queue://nobody:1" in caught.value.reason


async def test_a_service_that_stops_closes_its_clients(
    connect: Connect, service: BrokerService
) -> None:
    client = await connect()
    await client.consume()
    await service.stop()
    await client.heard.error()
    assert service.connections.by_id == {}
