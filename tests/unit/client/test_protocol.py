"""What the client says to a broker, and what it makes of the answers."""

from __future__ import annotations

import logging
from collections.abc import Awaitable
from typing import Any, TypeVar

import anyio
import pytest

from pyjms.client.options import ClientOptions
from pyjms.enums import AcknowledgeMode, DeliveryMode
from pyjms.errors import (
    ConnectionFailedException,
    IllegalStateException,
    InvalidDestinationException,
    JMSException,
    RequestTimeoutException,
    TransactionRolledBackException,
)
from pyjms.jms.api import LocalTransactionEventListener, Synchronization
from pyjms.jms.destination import Queue, TemporaryQueue, Topic
from pyjms.jms.message import Message
from pyjms.testing.clock import VirtualClock
from pyjms.wire.openwire.commands import (
    AckType,
    ActiveMQMessage,
    ActiveMQTextMessage,
    BrokerInfo,
    Command,
    ConnectionControl,
    ConnectionInfo,
    ConsumerControl,
    ConsumerInfo,
    DestinationInfo,
    MessageAck,
    MessageDispatch,
    MessagePull,
    ProducerAck,
    ProducerInfo,
    RemoveInfo,
    RemoveSubscriptionInfo,
    Response,
    SessionInfo,
    ShutdownInfo,
    Throwable,
    TransactionInfo,
    TransactionType,
)
from pyjms.wire.openwire.commands import ConnectionError as ConnectionErrorCommand
from tests.kit.clients.scripted_broker import OpenPeer, Peer

T = TypeVar("T")

AUTO, CLIENT, DUPS_OK = AcknowledgeMode.AUTO, AcknowledgeMode.CLIENT, AcknowledgeMode.DUPS_OK
TRANSACTED = AcknowledgeMode.TRANSACTED
NON_PERSISTENT = DeliveryMode.NON_PERSISTENT


def shape(ack: MessageAck) -> tuple[Any, ...]:
    """Type, first and last sequence number, count, whether it is in a transaction."""
    first = ack.first_message_id and ack.first_message_id.producer_sequence_id
    last = ack.last_message_id and ack.last_message_id.producer_sequence_id
    return (
        AckType(ack.ack_type).name,
        first,
        last,
        ack.message_count,
        ack.transaction_id is not None,
    )


async def consumer_of(peer: Peer, mode: AcknowledgeMode = AUTO, name: str = "q") -> Any:
    session = await peer.connection.create_session(mode == TRANSACTED, mode)
    destination = Topic(name[6:]) if name.startswith("topic:") else Queue(name)
    return await session.create_consumer(destination)


# --- connections


@pytest.mark.fact("activemq-edges N6")
async def test_the_connection_is_announced_by_its_first_use_only(open_peer: OpenPeer) -> None:
    peer = await open_peer(start=False, user_name="ann", password="pw")
    await peer.settle()
    assert peer.mock.sent == []
    async with anyio.create_task_group() as tasks:
        for _ in range(3):
            tasks.start_soon(peer.connection.create_session)
    (info,) = peer.sent(ConnectionInfo)
    assert info is peer.mock.sent[0]
    assert info.connection_id == peer.connection.connection_id
    assert info.client_id == peer.connection.client_id != info.connection_id.value
    assert (info.user_name, info.password) == ("ann", "pw")
    assert (info.manageable, info.client_master, info.fault_tolerant) == (True, True, False)
    with pytest.raises(IllegalStateException):
        await peer.connection.set_client_id("late")
    session = await peer.connection.create_session()
    with pytest.raises(JMSException, match="clientID"):
        await session.create_durable_subscriber(Topic("t"), "s")


@pytest.mark.fact("activemq-broker V-A4")
async def test_advisories_are_watched_and_acknowledged_in_one_go(open_peer: OpenPeer) -> None:
    peer = await open_peer(watch_topic_advisories=True, start=False)
    await peer.connection.start()
    (info,) = peer.sent(ConsumerInfo)
    assert str(info.consumer_id) == f"{peer.connection.connection_id}:-1:1"
    assert str(info.destination) == (
        "topic://ActiveMQ.Advisory.TempQueue,ActiveMQ.Advisory.TempTopic"
    )
    assert (info.prefetch_size, info.no_local, info.dispatch_async) == (1000, True, True)
    temporary = TemporaryQueue("ID:other:1:1")
    session = await peer.connection.create_session()
    producer = await session.create_producer()
    with pytest.raises(InvalidDestinationException):
        await producer.send(Message(), destination=temporary)

    async def advise(operation: int) -> None:
        advisory = ActiveMQMessage(data_structure=DestinationInfo(None, temporary, operation))
        peer.mock.deliver(MessageDispatch(info.consumer_id, Topic("a"), advisory))
        await peer.settle()

    await advise(0)
    await producer.send(Message(), destination=temporary)
    await advise(1)
    with pytest.raises(InvalidDestinationException):
        await producer.send(Message(), destination=temporary)
    for _ in range(747):
        await advise(0)
    assert peer.sent(MessageAck) == []
    await advise(0)
    (ack,) = peer.sent(MessageAck)
    assert (ack.ack_type, ack.first_message_id, ack.message_count) == (2, None, 750)


