"""A full disk and a failing one: the broker logs it, and confirmed messages are kept."""

from __future__ import annotations

import errno
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, cast

import anyio
import pytest

from pyjms.jms.destination import Queue
from pyjms.transport.registry import create_transport
from pyjms.wire.openwire.commands import TransactionType
from pyjms.wire.openwire.primitives import decode_text, encode_map
from pyjms_broker.service import BrokerService, IOExceptionHandler
from pyjms_broker.store.api import PersistenceAdapter, StoreState
from pyjms_broker.store.jdbc.settings import JDBCSettings
from pyjms_broker.store.jobs.kahadb import KahaDBJobSchedulerStore
from pyjms_broker.store.journal.disk import OS_DISK
from pyjms_broker.store.journal.settings import JournalSettings
from pyjms_broker.store.kahadb.adapter import KahaDBPersistenceAdapter
from pyjms_broker.store.kahadb.settings import KahaDBSettings
from pyjms_broker.testing import EmbeddedTestBroker
from tests.kit.clients.raw import RawClient

Q = Queue("q")
FULL = OSError(errno.ENOSPC, "No space left on device")
BROKEN = OSError(errno.EIO, "Input/output error")


class TroubledDisk:
    """The real disk, which refuses writes, or syncs, while it has trouble."""

    def __init__(self) -> None:
        self.writes: OSError | None = None
        self.syncs: OSError | None = None

    def __getattr__(self, name: str) -> Any:
        return getattr(OS_DISK, name)

    def write(self, fd: int, data: bytes, offset: int) -> None:
        if self.writes is not None:
            raise self.writes
        OS_DISK.write(fd, data, offset)

    def sync(self, fd: int) -> None:
        if self.syncs is not None:
            raise self.syncs
        OS_DISK.sync(fd)


class Factory:
    """KahaDB on that disk; tries again at once when it is full."""

    directory_name: str | None = "KahaDB"

    def __init__(self, disk: Any = OS_DISK, **journal: Any) -> None:
        self.disk = disk
        self.settings = KahaDBSettings(
            journal=JournalSettings(
                max_file_length=1 << 18, resume_check_sleep_period=0.01, **journal
            )
        )

    def create(self, directory: Path, broker_name: str) -> PersistenceAdapter:
        return KahaDBPersistenceAdapter(directory, self.settings, disk=self.disk)


@pytest.fixture
def service_on(tmp_path: Path) -> Callable[..., BrokerService]:
    def make(disk: Any = OS_DISK, handler: IOExceptionHandler | None = None, **journal: Any) -> Any:
        return BrokerService(
            "troubled",
            data_directory=tmp_path,
            persistence=Factory(disk, **journal),
            io_exception_handler=handler,
        )

    return make


async def client_of(raw_client: type[RawClient], service: BrokerService) -> Any:
    client = raw_client(create_transport(service.vm_uri))
    await client.open()
    return client


def news_of(service: BrokerService, wanted: StoreState) -> anyio.Event:
    """An event that is set when the store is in that state."""
    store, reached = service.stores.store, anyio.Event()
    told = store.on_state
    assert told is not None

    def on_state(state: StoreState, error: Exception | None) -> None:
        told(state, error)
        if state is wanted:
            reached.set()

    store.on_state = on_state
    return reached


@pytest.mark.fact("activemq-persistence K24")
@pytest.mark.parametrize("trouble", ["writes", "syncs"])
async def test_a_full_disk_is_waited_for(
    service_on: Callable[..., BrokerService],
    raw_client: type[RawClient],
    trouble: str,
    caplog: pytest.LogCaptureFixture,
) -> None:
    assert IOExceptionHandler() == IOExceptionHandler(
        ignore_all_errors=False, stop_start_connectors=False, system_exit_on_shutdown=False
    )
    assert JournalSettings().ignore_no_space_errors
    assert JournalSettings().resume_check_sleep_period == 5.0
    assert JDBCSettings().ignore_sql_exceptions
    disk = TroubledDisk()
    answered: list[str] = []
    async with EmbeddedTestBroker(service_on(disk)) as broker:
        client = await client_of(raw_client, broker.service)
        await client.send(Q, "before")

        async def send(text: str) -> None:
            await client.send(Q, text)
            answered.append(text)

        suspended = news_of(broker.service, StoreState.SUSPENDED)
        setattr(disk, trouble, FULL)
        async with anyio.create_task_group() as group:
            group.start_soon(send, "during")
            await suspended.wait()
            await client.nothing_dispatched()  # the broker lives
            assert answered == []
            setattr(disk, trouble, None)
        assert answered == ["during"]
        await client.send(Q, "after")
        await client.close()
    assert "the store is suspended: [Errno 28] No space left on device" in caplog.text
    assert "Broker troubled: the store works again" in caplog.text
    async with EmbeddedTestBroker(service_on()) as broker:
        assert broker.queue_statistics("q").messages == 3


@pytest.mark.parametrize("error", [BROKEN, FULL])
@pytest.mark.parametrize("trouble", ["writes", "syncs"])
async def test_a_broken_disk_stops_the_broker_and_nothing_more_is_answered(
    service_on: Callable[..., BrokerService],
    raw_client: type[RawClient],
    trouble: str,
    error: OSError,
    caplog: pytest.LogCaptureFixture,
) -> None:
    disk = TroubledDisk()
    service = service_on(disk, ignore_no_space_errors=False)
    await service.start()
    client = await client_of(raw_client, service)
    await client.send(Q, "before")
    local = client.local(1)
    await client.transaction(TransactionType.BEGIN, local)
    await client.send(Q, "in a transaction", transaction_id=local)
    setattr(disk, trouble, error)
    with pytest.raises(ConnectionError):
        await client.transaction(TransactionType.COMMIT_ONE_PHASE, local)
    await service.wait_until_stopped()
    assert service.store_failed
    assert "Broker troubled stops because its store failed: Cannot write the journal" in caplog.text
    assert str(error) in caplog.text
    await client.cut()
    async with EmbeddedTestBroker(service_on()) as broker:
        assert broker.queue_statistics("q").messages >= 1  # the commit was in doubt


async def test_a_broken_disk_under_the_scheduled_messages_is_a_failed_store(
    service_on: Callable[..., BrokerService],
    raw_client: type[RawClient],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """`pyjms broker start` then exits with an error, so that its supervisor restarts it."""
    disk = TroubledDisk()
    job_store = partial(KahaDBJobSchedulerStore, disk=cast("Any", disk))
    monkeypatch.setattr("pyjms_broker.store.jobs.kahadb.KahaDBJobSchedulerStore", job_store)
    service = service_on()
    service.scheduler_support = True
    await service.start()
    client = await client_of(raw_client, service)
    disk.writes = BROKEN
    producer = await client.producer()
    delayed = client.text(producer, Q, "later")
    delayed.marshalled_properties = encode_map({"AMQ_SCHEDULED_DELAY": 1})
    client.send_command(delayed)
    await service.wait_until_stopped()
    assert service.store_failed
    await client.cut()
    disk.writes = None
    again = service_on()
    again.scheduler_support = True
    async with EmbeddedTestBroker(again):
        client = await client_of(raw_client, again)
        await client.consumer(Q)
        assert decode_text((await client.message()).content) == "later"
        await client.close()
    assert not again.store_failed
