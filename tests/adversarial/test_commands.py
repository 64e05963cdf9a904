"""Well-formed commands that keep no rule: refused one by one, and everybody else is served."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from pyjms.jms.destination import Destination, Queue, TemporaryQueue, Topic
from pyjms.wire.openwire.commands import (
    AckType,
    ConnectionId,
    ConnectionInfo,
    ConsumerId,
    ConsumerInfo,
    DataArrayResponse,
    DataResponse,
    DestinationInfo,
    ExceptionResponse,
    IntegerResponse,
    LastPartialCommand,
    LocalTransactionId,
    MessageAck,
    MessageDispatch,
    MessageId,
    MessagePull,
    PartialCommand,
    ProducerId,
    ProducerInfo,
    RemoveInfo,
    Response,
    SessionId,
    SessionInfo,
    TransactionInfo,
)
from pyjms.wire.openwire.commands import ConnectionError as ConnectionErrorCommand
from pyjms_broker.connector.openwire.client_resources import MAXIMUM_SHARED
from pyjms_broker.service import BrokerService
from tests.kit.brokers.openwire_attacker import Connect

Q = Queue("q")


def ack_of(
    consumer_id: ConsumerId, kind: int, first: MessageId | None, last: MessageId, count: int
) -> MessageAck:
    ack = MessageAck()
    ack.consumer_id, ack.destination, ack.ack_type = consumer_id, Q, kind
    ack.first_message_id, ack.last_message_id, ack.message_count = first, last, count
    return ack


async def test_commands_before_the_connection_exists(
    peer: Connect, serves: Callable[[], Any]
) -> None:
    attacker = await peer()
    await attacker.negotiate()
    message = attacker.message(Q)
    assert "invalid (null) producer state" in await attacker.refused(message)
    for command in (
        ProducerInfo(attacker.producer_id),
        ConsumerInfo(ConsumerId("attacker", 1, 1), destination=Q),
        DestinationInfo(ConnectionId("attacker"), TemporaryQueue("t"), 0),
        RemoveInfo(SessionId("attacker", 1)),
        RemoveInfo(ConsumerId("attacker", 1, 1)),
        TransactionInfo(ConnectionId("attacker"), LocalTransactionId(1, ConnectionId("x")), 0),
    ):
        assert "had not been registered" in await attacker.refused(command)
    await serves()


async def test_members_without_ids_and_duplicate_ids(
    peer: Connect, serves: Callable[[], Any], service: BrokerService
) -> None:
    attacker = await peer()
    await attacker.connect()
    for command in (
        SessionInfo(None),
        ProducerInfo(None),
        ConsumerInfo(None, destination=Q),
        DestinationInfo(ConnectionId("attacker"), None, 0),
        DestinationInfo(ConnectionId("attacker"), Q, 77),
        ConnectionInfo(None, "x"),
        RemoveInfo(None),
        attacker.message(None),
        ConsumerInfo(ConsumerId("attacker", 1, 9), destination=None),
    ):
        await attacker.refused(command)
    nameless = attacker.message(Q)
    nameless.message_id = None
    await attacker.refused(nameless)
    for _ in range(3):
        assert type(await attacker.ask(SessionInfo(SessionId("attacker", 1)))) is Response
        await attacker.consume(Q, 1)
    (queue,) = service.region_broker.destinations_matching(Q)
    assert queue.statistics.consumers == 1
    await serves()


async def test_acknowledgements_of_what_was_never_sent(
    peer: Connect, serves: Callable[[], Any], service: BrokerService
) -> None:
    attacker = await peer()
    await attacker.connect()
    consumer_id = await attacker.consume(Q)
    await attacker.tell(*(attacker.message(Q, bytes([n])) for n in range(3)))
    dispatches = await attacker.heard_of(MessageDispatch, 3)
    first, _, last = (d.message.message_id for d in dispatches)
    unknown = MessageId(None, ProducerId("nobody", 1, 1), 5)
    for kind in (AckType.STANDARD, AckType.POISON, AckType.EXPIRED):
        await attacker.refused(ack_of(consumer_id, kind, last, first, 3))
        await attacker.refused(ack_of(consumer_id, kind, unknown, unknown, 1))
    for kind in (AckType.DELIVERED, AckType.INDIVIDUAL, AckType.REDELIVERED):
        await attacker.refused(ack_of(consumer_id, kind, None, unknown, 1))
    for count in (2**31 - 1, -(2**31), 0):
        await attacker.refused(ack_of(consumer_id, AckType.STANDARD, first, last, count))
    await attacker.refused(ack_of(consumer_id, 99, first, last, 3))
    stranger = ConsumerId("attacker", 1, 4711)
    assert type(await attacker.ask(ack_of(stranger, AckType.STANDARD, first, last, 3))) is Response
    assert type(await attacker.ask(ack_of(consumer_id, AckType.STANDARD, first, last, 3))) is (
        Response
    )
    (queue,) = service.region_broker.destinations_matching(Q)
    assert queue.statistics.messages == 0
    assert queue.memory.used == 0
    await serves()


async def test_messages_with_the_same_id_are_all_released(
    peer: Connect, gone: Callable[[], Any], service: BrokerService
) -> None:
    """Ids without a producer are not audited; a window must not lose one under the other's id."""
    attacker = await peer()
    await attacker.connect()
    consumer_id = await attacker.consume(Q)
    for body in (b"1", b"2", b"3"):
        message = attacker.message(Q, body)
        message.message_id = MessageId(None, None, 7)
        assert type(await attacker.ask(message)) is Response
    dispatches = await attacker.heard_of(MessageDispatch, 3)
    same = dispatches[0].message.message_id
    await attacker.ask(ack_of(consumer_id, AckType.STANDARD, same, same, 1))
    await attacker.ask(ack_of(consumer_id, AckType.INDIVIDUAL, same, same, 1))
    (queue,) = service.region_broker.destinations_matching(Q)
    assert queue.statistics.messages == 1
    assert queue.statistics.inflight == 1
    await attacker.leave()
    await gone()
    assert queue.statistics.inflight == 0
    heir = await peer("heir")
    await heir.connect()
    await heir.consume(Q)
    (left,) = await heir.heard_of(MessageDispatch)
    assert left.message.content == b"3"