@pytest.mark.fact("activemq-edges N16")
async def test_ids_have_activemqs_shapes(open_peer: Any) -> None:
    peer = await open_peer()
    connection_id = peer.connection.connection_id.value
    prefix, _, number = connection_id.rpartition(":")
    host, *numbers = prefix.removeprefix("ID:").rsplit("-", 3)
    assert prefix.startswith("ID:")
    assert host
    assert all(n.isdigit() for n in [*numbers, number])
    session = await peer.connection.create_session()
    producer = await session.create_producer(Queue("q"))
    consumer = await session.create_consumer(Queue("q"))
    second = await session.create_consumer(Queue("q"))
    assert str(session.session_id) == f"{connection_id}:1"
    assert str(producer.producer_id) == str(consumer.consumer_id) == f"{connection_id}:1:1"
    assert str(second.consumer_id) == f"{connection_id}:1:2"
    message = session.create_text_message("x")
    await producer.send(message)
    assert message.message_id == f"{connection_id}:1:1:1"
    prefixed = await open_peer(connection_id_prefix="C-", client_id_prefix="I-")
    assert prefixed.connection.connection_id.value.startswith("C-")
    assert prefixed.connection.client_id.startswith("I-")


@pytest.mark.fact("activemq-edges N11", "openwire-encoding 11/close connection")
async def test_close_flushes_removes_and_shuts_down(open_peer: Any) -> None:
    peer = await open_peer(watch_topic_advisories=True)
    consumer = await consumer_of(peer, DUPS_OK, "topic:t")
    dispatched = await peer.dispatch(consumer, "a", "b")
    await consumer.receive(1)
    await consumer.receive(1)
    peer.clear()
    await peer.connection.close()
    ack, advisories, connection, shutdown = peer.mock.sent
    assert shape(ack) == ("STANDARD", 1, 2, 2, False)
    assert isinstance(advisories, RemoveInfo)
    assert isinstance(connection, RemoveInfo)
    assert connection.object_id == peer.connection.connection_id
    assert connection.response_required
    assert connection.last_delivered_sequence_id == (
        dispatched[1].message.message_id.broker_sequence_id
    )
    assert isinstance(shutdown, ShutdownInfo)
    assert peer.mock.stopped


@pytest.mark.fact("activemq-edges N11")
async def test_close_waits_for_the_answer_so_long_only(
    open_peer: OpenPeer, clock: VirtualClock
) -> None:
    peer = await open_peer(close_timeout=2.0)
    peer.silent = lambda command: isinstance(command, RemoveInfo)
    before = clock.now()
    await peer.connection.close()
    assert clock.now() - before == pytest.approx(2)
    assert peer.mock.stopped


@pytest.mark.fact("activemq-edges N11", "activemq-broker R2")
async def test_closing_a_session_rolls_back_and_tells_what_was_delivered(
    open_peer: Any,
) -> None:
    peer = await open_peer()
    consumer = await consumer_of(peer, TRANSACTED)
    (dispatch, _) = await peer.dispatch(consumer, "a", "b")
    await consumer.receive(1)
    peer.clear()
    await consumer.session.close()
    ack, rollback, remove = peer.mock.sent
    assert shape(ack) == ("STANDARD", 1, 1, 1, True)
    assert (rollback.type, rollback.response_required) == (TransactionType.ROLLBACK, True)
    assert remove.object_id == consumer.session.session_id
    assert remove.last_delivered_sequence_id == dispatch.message.message_id.broker_sequence_id
    assert consumer.session.transaction.id is None


@pytest.mark.fact("activemq-edges N6a")
@pytest.mark.parametrize("unanswered", [ConnectionInfo, ConsumerInfo])
@pytest.mark.parametrize(("options", "seconds"), [({}, 30), ({"connect_response_timeout": 1.0}, 1)])
async def test_a_start_without_answer_times_out(
    open_peer: OpenPeer,
    clock: VirtualClock,
    unanswered: type[ConnectionInfo | ConsumerInfo],
    options: dict[str, float],
    seconds: int,
) -> None:
    peer = await open_peer(start=False, watch_topic_advisories=True, **options)
    peer.silent = lambda command: isinstance(command, unanswered)
    begin = clock.now()
    with pytest.raises(
        RequestTimeoutException, match=rf"within {seconds} s: it sent nothing that answers it"
    ):
        await peer.connection.start()
    assert clock.now() - begin == pytest.approx(seconds)
    peer.silent = lambda command: False
    await peer.connection.start()


@pytest.mark.fact("activemq-edges N6a")
async def test_answers_to_other_commands_do_not_end_the_start(open_peer: OpenPeer) -> None:
    peer = await open_peer(start=False)
    peer.mock.respond = lambda command: [Response(command.command_id + 7)] * 2
    with pytest.raises(RequestTimeoutException, match="it answered 2 commands that nobody has"):
        await peer.connection.start()


async def test_the_time_of_a_start_may_be_without_limit(
    open_peer: OpenPeer, clock: VirtualClock
) -> None:
    peer = await open_peer(start=False, query="?jms.connectResponseTimeout=0")
    peer.silent = lambda command: True
    with clock.timeout(3600) as scope:
        await peer.connection.start()
    assert scope.cancelled_caught


