"""Clients that fail over: which connection replaces which, and suppressed duplicates."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import anyio
import pytest

from pyjms.errors import JMSException
from pyjms.jms.destination import Queue
from pyjms.wire.openwire.commands import (
    ActiveMQTextMessage,
    ConnectionId,
    ConnectionInfo,
    ConsumerId,
    IntegerResponse,
    MessageAck,
    MessageId,
    ProducerAck,
    ProducerId,
    ProducerInfo,
    Response,
    SessionId,
    SessionInfo,
    TransactionInfo,
    TransactionType,
    XATransactionId,
)
from pyjms.wire.openwire.commands import ConnectionError as ConnectionErrorCommand
from pyjms_broker.api.completion import COMPLETED, Completion
from pyjms_broker.api.context import ConsumerExchange
from tests.kit.clients.recording_broker import Client, Host

CONNECTION = ConnectionId("c1")
PRODUCER = ProducerId("c1", 1, 1)
XA = XATransactionId(7, b"g", b"b")


def message(number: int, *, persistent: bool = True) -> ActiveMQTextMessage:
    return ActiveMQTextMessage(
        producer_id=PRODUCER,
        destination=Queue("q"),
        message_id=MessageId(None, PRODUCER, number),
        persistent=persistent,
        content=b"123456",
    )


async def come_back(client: Client, *, window: int = 0, reconnect: bool = True) -> None:
    info = ConnectionInfo(CONNECTION, "client-c1", fault_tolerant=True)
    info.failover_reconnect = reconnect
    await client.ask(info)
    client.tell(SessionInfo(SessionId("c1", 1)))
    await client.ask(ProducerInfo(PRODUCER, None, window_size=window))


def sent(host: Host) -> list[int]:
    return [
        args[1].message_id.producer_sequence_id
        for name, args in host.recording.calls
        if name == "send"
    ]


async def test_a_stored_message_is_not_stored_again(client: Client, host: Host) -> None:
    host.stored[PRODUCER] = 3
    await come_back(client)
    for number in (2, 3, 4):
        assert isinstance(await client.ask(message(number)), Response)
    await client.ask(message(4))
    await client.ask(message(1, persistent=False))
    assert sent(host) == [4, 1]


async def test_a_first_connection_suppresses_no_messages(client: Client, host: Host) -> None:
    host.stored[PRODUCER] = 3
    await come_back(client, reconnect=False)
    await client.ask(message(2))
    assert sent(host) == [2]


async def test_a_producers_window_opens_for_suppressed_duplicates(
    client: Client, host: Host
) -> None:
    host.stored[PRODUCER] = 3
    await come_back(client, window=10_000)
    client.tell(message(3))
    ack = await client.heard.next(ProducerAck)
    assert (ack.producer_id, ack.size) == (PRODUCER, 1024 + 6)
    assert sent(host) == []


async def send_and_wait(client: Client, number: int, heard: list[str]) -> None:
    try:
        await client.ask(message(number))
    except JMSException:
        heard.append("lost")
    else:
        heard.append(f"stored {number}")


async def test_a_repeated_send_is_answered_when_the_first_one_is_safe(
    connect: Callable[[], Awaitable[Client]], host: Host
) -> None:
    first, second = await connect(), await connect()
    await come_back(first, reconnect=False)
    await first.ask(message(1))
    pending = host.recording.answers["send"] = Completion()
    heard: list[str] = []
    async with anyio.create_task_group() as group:
        group.start_soon(send_and_wait, first, 2, heard)
        await first.ask(SessionInfo(SessionId("c1", 7)))  # the send is at the broker
        host.stored[PRODUCER] = 2
        await come_back(second)
        assert host.connections.pending_sends.keys() == {PRODUCER}
        group.start_soon(send_and_wait, second, 2, heard)
        await second.ask(SessionInfo(SessionId("c1", 8)))
        assert "stored 2" not in heard
        pending.complete()
    assert sorted(heard) == ["lost", "stored 2"]
    assert sent(host) == [1, 2]
    assert host.connections.pending_sends == {}


async def test_the_answers_of_a_client_that_does_not_fail_over_are_not_kept(
    client: Client, host: Host
) -> None:
    await client.connect()
    await client.producer()
    host.recording.answers["send"] = Completion()
    heard: list[str] = []
    async with anyio.create_task_group() as group:
        group.start_soon(send_and_wait, client, 1, heard)
        await client.ask(SessionInfo(SessionId("c1", 7)))
        client.connection.release(None)
        assert host.connections.pending_sends == {}
        client.connection.stop_soon()
    assert heard == ["lost"]


async def test_the_last_connection_of_an_id_wins(
    connect: Callable[[], Awaitable[Client]], host: Host
) -> None:
    old = await connect()
    await old.connect()
    new = await connect()
    await come_back(new)
    assert host.connections.by_id[CONNECTION] is new.connection
    removed = host.recording.names.index("remove_connection")
    assert host.recording.names[removed:].count("add_connection") == 1
    await old.connection.wait_stopped()


@pytest.mark.parametrize("response_required", [True, False])
async def test_an_acknowledgement_that_requires_a_response_is_synced(
    client: Client, host: Host, response_required: bool
) -> None:
    await client.connect()
    consumer = await client.consumer()
    seen: list[bool] = []

    def acknowledge(exchange: ConsumerExchange, ack: MessageAck) -> Completion:
        seen.append(ack.response_required)
        return COMPLETED

    host.recording.acknowledge = acknowledge  # type: ignore[method-assign]  # a recorder
    if response_required:
        await client.ask(MessageAck(consumer_id=consumer))
    else:
        client.tell(MessageAck(consumer_id=consumer))
        await client.ask(MessageAck(consumer_id=ConsumerId("c1", 1, 9)))
    assert seen == [response_required]


async def test_a_late_vote_is_the_response_to_prepare(client: Client, host: Host) -> None:
    await client.connect()
    await client.ask(TransactionInfo(CONNECTION, XA, TransactionType.BEGIN))
    vote = host.recording.answers["prepare_transaction"] = Completion()
    prepare = TransactionInfo(CONNECTION, XA, TransactionType.PREPARE)
    answers: list[Any] = []

    async def ask() -> None:
        answers.append(await client.ask(prepare))

    async with anyio.create_task_group() as group:
        group.start_soon(ask)
        await client.ask(SessionInfo(SessionId("c1", 7)))
        assert answers == []
        vote.complete()
    assert isinstance(answers[0], IntegerResponse)
    assert answers[0].result == 0
    again: Any = await client.ask(TransactionInfo(CONNECTION, XA, TransactionType.PREPARE))
    assert again.result == 0
    assert host.recording.names.count("prepare_transaction") == 1


async def test_a_vote_that_fails_later_is_answered_with_the_error(
    client: Client, host: Host
) -> None:
    await client.connect()
    await client.ask(TransactionInfo(CONNECTION, XA, TransactionType.BEGIN))
    vote = host.recording.answers["prepare_transaction"] = Completion()
    vote.then(lambda _done: None)
    vote.complete(JMSException("no vote"))
    with pytest.raises(JMSException, match="no vote"):
        await client.ask(TransactionInfo(CONNECTION, XA, TransactionType.PREPARE))


async def test_a_failed_store_answers_nothing(client: Client, host: Host) -> None:
    await client.connect()
    await client.producer()
    host.recording.answers["send"] = OSError("disk gone")
    host.store_failed = True
    heard: list[str] = []
    async with anyio.create_task_group() as group:
        group.start_soon(send_and_wait, client, 1, heard)
        client.tell(message(2))
        await client.ask(SessionInfo(SessionId("c1", 8)))
        assert (sorted(sent(host)), heard) == ([1, 2], [])
        assert not any(isinstance(c, ConnectionErrorCommand) for c in client.heard.commands)
        client.connection.stop_soon()
    assert heard == ["lost"]