async def test_headers_beyond_their_range(peer: Connect, serves: Callable[[], Any]) -> None:
    attacker = await peer()
    await attacker.connect()
    await attacker.consume(Q)
    odd = attacker.message(Q, b"odd")
    odd.priority, odd.expiration, odd.timestamp = 127, -5, -(2**63)
    odd.group_id, odd.group_sequence, odd.redelivery_counter = "g", -(2**31), 2**31 - 1
    assert type(await attacker.ask(odd)) is Response
    (dispatch,) = await attacker.heard_of(MessageDispatch)
    assert dispatch.message.content == b"odd"
    await serves()


async def test_what_belongs_to_another_connection_stays_there(
    peer: Connect, service: BrokerService
) -> None:
    victim, attacker = await peer("victim"), await peer()
    await victim.connect()
    await attacker.connect()
    temporary = TemporaryQueue("ID:victim:1")
    assert type(await victim.ask(DestinationInfo(ConnectionId("victim"), temporary, 0))) is Response
    consumer_id = await victim.consume(temporary)
    for command in (
        RemoveInfo(consumer_id),
        RemoveInfo(SessionId("victim", 1)),
        RemoveInfo(ProducerId("victim", 1, 1)),
        DestinationInfo(ConnectionId("victim"), temporary, 1),
        DestinationInfo(ConnectionId("attacker"), temporary, 1),
        ConsumerInfo(ConsumerId("victim", 1, 5), destination=Q),
        ProducerInfo(ProducerId("victim", 1, 5)),
    ):
        await attacker.refused(command)
    assert type(await attacker.ask(RemoveInfo(ConnectionId("victim")))) is Response  # not its own
    await attacker.tell(attacker.message(temporary, b"still here"))
    (dispatch,) = await victim.heard_of(MessageDispatch)
    assert dispatch.message.content == b"still here"


async def test_a_client_id_cannot_be_taken_from_a_live_connection(peer: Connect) -> None:
    victim, attacker, later = await peer("victim"), await peer(), await peer("later")
    await victim.connect(client_id="c")
    await attacker.negotiate()
    text = await attacker.refused(ConnectionInfo(ConnectionId("attacker"), "c"))
    assert text.startswith(
        "javax.jms.InvalidClientIDException: "
        "Broker: attacked - Client: c already connected from tcp://127.0.0.1:"
    )
    await later.negotiate()
    text = await later.refused(ConnectionInfo(ConnectionId("later"), None))
    assert "No clientID specified for connection request" in text
    assert type(await victim.ask(SessionInfo(SessionId("victim", 2)))) is Response


async def test_transaction_steps_that_do_not_exist(
    peer: Connect, serves: Callable[[], Any]
) -> None:
    attacker = await peer()
    await attacker.connect()
    xid = LocalTransactionId(1, ConnectionId("attacker"))
    for step in (1, 2, 3, 4, 8, 127):
        await attacker.refused(TransactionInfo(ConnectionId("attacker"), xid, step))
    await attacker.refused(TransactionInfo(ConnectionId("attacker"), None, 0))
    stray = attacker.message(Q)
    stray.transaction_id = xid
    assert "has not been started" in await attacker.refused(stray)
    await serves()


@pytest.mark.parametrize(
    "selector",
    ["(" * 20000 + "a", "x = '" + "y" * 65000, "NOT " * 15000 + "a = 1"],
)
async def test_giant_and_deep_selectors(
    peer: Connect, serves: Callable[[], Any], selector: str
) -> None:
    attacker = await peer()
    await attacker.connect()
    info = ConsumerInfo(ConsumerId("attacker", 1, 1), destination=Q, selector=selector)
    text = await attacker.refused(info)
    assert text.startswith("javax.jms.InvalidSelectorException: ")
    assert len(text) < 5000
    await serves()


