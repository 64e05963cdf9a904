from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, cast

import anyio
import pytest

from pyjms.errors import (
    ConnectionFailedException,
    IllegalStateException,
    InvalidClientIDException,
    JMSException,
    JMSSecurityException,
    LocalProtocolError,
    UnsupportedOperationException,
)
from pyjms.jms.destination import Queue, TemporaryQueue, Topic
from pyjms.testing.clock import VirtualClock
from pyjms.wire.openwire.commands import (
    ActiveMQTextMessage,
    BrokerId,
    BrokerInfo,
    ConnectionControl,
    ConnectionId,
    ConnectionInfo,
    ConsumerControl,
    ConsumerId,
    ConsumerInfo,
    ControlCommand,
    DestinationInfo,
    KeepAliveInfo,
    LocalTransactionId,
    MessageAck,
    MessageDispatch,
    MessagePull,
    PartialCommand,
    ProducerAck,
    ProducerId,
    ProducerInfo,
    RemoveInfo,
    RemoveSubscriptionInfo,
    Response,
    SessionId,
    SessionInfo,
    ShutdownInfo,
    TransactionInfo,
    TransactionType,
    XATransactionId,
)
from pyjms.wire.openwire.commands import ConnectionError as ConnectionErrorCommand
from pyjms_broker.api.completion import COMPLETED, Completion
from pyjms_broker.connector.vm.connector import VmConnector
from tests.kit.clients.recording_broker import Client, Host
from tests.kit.values import present

CONNECTION = ConnectionId("c1")
PRODUCER = ProducerId("c1", 1, 1)


def message(**fields: Any) -> ActiveMQTextMessage:
    return ActiveMQTextMessage(
        producer_id=PRODUCER, destination=Queue("q"), content=b"123456", **fields
    )


@pytest.mark.fact("activemq-broker C6")
async def test_broker_info_is_sent_first_and_control_after_a_manageable_connection(
    client: Client,
) -> None:
    await client.ask(ConnectionInfo(CONNECTION, "me", manageable=True))
    await client.heard.next(ConnectionControl)
    info, control = client.heard.commands
    assert isinstance(info, BrokerInfo)
    assert isinstance(control, ConnectionControl)
    assert (info.broker_name, info.broker_url) == ("recording", "vm://recording")
    assert info.broker_id == BrokerId("ID:recording:1")
    assert (control.connected_brokers, control.reconnect_to) == ("", "")
    await client.ask(ConnectionInfo(ConnectionId("c2"), "you", manageable=False))
    assert len(client.heard.commands) == 2


async def test_the_context_identifies_the_client(client: Client, host: Host) -> None:
    info = ConnectionInfo(CONNECTION, "me", user_name="joe", fault_tolerant=True)
    await client.ask(info)
    context, passed = host.recording.args("add_connection")
    assert passed is info
    assert info.client_ip == client.connection.remote_address
    assert (context.client_id, context.user_name) == ("me", "joe")
    assert (context.connector_name, context.connector_url) == ("vm", "vm://recording")
    assert context.fault_tolerant is True
    client.tell(ConnectionControl(fault_tolerant=False))
    await client.ask(nothing())
    assert context.fault_tolerant is False


def nothing() -> ControlCommand:
    """Any command that is answered and does nothing."""
    return ControlCommand("nothing")


@pytest.mark.fact("activemq-broker C2")
async def test_a_refused_connection_is_answered_and_closed_two_seconds_later(
    client: Client, host: Host
) -> None:
    host.recording.answers["add_connection"] = JMSSecurityException("User name [x] is invalid.")
    async with VirtualClock() as clock:
        with pytest.raises(JMSSecurityException, match=r"User name \[x\] is invalid\."):
            await client.ask(ConnectionInfo(CONNECTION, "me"))
        await clock.advance(1.9)
        assert client.heard.errors == []
        await clock.advance(0.2)
        assert isinstance(await client.heard.error(), ConnectionFailedException)
    await client.connection.wait_stopped()
    assert host.connections.by_id == {}
    assert "remove_connection" not in host.recording.names


async def test_a_connection_without_an_id_is_refused(client: Client) -> None:
    with pytest.raises(InvalidClientIDException):
        await client.ask(ConnectionInfo(None, "me"))


