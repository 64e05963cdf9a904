"""XA of this client with the real ActiveMQ 5.17.2: votes, refusals, redelivery and recovery."""

from __future__ import annotations

import os
from typing import Any

import anyio
import pytest

from pyjms.client import XAConnectionFactory
from pyjms.errors import XAException
from pyjms.jms import XAResource
from pyjms.jms.message import TextMessage
from pyjms.transactions import Xid
from tests.kit.waiting import LONGEST_WAIT

pytestmark = pytest.mark.activemq

NOTA, PROTO, RMFAIL = XAException.XAER_NOTA, XAException.XAER_PROTO, XAException.XAER_RMFAIL


def new_xid() -> Xid:
    return Xid(4711, os.urandom(16), b"branch")


async def refused(code: int, call: Any) -> None:
    with pytest.raises(XAException) as caught:
        await call
    assert caught.value.xa_error_code == code, caught.value


async def test_branches_of_two_connections_at_activemq(real_broker: str) -> None:
    queue = f"xa.{os.urandom(4).hex()}"
    with anyio.fail_after(LONGEST_WAIT):
        factory = XAConnectionFactory(real_broker)
        async with (
            await factory.create_xa_connection() as connection,
            await factory.create_xa_connection() as second,
        ):
            await connection.start()
            session, other = await connection.create_session(), await second.create_session()
            resource, recovering = session.xa_resource, other.xa_resource
            assert await resource.is_same_rm(recovering)
            producer = await session.create_producer(session.create_queue(queue))
            consumer = await session.create_consumer(session.create_queue(queue))

            async def send(text: str) -> Xid:
                xid = new_xid()
                await resource.start(xid)
                await producer.send(session.create_text_message(text))
                await resource.end(xid)
                return xid

            async def receive() -> tuple[Xid, str | None, int]:
                xid = new_xid()
                await resource.start(xid)
                message = await consumer.receive(10)
                await resource.end(xid)
                assert isinstance(message, TextMessage)
                return xid, message.text, message.delivery_count

            committed = await send("committed by the other")
            assert await resource.prepare(committed) == XAResource.XA_OK
            assert committed in await recovering.recover()
            await recovering.commit(committed)
            assert committed not in await resource.recover()
            rolled_back = await send("rolled back")
            await resource.prepare(rolled_back)
            await resource.rollback(rolled_back)
            await resource.rollback(await send("not prepared"))
            await resource.commit(await send("one phase"), one_phase=True)

            for number in (1, 2):
                xid, *received = await receive()
                assert received == ["committed by the other", number]
                assert await resource.prepare(xid) == XAResource.XA_OK
                await (resource.rollback if number == 1 else resource.commit)(xid)
            xid, *received = await receive()
            assert received == ["one phase", 1]
            await resource.commit(xid, one_phase=True)

            empty = new_xid()
            await resource.start(empty)
            await resource.end(empty)
            assert await resource.prepare(empty) == XAResource.XA_RDONLY
            for call in (resource.commit(new_xid()), resource.rollback(new_xid())):
                await refused(NOTA, call)
            await refused(RMFAIL, resource.prepare(new_xid()))
            unprepared = await send("not prepared")
            await refused(PROTO, resource.commit(unprepared))
            await resource.rollback(unprepared)
            assert len(connection.branches) == 0
