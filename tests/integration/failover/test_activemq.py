"""`failover:` against the real ActiveMQ 5.17.2: cut connections, and a broker that is killed."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import anyio
import anyio.to_thread
import pytest

from pyjms.client.factory import ConnectionFactory
from pyjms.errors import JMSException
from pyjms.transport.uri import TransportURI
from tests.kit.clients.messages import text_of
from tests.kit.failures.cut_branches import cut_while_transferring_in_branches
from tests.kit.failures.cut_transfers import FAST, check, cut_while_transferring, factory_of
from tests.kit.failures.cutting_proxy import TO_CLIENT, CuttingProxy, cutting_proxy
from tests.kit.servers.java_brokers import SEGMENT_SIZE, JavaBroker, activemq_command
from tests.kit.waiting import LONGEST_WAIT

__all__ = ["activemq_command"]

pytestmark = [pytest.mark.activemq, pytest.mark.timeout(300)]


@pytest.fixture
def broker(activemq_command: list[str], tmp_path: Path) -> Iterator[JavaBroker]:
    """An ActiveMQ that can be killed."""
    command = [*activemq_command, "KillingBroker"]
    broker = JavaBroker("activemq", command, tmp_path, {"segment": str(SEGMENT_SIZE)})
    broker.start()
    yield broker
    broker.end()


@pytest.fixture
async def proxy(broker: JavaBroker) -> AsyncIterator[CuttingProxy]:
    port = TransportURI.parse(broker.url).port
    assert port is not None
    async with cutting_proxy(port) as proxy:
        yield proxy


def direct(broker: JavaBroker) -> str:
    return f"tcp://127.0.0.1:{TransportURI.parse(broker.url).port}"


async def test_nothing_is_lost_or_committed_twice_by_cuts(
    proxy: CuttingProxy, broker: JavaBroker
) -> None:
    with anyio.fail_after(240):
        account = await cut_while_transferring(proxy, direct(broker), 20, 30, 4)
    check(account, 20)


@pytest.mark.nightly
@pytest.mark.timeout(1800)
async def test_a_thousand_cuts(proxy: CuttingProxy, broker: JavaBroker) -> None:
    account = await cut_while_transferring(proxy, direct(broker), 1000, 500, 5)
    check(account, 1000)


async def test_branches_are_moved_once_in_spite_of_cuts(
    proxy: CuttingProxy, broker: JavaBroker
) -> None:
    with anyio.fail_after(240):
        account = await cut_while_transferring_in_branches(proxy, direct(broker), 20, 30, 4)
    check(account, 20)


@pytest.mark.nightly
@pytest.mark.timeout(1800)
async def test_branches_are_moved_once_in_spite_of_a_thousand_cuts(
    proxy: CuttingProxy, broker: JavaBroker
) -> None:
    account = await cut_while_transferring_in_branches(proxy, direct(broker), 1000, 500, 5)
    check(account, 1000)


async def test_sessions_survive_a_killed_broker(broker: JavaBroker) -> None:
    with anyio.fail_after(240):
        url = f"failover:({direct(broker)})?{FAST}"
        async with await ConnectionFactory(url).create_connection() as connection:
            await connection.start()
            session = await connection.create_session(True)
            queue = session.create_queue("killed")
            consumer = await session.create_consumer(queue)
            producer = await session.create_producer(queue)
            await producer.send(session.create_text_message("committed"))
            await session.commit()
            await producer.send(session.create_text_message("open"))
            await anyio.to_thread.run_sync(broker.restart, "kill")
            await session.commit()
            received = [await consumer.receive() for _ in range(2)]
            await session.commit()
            assert [text_of(message) for message in received] == ["committed", "open"]


@pytest.mark.parametrize("when", ["before", "in flight"])
async def test_a_start_that_is_cancelled_can_be_repeated(proxy: CuttingProxy, when: str) -> None:
    with anyio.fail_after(LONGEST_WAIT):
        async with await factory_of(proxy).create_connection() as connection:
            failures: list[JMSException] = []
            connection.exception_listener = failures.append
            if when == "before":
                proxy.is_open = False
                await proxy.cut_now()
            else:
                proxy.hold(TO_CLIENT)
            async with anyio.create_task_group() as group:
                group.start_soon(connection.start)
                await (proxy.refused() if when == "before" else proxy.held())
                group.cancel_scope.cancel()
            proxy.is_open = True
            proxy.release()
            await connection.start()
            session = await connection.create_session()
            queue = session.create_queue("again")
            consumer = await session.create_consumer(queue)
            producer = await session.create_producer(queue)
            await producer.send(session.create_text_message("works"))
            assert text_of(await consumer.receive()) == "works"
            assert failures == []
