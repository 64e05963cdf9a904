"""`failover:` against the real ActiveMQ 5.17.2: cut connections, and a broker that is killed."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import anyio
import anyio.to_thread
import pytest

from pyjms.client.factory import ConnectionFactory
from pyjms.transport.uri import TransportURI
from tests.kit.cut_transfers import FAST, cut_while_transferring
from tests.kit.cutting_proxy import CuttingProxy, cutting_proxy
from tests.kit.java_brokers import SEGMENT_SIZE, JavaBroker, activemq_command

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
        await cut_while_transferring(proxy, direct(broker), 20, 30, 4)


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
            assert [message.text for message in received] == ["committed", "open"]