@pytest.mark.fact("activemq-edges N12")
async def test_errors_nobody_waits_for_go_to_the_exception_listener(open_peer: OpenPeer) -> None:
    heard: list[JMSException] = []
    peer = await open_peer()
    peer.connection.exception_listener = heard.append
    consumer = await consumer_of(peer)
    called = anyio.Event()

    def failing(message: Message) -> None:
        called.set()
        raise ValueError("the listener's own trouble")

    await consumer.set_message_listener(failing)
    await peer.dispatch(consumer, "x")
    await called.wait()
    assert heard == []
    peer.mock.deliver(ConnectionErrorCommand(Throwable("javax.jms.JMSException", "async trouble")))
    await peer.settle()
    assert [str(error) for error in heard] == ["async trouble"]
    peer.mock.fail()
    await peer.settle()
    assert [type(error) for error in heard[1:]] == [ConnectionFailedException]
    for call in (
        peer.connection.start,
        consumer.session.recover,
        lambda: consumer.receive(0),
    ):
        with pytest.raises(ConnectionFailedException, match="The JMS connection has failed"):
            await call()


async def test_errors_without_a_listener_are_logged(
    open_peer: OpenPeer, caplog: pytest.LogCaptureFixture
) -> None:
    peer = await open_peer()
    with caplog.at_level(logging.WARNING, "pyjms.client"):
        peer.mock.deliver(
            ConnectionErrorCommand(Throwable("javax.jms.JMSException", "async trouble"))
        )
        await peer.settle()
    assert "async trouble" in caplog.text


async def test_a_dead_connection_wakes_who_waits(open_peer: OpenPeer) -> None:
    peer = await open_peer(producer_window_size=1, use_async_send=True)
    consumer = await consumer_of(peer)
    producer = await consumer.session.create_producer(Queue("q"))
    await producer.send(Message())
    failures: list[BaseException] = []

    async def fails(call: Any) -> None:
        with pytest.raises(ConnectionFailedException) as raised:
            await call()
        failures.append(raised.value)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(fails, consumer.receive)
        tasks.start_soon(fails, lambda: producer.send(Message()))
        await peer.settle()
        peer.mock.fail()
    assert len(failures) == 2


async def test_the_broker_may_close_a_consumer_or_change_its_prefetch(open_peer: OpenPeer) -> None:
    peer = await open_peer()
    consumer = await consumer_of(peer)
    peer.mock.deliver(ConsumerControl(consumer_id=consumer.consumer_id, prefetch=7))
    await peer.settle()
    assert consumer.info.prefetch_size == 7
    peer.mock.deliver(ConsumerControl(consumer_id=consumer.consumer_id, close=True))
    await peer.settle()
    with pytest.raises(IllegalStateException, match="The Consumer is closed"):
        await consumer.receive(0)


# --- producers


@pytest.mark.parametrize(
    ("options", "transacted", "persistent", "waits"),
    [
        ({}, False, True, True),
        ({}, False, False, False),
        ({}, True, True, False),
        ({"use_async_send": True}, False, True, False),
        ({"always_sync_send": True}, False, False, True),
        ({"always_sync_send": True, "use_async_send": True}, True, False, True),
        ({"send_timeout": 1.0}, False, False, True),
        ({"send_timeout": 1.0}, True, True, True),
    ],
)
@pytest.mark.fact(
    "activemq-edges N2",
    "jms-api 3.7",
    "openwire-encoding 11/send, persistent, no tx",
    "openwire-encoding 11/send, non-persistent, or in a transaction",
)
async def test_which_sends_wait_for_the_broker(
    open_peer: OpenPeer, options: dict[str, Any], transacted: bool, persistent: bool, waits: bool
) -> None:
    peer = await open_peer(**options)
    session = await peer.connection.create_session(transacted)
    producer = await session.create_producer(Queue("q"))
    await producer.send(
        session.create_text_message("x"),
        delivery_mode=DeliveryMode.PERSISTENT if persistent else NON_PERSISTENT,
    )
    (message,) = peer.sent(ActiveMQTextMessage)
    assert message.response_required is waits
    assert (message.transaction_id is not None) is transacted
    if options.get("send_timeout"):
        peer.silent = lambda command: isinstance(command, ActiveMQTextMessage)
        with pytest.raises(RequestTimeoutException):
            await producer.send(session.create_text_message("y"))


async def test_cancelling_a_send_stops_the_wait_only(open_peer: Any) -> None:
    peer = await open_peer()
    session = await peer.connection.create_session()
    producer = await session.create_producer(Queue("q"))
    peer.silent = lambda command: isinstance(command, ActiveMQTextMessage)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(producer.send, session.create_text_message("x"))
        await peer.settle()
        tasks.cancel_scope.cancel()
    assert len(peer.sent(ActiveMQTextMessage)) == 1
    peer.silent = lambda command: False
    await producer.send(session.create_text_message("y"))
    assert [m.message_id.producer_sequence_id for m in peer.sent(ActiveMQTextMessage)] == [1, 2]


