"""The connection is cut at each frame of a client's work in turn, at its boundary and inside it.

The work: open, send, receive and send in a transaction, commit; the same in an XA branch with two
phases; close. Whatever the frame and its direction, each message is moved once.
"""

from __future__ import annotations

import itertools
from collections.abc import AsyncIterator, Iterator
from contextlib import suppress

import anyio
import pytest

from pyjms.client.factory import ConnectionFactory
from pyjms.client.session import ActiveMQSession
from pyjms.client.xa import XAConnectionFactory
from pyjms.errors import JMSException, TransactionRolledBackException, XAException
from pyjms.jms.message import TextMessage
from pyjms.jms.xa import Xid
from pyjms.transport.uri import TransportURI
from tests.kit.failures.cut_transfers import FAST, texts
from tests.kit.failures.cutting_proxy import DIRECTIONS, CuttingProxy, cutting_proxy
from tests.kit.servers.java_brokers import ARTEMIS_SETTINGS
from tests.kit.servers.peers import Peer, maven_broker
from tests.kit.waiting import LONGEST_WAIT

pytestmark = pytest.mark.timeout(600)

QUERY = f"{FAST}&jms.redeliveryPolicy.maximumRedeliveries=-1&jms.closeTimeout=2000"
INSIDE = (0, 3)
"""Before a frame, and after so many bytes of it."""
_numbers = itertools.count(1)


@pytest.fixture(scope="module")
def artemis_broker(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[str]:
    """The URL of an Artemis without a limit of attempts: see docs/peers.md."""
    settings = {**ARTEMIS_SETTINGS, "attempts": "-1"}
    yield from maven_broker("artemis", request, tmp_path_factory, settings)


@pytest.fixture
async def proxy(peer: Peer) -> AsyncIterator[CuttingProxy]:
    port = TransportURI.parse(peer.url).port
    assert port is not None
    async with cutting_proxy(port) as proxy:
        yield proxy


class Work:
    """The client's work, done again and again with the same two queues."""

    def __init__(self, proxy: CuttingProxy) -> None:
        number = next(_numbers)
        self.source, self.target = f"frames.{number}.in", f"frames.{number}.out"
        self.sent: list[str] = []
        self._url = f"failover:({proxy.url})?{QUERY}"

    async def in_a_transaction(self) -> None:
        async with await ConnectionFactory(self._url).create_connection() as connection:
            await connection.start()
            session = await connection.create_session(True)
            consumer = await session.create_consumer(session.create_queue(self.source))
            producer = await session.create_producer(session.create_queue(self.target))
            other = await connection.create_session()
            await self._send(other)
            while (message := await consumer.receive(1)) is not None:
                with suppress(TransactionRolledBackException):
                    assert isinstance(message, TextMessage)
                    await producer.send(session.create_text_message(message.text))
                    await session.commit()
                    return
            # the commit that was in doubt had been executed

    async def in_a_branch(self) -> None:
        async with await XAConnectionFactory(self._url).create_connection() as connection:
            await connection.start()
            session = await connection.create_session()
            resource = session.xa_resource
            consumer = await session.create_consumer(session.create_queue(self.source))
            producer = await session.create_producer(session.create_queue(self.target))
            async with await ConnectionFactory(self._url).create_connection() as other:
                await self._send(await other.create_session())
            while True:
                xid = Xid(1, self.source.encode(), str(next(_numbers)).encode())
                await resource.start(xid)
                try:
                    message = await consumer.receive(10)
                    assert isinstance(message, TextMessage)
                    await producer.send(session.create_text_message(message.text))
                    await resource.end(xid)
                    await resource.prepare(xid)
                except JMSException:
                    with suppress(XAException):
                        await resource.end(xid)
                    with suppress(XAException):
                        await resource.rollback(xid)
                    continue
                await resource.commit(xid)
                return

    async def _send(self, session: ActiveMQSession) -> None:
        text = f"m{len(self.sent)}"
        producer = await session.create_producer(session.create_queue(self.source))
        await producer.send(session.create_text_message(text))
        self.sent.append(text)


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
@pytest.mark.parametrize("direction", DIRECTIONS)
@pytest.mark.parametrize("is_branch", [False, True], ids=["transaction", "branch"])
async def test_a_cut_at_every_frame(
    proxy: CuttingProxy, peer: Peer, is_branch: bool, direction: str
) -> None:
    work = Work(proxy)
    frame, before = 0, -1
    while proxy.cuts > before:  # until the work has no more frames
        before = proxy.cuts
        for inside in INSIDE:
            proxy.cut_at(direction, frame, inside)
            with anyio.fail_after(LONGEST_WAIT):
                await (work.in_a_branch() if is_branch else work.in_a_transaction())
        frame += 1
    proxy.plan = None
    assert proxy.cuts >= 2 * 10
    direct = ConnectionFactory(peer.url)
    assert sorted(await texts(direct, work.target)) == sorted(work.sent)
    assert await texts(direct, work.source) == []
    assert await texts(direct, peer.dead_letters.physical_name) == []
    async with await XAConnectionFactory(peer.url).create_connection() as connection:
        assert await (await connection.create_session()).xa_resource.recover() == []
