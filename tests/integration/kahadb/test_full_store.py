"""A KahaDB store at its limit, whose segments are kept by one unconsumed message."""

from __future__ import annotations

import logging
from pathlib import Path

import anyio
import pytest

from pyjms.client.factory import ConnectionFactory
from pyjms.jms.destination import Queue
from pyjms_broker.service import BrokerService
from pyjms_broker.store.journal.settings import JournalSettings, PreallocationScope
from pyjms_broker.store.kahadb.adapter import KahaDBPersistenceAdapter
from pyjms_broker.store.kahadb.settings import KahaDBSettings
from pyjms_broker.testing import EmbeddedTestBroker

WORK, KEPT = Queue("work"), Queue("kept")
BODY = "x" * 20_000
BEHIND = 8
"""Messages that are not consumed yet: those of more than a segment."""


@pytest.mark.fact("activemq-persistence K18")
async def test_senders_continue_despite_an_unconsumed_message(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "pyjms_broker.store")
    journal = JournalSettings(
        max_file_length=128 * 1024, preallocation_scope=PreallocationScope.NONE
    )
    settings = KahaDBSettings(journal=journal, cleanup_interval=3600.0)
    service = BrokerService(
        "full",
        data_directory=tmp_path,
        persistence_adapter=KahaDBPersistenceAdapter(tmp_path, settings),
        store_limit=1_000_000,
    )
    with anyio.fail_after(60):
        async with (
            EmbeddedTestBroker(service) as broker,
            await ConnectionFactory(broker.url).create_connection() as connection,
        ):
            await connection.start()
            session = await connection.create_session()
            producer = await session.create_producer()
            consumer = await session.create_consumer(WORK)
            await producer.send(KEPT, session.create_text_message("dead"))
            for number in range(80):  # 1.6 MB, each acknowledged in the segment after its own
                await producer.send(WORK, session.create_text_message(BODY))
                if number >= BEHIND:
                    assert await consumer.receive(5.0) is not None
            kept = await session.create_consumer(KEPT)
            assert await kept.receive(5.0) is not None
    assert "acknowledgements out of segment" in caplog.text


@pytest.mark.fact("activemq-broker M13")
async def test_a_limit_counts_what_is_used_even_below_the_length_of_a_segment(
    tmp_path: Path,
) -> None:
    """Segments have 32 MiB; what was consumed makes room, although no segment is full."""
    service = BrokerService("small", data_directory=tmp_path, store_limit=200_000)
    with anyio.fail_after(60):
        async with (
            EmbeddedTestBroker(service) as broker,
            await ConnectionFactory(broker.url).create_connection() as connection,
        ):
            await connection.start()
            session = await connection.create_session()
            producer = await session.create_producer(WORK)
            consumer = await session.create_consumer(WORK)
            for _ in range(30):  # 600 kB
                await producer.send(session.create_text_message(BODY))
                assert await consumer.receive(5.0) is not None
            assert service.stores.store.size < 200_000 + 2 * len(BODY)