async def test_a_congested_transport_is_waited_for(open_peer: OpenPeer) -> None:
    peer = await open_peer()
    session = await peer.connection.create_session()
    producer = await session.create_producer(Queue("q"))
    peer.mock.full = True
    await producer.send(session.create_text_message("x"), delivery_mode=NON_PERSISTENT)
    assert not peer.mock.full


@pytest.mark.fact("activemq-edges N3")
async def test_send_stamps_the_message_and_copies_it(
    open_peer: OpenPeer, clock: VirtualClock
) -> None:
    peer = await open_peer()
    session = await peer.connection.create_session()
    producer = await session.create_producer(Queue("q"))
    message = session.create_text_message("x")
    message.redelivered = True
    await producer.send(message, priority=3, time_to_live=5)
    (command,) = peer.sent(ActiveMQTextMessage)
    now = clock.time_ms()
    assert (command.timestamp, command.expiration, command.priority) == (now, now + 5000, 3)
    assert command.persistent is True
    assert command.destination == message.destination == Queue("q")
    assert str(command.message_id) == message.message_id
    assert command.broker_path is None
    assert message.redelivered is False
    content = command.content
    message.text = "changed"
    message.properties["later"] = 1
    assert (command.content, command.marshalled_properties) == (content, None)
    producer.disable_message_timestamp = True
    await producer.send(message, time_to_live=5)
    command = peer.sent(ActiveMQTextMessage)[1]
    assert command.timestamp == command.expiration == 0
    shared = await open_peer(copy_message_on_send=False)
    session = await shared.connection.create_session()
    producer = await session.create_producer(Queue("q"))
    await producer.send(message)
    assert message.read_only_body
    assert message.read_only_properties


@pytest.mark.fact("activemq-edges N4")
async def test_a_full_window_holds_the_sender_until_acknowledged(open_peer: Any) -> None:
    peer = await open_peer(producer_window_size=2000, use_async_send=True)
    session = await peer.connection.create_session()
    producer = await session.create_producer(Queue("q"))
    assert peer.sent(ProducerInfo)[0].window_size == 2000
    message = session.create_text_message("ab")
    size = 1024 + 6
    await producer.send(message)
    await producer.send(message)
    assert producer.window.usage == 2 * size
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(producer.send, message)
        await peer.settle()
        assert len(peer.sent(ActiveMQTextMessage)) == 2
        peer.mock.deliver(ProducerAck(producer.producer_id, size))
    assert len(peer.sent(ActiveMQTextMessage)) == 3
    named = await session.create_producer(Queue("q?producer.windowSize=77"))
    assert named.window.size == 77
    always = await open_peer(producer_window_size=2000)
    session = await always.connection.create_session()
    waiting = await session.create_producer(Queue("q"))
    await waiting.send(message)
    assert waiting.window.usage == 0


@pytest.mark.fact(
    "openwire-encoding 11/create session",
    "openwire-encoding 11/create producer",
    "openwire-encoding 11/create consumer",
    "openwire-encoding 11/durable subscriber",
    "openwire-encoding 11/unsubscribe",
    "openwire-encoding 11/browser",
    "openwire-encoding 11/temp destination",
    "openwire-encoding 11/close consumer",
    "openwire-encoding 11/close producer / session",
)
async def test_what_is_asked_and_what_is_told(open_peer: OpenPeer) -> None:
    peer = await open_peer(client_id="me")

    async def said(step: Awaitable[T], answered: bool, *kinds: type[Command]) -> T:
        peer.clear()
        done = await step
        assert [type(command) for command in peer.mock.sent] == [*kinds]
        assert all(command.response_required is answered for command in peer.mock.sent)
        return done

    session = await said(peer.connection.create_session(), False, SessionInfo)
    anonymous = await said(session.create_producer(), True, ProducerInfo)
    assert peer.sent(ProducerInfo)[0].destination is None
    await said(session.create_producer(Queue("q")), True, ProducerInfo)
    (producer,) = peer.sent(ProducerInfo)
    assert (producer.destination, producer.window_size) == (Queue("q"), 0)
    assert not producer.dispatch_async
    consumer = await said(session.create_consumer(Queue("q")), True, ConsumerInfo)
    durable = await said(session.create_durable_subscriber(Topic("t"), "s"), True, ConsumerInfo)
    (info,) = peer.sent(ConsumerInfo)
    assert (info.client_id, info.subscription_name) == ("me", "s")
    temporary = await said(session.create_temporary_queue(), True, DestinationInfo)
    (made,) = peer.sent(DestinationInfo)
    assert (made.connection_id, made.destination) == (peer.connection.connection_id, temporary)
    assert made.operation_type == 0
    await said(session.delete_temporary(temporary), True, DestinationInfo)
    (deleted,) = peer.sent(DestinationInfo)
    assert (deleted.destination, deleted.operation_type, deleted.timeout) == (temporary, 1, 0)

    await said(consumer.close(), False, RemoveInfo)
    (gone,) = peer.sent(RemoveInfo)
    assert (gone.object_id, gone.last_delivered_sequence_id) == (consumer.consumer_id, -1)
    await durable.close()
    await said(session.unsubscribe("s"), True, RemoveSubscriptionInfo)
    (ended,) = peer.sent(RemoveSubscriptionInfo)
    assert (ended.client_id, ended.subscription_name) == ("me", "s")
    await said(anonymous.close(), False, RemoveInfo)
    assert peer.sent(RemoveInfo)[0].object_id == anonymous.producer_id
    await said(session.close(), False, RemoveInfo)  # with the producer that is still open
    assert peer.sent(RemoveInfo)[0].object_id == session.session_id


