"""A journal in front of the database. (activemq-persistence J9)"""

from __future__ import annotations

import errno
import shutil
from collections.abc import AsyncIterator, Callable
from dataclasses import fields, is_dataclass
from inspect import isabstract
from pathlib import Path
from typing import Any

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyjms.errors import JMSException
from pyjms.jms.destination import Topic
from pyjms_broker.api.completion import Completion
from pyjms_broker.api.message import OperationContext, SubscriptionKey
from pyjms_broker.store.api import StoredSubscription, StoreState
from pyjms_broker.store.jdbc import operations as ops
from pyjms_broker.store.jdbc.journaled import (
    _CLASSES,
    JournaledJDBCPersistenceAdapter,
    compact,
    decode_operations,
    encode_operations,
)
from pyjms_broker.store.jdbc.settings import JDBCSettings, JournalSettingsJDBC
from pyjms_broker.store.journal.disk import OS_DISK
from tests.kit.stores.jdbc import States
from tests.kit.stores.simulated_disk import SimulatedDisk

T = Topic("T")
KEY = SubscriptionKey("me", "s")


def journaled(disk: Any = OS_DISK, **settings: Any) -> Any:
    journal = JournalSettingsJDBC(**{"journal_log_file_size": 64 * 1024, **settings})
    database = JDBCSettings(resume_check_sleep_period=0.01)

    def make(directory: Any) -> JournaledJDBCPersistenceAdapter:
        return JournaledJDBCPersistenceAdapter(
            directory, database, journal_settings=journal, disk=disk
        )

    return make


async def crashed(
    store: Any, open_store: Callable[..., Any], tmp_path: Path, name: str = "copy"
) -> Any:
    """What a broker finds after the first one died at this instant."""
    shutil.copytree(tmp_path / "store", tmp_path / name)
    return await open_store(journaled(), directory=tmp_path / name)


def rows(sql: Callable[..., list[tuple[Any, ...]]], directory: Any = None) -> Any:
    return sql("SELECT MSGID_SEQ FROM ACTIVEMQ_MSGS ORDER BY ID", directory=directory)


@pytest.mark.fact("activemq-persistence J9")
async def test_what_is_consumed_soon_never_touches_the_database(
    open_store: Callable[..., Any], sql: Callable[..., list[tuple[Any, ...]]]
) -> None:
    defaults = JournalSettingsJDBC()
    assert (defaults.journal_log_files, defaults.journal_log_file_size) == (2, 20 * 1024 * 1024)
    assert (defaults.checkpoint_interval, defaults.use_journal) == (300, True)
    assert JDBCSettings().lock_acquire_sleep_interval == 10
    store = await open_store(journaled())
    queue = store.queue()
    references = await store.send(queue, *range(1, 6))
    assert rows(sql) == []
    await store.remove(queue, *references[:4])
    sql("CREATE TABLE SEEN (SEQ)")
    sql(
        "CREATE TRIGGER seen AFTER INSERT ON ACTIVEMQ_MSGS"
        " BEGIN INSERT INTO SEEN VALUES (NEW.MSGID_SEQ); END"
    )
    await store.adapter.checkpoint()
    assert rows(sql) == [(5,)]
    assert sql("SELECT SEQ FROM SEEN") == [(5,)]
    await store.remove(queue, references[4])
    await store.restart()
    assert store.queue().last_arrival == 5
    assert rows(sql) == []


async def test_a_topics_messages_too(
    open_store: Callable[..., Any], sql: Callable[..., list[tuple[Any, ...]]]
) -> None:
    store = await open_store(journaled())
    topic = store.adapter.topic_message_store(T)
    await store.done(topic.add_subscription(StoredSubscription(KEY, T), False))
    first, _ = await store.send(topic, 1, 2)
    await store.done(topic.acknowledge(store.synchronous(), KEY, first))
    await store.adapter.checkpoint()
    assert rows(sql) == [(2,)]
    assert topic.message_count == 1


