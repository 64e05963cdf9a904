"""Messages moved between two queues in XA branches while connections are cut, and the account."""

from __future__ import annotations

import os
import random
from collections import Counter
from contextlib import suppress

import anyio

from pyjms.client.consumer import ActiveMQMessageConsumer
from pyjms.client.factory import ConnectionFactory
from pyjms.client.producer import ActiveMQMessageProducer
from pyjms.client.xa import ActiveMQXAConnection, ActiveMQXASession, XAConnectionFactory
from pyjms.errors import JMSException, XAException
from pyjms.jms.message import TextMessage
from pyjms.jms.xa import Xid
from tests.kit.failures.cut_transfers import (
    BRANCH_POINTS,
    DEAD_LETTERS,
    FAST,
    Account,
    Remains,
    connected,
    keep_cutting,
    texts,
)
from tests.kit.failures.cutting_proxy import CuttingProxy
from tests.kit.waiting import until


def xa_factory_of(proxy: CuttingProxy) -> XAConnectionFactory:
    """Return a factory of XA connections through the proxy, which survive cuts."""
    query = f"{FAST}&jms.redeliveryPolicy.maximumRedeliveries=-1&jms.closeTimeout=500"
    return XAConnectionFactory(f"failover:({proxy.url})?{query}")


async def transfer_in_branches(
    connection: ActiveMQXAConnection, count: int, account: Account
) -> None:
    """Move `count` messages in total, each in a separate two-phase branch.

    As a transaction manager does, it begins by rolling back the branches that are in doubt.
    """
    with account.call():
        session = await connection.create_session()
        for xid in await session.xa_resource.recover():
            await session.xa_resource.rollback(xid)
        consumer = await session.create_consumer(session.create_queue("in"))
        producer = await session.create_producer(session.create_queue("out"))
    while len(account.moved) < count:
        with account.call():
            if not await _move_one(session, consumer, producer, account):
                return


async def _move_one(
    session: ActiveMQXASession,
    consumer: ActiveMQMessageConsumer,
    producer: ActiveMQMessageProducer,
    account: Account,
) -> bool:
    """Move a message, unless its branch is rolled back; return False if there is none."""
    resource, xid = session.xa_resource, Xid(1, os.urandom(16))
    await resource.start(xid)
    try:
        message = await consumer.receive(1)
        if message is not None:
            assert isinstance(message, TextMessage)
            await producer.send(session.create_text_message(message.text))
        await resource.end(xid)
        vote = await resource.prepare(xid)
    except JMSException:
        with suppress(XAException):
            await resource.end(xid)
        with suppress(XAException):
            await resource.rollback(xid)
        return True
    if vote == resource.XA_OK:
        await resource.commit(xid)
    if message is None:
        return False
    account.moved.append(str(message.text))
    return True


async def cut_while_transferring_in_branches(
    proxy: CuttingProxy,
    url: str,
    cuts: int,
    count: int,
    seed: int,
    dead_letters: str = DEAD_LETTERS,
) -> Account:
    """Cut connections during start, receive, send, end, prepare, commit and close; then account.

    Raises:
        TimeoutError: no connection came to the next point.
    """
    chance = random.Random(seed)
    direct = ConnectionFactory(url)
    account = Account(sent=[f"m{number}" for number in range(count)])
    sent, moved = account.sent, account.moved
    remains = await Remains.note()
    async with await direct.create_connection() as connection:
        session = await connection.create_session()
        producer = await session.create_producer(session.create_queue("in"))
        for text in sent:
            await producer.send(session.create_text_message(text))

        async with anyio.create_task_group() as group:
            group.start_soon(keep_cutting, proxy, cuts, chance, BRANCH_POINTS, account)
            while proxy.cuts < cuts or len(moved) < len(sent):
                if len(moved) == len(sent):
                    sent.append(f"m{len(sent)}")
                    await producer.send(session.create_text_message(sent[-1]))
                async with connected(xa_factory_of(proxy), account) as moving:
                    assert isinstance(moving, ActiveMQXAConnection)
                    with account.call():
                        await moving.start()
                    await transfer_in_branches(moving, min(len(moved) + 15, len(sent)), account)
    async with await XAConnectionFactory(url).create_connection() as connection:
        resource = (await connection.create_session()).xa_resource
        assert await resource.recover() == []
    await until(lambda: not proxy.links, turn=lambda: anyio.sleep(0.01))
    out = await texts(direct, "out")
    assert sorted(moved) == sorted(sent)
    assert await texts(direct, "in") == []
    account.lost = set(sent) - set(out)
    account.doubled = [text for text, times in Counter(out).items() if times > 1]
    account.dead = await texts(direct, dead_letters)
    await remains.count(account)
    return account