# --- consumers


async def test_a_consumer_is_announced_with_the_factorys_defaults(open_peer: OpenPeer) -> None:
    peer = await open_peer(client_id="me")
    session = await peer.connection.create_session()
    peer.clear()
    await session.create_consumer(Queue("q"))
    await session.create_consumer(Topic("t"), "a = 1", no_local=True)
    await session.create_durable_subscriber(Topic("t"), "name")
    lazy = await peer.connection.create_session(acknowledge_mode=CLIENT)
    await lazy.create_durable_subscriber(Topic("t"), "other")
    queue, topic, durable, slow = peer.sent(ConsumerInfo)
    assert (queue.prefetch_size, queue.dispatch_async, queue.client_id) == (1000, True, "me")
    assert (queue.exclusive, queue.retroactive, queue.no_local) == (False, False, False)
    assert (queue.optimized_acknowledge, queue.selector, queue.priority) == (False, None, 0)
    assert (topic.prefetch_size, topic.selector, topic.no_local) == (32767, "a = 1", True)
    assert (durable.prefetch_size, durable.subscription_name) == (1000, "name")
    assert slow.prefetch_size == 100
    changed = await open_peer(
        exclusive_consumer=True,
        use_retroactive_consumer=True,
        dispatch_async=False,
        optimize_acknowledge=True,
        optimized_message_dispatch=False,
        client_id="me",
        query="?jms.prefetchPolicy.maximumPendingMessageLimit=9",
    )
    session = await changed.connection.create_session()
    await session.create_consumer(Queue("q"))
    await session.create_durable_subscriber(Topic("t"), "name")
    info, durable = changed.sent(ConsumerInfo)
    assert (info.exclusive, info.retroactive, info.dispatch_async) == (True, True, False)
    assert (info.optimized_acknowledge, info.maximum_pending_message_limit) == (True, 9)
    assert durable.prefetch_size == 100


async def test_a_refused_consumer_leaves_nothing_behind(open_peer: OpenPeer) -> None:
    peer = await open_peer()
    session = await peer.connection.create_session()
    peer.refuse = lambda command: (
        Throwable("javax.jms.JMSException", "no") if isinstance(command, ConsumerInfo) else None
    )
    with pytest.raises(JMSException, match="no"):
        await session.create_consumer(Queue("q"))
    assert peer.connection.consumers == {}
    assert session.consumers == []
    peer.refuse = lambda command: (
        Throwable("javax.jms.JMSException", "no") if isinstance(command, ProducerInfo) else None
    )
    with pytest.raises(JMSException, match="no"):
        await session.create_producer(Queue("q"))
    assert peer.connection.producers == {}


@pytest.mark.fact("activemq-broker A5", "activemq-broker A8", "openwire-encoding 12/0 DELIVERED")
async def test_client_acknowledge_sends_delivered_at_half_the_prefetch(open_peer: OpenPeer) -> None:
    peer = await open_peer()
    consumer = await consumer_of(peer, CLIENT, "q?consumer.prefetchSize=4")
    await peer.dispatch(consumer, *"abcdef")
    for _ in range(6):
        message = await consumer.receive(1)
    message.acknowledge()
    assert [shape(ack) for ack in peer.sent(MessageAck)] == [
        ("DELIVERED", 1, 2, 2, False),
        ("DELIVERED", 3, 4, 2, False),
        ("DELIVERED", 5, 6, 2, False),
        ("STANDARD", 1, 6, 6, False),
    ]


@pytest.mark.fact("activemq-broker A3", "openwire-encoding 12/2 STANDARD")
async def test_auto_acknowledges_each_message(open_peer: OpenPeer) -> None:
    peer = await open_peer()
    consumer = await consumer_of(peer)
    await peer.dispatch(consumer, "a", "b")
    await consumer.receive(1)
    assert [shape(ack) for ack in peer.sent(MessageAck)] == [("STANDARD", 1, 1, 1, False)]
    seen: list[int] = []
    await consumer.set_message_listener(lambda m: seen.append(len(peer.sent(MessageAck))))
    await peer.settle()
    assert seen == [1]
    assert len(peer.sent(MessageAck)) == 2