async def test_a_crash_loses_nothing_that_was_answered(
    open_store: Callable[..., Any], sql: Callable[..., list[tuple[Any, ...]]], tmp_path: Path
) -> None:
    store = await open_store(journaled())
    queue = store.queue()
    first, second = await store.send(queue, 1, 2)
    await store.adapter.checkpoint()
    await store.send(queue, 3, properties={"_AMQ_DUPL_ID": "d"})
    await store.remove(queue, first)
    xid = store.xa()
    queue.add_message(store.within(xid), store.reference(4))
    queue.remove_message(store.within(xid), second)
    await store.done(store.adapter.transaction_store().prepare(xid))
    assert rows(sql) == [(1,), (2,)]
    copy = await crashed(store, open_store, tmp_path)
    found = copy.queue()
    assert copy.texts(found) == ["3"]
    (recovered,) = copy.adapter.transaction_store().recovered_transactions()
    assert recovered.xid == xid
    again = copy.reference(9, properties={"_AMQ_DUPL_ID": "d"})
    await copy.done(found.add_message(OperationContext(), again))
    assert again.position is None
    await copy.done(copy.adapter.transaction_store().commit(xid, True))
    position = copy.adapter.transaction_store().position_of(
        found.destination, recovered.added[0][1].message_id
    )
    assert position.arrival == 4
    # once more: what was replayed is not done again
    last = await crashed(copy, open_store, tmp_path, "third")
    assert last.texts(last.queue()) == ["3"]


async def test_a_replay_that_is_cut_short_continues(
    open_store: Callable[..., Any], sql: Callable[..., list[tuple[Any, ...]]], tmp_path: Path
) -> None:
    store = await open_store(journaled())
    queue = store.queue()
    references = await store.send(queue, 1, 2, 3)
    await store.remove(queue, references[0])
    for number in range(2):
        copy = await crashed(store, open_store, tmp_path, f"copy{number}")
        assert copy.texts(copy.queue()) == ["2", "3"]
        await copy.adapter.stop()
        assert rows(sql, tmp_path / f"copy{number}") == [(2,), (3,)]


async def test_checkpoints_release_the_journal(
    open_store: Callable[..., Any], tmp_path: Path
) -> None:
    store = await open_store(journaled(journal_log_files=1000))
    queue = store.queue()
    references = await store.send(queue, *range(1, 41), body=bytes(10_000))
    segments = tmp_path / "store" / "journal"
    assert len(list(segments.glob("db-*.log"))) > 4
    await store.remove(queue, *references[1:])
    await store.adapter.checkpoint()
    assert len(list(segments.glob("db-*.log"))) <= 2
    assert store.texts(queue) == ["1"]
    await store.restart()
    assert store.texts(store.queue()) == ["1"]


async def test_a_full_journal_requests_a_checkpoint(
    open_store: Callable[..., Any], sql: Callable[..., list[tuple[Any, ...]]]
) -> None:
    store = await open_store(journaled(journal_log_files=1))
    queue = store.queue()
    await store.send(queue, *range(1, 11), body=bytes(10_000))
    while not rows(sql):
        await store.adapter.writer.drain()
    assert store.texts(queue) == [str(n) for n in range(1, 11)]


async def test_the_database_may_be_away_as_long_as_the_journal_has_space(
    open_store: Callable[..., Any], sql: Callable[..., list[tuple[Any, ...]]], tmp_path: Path
) -> None:
    import sqlite3

    def make(directory: Any) -> JournaledJDBCPersistenceAdapter:
        settings = JDBCSettings(network_timeout=0.01, resume_check_sleep_period=0.01)
        journal = JournalSettingsJDBC(journal_log_file_size=64 * 1024)
        return JournaledJDBCPersistenceAdapter(directory, settings, journal_settings=journal)

    store = await open_store(make)
    queue = store.queue()
    await store.send(queue, 1)
    busy = sqlite3.connect(tmp_path / "store" / "activemq.db", isolation_level=None)
    busy.execute("BEGIN IMMEDIATE")
    store.adapter.writer._hand_over()
    await store.send(queue, 2)
    assert store.adapter.state is StoreState.RUNNING
    states = []
    store.adapter.on_state = lambda state, _: states.append(state)
    answers = [
        queue.add_message(OperationContext(), store.reference(n, body=bytes(40_000)))
        for n in (3, 4, 5, 6)
    ]
    for answer in answers:
        await store.done(answer)
    assert states == [StoreState.CONGESTED]
    busy.execute("ROLLBACK")
    busy.close()
    await store.adapter.writer.drain()
    assert states == [StoreState.CONGESTED, StoreState.RUNNING]
    assert [n for (n,) in rows(sql)] == [1, 2, 3, 4, 5, 6]


