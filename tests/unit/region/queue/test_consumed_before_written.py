"""Messages that are consumed before the journal has written them are never written."""

from __future__ import annotations

import asyncio
import shutil
import threading
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import anyio
import pytest
from anyio import lowlevel, to_thread

from pyjms.jms.destination import Queue
from pyjms_broker.api.completion import COMPLETED, Completion, wait_for
from pyjms_broker.api.message import NO_TRANSACTION
from pyjms_broker.store.journal.disk import OS_DISK
from pyjms_broker.store.kahadb.adapter import KahaDBPersistenceAdapter
from pyjms_broker.store.kahadb.settings import KahaDBSettings
from tests.kit.brokers.region import Broker

Q, OTHER = Queue("Q"), Queue("other")


class GatedDisk:
    """The disk, whose writes wait while `closed`."""

    def __init__(self) -> None:
        self.waits = threading.Event()
        self._open = threading.Event()
        self._open.set()
        self.error: OSError | None = None

    def __getattr__(self, name: str) -> Any:
        return getattr(OS_DISK, name)

    def close_gate(self) -> None:
        self.waits.clear()
        self._open.clear()

    def open_gate(self) -> None:
        self._open.set()

    def write(self, fd: int, data: Any, offset: int) -> None:
        if not self._open.is_set():
            self.waits.set()
            assert self._open.wait(30)
        if self.error is not None:
            raise self.error
        OS_DISK.write(fd, data, offset)


class Case:
    """A broker with a journal, whose disk is busy from `busy` to `finish`."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.disk = GatedDisk()

    async def start(self, path: Path | None = None, **options: Any) -> None:
        settings = KahaDBSettings(checkpoint_interval=0, cleanup_interval=0, **options)
        self.store = KahaDBPersistenceAdapter(path or self.path, settings, disk=self.disk)  # type: ignore[arg-type]  # by __getattr__
        await self.store.start()
        self.broker = Broker(store=self.store)
        await self.broker.region.start()
        self.client = self.broker.client()

    async def stop(self) -> None:
        self.disk.open_gate()
        await self.broker.region.stop()
        await self.store.stop()

    async def restart(self) -> None:
        await self.stop()
        await self.start()

    async def busy(self) -> None:
        """Have a write on its way to the disk."""
        self.broker.queue(OTHER)
        await wait_for(self.store.journal.barrier())
        self.disk.close_gate()
        self.first = [self.send(OTHER, "a"), self.send(OTHER, "b")]  # two senders: in the thread
        await to_thread.run_sync(self.disk.waits.wait)

    async def finish(self) -> None:
        self.disk.open_gate()
        await wait_for(self.store.journal.barrier())

    def send(self, destination: Queue, text: str, **options: Any) -> Completion:
        stored = self.client.send(destination, text, persistent=True, **options)
        assert stored is not COMPLETED
        return stored

    @property
    def bytes(self) -> int:
        return self.store.journal.end.offset


@pytest.fixture
async def case(tmp_path: Path) -> AsyncIterator[Case]:
    made = Case(tmp_path / "store")
    await made.start()
    yield made
    await made.stop()


async def passes(done: Callable[[], bool]) -> None:
    """Let the loop run until `done`."""
    with anyio.fail_after(10):
        while not done():
            await lowlevel.checkpoint()


@pytest.mark.fact("activemq-persistence K14")
async def test_neither_the_message_nor_its_removal_is_written(case: Case) -> None:
    consumer = case.client.consume(Q)
    await case.busy()
    before = case.bytes
    sent = [case.send(Q, f"{n}" * 500) for n in range(50)]
    await lowlevel.checkpoint()
    assert not any(each.done for each in sent)  # neither written nor consumed
    for n in range(50):
        case.client.ack(consumer, n)
    await passes(lambda: all(each.done for each in sent))
    assert not any(each.done for each in case.first)  # the disk is still busy
    assert not any(each.error for each in sent)
    await case.finish()
    assert case.bytes == before
    assert case.store.queue_message_store(Q).message_count == 0


@pytest.mark.fact("activemq-persistence K14")
async def test_asynchronous_sends_are_not_written_either(
    case: Case, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No sender waits, so the write does not begin at the end of the turn that reads a message.

    The loop's clock stands still: on a busy machine the few milliseconds that such a write may
    wait would pass before the acknowledgements are there.
    """
    consumer = case.client.consume(Q)
    await wait_for(case.store.journal.barrier())
    before = case.bytes
    loop = asyncio.get_running_loop()
    now = loop.time()
    monkeypatch.setattr(loop, "time", lambda: now)
    for n in range(50):
        message = case.client.message(Q, str(n), persistent=True)
        message.response_required = False
        case.client.send(Q, "", message=message)
    for _ in range(5):
        await lowlevel.checkpoint()
    for n in range(50):
        case.client.ack(consumer, n)
    await wait_for(case.store.journal.barrier())
    assert case.bytes == before
    assert case.store.queue_message_store(Q).message_count == 0