@pytest.mark.fact(
    "activemq-broker A6",
    "openwire-encoding 12/0 DELIVERED",
    "openwire-encoding 12/2 STANDARD",
    "openwire-encoding 12/4 INDIVIDUAL",
)
async def test_transactions_acknowledge_at_their_end_or_one_by_one(open_peer: Any) -> None:
    peer = await open_peer()
    consumer = await consumer_of(peer, TRANSACTED, "q?consumer.prefetchSize=4")
    peer.clear()
    await peer.dispatch(consumer, *"abc")
    for _ in range(3):
        await consumer.receive(1)
    await consumer.session.commit()
    begin, delivered, standard, commit = peer.mock.sent
    assert (begin.type, begin.response_required) == (TransactionType.BEGIN, False)
    assert begin.transaction_id.value == 1
    assert shape(delivered) == ("DELIVERED", 1, 2, 2, True)
    assert shape(standard) == ("STANDARD", 1, 3, 3, True)
    assert commit.type == TransactionType.COMMIT_ONE_PHASE
    assert commit.response_required
    peer.clear()
    await consumer.session.commit()
    assert peer.mock.sent == []
    await peer.dispatch(consumer, "d")
    await consumer.receive(1)
    assert peer.sent(TransactionInfo)[0].transaction_id.value == 2
    for option in (
        "transacted_individual_ack",
        "non_blocking_redelivery",
        "message_priority_supported",
    ):
        peer = await open_peer(**{option: True})
        consumer = await consumer_of(peer, TRANSACTED)
        peer.clear()
        await peer.dispatch(consumer, *"ab")
        await consumer.receive(1)
        await consumer.receive(1)
        assert [shape(ack) for ack in peer.sent(MessageAck)] == [
            ("INDIVIDUAL", None, 1, 1, True),
            ("INDIVIDUAL", None, 2, 1, True),
        ]
        await consumer.session.commit()
        assert len(peer.sent(MessageAck)) == 2


@pytest.mark.fact("activemq-broker A7")
async def test_optimized_acknowledgement(open_peer: OpenPeer, clock: VirtualClock) -> None:
    peer = await open_peer(optimize_acknowledge=True)
    consumer = await consumer_of(peer, AUTO, "q?consumer.prefetchSize=10")
    await peer.dispatch(consumer, *"abcdefgh")
    for _ in range(8):
        await consumer.receive(1)
    assert [shape(ack) for ack in peer.sent(MessageAck)] == [("STANDARD", 1, 7, 7, False)]
    await clock.sleep(0.35)
    await peer.settle()
    assert len(peer.sent(MessageAck)) == 1, "looked at only when a message arrives"
    await peer.dispatch(consumer, "i")
    await consumer.receive(1)
    assert shape(peer.sent(MessageAck)[1]) == ("STANDARD", 8, 9, 2, False)
    await peer.dispatch(consumer, "j")
    await consumer.receive(1)
    await consumer.close()
    assert shape(peer.sent(MessageAck)[2]) == ("STANDARD", 10, 10, 1, False)

    timed = await open_peer(optimize_acknowledge=True, optimized_ack_scheduled_ack_interval=2.0)
    consumer = await consumer_of(timed)
    await timed.dispatch(consumer, "a")
    await consumer.receive(1)
    assert timed.sent(MessageAck) == []
    await clock.sleep(2.1)
    assert [shape(ack) for ack in timed.sent(MessageAck)] == [("STANDARD", 1, 1, 1, False)]

    for news in (
        ConnectionControl(fault_tolerant=True),
        BrokerInfo(fault_tolerant_configuration=True),
    ):
        shared = await open_peer(optimize_acknowledge=True)
        consumer = await consumer_of(shared)
        shared.mock.deliver(news)
        await shared.dispatch(consumer, "a")
        await consumer.receive(1)
        assert len(shared.sent(MessageAck)) == 1


async def test_a_redelivery_never_breaks_an_optimized_range(
    open_peer: OpenPeer, clock: VirtualClock
) -> None:
    peer = await open_peer(optimize_acknowledge=True)
    consumer = await consumer_of(peer)
    await peer.dispatch(consumer, "a", "b")
    fail = True

    def listener(message: Any) -> None:
        nonlocal fail
        if message.text == "b" and fail:
            fail = False
            raise ValueError("once")

    await consumer.set_message_listener(listener)
    await peer.settle()
    assert [shape(ack) for ack in peer.sent(MessageAck)] == [("STANDARD", 1, 1, 1, False)]
    await clock.sleep(1.1)
    await peer.settle()
    assert shape(peer.sent(MessageAck)[-1]) == ("STANDARD", 2, 2, 1, False)


@pytest.mark.fact("activemq-edges N10", "openwire-encoding 12/6 EXPIRED")
async def test_expired_messages_are_acknowledged_as_such(
    open_peer: OpenPeer, clock: VirtualClock
) -> None:
    peer = await open_peer()
    consumer = await consumer_of(peer)
    await peer.dispatch(consumer, "dead", expiration=clock.time_ms())
    await peer.dispatch(consumer, "alive", expiration=clock.time_ms() + 1)
    message = await consumer.receive(0)
    assert message.text == "alive"
    assert [shape(ack) for ack in peer.sent(MessageAck)] == [
        ("EXPIRED", 1, 1, 1, False),
        ("STANDARD", 2, 2, 1, False),
    ]
    assert ClientOptions().consumer_expiry_check_enabled


@pytest.mark.fact("openwire-encoding 12/3 REDELIVERED", "openwire-encoding 12/1 POISON")
async def test_redelivered_is_sent_from_the_second_rollback_on(open_peer: OpenPeer) -> None:
    peer = await open_peer()
    consumer = await consumer_of(peer, TRANSACTED)
    await peer.dispatch(consumer, "a")
    kinds: list[list[str]] = []
    for _ in range(8):
        peer.clear()
        if await consumer.receive(2) is not None:
            await consumer.session.rollback()
        kinds.append([shape(ack)[0] for ack in peer.sent(MessageAck)])
    assert kinds[0] == ["STANDARD"]
    assert kinds[1] == ["STANDARD", "REDELIVERED"]
    assert kinds[6] == ["STANDARD", "POISON"]
    assert kinds[7] == []