async def test_without_the_journal_it_is_the_database_alone(
    open_store: Callable[..., Any], sql: Callable[..., list[tuple[Any, ...]]], tmp_path: Path
) -> None:
    store = await open_store(journaled(use_journal=False))
    await store.send(store.queue(), 1)
    assert rows(sql) == [(1,)]
    await store.adapter.checkpoint()
    assert not (tmp_path / "store" / "journal").exists()
    assert store.adapter.state is StoreState.RUNNING


async def test_it_starts_empty_if_configured_so(
    open_store: Callable[..., Any], tmp_path: Path
) -> None:
    store = await open_store(journaled())
    await store.send(store.queue(), 1)
    shutil.copytree(tmp_path / "store", tmp_path / "copy")
    adapter = journaled()(tmp_path / "copy")
    await adapter.delete_all_messages()
    await adapter.start()
    assert adapter.destinations() == set()
    await adapter.stop()
    again = await open_store(journaled(), directory=tmp_path / "copy")
    assert again.adapter.destinations() == set()


# -- the record


def values(cls: type) -> st.SearchStrategy[Any]:
    kinds = {
        "int": st.integers(-(2**63), 2**63 - 1),
        "str": st.text(),
        "str | None": st.none() | st.text(),
        "int | None": st.none() | st.integers(0, 2**40),
        "bool": st.booleans(),
        "bytes": st.binary(),
    }
    arguments = {}
    for field in fields(cls):
        kind = kinds.get(str(field.type))
        arguments[field.name] = values(getattr(ops, str(field.type))) if kind is None else kind
    return st.builds(cls, **arguments)


def plain(value: Any) -> Any:
    if not is_dataclass(value):
        return value
    return type(value), [plain(getattr(value, f.name)) for f in fields(value)]


@given(st.lists(st.one_of(*map(values, _CLASSES)), max_size=5))
def test_operations_come_back_from_the_journal(units: Any) -> None:
    assert [plain(op) for op in decode_operations(encode_operations(units))] == [
        plain(op) for op in units
    ]


def is_operation(kind: object) -> bool:
    return isinstance(kind, type) and issubclass(kind, ops.Operation) and not isabstract(kind)


def test_all_operations_that_last_have_a_number() -> None:
    passing = {*ops.PASSING, ops.NoteMessage, ops.JournalMark}
    every = {kind for kind in vars(ops).values() if is_operation(kind)}
    assert {*_CLASSES} | passing == every


@given(st.data())
def test_damaged_records_are_reported(data: Any) -> None:
    record = encode_operations([ops.RemoveContainer("queue://Q")])
    cut = data.draw(st.integers(0, len(record) - 1))
    if cut == 1:
        assert decode_operations(record[:cut]) == []
    else:
        with pytest.raises(JMSException):
            decode_operations(record[:cut])


def test_other_versions_are_refused() -> None:
    with pytest.raises(JMSException, match="version"):
        decode_operations(b"\xff")


def test_only_what_both_comes_and_goes_is_left_out() -> None:
    def added(number: Any, subscribers: int = 0) -> Any:
        return ops.AddMessage("c", number, "p", number, 0, 4, 1, number, subscribers, None, b"x")

    def acked(number: Any, name: Any) -> Any:
        return ops.AcknowledgeMessage("c", "me", name, number, 4, 1, False)

    units = [
        [added(1), added(2)],
        [ops.RemoveMessage("c", 1, 1), ops.RemoveMessage("c", 0, 1)],
        [added(3, 2), added(4, 2)],
        [acked(3, "s"), acked(4, "s")],
        [acked(3, "t")],
    ]
    names = [[type(op).__name__ for op in unit] for unit in compact(units)]
    assert names == [
        ["NoteMessage", "AddMessage"],
        ["RemoveMessage"],
        ["NoteMessage", "AddMessage"],
        ["AcknowledgeMessage"],
        [],
    ]


