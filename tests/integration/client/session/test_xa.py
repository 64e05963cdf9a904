"""XA sessions and resources at a broker in memory."""

from __future__ import annotations

from typing import Any

import anyio
import pytest

from pyjms.client.factory import ConnectionFactory
from pyjms.client.xa import ActiveMQXAConnection, ActiveMQXASession, XAConnectionFactory
from pyjms.enums import AcknowledgeMode
from pyjms.errors import (
    ConfigurationException,
    IllegalStateException,
    JMSException,
    TransactionInProgressException,
    XAException,
)
from pyjms.jms.api import Synchronization
from pyjms.jms.message import TextMessage
from pyjms.jms.xa import XAResource, Xid
from pyjms.wire.openwire.commands import TransactionInfo, TransactionType, XATransactionId
from pyjms_broker.testing import EmbeddedTestBroker
from tests.kit.clients.embedded import Client
from tests.kit.clients.messages import text_of
from tests.kit.values import present

NOTA, PROTO, INVAL = XAException.XAER_NOTA, XAException.XAER_PROTO, XAException.XAER_INVAL
ONE, TWO = (Xid(4711, b"global", branch) for branch in (b"1", b"2"))


class XAClient:
    """XA connections to the test's broker, and steps of tests."""

    def __init__(self, client: Client) -> None:
        self.client = client

    async def connect(self, query: str = "", **options: Any) -> ActiveMQXAConnection:
        url = f"{self.client.broker.url}&{query}"
        connection = await XAConnectionFactory(url, **options).create_xa_connection()
        self.client.opened.append(connection)
        await connection.start()
        return connection

    async def session(self, **options: Any) -> ActiveMQXASession:
        session: ActiveMQXASession = await (await self.connect(**options)).create_xa_session()
        return session

    async def send_in(self, session: Any, xid: Xid, *texts: str, queue: str = "out") -> None:
        """Send in a branch, and end the session's work in it."""
        await session.xa_resource.start(xid)
        producer = await session.create_producer(session.create_queue(queue))
        for text in texts:
            await producer.send(session.create_text_message(text))
        await session.xa_resource.end(xid)


@pytest.fixture
def xa(client: Client) -> XAClient:
    return XAClient(client)


async def refused(code: int, call: Any) -> XAException:
    with pytest.raises(XAException) as caught:
        await call
    assert caught.value.xa_error_code == code, caught.value
    return caught.value


@pytest.mark.fact("activemq-broker X5", "jms-api 13/TransactionInProgressException")
async def test_two_phases_one_phase_and_rollbacks(xa: XAClient, client: Client) -> None:
    session = await xa.session()
    resource = session.xa_resource
    await xa.send_in(session, ONE, "committed")
    assert await client.left("out") == []
    assert await resource.prepare(ONE) == XAResource.XA_OK
    assert await resource.recover() == [ONE]
    await resource.commit(ONE)
    assert await resource.recover() == []
    assert await client.left("out") == ["committed"]

    await xa.send_in(session, ONE, "prepared and rolled back")
    await resource.prepare(ONE)
    await resource.rollback(ONE)
    await xa.send_in(session, ONE, "rolled back")
    await resource.rollback(ONE)
    await xa.send_in(session, ONE, "forgotten")
    await resource.prepare(ONE)
    await resource.forget(ONE)
    assert await client.left("out") == []
    await xa.send_in(session, ONE, "one phase")
    await resource.commit(ONE, one_phase=True)
    assert await client.left("out") == ["one phase"]
    await xa.send_in(session, ONE)
    assert await resource.prepare(ONE) == XAResource.XA_RDONLY
    assert len(session.connection.branches) == 0


