"""Branches whose broker is lost in the middle of a call, before anybody knows it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import anyio
import pytest

from pyjms.client.xa import XAConnectionFactory
from pyjms.errors import XAException
from pyjms.jms.destination import Queue
from pyjms.jms.xa import Xid
from pyjms.testing.clock import VirtualClock
from pyjms.wire.openwire.commands import (
    ActiveMQTextMessage,
    Command,
    ExceptionResponse,
    MessageDispatch,
    MessageId,
    ProducerId,
    Throwable,
    TransactionInfo,
    TransactionType,
)
from tests.kit.brokers.fake import FakeBrokers, FakeTransport, brokers
from tests.kit.clients.scripted_broker import clock

__all__ = ["brokers", "clock"]

ONE = Xid(1, b"global")
NOTA = Throwable("javax.transaction.xa.XAException", "not started xaErrorCode:-4")
OF_ARTEMIS = Throwable("javax.jms.IllegalStateException", "Transaction not started, XID:[1]")


@pytest.fixture(autouse=True)
def brokers_that_know_no_branch(monkeypatch: pytest.MonkeyPatch) -> None:
    refuse_branches(monkeypatch, NOTA)


def refuse_branches(monkeypatch: pytest.MonkeyPatch, refusal: Throwable) -> None:
    answer_others = FakeTransport.answer

    def answer(self: FakeTransport, command: Command) -> Iterable[Command]:
        if isinstance(command, TransactionInfo) and command.type != TransactionType.END:
            return [ExceptionResponse(command.command_id, refusal)] * command.response_required
        return answer_others(self, command)

    monkeypatch.setattr(FakeTransport, "answer", answer)


async def is_rolled_back(call: Any) -> None:
    with pytest.raises(XAException, match="can only be rolled back") as caught:
        await call
    assert caught.value.xa_error_code == XAException.XA_RBROLLBACK


@pytest.mark.parametrize("one_phase", [False, True])
async def test_an_end_of_a_branch_that_reaches_the_next_broker_is_a_rollback(
    clock: VirtualClock, brokers: FakeBrokers, one_phase: bool
) -> None:
    url = "failover:(fake://a)?jms.watchTopicAdvisories=false"
    async with await XAConnectionFactory(url).create_xa_connection() as connection:
        resource = (await connection.create_xa_session()).xa_resource
        await resource.start(ONE)
        await resource.end(ONE)
        brokers.connections[-1].is_broken = True
        call = resource.commit(ONE, one_phase=True) if one_phase else resource.prepare(ONE)
        async with anyio.create_task_group() as group:
            group.start_soon(is_rolled_back, call)
            await anyio.wait_all_tasks_blocked()
            brokers.lose()
        assert len(connection.branches) == 0


async def test_work_that_cannot_be_acknowledged_any_more_is_rolled_back(
    clock: VirtualClock, brokers: FakeBrokers
) -> None:
    url = "fake://a?jms.watchTopicAdvisories=false"
    async with await XAConnectionFactory(url).create_xa_connection() as connection:
        await connection.start()
        session = await connection.create_xa_session()
        consumer = await session.create_consumer(Queue("q"))
        await session.xa_resource.start(ONE)
        message = ActiveMQTextMessage(
            message_id=MessageId(None, ProducerId("p", 1, 1), 1), destination=Queue("q")
        )
        connection.on_command(MessageDispatch(consumer.consumer_id, Queue("q"), message))
        assert await consumer.receive(1) is not None
        brokers.connections[-1].is_broken = True
        await is_rolled_back(session.xa_resource.end(ONE))
        assert session.transaction.id is None
        with pytest.raises(XAException) as caught:
            await session.xa_resource.prepare(ONE)
        assert caught.value.xa_error_code == XAException.XAER_RMFAIL


@pytest.mark.usefixtures("clock")
@pytest.mark.parametrize("refusal", [NOTA, OF_ARTEMIS], ids=["activemq", "artemis"])
@pytest.mark.parametrize("name", ["commit", "rollback", "forget"])
async def test_the_end_of_a_prepared_branch_is_done_where_the_next_broker_does_not_know_it(
    brokers: FakeBrokers, monkeypatch: pytest.MonkeyPatch, name: str, refusal: Throwable
) -> None:
    refuse_branches(monkeypatch, refusal)
    url = "failover:(fake://a)?jms.watchTopicAdvisories=false"
    async with await XAConnectionFactory(url).create_xa_connection() as connection:
        resource = (await connection.create_xa_session()).xa_resource
        brokers.connections[-1].respond = lambda _: ()
        async with anyio.create_task_group() as group:
            group.start_soon(getattr(resource, name), ONE)
            await anyio.wait_all_tasks_blocked()
            brokers.lose()
        with pytest.raises(XAException):  # one that no lost broker may have ended
            await getattr(resource, name)(ONE)