async def test_checkpoints_at_the_same_time_delete_each_segment_once(
    open_store: Callable[..., Any],
) -> None:
    store = await open_store(journaled(journal_log_file_size=64 * 1024))
    queue = store.queue()
    for number in range(1, 40):
        await store.send(queue, number, body=bytes(4000))
    async with anyio.create_task_group() as group:
        for _ in range(4):
            group.start_soon(store.adapter.checkpoint)
    assert store.adapter.state is StoreState.RUNNING
    assert len(store.adapter._journal.segments()) == 1
    assert len(store.texts(queue)) == 39


# -- what the journal has not written yet

A_BATCH = 8 * 1024 * 1024  # bytes after which the database's next batch begins


def full(call: str, _: int) -> OSError | None:
    return OSError(errno.ENOSPC, "simulated") if call in {"write", "truncate"} else None


def broken(call: str, _: int) -> OSError | None:
    return OSError(errno.EIO, "simulated") if call == "write" else None


def well(call: str, _: int) -> OSError | None:
    return None


class HeldBack:
    """A message is stored; a transaction that exchanges it for another one is not written yet.

    The database takes the two in batches of their own. What a crash between these leaves is
    kept: a copy of the folder, and of what the journal's disk has.
    """

    def __init__(self, store: Any, disk: Any, directory: Any) -> None:
        self.store, self.disk, self.queue = store, disk, store.queue()
        self._directory, self._copy = directory, directory.with_name("crashed")
        self._kept: Any = None

    async def exchange(self) -> Completion:
        store, queue = self.store, self.queue
        (old,) = await store.send(queue, 1)
        store.adapter.writer.submit((ops.TrimProducers(9),), self._crash, A_BATCH)
        self.disk.fail = full
        queue.remove_message(store.within(store.local()), old)
        queue.add_message(store.within(store.local()), store.reference(2))
        commit: Completion = store.adapter.transaction_store().commit(store.local(), False)
        return commit

    def _crash(self, _: Exception | None) -> None:
        if self._kept is None:
            shutil.copytree(self._directory, self._copy)
            self._kept = self.disk.after_crash()

    async def texts_after_the_crash(self, open_store: Callable[..., Any]) -> list[str]:
        disk = type(self.disk)()
        assert self._kept is not None, "the broker has crashed"
        for name in self._kept.names(self._directory / "journal"):
            content = self._kept.content(self._directory / "journal" / name)
            disk.put(self._copy / "journal" / name, content)
        found = await open_store(journaled(disk), directory=self._copy)
        texts: list[str] = found.texts(found.queue())
        return texts


@pytest.fixture
async def held_back(
    open_store: Callable[..., Any], simulated_disk: SimulatedDisk, tmp_path: Path
) -> AsyncIterator[HeldBack]:
    store = await open_store(journaled(simulated_disk))
    yield HeldBack(store, simulated_disk, tmp_path / "store")
    simulated_disk.fail = well


@pytest.mark.parametrize("way", ["checkpoint", "settle"])
async def test_a_removal_that_is_not_in_the_journal_takes_nothing_out_of_the_database(
    held_back: HeldBack, open_store: Callable[..., Any], way: str, watch: type[States]
) -> None:
    states = watch(held_back.store.adapter)
    answer = await held_back.exchange()
    if way == "settle":  # the journal has had no time to write
        held_back.store.adapter.writer.settle()
    else:
        await states.reached(StoreState.SUSPENDED)
        await held_back.store.adapter.checkpoint()
    assert not answer.done
    assert await held_back.texts_after_the_crash(open_store) == ["1"]
    held_back.disk.fail = well
    await held_back.store.done(answer)  # else the store might stop amid an attempt to write


async def test_a_checkpoint_has_the_journal_write_first(
    held_back: HeldBack, sql: Callable[..., list[tuple[Any, ...]]]
) -> None:
    (old,) = await held_back.store.send(held_back.queue, 1)
    answer = held_back.queue.remove_message(held_back.store.synchronous(), old)
    assert not answer.done
    await held_back.store.adapter.checkpoint()
    assert answer.done
    assert rows(sql) == []


