"""Source and sink over `failover:`: a transaction that a lost connection ends is done again."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import anyio
import anyio.to_thread
import pytest
from pyspark.sql import Row

from pyjms.client.factory import ConnectionFactory
from pyjms.spark.connections import close_connections, run_blocking
from pyjms.spark.offsets import BatchLimit
from pyjms.spark.options import JmsOptions
from pyjms.spark.sink import publish
from pyjms.spark.spool import Puller, Spool
from pyjms.transport.uri import TransportURI
from pyjms_broker.testing import EmbeddedTestBroker
from tests.kit.failures.cut_transfers import FAST, POINTS, texts
from tests.kit.failures.cutting_proxy import TO_BROKER, TO_CLIENT, CuttingProxy, cutting_proxy
from tests.kit.spark.rows import stage_rows
from tests.kit.waiting import LONGEST_WAIT

pytestmark = pytest.mark.parametrize("anyio_backend", ["asyncio"])

BEFORE, AFTER = "not executed", "executed, without a response"


@pytest.fixture
async def broker() -> AsyncIterator[EmbeddedTestBroker]:
    async with EmbeddedTestBroker() as broker:
        yield broker


@pytest.fixture
async def proxy(broker: EmbeddedTestBroker) -> AsyncIterator[CuttingProxy]:
    port = TransportURI.parse(await broker.tcp_url()).port
    assert port is not None
    async with cutting_proxy(port) as proxy:
        yield proxy
        await close_connections()


def url_of(proxy: CuttingProxy) -> str:
    return f"failover:({proxy.url})?{FAST}"


def cut_the_commit(proxy: CuttingProxy, when: str) -> None:
    if when == BEFORE:
        proxy.cut_at(TO_BROKER, 0, inside=5, at=POINTS["commit"])
    else:
        proxy.cut_at(TO_CLIENT, 0, after=POINTS["commit"])


@pytest.mark.parametrize("when", [BEFORE, AFTER])
async def test_a_pull_whose_commit_is_in_doubt_has_each_message_once(
    proxy: CuttingProxy, broker: EmbeddedTestBroker, tmp_path: Path, when: str
) -> None:
    direct = ConnectionFactory(await broker.tcp_url())
    async with await direct.create_connection() as connection:
        session = await connection.create_session()
        producer = await session.create_producer(session.create_queue("IN"))
        for number in range(5):
            await producer.send(session.create_text_message(f"m{number}"))
        spool = Spool(tmp_path)
        puller = Puller(JmsOptions(url_of(proxy), "IN"), spool)
        cut_the_commit(proxy, when)
        with anyio.fail_after(LONGEST_WAIT):
            await puller.pull(BatchLimit(5, 1 << 20), 5)
            assert proxy.cuts == 1
            await producer.send(session.create_text_message("more"))
            await puller.pull(BatchLimit(1, 1 << 20), 5)
        assert spool.end == 6
    assert await texts(direct, "IN") == []


@pytest.mark.parametrize("when", [BEFORE, AFTER])
async def test_a_batch_whose_commit_is_in_doubt_is_published_once(
    proxy: CuttingProxy, broker: EmbeddedTestBroker, when: str
) -> None:
    url = await broker.tcp_url()
    rows = iter([Row(text="1"), Row(text="2")])
    staging = JmsOptions(url, "OUT", exactly_once="epoch")
    try:
        await anyio.to_thread.run_sync(stage_rows, staging, "q", 0, "a", rows)
    finally:
        await anyio.to_thread.run_sync(run_blocking, close_connections)
    cut_the_commit(proxy, when)
    with anyio.fail_after(LONGEST_WAIT):
        options = JmsOptions(url_of(proxy), "OUT", exactly_once="epoch")
        await publish(options, "q", 0, {"a": 2})
    assert proxy.cuts == 1
    assert await texts(ConnectionFactory(url), "OUT") == ["1", "2"]
