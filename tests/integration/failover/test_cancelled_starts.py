"""Cancelling the start of a connection while there is no broker, and later calls."""

from __future__ import annotations

import gc
import logging
from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path

import anyio
import anyio.lowlevel
import pytest

from pyjms.client.factory import ConnectionFactory
from pyjms.errors import ConnectionFailedException
from pyjms.transport.mock import RecordingListener
from pyjms.transport.openwire import RequestTransport
from pyjms.transport.registry import create_transport
from pyjms.transport.uri import TransportURI
from pyjms_broker.testing import EmbeddedTestBroker
from tests.kit.clients.messages import text_of
from tests.kit.failures.cut_transfers import factory_of
from tests.kit.failures.cutting_proxy import TO_CLIENT, CuttingProxy, cutting_proxy
from tests.kit.waiting import LONGEST_WAIT, until


def client_tasks() -> list[str]:
    """Return the names of the tasks of failover transports."""
    names = [task.name or "" for task in anyio.get_running_tasks()]
    return [name for name in names if name.startswith("pyjms failover:")]


@pytest.fixture
async def proxy() -> AsyncIterator[CuttingProxy]:
    async with EmbeddedTestBroker() as broker:
        port = TransportURI.parse(await broker.tcp_url()).port
        assert port is not None
        async with cutting_proxy(port) as proxy:
            yield proxy


async def test_connecting_without_a_broker_reports_progress_and_can_be_cancelled(
    proxy: CuttingProxy, caplog: pytest.LogCaptureFixture
) -> None:
    proxy.is_open = False
    url = f"failover:({proxy.url})?initialReconnectDelay=1&maxReconnectDelay=1"
    factory = ConnectionFactory(f"{url}&warnAfterReconnectAttempts=3")
    with anyio.fail_after(LONGEST_WAIT):
        async with anyio.create_task_group() as group:
            group.start_soon(factory.create_connection)
            await until(client_tasks)
            await until(
                lambda: "after: 6 attempt(s)" in caplog.text, turn=lambda: anyio.sleep(0.001)
            )
            group.cancel_scope.cancel()
        await until(lambda: client_tasks() == [])
    warnings = [r for r in caplog.records if r.levelno == logging.WARNING]
    assert [r.getMessage().split(" attempt")[0][-1] for r in warnings[:3]] == ["1", "3", "6"]


@pytest.mark.parametrize("call", ["start", "create_session", "set_client_id"])
@pytest.mark.parametrize("when", ["before", "in flight"])
async def test_a_registration_that_is_cancelled_can_be_repeated(
    proxy: CuttingProxy, call: str, when: str
) -> None:
    with anyio.fail_after(LONGEST_WAIT):
        connection = await factory_of(proxy).create_connection()
        arguments = ["me"] if call == "set_client_id" else []
        async with connection:
            if when == "before":
                proxy.is_open = False
                await proxy.cut_now()
            else:
                proxy.hold(TO_CLIENT)
            async with anyio.create_task_group() as group:
                group.start_soon(getattr(connection, call), *arguments)
                await (proxy.refused() if when == "before" else proxy.held())
                group.cancel_scope.cancel()
            proxy.is_open = True
            proxy.release()
            await connection.start()
            session = await connection.create_session()
            queue = session.create_queue("q")
            consumer = await session.create_consumer(queue)
            producer = await session.create_producer(queue)
            await producer.send(session.create_text_message("works"))
            assert text_of(await consumer.receive()) == "works"
            assert call != "set_client_id" or connection.client_id == "me"


async def test_closing_while_a_start_waits_for_a_broker_ends_it(proxy: CuttingProxy) -> None:
    with anyio.fail_after(LONGEST_WAIT):
        connection = await factory_of(proxy).create_connection()
        proxy.is_open = False
        await proxy.cut_now()
        with anyio.move_on_after(0.05):
            await connection.start()
        await connection.close()
        proxy.is_open = True


LATER_MOMENTS = 20
"""Turns of the event loop after a start, which takes 10 to 14: connecting a backup takes as many."""


def descriptors() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


@pytest.mark.usefixtures("young_garbage")
@pytest.mark.filterwarnings("error::ResourceWarning")
@pytest.mark.parametrize("options", ["", "&backup=true&priorityBackup=true"], ids=["one", "backup"])
@pytest.mark.parametrize("how", ["cancelled", "stopped", "stop cancelled"])
async def test_a_transport_that_is_stopped_at_an_odd_moment_leaves_nothing(
    how: str, options: str
) -> None:
    async with EmbeddedTestBroker() as first, EmbeddedTestBroker() as second:
        urls = f"{await first.tcp_url()},{await second.tcp_url()}"
        before: int | None = None
        turns = later = 0
        while later < LATER_MOMENTS:
            has_started = anyio.Event()
            transport = create_transport(f"failover:({urls})?initialReconnectDelay=1{options}")
            transport.listener = RecordingListener()
            async with anyio.create_task_group() as group:
                group.start_soon(start_quietly, transport, has_started)
                for _ in range(turns):
                    await anyio.lowlevel.checkpoint()
                later += has_started.is_set()
                if how == "stopped":
                    await transport.stop()
                group.cancel_scope.cancel()
            if how != "stopped":
                with anyio.CancelScope() as scope:
                    if how == "stop cancelled":
                        scope.cancel()
                    await transport.stop()
            if before is None:
                await until(lambda: client_tasks() == [])
                before = descriptors()  # with what the first one has loaded
            turns += 1
        await until(lambda: client_tasks() == [])
        await until(lambda: descriptors() <= (before or 0))
        gc.collect(0)


async def start_quietly(transport: RequestTransport, has_started: anyio.Event) -> None:
    """Start a transport that may be stopped meanwhile."""
    with suppress(ConnectionFailedException):
        await transport.start()
        has_started.set()