@pytest.mark.fact("activemq-broker R8", "openwire-encoding 12/1 POISON")
async def test_duplicates_are_poisoned_unless_a_transaction_has_the_first(
    open_peer: Any,
) -> None:
    peer = await open_peer()
    consumer = await consumer_of(peer, CLIENT)
    (dispatch,) = await peer.dispatch(consumer, "a")
    await consumer.receive(1)
    peer.mock.deliver(dispatch)
    await peer.settle()
    assert consumer.buffered == 0
    (ack,) = peer.sent(MessageAck)
    assert shape(ack)[0] == "POISON"
    assert ack.poison_cause.message == (
        f"Suppressing duplicate delivery on connection, consumer {consumer.consumer_id}"
    )
    for other_consumer in (False, True):
        peer = await open_peer()
        consumer = await consumer_of(peer, TRANSACTED)
        (dispatch,) = await peer.dispatch(consumer, "a")
        await consumer.receive(1)
        target = await consumer_of(peer, TRANSACTED) if other_consumer else consumer
        dispatch.consumer_id = target.consumer_id
        peer.clear()
        peer.mock.deliver(dispatch)
        await peer.settle()
        if other_consumer:
            assert target.buffered == 1
        else:
            assert [shape(ack)[0] for ack in peer.sent(MessageAck)] == ["DELIVERED"]
    careless = await open_peer(check_for_duplicates=False)
    consumer = await consumer_of(careless)
    (dispatch,) = await careless.dispatch(consumer, "a")
    careless.mock.deliver(dispatch)
    await careless.settle()
    assert consumer.buffered == 2


@pytest.mark.parametrize("mode", [AUTO, TRANSACTED])
async def test_a_receive_pulls_again_if_the_broker_answers_with_a_duplicate(
    open_peer: OpenPeer, mode: AcknowledgeMode
) -> None:
    peer = await open_peer()
    consumer = await consumer_of(peer, mode, "q?consumer.prefetchSize=0")

    async def answer(*dispatches: MessageDispatch) -> None:
        for dispatch in dispatches:
            await peer.settle()
            peer.mock.deliver(dispatch)

    first, second = peer.dispatch_of(consumer, "a"), peer.dispatch_of(consumer, "b")
    for text, answers in (("a", [first]), ("b", [first, second])):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(answer, *answers)
            assert (await consumer.receive(3600)).text == text
    assert len(peer.sent(MessagePull)) == 3


@pytest.mark.fact("openwire-encoding 11/receive with prefetch 0")
async def test_pull_says_how_long_it_waits(open_peer: OpenPeer) -> None:
    peer = await open_peer()
    consumer = await consumer_of(peer, AUTO, "q?consumer.prefetchSize=0")
    end = MessageDispatch(consumer.consumer_id)

    async def receive(timeout: float | None, *answers: MessageDispatch) -> Any:
        results: list[Any] = []

        async def wait() -> None:
            results.append(await consumer.receive(timeout))

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(wait)
            await peer.settle()
            for answer in answers:
                peer.mock.deliver(answer)
                await peer.settle()
        return results[0]

    assert await receive(0.3, end) is None
    assert await receive(0, end) is None
    assert (await receive(3, peer.dispatch_of(consumer, "a"))).text == "a"
    assert (await receive(None, peer.dispatch_of(consumer, "b"))).text == "b"
    assert [pull.timeout for pull in peer.sent(MessagePull)] == [300, -1, 3000, 0]
    expired = peer.dispatch_of(consumer, "c", expiration=1)
    assert (await receive(None, expired, peer.dispatch_of(consumer, "d"))).text == "d"
    assert [pull.timeout for pull in peer.sent(MessagePull)][4:] == [0, 0]
    # Artemis answers a pull without timeout at once; the receive waits for ever all the same.
    assert (await receive(None, end, end, peer.dispatch_of(consumer, "e"))).text == "e"
    assert (await receive(None, end, peer.dispatch_of(consumer, "f"))).text == "f"
    assert [pull.timeout for pull in peer.sent(MessagePull)][6:] == [0, *[30_000] * 4]


async def test_the_end_of_a_cancelled_receive_does_not_end_one_without_timeout(
    open_peer: OpenPeer,
) -> None:
    peer = await open_peer()
    consumer = await consumer_of(peer, AUTO, "q?consumer.prefetchSize=0")
    with anyio.move_on_after(0.01):
        await consumer.receive(5)
    received: list[Any] = []

    async def wait() -> None:
        received.append(await consumer.receive())

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(wait)
        await peer.settle()
        peer.mock.deliver(MessageDispatch(consumer.consumer_id))
        await peer.settle()
        assert not received
        peer.mock.deliver(peer.dispatch_of(consumer, "a"))
    assert received[0].text == "a"