@pytest.mark.fact("openwire-encoding 14/unknown session/connection")
async def test_repeated_adds_are_answered_and_ignored(client: Client, host: Host) -> None:
    session, consumer = SessionId("c1", 1), ConsumerId("c1", 1, 1)
    xid = LocalTransactionId(1, CONNECTION)
    for _ in range(2):
        await client.ask(ConnectionInfo(CONNECTION, "me"))
        await client.ask(SessionInfo(session))
        await client.ask(ProducerInfo(PRODUCER))
        await client.ask(ConsumerInfo(consumer))
        await client.ask(TransactionInfo(CONNECTION, xid, TransactionType.BEGIN))
        # a destination that is there already is the region's to ignore
        await client.ask(DestinationInfo(CONNECTION, Queue("q"), 0))
    names = host.recording.names
    for once in ("add_connection", "add_session", "add_producer", "add_consumer",
                 "begin_transaction"):  # fmt: skip
        assert names.count(once) == 1, once
    unknown = SessionId("c1", 9)
    for info in (ConsumerInfo(ConsumerId("c1", 9, 1)), ProducerInfo(ProducerId("c1", 1, 9))):
        what = "consumer" if isinstance(info, ConsumerInfo) else "producer"
        with pytest.raises(IllegalStateException) as caught:
            await client.ask(info)
        assert caught.value.reason == (
            f"Cannot add a {what} to a session that had not been registered: {unknown}"
        )


@pytest.mark.fact("openwire-encoding 14/unknown session/connection")
async def test_adds_to_an_unknown_connection(client: Client, host: Host) -> None:
    with pytest.raises(IllegalStateException, match="a connection that had not been registered"):
        await client.ask(ConsumerInfo(ConsumerId("nobody", 1, 1)))
    with pytest.raises(IllegalStateException, match="a connection that had not been registered"):
        await client.ask(ProducerInfo(ProducerId("nobody", 1, 1)))
    await client.ask(SessionInfo(SessionId("nobody", 1)))  # C9: answered, ignored
    assert host.recording.calls == []


@pytest.mark.parametrize("how", ["RemoveInfo", "ShutdownInfo", "lost"])
async def test_a_closed_connection_removes_its_resources_in_order(
    client: Client, host: Host, how: str
) -> None:
    await client.connect()
    await client.producer()
    await client.consumer()
    await client.ask(DestinationInfo(CONNECTION, TemporaryQueue("c1:1"), 0))
    await client.ask(DestinationInfo(CONNECTION, Queue("stays"), 0))
    context = client.context()
    host.recording.calls.clear()
    if how == "RemoveInfo":
        await client.ask(RemoveInfo(CONNECTION, 7))
    elif how == "ShutdownInfo":
        client.tell(ShutdownInfo())
        await client.connection.wait_stopped()
    else:
        await client.transport.stop()
        await client.connection.wait_stopped()
    assert host.recording.names == [
        "remove_session",  # the implicit one
        "remove_consumer",
        "remove_producer",
        "remove_session",
        "remove_destination",
        "remove_connection",
    ]
    assert host.recording.args("remove_consumer")[2] == (7 if how == "RemoveInfo" else -2)
    assert host.recording.args("remove_destination") == (context, TemporaryQueue("c1:1"), 0.0)
    assert host.connections.by_id == {}
    assert (client.connection.consumers, client.connection.producers) == ({}, {})


async def test_one_part_that_cannot_be_removed_does_not_keep_the_rest(
    client: Client, host: Host, caplog: pytest.LogCaptureFixture
) -> None:
    await client.connect()
    await client.consumer()
    host.recording.answers["remove_consumer"] = JMSException("stuck")
    await client.ask(RemoveInfo(CONNECTION))
    assert host.recording.names[-1] == "remove_connection"
    assert "cleaning up failed" in caplog.text