@pytest.mark.fact("activemq-persistence K14")
async def test_asynchronous_sends_that_nobody_consumes_are_written_soon(case: Case) -> None:
    case.broker.queue(Q)
    await wait_for(case.store.journal.barrier())
    before = case.store.journal.written
    message = case.client.message(Q, "x", persistent=True)
    message.response_required = False
    case.client.send(Q, "", message=message)
    await passes(lambda: case.store.journal.written != before)


@pytest.mark.fact("activemq-persistence K14")
async def test_what_is_not_consumed_is_answered_when_it_is_stored(case: Case) -> None:
    consumer = case.client.consume(Q)
    await case.busy()
    sent = [case.send(Q, str(n)) for n in range(10)]
    for n in (0, 1, 4, 7, 9):
        case.client.ack(consumer, n)
    await passes(lambda: sum(each.done for each in sent) == 5)
    assert [n for n, each in enumerate(sent) if each.done] == [0, 1, 4, 7, 9]
    await case.finish()
    assert all(each.done for each in sent)
    case.send(Q, "10")
    await wait_for(case.store.journal.barrier())
    order = [m.position for m in case.store.queue_message_store(Q).next_messages(None, 100)]
    killed = case.path.with_name("killed")
    shutil.copytree(case.path, killed)
    await case.stop()
    await case.start(killed)
    stored = case.store.queue_message_store(Q).next_messages(None, 100)
    assert [m.message.type for m in stored] == ["2", "3", "5", "6", "8", "10"]
    assert [m.position for m in stored] == order  # the numbers of the others stay unused


async def test_a_transaction_that_consumes_it_has_it_written(case: Case) -> None:
    consumer = case.client.consume(Q)
    await case.busy()
    sent = case.send(Q, "1")
    transaction = case.client.begin()
    case.client.ack(consumer, 0, tx=transaction)
    committed = transaction.commit(one_phase=True)
    await lowlevel.checkpoint()
    assert not sent.done
    await case.finish()
    await wait_for(committed)
    assert sent.done
    await case.restart()  # type: ignore[unreachable]
    assert case.broker.texts(Q) == []


async def test_a_rolled_back_message_is_stored(case: Case) -> None:
    consumer = case.client.consume(Q)
    await case.busy()
    sent = case.send(Q, "1")
    transaction = case.client.begin()
    case.client.ack(consumer, 0, tx=transaction)
    transaction.rollback()
    assert not sent.done
    await case.finish()
    await case.restart()
    assert case.broker.texts(Q) == ["1"]


async def test_a_repeated_message_is_answered_with_the_first_one(case: Case) -> None:
    await case.busy()
    message = case.client.message(Q, "1", persistent=True)
    first = case.send(Q, "1", message=message)
    store = case.store.queue_message_store(Q)
    again = store.add_message(NO_TRANSACTION, case.broker.queue(Q).reference_to(message))
    assert again is not None
    assert not first.done
    await case.finish()
    await wait_for(again)
    assert first.done
    assert store.message_count == 1  # type: ignore[unreachable]


async def test_a_duplicate_id_is_remembered_though_its_message_is_consumed(case: Case) -> None:
    consumer = case.client.consume(Q)
    await case.busy()
    properties = {"_AMQ_DUPL_ID": "x"}
    case.send(Q, "1", properties=properties)
    case.client.ack(consumer, 0)
    await case.finish()
    await case.restart()
    await wait_for(case.send(Q, "2", properties=properties))
    assert case.broker.texts(Q) == []


@pytest.mark.parametrize("acknowledged", [False, True])
async def test_a_failed_disk_is_answered_to_all_that_is_not_consumed(
    case: Case, acknowledged: bool
) -> None:
    consumer = case.client.consume(Q)
    await case.busy()
    sent = case.send(Q, "1")
    if acknowledged:
        case.client.ack(consumer, 0)
    case.disk.error = OSError(5, "simulated")
    case.disk.open_gate()
    await passes(lambda: sent.done and case.first[0].done)
    assert (sent.error is None) is acknowledged
    assert case.first[0].error is not None


async def test_without_concurrent_store_and_dispatch_all_is_written(case: Case) -> None:
    await case.stop()
    await case.start(concurrent_store_and_dispatch_queues=False)
    consumer = case.client.consume(Q)
    await case.busy()
    before = case.bytes
    case.send(Q, "1")
    assert case.client.received(consumer) == []
    await case.finish()
    assert case.client.received(consumer) == ["1"]
    assert case.bytes > before


async def test_what_is_not_written_is_there_at_the_end(case: Case) -> None:
    await case.busy()
    sent = [case.send(Q, str(n)) for n in range(2000)]
    assert case.store.queue_message_store(Q).message_count == 2000
    await case.restart()
    assert all(each.done and each.error is None for each in sent)
    assert len(case.broker.texts(Q)) == 2000