@pytest.mark.fact("activemq-edges N20")
async def test_an_xa_session_refuses_work_outside_of_branches_and_local_commits(
    xa: XAClient, client: Client
) -> None:
    await client.send("in", "waits")
    session = await xa.session()
    assert session.transacted
    assert session.acknowledge_mode == AcknowledgeMode.TRANSACTED
    for end in (session.commit, session.rollback):
        with pytest.raises(TransactionInProgressException, match=r"\(\) inside an XASession"):
            await end()
    producer = await session.create_producer(session.create_queue("out"))
    with pytest.raises(JMSException, match="has not been enlisted in a distributed"):
        await producer.send(session.create_text_message("x"))
    with pytest.raises(JMSException, match="has not been enlisted in a distributed"):
        session.add_synchronization(Synchronization())
    with pytest.raises(IllegalStateException, match="no local transactions"):
        session.set_local_transaction_event_listener(None)
    consumer = await session.create_consumer(session.create_queue("in"))
    with pytest.raises(JMSException, match="has not been enlisted in a distributed"):
        await consumer.receive(1)
    await session.xa_resource.start(ONE)
    assert client.delivery(await consumer.receive(1)) == "waits#1"
    await session.xa_resource.end(ONE)
    await session.xa_resource.commit(ONE, one_phase=True)
    await session.close()
    assert await client.left("in") == []


async def test_with_a_separate_mode_it_works_outside_of_branches(
    xa: XAClient, client: Client
) -> None:
    await client.send("in", *"abcd")
    for mode in (AcknowledgeMode.AUTO, AcknowledgeMode.CLIENT, AcknowledgeMode.INDIVIDUAL):
        session = await xa.session(xa_ack_mode=mode)
        assert not session.transacted
        assert session.acknowledge_mode == mode
        producer = await session.create_producer(session.create_queue("out"))
        consumer = await session.create_consumer(session.create_queue("in"))
        message = await consumer.receive(1)
        assert isinstance(message, TextMessage)
        await producer.send(session.create_text_message(f"{message.text} by {mode.name}"))
        if mode != AcknowledgeMode.AUTO:
            assert message is not None
            message.acknowledge()
        await session.xa_resource.start(ONE)
        assert session.transacted
        message = await consumer.receive(1)  # type: ignore[unreachable]
        await producer.send(session.create_text_message("in the branch"))
        await session.xa_resource.end(ONE)
        await session.xa_resource.rollback(ONE)
        await session.close()
    assert await client.left("out") == ["a by AUTO", "b by CLIENT", "c by INDIVIDUAL"]
    assert await client.left("in") == ["d"]


async def test_the_mode_outside_of_branches_is_an_option_of_the_url(xa: XAClient) -> None:
    for mode in (AcknowledgeMode.AUTO, AcknowledgeMode.TRANSACTED):
        session = await xa.session(query=f"jms.xaAckMode={mode.value}")
        assert session.acknowledge_mode == mode
    session = await xa.session(query="jms.xaAckMode=1", xa_ack_mode=AcknowledgeMode.CLIENT)
    assert session.acknowledge_mode == AcknowledgeMode.CLIENT
    for text in ("9", "auto"):
        with pytest.raises(ConfigurationException, match=f"Invalid value '{text}'"):
            await xa.session(query=f"jms.xaAckMode={text}")
    with pytest.raises(ConfigurationException, match="couldn't be set"):
        ConnectionFactory("vm://xa?jms.xaAckMode=1&jms.sendTimeout=1")


@pytest.mark.fact("activemq-broker T25")
async def test_what_a_branch_received_is_redelivered_or_settled(
    xa: XAClient, client: Client
) -> None:
    await client.send("in", *"abc")
    session = await xa.session()
    resource = session.xa_resource
    consumer = await session.create_consumer(session.create_queue("in"))
    await resource.start(ONE)
    assert [client.delivery(await consumer.receive(1)) for _ in range(2)] == ["a#1", "b#1"]
    await resource.end(ONE)
    await resource.prepare(ONE)
    await resource.rollback(ONE)
    await resource.start(ONE)
    assert [client.delivery(await consumer.receive(5)) for _ in range(2)] == ["a#2*", "b#2*"]
    await resource.end(ONE)
    await resource.prepare(ONE)
    await consumer.close()
    await client.settle()
    assert client.broker.queue_statistics("in").consumers == 1  # until the outcome is known
    await resource.commit(ONE)
    assert await client.left("in") == ["c"]