async def test_parts_are_removed_one_by_one_and_unknown_ones_named(
    client: Client, host: Host
) -> None:
    await client.connect()
    consumer, producer = await client.consumer(), await client.producer()
    session = SessionId("c1", 1)
    await client.ask(RemoveInfo(consumer, 5))
    assert host.recording.args("remove_consumer")[2] == 5
    await client.ask(RemoveInfo(producer))
    for gone, text in (
        (consumer, f"Cannot remove a consumer that had not been registered: {consumer}"),
        (producer, f"Cannot remove a producer that had not been registered: {producer}"),
    ):
        with pytest.raises(IllegalStateException) as caught:
            await client.ask(RemoveInfo(gone))
        assert caught.value.reason == text
    await client.ask(RemoveInfo(session, 6))
    assert host.recording.names[-1] == "remove_session"
    gones: tuple[Any, ...] = (session, SessionId("nobody", 1), ConsumerId("c1", 1, 1))
    for gone in gones:
        with pytest.raises(IllegalStateException, match="had not been registered"):
            await client.ask(RemoveInfo(gone))
    await client.ask(RemoveInfo(ConnectionId("nobody")))
    with pytest.raises(UnsupportedOperationException, match="Unknown remove info type 'BrokerId'"):
        await client.ask(RemoveInfo(BrokerId("b")))


async def test_oneway_failures_come_as_connection_errors(client: Client, host: Host) -> None:
    await client.connect()
    await client.producer()
    host.recording.answers["send"] = JMSException("no room")
    client.tell(message())
    error = await client.heard.next(ConnectionErrorCommand)
    assert error.connection_id == CONNECTION
    assert error.exception is not None
    assert (error.exception.class_name, error.exception.message) == (
        "javax.jms.JMSException",
        "no room",
    )
    with pytest.raises(JMSException, match="^no room$"):  # noqa: RUF043
        await client.ask(message())


@pytest.mark.parametrize("xid", [LocalTransactionId(1, CONNECTION), XATransactionId(1, b"g", b"b")])
async def test_a_oneway_failure_spoils_its_transaction(
    client: Client, host: Host, xid: LocalTransactionId | XATransactionId
) -> None:
    await client.connect()
    await client.producer()
    host.recording.answers["send"] = refused = JMSException("no room")
    with pytest.raises(JMSException):
        await client.ask(message(transaction_id=xid))
    client.tell(message())
    await client.heard.next(ConnectionErrorCommand)
    assert "set_rollback_only" not in host.recording.names  # the client knows already
    client.tell(message(transaction_id=xid))
    await client.heard.next(ConnectionErrorCommand)
    assert host.recording.args("set_rollback_only") == (client.context(), xid, refused)
    host.recording.calls.clear()
    host.rollback_only_on_async_exception = False
    client.tell(message(transaction_id=xid))
    await client.heard.next(ConnectionErrorCommand)
    assert "set_rollback_only" not in host.recording.names


async def test_a_message_without_a_producer_is_refused(client: Client) -> None:
    await client.connect()
    with pytest.raises(JMSException) as caught:
        await client.ask(message())
    assert caught.value.reason == (
        "Cannot send message to queue://q with invalid (null) producer state"
    )


async def test_an_unknown_destination_operation(client: Client) -> None:
    await client.connect()
    with pytest.raises(JMSException, match="^Unknown operation type: 7$"):  # noqa: RUF043
        await client.ask(DestinationInfo(CONNECTION, Queue("q"), 7))


async def test_a_producer_with_a_window_is_told_of_each_unanswered_send(
    client: Client, host: Host
) -> None:
    await client.connect()
    await client.producer(window=2048)
    client.tell(message(marshalled_properties=b"1234"))
    ack = await client.heard.next(ProducerAck)
    assert (ack.producer_id, ack.size) == (PRODUCER, 1024 + 6 + 4)
    await client.ask(message())  # its answer says it all
    host.recording.answers["send"] = JMSException("no room")
    client.tell(message())
    await client.heard.next(ConnectionErrorCommand)
    assert sum(isinstance(c, ProducerAck) for c in client.heard.commands) == 2  # the window opens


async def test_a_producer_without_a_window_is_told_nothing(client: Client) -> None:
    await client.connect()
    await client.producer()
    client.tell(message())
    await client.ask(nothing())
    assert not any(isinstance(c, ProducerAck) for c in client.heard.commands)


async def test_a_sync_send_is_answered_when_it_is_done(client: Client, host: Host) -> None:
    await client.connect()
    await client.producer()
    answers: list[Any] = []
    for error in (None, JMSException("full")):
        host.recording.answers["send"] = waiting = Completion()
        client.transport.request_soon(message(), answers.append)
        await client.ask(nothing())  # others go on meanwhile
        before = len(answers)
        waiting.complete(error)
        await client.ask(nothing())
        assert len(answers) == before + 1
    assert isinstance(answers[0], Response)
    assert (type(answers[1]), str(answers[1])) == (JMSException, "full")


