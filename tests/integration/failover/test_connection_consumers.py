"""Connection consumers over `failover:` whose connection is cut while their sessions work."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import anyio
import pytest

from pyjms.aio import ConnectionFactory, Queue, TransactionRolledBackException
from pyjms.connection import SimpleServerSessionPool
from pyjms_broker.testing import EmbeddedTestBroker
from tests.kit.failures.cut_transfers import FAST, factory_of
from tests.kit.failures.cutting_proxy import CuttingProxy
from tests.kit.waiting import LONGEST_WAIT

TEXTS = [f"m{number}" for number in range(12)]
CUTS = (2, 5, 9)


@pytest.mark.parametrize("transacted", [True, False])
async def test_nothing_is_lost_by_cuts_and_nothing_committed_twice(
    proxy: CuttingProxy, broker: EmbeddedTestBroker, transacted: bool
) -> None:
    deliveries = 0
    cuts: list[int] = []

    def listener_of(session: Any) -> Any:
        async def work(message: Any) -> None:
            nonlocal deliveries
            deliveries += 1
            if deliveries in CUTS:
                cuts.append(deliveries)
                await proxy.cut_now()
            producer = await session.create_producer(Queue("out"))
            await producer.send(session.create_text_message(message.text))
            await producer.close()
            if transacted:
                with suppress(TransactionRolledBackException):  # it comes again, if it was
                    await session.commit()

        return work

    with anyio.fail_after(LONGEST_WAIT):
        async with (
            await factory_of(proxy, FAST).create_connection() as connection,
            await ConnectionFactory(broker.url).create_connection() as uncut,
        ):
            reading = await uncut.create_session()
            producer = await reading.create_producer(Queue("in"))
            for text in TEXTS:
                await producer.send(reading.create_text_message(text))
            out = await reading.create_consumer(Queue("out"))
            pool = SimpleServerSessionPool(connection, listener_of, size=2, transacted=transacted)
            queue = Queue("in?consumer.prefetchSize=6")
            consumer = await connection.create_connection_consumer(queue, None, pool, 3)
            await connection.start()
            await uncut.start()
            copies: list[str] = []
            while not set(TEXTS) <= set(copies):
                copies.append((await out.receive()).text)  # type: ignore[union-attr]
            await consumer.close()
            await pool.close()
            while (copy := await out.receive(0.2)) is not None:
                copies.append(copy.text)  # type: ignore[attr-defined]
            rest = await reading.create_consumer(Queue("in"))
            assert await rest.receive(0.2) is None
    assert cuts == list(CUTS)
    assert len(copies) == len(TEXTS) or not transacted