async def test_a_session_interleaves_branches_and_each_has_its_own_outcome(
    xa: XAClient, client: Client
) -> None:
    await client.send("in", *"abcd")
    session = await xa.session()
    resource = session.xa_resource
    consumer = await session.create_consumer(session.create_queue("in"))

    async def receive_in(xid: Xid, flags: int, end: int) -> str | None:
        await resource.start(xid, flags)
        received = client.delivery(await consumer.receive(5))
        await resource.end(xid, end)
        return received

    assert await receive_in(ONE, resource.TMNOFLAGS, resource.TMSUSPEND) == "a#1"
    assert await receive_in(TWO, resource.TMNOFLAGS, resource.TMSUCCESS) == "b#1"
    assert await receive_in(ONE, resource.TMRESUME, resource.TMSUCCESS) == "c#1"
    await resource.prepare(TWO)
    await resource.rollback(ONE)
    await resource.commit(TWO)
    assert await receive_in(ONE, resource.TMJOIN, resource.TMSUCCESS) == "a#2*"
    await resource.commit(ONE, one_phase=True)
    await session.close()
    assert await client.left("in") == ["c", "d"]


async def test_sessions_of_two_connections_work_in_one_branch(xa: XAClient, client: Client) -> None:
    await client.send("in", *"ab")
    sessions = [await xa.session(), await xa.session()]
    first, second = (session.xa_resource for session in sessions)
    assert await first.is_same_rm(second)
    consumers = [
        await session.create_consumer(session.create_queue("in?consumer.prefetchSize=1"))
        for session in sessions
    ]
    for rollback in (True, False):
        xid = ONE if rollback else TWO
        received = []
        for session, consumer in zip(sessions, consumers, strict=True):
            await session.xa_resource.start(xid, XAResource.TMJOIN)
            received.append(await consumer.receive(5))
            producer = await session.create_producer(session.create_queue("out"))
            await producer.send(session.create_text_message(text_of(received[-1])))
            await producer.close()
        assert sorted(str(client.delivery(each)) for each in received) == (
            ["a#1", "b#1"] if rollback else ["a#2*", "b#2*"]
        )
        await first.end(xid)
        await refused(PROTO, first.prepare(xid))
        await refused(PROTO, first.commit(xid, one_phase=True))
        await second.end(xid)
        await first.prepare(xid)
        await (second.rollback if rollback else second.commit)(xid)
    for session in sessions:
        await session.close()
    assert await client.left("in") == []
    assert sorted(map(str, await client.left("out"))) == ["a", "b"]


async def test_resources_of_other_brokers_and_connections_are_others(
    xa: XAClient, client: Client
) -> None:
    one, other = [await xa.session(rm_id_from_connection_id=True) for _ in range(2)]
    assert not await one.xa_resource.is_same_rm(other.xa_resource)
    assert await one.xa_resource.is_same_rm(one.xa_resource)
    in_url = await xa.session(query="jms.rmIdFromConnectionId=true")
    assert not await in_url.xa_resource.is_same_rm(one.xa_resource)
    async with (
        EmbeddedTestBroker() as broker,
        await XAConnectionFactory(broker.url).create_xa_connection() as connection,
    ):
        there = await connection.create_session()
        here = await xa.session()
        assert not await here.xa_resource.is_same_rm(there.xa_resource)
        await xa.send_in(here, ONE, "here")
        await xa.send_in(there, ONE, "there")
        assert len(connection.branches) == 2
        await here.xa_resource.commit(ONE, one_phase=True)
        await there.xa_resource.rollback(ONE)
    assert await client.left("out") == ["here"]


async def test_what_the_protocol_forbids(xa: XAClient) -> None:
    session = await xa.session()
    resource = session.xa_resource
    assert resource.transaction_timeout == 0
    assert not resource.set_transaction_timeout(10)
    await refused(INVAL, resource.start(ONE, XAResource.TMSUCCESS))
    await refused(PROTO, resource.end(ONE, XAResource.TMFAIL))
    await resource.end(ONE, XAResource.TMSUCCESS)  # ended already
    await resource.start(ONE)
    await refused(PROTO, resource.start(TWO))
    await refused(PROTO, resource.start(ONE, XAResource.TMJOIN))
    await refused(PROTO, resource.end(TWO, XAResource.TMSUSPEND))
    await refused(INVAL, resource.end(ONE, XAResource.TMJOIN))
    await refused(INVAL, resource.recover(XAResource.TMJOIN))
    await resource.end(ONE)
    await refused(PROTO, resource.commit(ONE))
    await resource.rollback(ONE)
    for call in (resource.commit(ONE), resource.rollback(ONE), resource.forget(ONE)):
        await refused(NOTA, call)
    await refused(XAException.XAER_RMFAIL, resource.prepare(ONE))
    for global_id, qualifier in ((b"", b""), (bytes(65), b""), (b"g", bytes(65))):
        with pytest.raises(ValueError, match="of an Xid"):
            Xid(1, global_id, qualifier)
    await session.connection.close()
    await refused(XAException.XAER_RMFAIL, resource.recover())
    await refused(XAException.XAER_RMFAIL, resource.start(ONE))