@pytest.mark.fact("activemq-broker M2")
async def test_an_async_send_that_waits_stalls_its_connection_only(
    client: Client, connect: Callable[[], Awaitable[Client]], host: Host
) -> None:
    await client.connect()
    await client.producer()
    other = await connect()
    await other.connect("c2")
    host.recording.answers["send"] = waiting = Completion()
    client.tell(message())
    client.tell(message())
    await other.ask(nothing())
    assert host.recording.names.count("send") == 1
    host.recording.answers["send"] = COMPLETED
    waiting.complete()
    await client.ask(nothing())
    assert host.recording.names.count("send") == 2
    assert not any(isinstance(c, ConnectionErrorCommand) for c in client.heard.commands)


@pytest.mark.fact("activemq-broker M2")
async def test_an_async_send_with_a_window_waits_without_stalling(
    client: Client, host: Host
) -> None:
    await client.connect()
    await client.producer(window=5000)
    host.recording.answers["send"] = waiting = Completion()
    client.tell(message())
    await client.ask(nothing())
    assert not any(isinstance(c, ProducerAck) for c in client.heard.commands)
    waiting.complete(JMSException("gone"))
    await client.heard.next(ProducerAck)
    assert present((await client.heard.next(ConnectionErrorCommand)).exception).message == "gone"
    assert sum(isinstance(c, ProducerAck) for c in client.heard.commands) == 1


async def test_a_late_failure_of_a_disconnected_clients_send_has_no_effect(
    client: Client, host: Host
) -> None:
    await client.connect()
    await client.producer()
    host.recording.answers["send"] = waiting = Completion()
    client.tell(message())
    await anyio.wait_all_tasks_blocked()
    client.connection.stop_soon()
    await client.connection.wait_stopped()
    waiting.complete(JMSException("late"))
    assert host.recording.names[-1] == "remove_connection"


async def test_acks_pulls_and_controls_go_to_their_consumer(
    client: Client, host: Host, caplog: pytest.LogCaptureFixture
) -> None:
    await client.connect()
    subscription = host.recording.answers["add_consumer"]
    consumer = await client.consumer()
    ack, pull = MessageAck(consumer_id=consumer), MessagePull(consumer, timeout=5)
    control = ConsumerControl(consumer_id=consumer, prefetch=3)
    for command, called in ((ack, "acknowledge"), (pull, "message_pull"),
                            (control, "process_consumer_control")):  # fmt: skip
        await client.ask(command)
        first, second = host.recording.args(called)
        assert second is command
        context = first if called == "message_pull" else first.context
        assert context is client.context()
        if called == "acknowledge":
            assert first.subscription is subscription
    host.recording.calls.clear()
    gone = ConsumerId("c1", 1, 9)
    for command in (MessageAck(consumer_id=gone), MessagePull(gone),
                    ConsumerControl(consumer_id=gone)):  # fmt: skip
        await client.ask(command)
    assert host.recording.calls == []
    assert caplog.text == ""
    await client.ask(MessageAck(consumer_id=gone, transaction_id=LocalTransactionId(1, CONNECTION)))
    assert "Ack for non existent subscription" in caplog.text


@pytest.mark.fact("activemq-broker C10")
async def test_subscriptions_are_removed_for_their_connection_or_the_only_one(
    client: Client, host: Host
) -> None:
    await client.connect()
    for connection_id in (CONNECTION, ConnectionId("nobody"), None):
        info = RemoveSubscriptionInfo(connection_id, "sub", "me")
        await client.ask(info)
        assert host.recording.args("remove_subscription") == (client.context(), info)
    await client.ask(ConnectionInfo(ConnectionId("second"), "second"))
    with pytest.raises(IllegalStateException, match="had not been registered"):
        await client.ask(RemoveSubscriptionInfo(ConnectionId("nobody"), "sub", "me"))


@pytest.mark.fact("activemq-broker C8")
async def test_of_two_connections_with_one_id_the_last_wins(
    client: Client, connect: Callable[[], Awaitable[Client]], host: Host
) -> None:
    await client.connect()
    await client.consumer()
    second = await connect()
    await second.connect()
    assert host.recording.names.index("remove_consumer") < len(host.recording.names)
    await client.connection.wait_stopped()
    assert isinstance(await client.heard.error(), ConnectionFailedException)
    assert host.connections.by_id == {CONNECTION: second.connection}
    await second.consumer()