async def test_composites_of_too_many_members(
    peer: Connect, serves: Callable[[], Any], service: BrokerService
) -> None:
    attacker = await peer()
    await attacker.connect()
    giant = Queue(",".join(f"m{n}" for n in range(5000)))
    for command in (
        attacker.message(giant),
        ConsumerInfo(ConsumerId("attacker", 1, 1), destination=giant),
        ProducerInfo(ProducerId("attacker", 9, 1), giant),
    ):
        assert "more than 1000 members" in await attacker.refused(command)
    assert service.region_broker.destinations_matching(Queue("m1")) == ()
    await serves()


@pytest.mark.parametrize("name", ["queue://d,topic://e", "topic://d,queue://e"])
async def test_a_consumer_of_queues_and_topics_together_gets_those_of_its_kind(
    peer: Connect, serves: Callable[[], Any], caplog: pytest.LogCaptureFixture, name: str
) -> None:
    client = await peer()
    await client.connect()
    await client.tell(client.message(Queue("d")), client.message(Topic("e")))
    wanted: Destination = Topic(name) if name.startswith("topic") else Queue(name)
    await client.consume(wanted)
    kind = type(wanted)
    await client.tell(client.message(kind("e"), b"e"), client.message(kind("d"), b"d"))
    dispatches = await client.heard_of(MessageDispatch)
    assert {type(d.destination) for d in dispatches} == {kind}
    assert "gets no messages from the members" in caplog.text
    await serves()


async def test_a_temporary_destination_that_is_not_there(peer: Connect) -> None:
    client = await peer()
    await client.connect()
    answer = await client.ask(client.message(TemporaryQueue("ID:nobody:1")))
    assert isinstance(answer, ExceptionResponse)
    assert answer.exception is not None
    assert answer.exception.class_name == "org.apache.activemq.DestinationDoesNotExistException"
    assert answer.exception.message == "temp-queue://ID:nobody:1"


async def test_many_jms_connections_over_one_socket(
    peer: Connect, gone: Callable[[], Any], service: BrokerService
) -> None:
    attacker = await peer()
    await attacker.connect()
    await attacker.tell(
        *(ConnectionInfo(ConnectionId(f"n{n}"), f"n{n}") for n in range(MAXIMUM_SHARED - 1))
    )
    text = await attacker.refused(ConnectionInfo(ConnectionId("more"), "more"))
    assert f"at maximum limit: {MAXIMUM_SHARED}" in text
    await attacker.leave()
    await gone()
    assert service.connections.by_id == {}


async def test_pulls_with_and_without_an_end(
    peer: Connect, serves: Callable[[], Any], service: BrokerService
) -> None:
    attacker = await peer()
    await attacker.connect()
    consumer_id = await attacker.consume(Q, prefetch=0)
    pulls = []
    for n in range(2000):
        pull = MessagePull()
        pull.consumer_id, pull.destination, pull.timeout = consumer_id, Q, (0, 2**62)[n % 2]
        pulls.append(pull)
    await attacker.tell(*pulls)
    await attacker.ask(attacker.message(Q, b"one"))
    await attacker.ask(attacker.message(Q, b"two"))
    (dispatch,) = await attacker.heard_of(MessageDispatch)
    assert dispatch.message.content == b"one"
    (queue,) = service.region_broker.destinations_matching(Q)
    assert queue.statistics.messages == 2
    assert queue.statistics.inflight == 1
    await serves()


async def test_invalid_oneway_commands_are_reported_and_the_connection_continues(
    peer: Connect,
) -> None:
    attacker = await peer()
    await attacker.connect()
    await attacker.tell(*(attacker.message(None) for _ in range(50)))
    assert type(await attacker.ask(SessionInfo(SessionId("attacker", 3)))) is Response
    assert len([c for c in attacker.heard if isinstance(c, ConnectionErrorCommand)]) == 50


@pytest.mark.parametrize(
    "kind", [Response, DataResponse, DataArrayResponse, ExceptionResponse, IntegerResponse]
)
async def test_a_response_of_a_client_is_accepted(
    peer: Connect, serves: Callable[[], Any], kind: Any
) -> None:
    attacker = await peer()
    await attacker.connect()
    await attacker.tell(kind(7))  # ends the replay of ActiveMQ's failover transport
    await attacker.ask(ConnectionInfo(ConnectionId("attacker"), client_id="attacker"))
    assert not [each for each in attacker.heard if isinstance(each, ConnectionErrorCommand)]
    await serves()


@pytest.mark.parametrize("kind", [PartialCommand, LastPartialCommand])
async def test_parts_of_commands_are_refused(
    peer: Connect, serves: Callable[[], Any], caplog: pytest.LogCaptureFixture, kind: Any
) -> None:
    attacker = await peer()
    await attacker.connect()
    await attacker.tell(kind(1, b"x"))
    await attacker.heard_of(ConnectionErrorCommand)
    assert "Traceback" not in caplog.text
    await serves()