async def test_work_that_failed_can_only_be_rolled_back(xa: XAClient, client: Client) -> None:
    await client.send("in", "a")
    session = await xa.session()
    resource = session.xa_resource
    consumer = await session.create_consumer(session.create_queue("in"))
    for number, end in enumerate((resource.prepare, resource.rollback), 1):
        await resource.start(ONE)
        assert present(await consumer.receive(5)).delivery_count == number
        await resource.end(ONE, XAResource.TMFAIL)
        if end == resource.prepare:
            await refused(XAException.XA_RBROLLBACK, end(ONE))
        else:
            await end(ONE)

    class Failing(Synchronization):
        def before_end(self) -> None:
            raise ValueError("not now")

    await resource.start(ONE)
    assert present(await consumer.receive(5)).delivery_count == 3
    session.add_synchronization(Failing())
    error = await refused(XAException.XA_RBROLLBACK, resource.end(ONE))
    assert error.is_rollback
    assert str(error.__cause__) == "not now"
    await resource.rollback(ONE)
    assert len(session.connection.branches) == 0


async def test_a_synchronization_may_end_the_branch_itself(xa: XAClient) -> None:
    session = await xa.session()
    resource, xid = session.xa_resource, Xid(1, b"g", b"b")

    class Ending(Synchronization):
        async def before_end(self) -> None:
            await resource.end(xid)

    await resource.start(xid)
    producer = await session.create_producer(session.create_queue("out"))
    await producer.send(session.create_text_message("a"))
    session.add_synchronization(Ending())
    await resource.end(xid)
    await resource.commit(xid, one_phase=True)
    assert await xa.client.left("out") == ["a"]


async def test_synchronizations_of_a_branch(xa: XAClient) -> None:
    session = await xa.session()
    resource = session.xa_resource
    calls: list[str] = []

    class Recorder(Synchronization):
        def before_end(self) -> None:
            calls.append("before")

        async def after_commit(self) -> None:
            calls.append("committed")

        def after_rollback(self) -> None:
            calls.append("rolled back")

    for end in (
        lambda: resource.commit(ONE, one_phase=True),
        lambda: resource.rollback(ONE),
        lambda: resource.prepare(ONE),
    ):
        await resource.start(ONE)
        session.add_synchronization(Recorder())
        await resource.end(ONE)
        await end()
    assert calls == ["before", "committed", "before", "rolled back", "before", "committed"]


@pytest.mark.fact("activemq-broker X7")
async def test_a_session_closed_in_a_branch_ends_with_it(xa: XAClient, client: Client) -> None:
    await client.send("in", *"ab")
    for commits in (False, True):
        session = await xa.session()
        resource = session.xa_resource
        consumer = await session.create_consumer(session.create_queue("in"))
        await resource.start(ONE)
        producer = await session.create_producer(session.create_queue("out"))
        message = await consumer.receive(5)
        assert isinstance(message, TextMessage)
        await producer.send(session.create_text_message(message.text))
        await session.close()
        with pytest.raises(IllegalStateException, match="closed"):
            await session.create_consumer(session.create_queue("in"))
        await resource.end(ONE)
        await resource.prepare(ONE)
        await (resource.commit if commits else resource.rollback)(ONE)
        assert session.all_consumers == []
        await client.settle()
        assert client.broker.queue_statistics("in").consumers == 0
    assert await client.left("out") == ["a"]
    assert await client.left("in") == ["b"]