async def test_dispatches_go_out_in_order_and_a_lost_client_takes_none(client: Client) -> None:
    await client.connect()
    for n in range(5):
        client.connection.dispatch(MessageDispatch(redelivery_counter=n))
    for n in range(5):
        assert (await client.heard.next(MessageDispatch)).redelivery_counter == n
    await client.transport.stop()
    await client.connection.wait_stopped()
    client.connection.dispatch(MessageDispatch())
    client.connection.service_exception(JMSException("late"))


async def test_a_command_that_cannot_be_written_closes_the_connection(
    client: Client, caplog: pytest.LogCaptureFixture
) -> None:
    await client.connect()

    def cannot(_command: object) -> None:
        raise LocalProtocolError("too long")

    cast("Any", client.connection)._oneway = cannot
    client.connection.send_command(ConsumerControl())
    await client.connection.wait_stopped()
    assert "too long" in caplog.text


async def test_keep_alives_are_echoed_not_answered(client: Client) -> None:
    answers: list[Any] = []
    client.transport.request_soon(KeepAliveInfo(), answers.append)
    assert (await client.heard.next(KeepAliveInfo)).response_required is False
    await client.ask(nothing())
    assert answers == []


async def test_odd_commands_are_refused(client: Client) -> None:
    with pytest.raises(UnsupportedOperationException, match="does not accept the command"):
        await client.ask(MessageDispatch())
    client.tell(PartialCommand())
    await client.heard.next(ConnectionErrorCommand)


async def test_a_bug_in_the_broker_is_logged_with_its_trace(
    client: Client, host: Host, caplog: pytest.LogCaptureFixture
) -> None:
    await client.connect()
    await client.producer()
    host.recording.answers["send"] = ZeroDivisionError("oops")
    with pytest.raises(JMSException, match="ZeroDivisionError: oops"):
        await client.ask(message())
    # not its text: once Spark runs in the process, its logger has put its format on the handler
    (logged,) = [record for record in caplog.records if record.exc_info]
    assert present(logged.exc_info)[0] is ZeroDivisionError


async def test_limits_of_consumers_and_producers_do_not_count_advisories(
    client: Client, connector: VmConnector
) -> None:
    connector.maximum_consumers_per_connection = 1
    connector.maximum_producers_per_connection = 1
    await client.connect()
    advisory = Topic("ActiveMQ.Advisory.TempQueue,ActiveMQ.Advisory.TempTopic")
    await client.ask(ConsumerInfo(ConsumerId("c1", -1, 1), destination=advisory))
    await client.consumer()
    await client.producer()
    with pytest.raises(IllegalStateException) as caught:
        await client.ask(ConsumerInfo(ConsumerId("c1", 1, 2)))
    assert caught.value.reason == "Can't add consumer on connection c1: at maximum limit: 1"
    with pytest.raises(IllegalStateException, match="Can't add producer on connection c1"):
        await client.ask(ProducerInfo(ProducerId("c1", 2, 1)))


async def test_a_stopping_connector_gives_the_answers_that_are_due(
    client: Client, connector: VmConnector, host: Host
) -> None:
    await client.connect()
    await client.producer()
    host.recording.answers["send"] = waiting = Completion()
    answers: list[Any] = []
    client.transport.request_soon(message(), answers.append)
    await anyio.wait_all_tasks_blocked()
    async with anyio.create_task_group() as group:
        group.start_soon(connector.stop)
        await anyio.wait_all_tasks_blocked()
        client.tell(nothing())  # too late: not taken any more
        await anyio.wait_all_tasks_blocked()
        assert connector.connections
        waiting.complete()
    assert [type(answer) for answer in answers] == [Response]
    assert not connector.connections


async def test_a_stopping_connector_does_not_wait_for_a_send_without_space(
    client: Client, connector: VmConnector, host: Host
) -> None:
    await client.connect()
    await client.producer()
    host.recording.answers["send"] = Completion()
    client.transport.request_soon(message(), lambda _: None)
    await anyio.wait_all_tasks_blocked()
    cast("Any", client.context()).blocked_sends["somebody"] = None
    with anyio.fail_after(1):
        await connector.stop()
    assert not connector.connections
