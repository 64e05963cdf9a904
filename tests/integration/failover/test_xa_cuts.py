"""Branches over `failover:` while connections are cut: each ends once, and as the manager was told."""

from __future__ import annotations

import itertools
from typing import Any

import anyio
import pytest

from pyjms.client.factory import ConnectionFactory
from pyjms.errors import TransactionRolledBackException, XAException
from pyjms.jms.xa import Xid
from pyjms_broker.testing import EmbeddedTestBroker
from tests.kit.failures.cut_branches import cut_while_transferring_in_branches, xa_factory_of
from tests.kit.failures.cut_transfers import check, texts
from tests.kit.failures.cutting_proxy import TO_BROKER, TO_CLIENT, CuttingProxy
from tests.kit.waiting import LONGEST_WAIT

RBROLLBACK = XAException.XA_RBROLLBACK
_numbers = itertools.count(1)


class Work:
    """One session that receives and sends in branches, over the proxy."""

    def __init__(self, session: Any, proxy: CuttingProxy) -> None:
        self.session = session
        self.proxy = proxy
        self.resource = session.xa_resource
        self.xid = Xid(1, b"none")
        self.interrupted = anyio.Event()
        self.resumed = anyio.Event()
        session.connection.add_transport_listener(self)

    async def open(self) -> None:
        session = self.session
        self.consumer = await session.create_consumer(session.create_queue("in"))
        self.producer = await session.create_producer(session.create_queue("out"))

    async def begin(self) -> int:
        """Receive and send in a new branch; return how often the message was delivered."""
        self.xid = Xid(1, b"global", str(next(_numbers)).encode())
        await self.resource.start(self.xid)
        message = await self.consumer.receive(10)
        await self.producer.send(self.session.create_text_message(f"of {message.text}"))
        return int(message.delivery_count)

    async def cut(self) -> None:
        """Cut the connection, and wait for the next one."""
        await self.proxy.cut_now()
        await self.resumed.wait()

    async def lose(self) -> None:
        """Cut the connection, and let there be none until `find`."""
        self.proxy.is_open = False
        await self.proxy.cut_now()
        await self.interrupted.wait()

    async def find(self) -> None:
        """Let the connection be made again."""
        self.proxy.is_open = True
        await self.resumed.wait()

    async def cancelled(self, call: Any) -> None:
        """Cancel a call while it waits."""
        async with anyio.create_task_group() as group:
            group.start_soon(lambda: call)
            await anyio.wait_all_tasks_blocked()
            group.cancel_scope.cancel()

    def transport_interrupted(self, error: Exception) -> None:
        self.interrupted.set()

    def transport_resumed(self) -> None:
        self.resumed.set()

    async def is_rolled_back(self, call: Any) -> None:
        with pytest.raises(XAException) as caught:
            await call
        assert caught.value.xa_error_code == RBROLLBACK, caught.value

    async def finish(self) -> None:
        """Do the work again, in a branch that nothing disturbs."""
        await self.begin()
        await self.resource.end(self.xid)
        await self.resource.prepare(self.xid)
        await self.resource.commit(self.xid)


async def in_the_branch(work: Work) -> None:
    await work.begin()
    await work.cut()
    with pytest.raises(TransactionRolledBackException, match="can only be rolled back"):
        await work.producer.send(work.session.create_text_message("more"))
    await work.is_rolled_back(work.resource.end(work.xid))
    await work.resource.rollback(work.xid)
    await work.finish()


async def before_prepare(work: Work) -> None:
    await work.begin()
    await work.resource.end(work.xid)
    await work.cut()
    await work.is_rolled_back(work.resource.prepare(work.xid))
    await work.finish()


async def before_one_phase(work: Work) -> None:
    await work.begin()
    await work.resource.end(work.xid)
    await work.cut()
    await work.is_rolled_back(work.resource.commit(work.xid, one_phase=True))
    await work.finish()


async def prepare_without_response(work: Work) -> None:
    await work.begin()
    await work.resource.end(work.xid)
    work.proxy.cut_at(TO_CLIENT, 0)
    await work.is_rolled_back(work.resource.prepare(work.xid))
    await work.finish()


async def between_the_phases(work: Work) -> None:
    await work.begin()
    await work.resource.end(work.xid)
    await work.resource.prepare(work.xid)
    await work.cut()
    await work.resource.commit(work.xid)


async def commit_without_response(work: Work) -> None:
    await work.begin()
    await work.resource.end(work.xid)
    await work.resource.prepare(work.xid)
    work.proxy.cut_at(TO_CLIENT, 0)
    await work.resource.commit(work.xid)