@pytest.mark.fact("openwire-encoding 11/ack")
async def test_synchronous_acknowledgements_are_waited_for(open_peer: OpenPeer) -> None:
    peer = await open_peer(send_acks_async=False)
    consumer = await consumer_of(peer)
    await peer.dispatch(consumer, "a", "b")
    await consumer.receive(1)
    assert [ack.response_required for ack in peer.sent(MessageAck)] == [True]
    peer.refuse = lambda command: (
        Throwable("javax.jms.JMSException", "no such message")
        if isinstance(command, MessageAck)
        else None
    )
    with pytest.raises(JMSException, match="no such message"):
        await consumer.receive(1)
    heard: list[JMSException] = []
    peer.connection.exception_listener = heard.append
    await consumer.set_message_listener(lambda message: None)
    await peer.dispatch(consumer, "c")
    assert [str(error) for error in heard] == ["no such message"]
    peer.refuse = lambda command: None
    client = await consumer_of(peer, CLIENT, "r")
    await peer.dispatch(client, "d")
    session = client.session
    message = await client.receive(1)
    await message.acknowledge()
    assert peer.sent(MessageAck)[-1].response_required
    transacted = await consumer_of(peer, TRANSACTED, "s")
    await peer.dispatch(transacted, "e")
    await transacted.receive(1)
    await transacted.session.commit()
    assert not peer.sent(MessageAck)[-1].response_required
    assert session.acknowledge_mode == CLIENT


# --- transactions


class Rollbacks(Synchronization, LocalTransactionEventListener):
    """Notes rollbacks."""

    def __init__(self, calls: list[str]) -> None:
        self.calls = calls

    def rollback_event(self) -> None:
        self.calls.append("event")

    def after_rollback(self) -> None:
        self.calls.append("after")


@pytest.mark.fact("jms-api 13/TransactionRolledBackException", "jms-api 2.9")
async def test_a_commit_that_fails_is_a_rollback(open_peer: Any) -> None:
    peer = await open_peer()
    consumer = await consumer_of(peer, TRANSACTED)
    await peer.dispatch(consumer, "a")
    for class_name in ("javax.jms.TransactionRolledBackException", "javax.jms.JMSException"):
        message = await consumer.receive(2)
        assert message is not None
        peer.refuse = lambda command, name=class_name: (
            Throwable(name, "the store is full") if isinstance(command, TransactionInfo) else None
        )
        calls: list[str] = []
        for registered in (Rollbacks(calls), Rollbacks(calls)):
            consumer.session.set_local_transaction_event_listener(registered)
            consumer.session.add_synchronization(registered)
        with pytest.raises(TransactionRolledBackException, match="the store is full"):
            await consumer.session.commit()
        assert calls == ["event", "after", "after"]
    peer.refuse = lambda command: None
    message = await consumer.receive(2)
    assert (message.text, message.delivery_count) == ("a", 3)
    await consumer.session.commit()


async def test_a_rollback_the_broker_refuses_is_one_here(open_peer: OpenPeer) -> None:
    peer = await open_peer()
    consumer = await consumer_of(peer, TRANSACTED)
    await peer.dispatch(consumer, "a")
    await consumer.receive(1)
    peer.refuse = lambda command: (
        Throwable("javax.jms.JMSException", "no") if isinstance(command, TransactionInfo) else None
    )
    with pytest.raises(JMSException, match="no"):
        await consumer.session.rollback()
    peer.refuse = lambda command: None
    assert (await consumer.receive(2)).delivery_count == 2


async def test_a_commit_in_doubt_raises_the_connections_failure(open_peer: OpenPeer) -> None:
    peer = await open_peer()
    session = await peer.connection.create_session(True)
    producer = await session.create_producer(Queue("q"))
    await producer.send(Message())
    peer.silent = lambda command: isinstance(command, TransactionInfo)
    failures: list[Exception] = []

    async def commit() -> None:
        with pytest.raises(ConnectionFailedException) as raised:
            await session.commit()
        failures.append(raised.value)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(commit)
        await peer.settle()
        peer.mock.fail()
    assert len(failures) == 1


async def test_a_cancelled_commit_counts_as_committed(open_peer: OpenPeer) -> None:
    peer = await open_peer()
    consumer = await consumer_of(peer, TRANSACTED)
    await peer.dispatch(consumer, "a")
    await consumer.receive(1)
    peer.silent = lambda command: isinstance(command, TransactionInfo)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(consumer.session.commit)
        await peer.settle()
        tasks.cancel_scope.cancel()
    peer.silent = lambda command: False
    assert consumer.ledger.delivered == []
    assert await consumer.receive(5) is None


async def test_how_a_session_learns_of_its_removal(open_peer: OpenPeer) -> None:
    peer = await open_peer()
    session = await peer.connection.create_session()
    assert [s.session_id for s in peer.sent(SessionInfo)] == [session.session_id]
    peer.clear()
    producer = await session.create_producer(Queue("q"))
    consumer = await session.create_consumer(Queue("q"))
    await producer.close()
    await consumer.close()
    await session.close()
    removed = peer.sent(RemoveInfo)
    assert [(r.object_id, r.last_delivered_sequence_id) for r in removed] == [
        (producer.producer_id, -2),
        (consumer.consumer_id, -1),
        (session.session_id, -2),
    ]
    assert not any(r.response_required for r in removed)