async def test_a_listener_works_in_the_branch_of_its_session(xa: XAClient, client: Client) -> None:
    session = await xa.session()
    failures: list[JMSException] = []
    session.connection.exception_listener = failures.append
    consumer = await session.create_consumer(session.create_queue("in"))
    received: list[str | None] = []
    await consumer.set_message_listener(lambda message: received.append(client.text(message)))
    await client.send("in", "a")
    await client.settle()
    assert received == []
    assert "has not been enlisted" in str(failures[0])
    await session.xa_resource.start(ONE)
    await client.settle()
    assert received == ["a"]
    await session.xa_resource.end(ONE)
    await session.xa_resource.commit(ONE, one_phase=True)
    await session.connection.close()
    assert await client.left("in") == []


@pytest.mark.parametrize("step", ["prepare", "commit", "rollback", "one phase"])
async def test_a_call_that_is_cancelled_can_be_repeated(
    xa: XAClient, client: Client, step: str
) -> None:
    await client.send("in", *"ab")
    session = await xa.session()
    resource = session.xa_resource
    consumer = await session.create_consumer(session.create_queue("in"))
    await resource.start(ONE)
    assert client.delivery(await consumer.receive(5)) == "a#1"
    await resource.end(ONE)
    call: Any = {
        "prepare": resource.prepare,
        "commit": resource.commit,
        "rollback": resource.rollback,
        "one phase": lambda xid: resource.commit(xid, one_phase=True),
    }[step]
    if step in {"commit", "rollback"}:
        await resource.prepare(ONE)
    with anyio.CancelScope() as scope:
        scope.cancel()
        await call(ONE)
    assert scope.cancelled_caught
    assert consumer.has_unsettled  # nothing is settled or redelivered yet
    await client.settle()
    if step == "prepare":
        assert await resource.recover() == [ONE]
        await resource.commit(ONE)
    elif step == "one phase":
        await refused(NOTA, call(ONE))  # committed or rolled back: nobody knows any more
    else:
        await call(ONE)
    assert not consumer.has_unsettled
    await resource.start(ONE)  # type: ignore[unreachable]
    assert client.delivery(await consumer.receive(5)) == ("a#2*" if step == "rollback" else "b#1")
    await resource.end(ONE)
    await resource.commit(ONE, one_phase=True)
    await session.close()
    assert await client.left("in") == (["b"] if step == "rollback" else [])


async def test_cancelling_the_end_of_work_ends_it(xa: XAClient, client: Client) -> None:
    session = await xa.session()
    resource = session.xa_resource
    producer = await session.create_producer(session.create_queue("out"))
    await resource.start(ONE)
    await producer.send(session.create_text_message("a"))
    with anyio.CancelScope() as scope:
        scope.cancel()
        await resource.end(ONE)
    assert scope.cancelled_caught
    await resource.start(TWO)
    await resource.end(TWO, XAResource.TMSUSPEND)
    await resource.commit(ONE, one_phase=True)
    await resource.rollback(TWO)
    assert await client.left("out") == ["a"]


async def test_a_branch_can_only_be_rolled_back_once_a_connection_that_worked_in_it_is_closed(
    xa: XAClient, client: Client
) -> None:
    sessions = [await xa.session(), await xa.session()]
    for session in sessions:
        await xa.send_in(session, ONE, "x")
    await sessions[1].connection.close()
    error = await refused(XAException.XA_RBROLLBACK, sessions[0].xa_resource.prepare(ONE))
    assert "is closed" in str(error)
    assert len(sessions[0].connection.branches) == 0
    await refused(NOTA, sessions[0].xa_resource.rollback(ONE))
    assert await client.left("out") == []


async def test_a_branch_that_another_process_has_ended_is_settled(
    xa: XAClient, client: Client
) -> None:
    await client.send("in", *"ab")
    session = await xa.session()
    resource = session.xa_resource
    consumer = await session.create_consumer(session.create_queue("in"))
    for xid, end, expected in (
        (ONE, TransactionType.COMMIT_TWO_PHASE, "a"),
        (TWO, TransactionType.ROLLBACK, "b"),
    ):
        await resource.start(xid)
        assert client.text(await consumer.receive(5)) == expected
        await resource.end(xid)
        await resource.prepare(xid)
        branch = XATransactionId(xid.format_id, xid.global_transaction_id, xid.branch_qualifier)
        plain = await client.connect()
        await plain.request(TransactionInfo(plain.connection_id, branch, int(end)))
        await refused(NOTA, resource.commit(xid))
        assert not consumer.has_unsettled
    await session.close()
    assert await client.left("in") == ["b"]