async def test_a_checkpoint_waits_for_no_full_disk_but_makes_room_on_it(
    open_store: Callable[..., Any], simulated_disk: SimulatedDisk, watch: type[States]
) -> None:
    store = await open_store(journaled(simulated_disk, journal_log_files=1000))
    states, queue = watch(store.adapter), store.queue()
    await store.send(queue, *range(1, 21), body=bytes(10_000))
    segments = store.adapter._journal.segments
    before = len(segments())
    simulated_disk.fail = full
    last = store.reference(21, body=bytes(10_000))
    answer = queue.add_message(OperationContext(), last)
    await store.adapter.checkpoint()  # which begins before the disk says that it is full
    assert states.names == [StoreState.SUSPENDED]
    assert 1 <= len(segments()) < before
    await store.adapter.checkpoint()
    assert not answer.done
    simulated_disk.fail = well
    await store.done(answer)
    queue.mark_visible(last)
    assert len(store.texts(queue)) == 21


async def test_a_checkpoint_that_a_full_disk_held_up_comes_when_there_is_room(
    open_store: Callable[..., Any],
    simulated_disk: SimulatedDisk,
    sql: Callable[..., list[tuple[Any, ...]]],
    watch: type[States],
) -> None:
    store = await open_store(journaled(simulated_disk, journal_log_files=1))
    states, queue = watch(store.adapter), store.queue()
    simulated_disk.fail = full
    answers = [
        queue.add_message(OperationContext(), store.reference(n, body=bytes(10_000)))
        for n in range(1, 11)  # more than the store takes before senders have to wait
    ]
    await states.reached(StoreState.SUSPENDED)
    await store.adapter.checkpoint()
    simulated_disk.fail = well
    for answer in answers:
        await store.done(answer)
    await states.reached(StoreState.RUNNING)
    assert [n for (n,) in rows(sql)] == [*range(1, 11)]


async def test_what_the_journal_could_not_write_never_reaches_the_database(
    held_back: HeldBack, sql: Callable[..., list[tuple[Any, ...]]], watch: type[States]
) -> None:
    states = watch(held_back.store.adapter)
    answer = await held_back.exchange()
    held_back.disk.fail = broken
    with pytest.raises(JMSException, match="simulated"):
        await held_back.store.done(answer)
    assert states.names[-1] is StoreState.FAILED
    for operations in ((), (ops.RemoveContainer("queue://none"),)):
        refused = held_back.store.adapter.writer.submit(operations)
        assert isinstance(refused.error, JMSException)
    await held_back.store.adapter.stop()
    assert rows(sql) == [(1,)]


async def test_a_store_whose_journal_cannot_be_finished_is_closed_all_the_same(
    held_back: HeldBack, open_store: Callable[..., Any], watch: type[States]
) -> None:
    states = watch(held_back.store.adapter)
    answer = await held_back.exchange()
    await states.reached(StoreState.SUSPENDED)
    with pytest.raises(JMSException, match="Cannot write the end"):
        await held_back.store.adapter.stop()
    assert answer.error is not None
    held_back.disk.fail = well
    again = await open_store(journaled(held_back.disk))  # the lock is free
    assert again.texts(again.queue()) == ["1"]


async def test_a_segment_that_cannot_be_removed_goes_the_next_time(
    open_store: Callable[..., Any], simulated_disk: SimulatedDisk, caplog: pytest.LogCaptureFixture
) -> None:
    store = await open_store(journaled(simulated_disk, journal_log_files=1000))
    await store.send(store.queue(), *range(1, 21), body=bytes(10_000))
    before = store.adapter._journal.segments()
    simulated_disk.fail_once("remove", errno.EACCES)
    await store.adapter.checkpoint()
    assert "A checkpoint of the journal failed: Cannot remove segment 1" in caplog.text
    assert store.adapter._journal.segments() == before
    assert store.adapter.state is StoreState.RUNNING
    await store.adapter.checkpoint()
    assert store.adapter._journal.segments() == before[-1:]