async def commit_cut_on_its_way(work: Work) -> None:
    await work.begin()
    await work.resource.end(work.xid)
    await work.resource.prepare(work.xid)
    work.proxy.cut_at(TO_BROKER, 0, inside=5)
    await work.resource.commit(work.xid)


async def rollback_without_response(work: Work) -> None:
    await work.begin()
    await work.resource.end(work.xid)
    await work.resource.prepare(work.xid)
    work.proxy.cut_at(TO_CLIENT, 0)
    await work.resource.rollback(work.xid)
    await work.finish()


async def rollback_cut_on_its_way(work: Work) -> None:
    await work.begin()
    await work.resource.end(work.xid)
    await work.resource.prepare(work.xid)
    work.proxy.cut_at(TO_BROKER, 0, inside=5)
    await work.resource.rollback(work.xid)
    await work.finish()


async def calls_cancelled_without_a_broker(work: Work) -> None:
    resource = work.resource
    await work.begin()
    await resource.end(work.xid)
    await resource.prepare(work.xid)
    await work.lose()
    other = Xid(1, b"other")
    calls = (resource.commit(work.xid), resource.rollback(work.xid), resource.recover())
    for call in (*calls, resource.start(other), resource.forget(work.xid)):
        await work.cancelled(call)
    assert not work.session.transaction.id
    await work.find()
    assert await resource.recover() == [work.xid]
    await resource.rollback(work.xid)
    await work.begin()
    await resource.end(work.xid)
    await resource.prepare(work.xid)
    await resource.commit(work.xid)


@pytest.mark.parametrize(
    "cut",
    [
        calls_cancelled_without_a_broker,
        in_the_branch,
        before_prepare,
        before_one_phase,
        prepare_without_response,
        between_the_phases,
        commit_without_response,
        commit_cut_on_its_way,
        rollback_without_response,
        rollback_cut_on_its_way,
    ],
)
async def test_a_cut(proxy: CuttingProxy, broker: EmbeddedTestBroker, cut: Any) -> None:
    direct = ConnectionFactory(await broker.tcp_url())
    with anyio.fail_after(LONGEST_WAIT):
        async with await direct.create_connection() as connection:
            session = await connection.create_session()
            producer = await session.create_producer(session.create_queue("in"))
            await producer.send(session.create_text_message("a"))
        async with await xa_factory_of(proxy).create_connection() as connection:
            failures: list[Exception] = []
            connection.exception_listener = failures.append
            await connection.start()
            work = Work(await connection.create_session(), proxy)
            await work.open()
            await cut(work)
            assert proxy.cuts == 1
            assert await work.resource.recover() == []
            assert len(connection.branches) == 0
            assert failures == []
    assert broker.queue_statistics("out").messages == 1
    assert broker.queue_statistics("in").messages == 0
    assert await texts(direct, "ActiveMQ.DLQ") == []


@pytest.mark.fact("activemq-broker X9")
async def test_a_commit_in_one_phase_without_response_is_in_doubt(
    proxy: CuttingProxy, broker: EmbeddedTestBroker
) -> None:
    with anyio.fail_after(LONGEST_WAIT):
        async with await xa_factory_of(proxy).create_connection() as connection:
            session = await connection.create_session()
            producer = await session.create_producer(session.create_queue("out"))
            resource, xid = session.xa_resource, Xid(1, b"global")
            await resource.start(xid)
            await producer.send(session.create_text_message("a"))
            await resource.end(xid)
            proxy.cut_at(TO_CLIENT, 0)
            with pytest.raises(XAException, match="in doubt due to failover") as caught:
                await resource.commit(xid, one_phase=True)
            assert caught.value.xa_error_code == RBROLLBACK
            assert isinstance(caught.value.linked_exception, TransactionRolledBackException)
    # the broker had executed it: that is the doubt
    assert await texts(ConnectionFactory(await broker.tcp_url()), "out") == ["a"]


@pytest.mark.parametrize("seed", [1, 2])
async def test_tens_of_cuts(proxy: CuttingProxy, broker: EmbeddedTestBroker, seed: int) -> None:
    with anyio.fail_after(110):
        url = await broker.tcp_url()
        account = await cut_while_transferring_in_branches(proxy, url, 30, 40, seed)
    check(account, 30)


@pytest.mark.nightly
@pytest.mark.timeout(1800)
async def test_a_thousand_cuts(proxy: CuttingProxy, broker: EmbeddedTestBroker) -> None:
    url = await broker.tcp_url()
    account = await cut_while_transferring_in_branches(proxy, url, 1000, 500, 3)
    check(account, 1000)
