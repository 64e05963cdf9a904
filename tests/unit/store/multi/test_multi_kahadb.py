"""Several stores as one: folders, transactions over several, crashes between their steps."""

from __future__ import annotations

import errno
import shutil
from collections.abc import AsyncIterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from pyjms.errors import (
    IllegalStateException,
    InvalidDestinationException,
    ResourceAllocationException,
)
from pyjms.jms.destination import Destination, Queue, Topic
from pyjms.testing.clock import VirtualClock
from pyjms.wire.kahadb.commands import KahaCommitCommand, KahaPrepareCommand
from pyjms.wire.kahadb.segments import JournalFiles
from pyjms.wire.openwire.commands import (
    ActiveMQTextMessage,
    ConnectionId,
    LocalTransactionId,
    MessageId,
    ProducerId,
    TransactionId,
    XATransactionId,
)
from pyjms_broker.api.completion import COMPLETED, Completion, wait_for
from pyjms_broker.api.message import MessageReference, OperationContext
from pyjms_broker.store.api import StoreState
from pyjms_broker.store.journal.disk import Disk
from pyjms_broker.store.journal.settings import JournalSettings, PreallocationScope
from pyjms_broker.store.kahadb.settings import KahaDBSettings, PurgeRecoveredXATransactionStrategy
from pyjms_broker.store.multi import (
    LOCAL_FORMAT_ID,
    FilteredKahaDB,
    MultiKahaDBPersistenceAdapter,
    activemq_name,
    as_xa,
    directory_name,
)
from tests.kit.waiting import until_stored

JOURNAL = JournalSettings(max_file_length=1 << 16, preallocation_scope=PreallocationScope.NONE)
PRODUCER = ProducerId("ID:host-1", 1, 1)
ORDERS, ONE, TWO, OTHER = Queue("orders.new"), Queue("per.one"), Queue("per.two"), Queue("other")
LOCAL = LocalTransactionId(5, ConnectionId("ID:client-1"))
XA = XATransactionId(7, b"global", b"branch")


def make(folder: Path, strategy: str = "never", **options: Any) -> MultiKahaDBPersistenceAdapter:
    purge = PurgeRecoveredXATransactionStrategy(strategy)
    settings = KahaDBSettings(journal=JOURNAL, purge_recovered_xa_transaction_strategy=purge)
    filters = options.pop("filters", None) or [
        FilteredKahaDB(queue="orders.>", settings=settings, store_limit=1000),
        FilteredKahaDB(queue="per.>", per_destination=True, settings=settings),
        FilteredKahaDB(settings=settings),
    ]
    return MultiKahaDBPersistenceAdapter(folder, filters, transaction_journal=JOURNAL, **options)


class Stage:
    """An adapter, and what a broker does with it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.adapter = make(folder)
        self.number = 0

    async def open(self, folder: Path, **options: Any) -> None:
        await self.adapter.stop()
        self.folder = folder
        self.adapter = make(folder, **options)
        await self.adapter.start()

    def context(self, xid: TransactionId | None = None) -> OperationContext:
        return OperationContext(xid)

    def send(
        self, where: Destination, xid: TransactionId | None = None
    ) -> tuple[MessageReference, Completion]:
        self.number += 1
        message = ActiveMQTextMessage(
            producer_id=PRODUCER,
            destination=where,
            message_id=MessageId(None, PRODUCER, self.number, self.number),
            persistent=True,
            type=str(self.number),
        )
        place: Any = SimpleNamespace(destination=where)
        place.base = place
        reference = MessageReference(message, place)
        store = self.adapter.queue_message_store(where)
        answer = store.add_message(self.context(xid), reference)
        if xid is None:
            store.mark_visible(reference)
        return reference, answer

    def texts(self, where: Destination) -> list[str | None]:
        store = self.adapter.queue_message_store(where)
        return [found.message.type for found in store.next_messages(None, 100)]

    async def commit(self, xid: TransactionId, prepared: bool = False) -> None:
        await wait_for(self.adapter.transaction_store().commit(xid, prepared))


@pytest.fixture
async def stage(tmp_path: Path) -> AsyncIterator[Stage]:
    made = Stage(tmp_path / "mKahaDB")
    await made.adapter.start()
    yield made
    await made.adapter.stop()


@pytest.mark.fact("activemq-persistence K25")
async def test_each_destination_lies_where_its_filter_says(stage: Stage) -> None:
    for where in (ORDERS, ONE, TWO, OTHER):
        await wait_for(stage.send(where)[1])
    names = {path.name for path in stage.folder.iterdir() if path.is_dir()}
    assert names == {
        *("queue#3a#2f#2forders.#3e", "queue#3a#2f#2fper.one", "queue#3a#2f#2fper.two"),
        *("#210", "txStore"),
    }
    for name, text in (("queue#3a#2f#2fper.two", TWO), ("#210", OTHER)):
        commands = [r.command() for r in JournalFiles(stage.folder / name).records()]
        stored = [c for c in commands if c.CODE == 1]
        assert [c.destination.name for c in stored] == [text.physical_name]  # type: ignore[attr-defined]
    assert stage.adapter.destinations() == {ORDERS, ONE, TWO, OTHER}
    # each filter's share counts for itself
    share = stage.adapter.partition_of(ORDERS)
    assert share is not None and share.limit == 1000
    assert 0 < share.size < stage.adapter.size and share.state is StoreState.RUNNING
    # without a filter that fits there is an error when the destination is made
    filters = [FilteredKahaDB(queue="orders.>", settings=KahaDBSettings(journal=JOURNAL))]
    await stage.open(stage.folder.with_name("strict"), filters=filters)
    stage.adapter.queue_message_store(ORDERS)
    with pytest.raises(InvalidDestinationException, match="No matching persistence adapter"):
        stage.adapter.queue_message_store(OTHER)
    with pytest.raises(InvalidDestinationException, match="No matching persistence adapter"):
        stage.adapter.topic_message_store(Topic("t"))
    assert stage.adapter.partition_of(OTHER) is None


async def test_everything_is_there_after_a_restart(stage: Stage) -> None:
    for where in (ORDERS, ONE, OTHER, ONE):
        await wait_for(stage.send(where)[1])
    await stage.open(stage.folder)
    assert stage.adapter.destinations() == {ORDERS, ONE, OTHER}
    assert [stage.texts(w) for w in (ORDERS, ONE, OTHER)] == [["1"], ["2", "4"], ["3"]]
    assert stage.adapter.last_broker_sequence_id == 4
    assert stage.adapter.last_producer_sequence_id(PRODUCER) == 4
    assert stage.adapter.last_producer_sequence_id(ProducerId("x", 1, 1)) == -1


LONG = [Queue(f"per.{first}.{'x' * 90}") for first in ("one", "two")]
ODD = [Queue("per.a:b"), Queue("per.a#3ab"), Queue("per.#"), Queue("per." + "y" * 4000)]


async def test_long_and_odd_names_have_a_store_each_after_a_restart(stage: Stage) -> None:
    """Names with the same last 64 characters, and names with `#`, shared a directory."""
    destinations = [*LONG, *ODD]
    for where in (*destinations, *destinations):
        await wait_for(stage.send(where)[1])
    count = len(destinations)
    expected = [[str(n), str(n + count)] for n in range(1, count + 1)]
    assert [stage.texts(where) for where in destinations] == expected
    await stage.open(stage.folder)
    assert stage.adapter.destinations() == set(destinations)
    assert [stage.texts(where) for where in destinations] == expected


async def test_directories_with_activemqs_shortened_names_are_found(stage: Stage) -> None:
    for where in (LONG[0], ODD[1]):
        await wait_for(stage.send(where)[1])
    await stage.adapter.stop()
    for where in (LONG[0], ODD[1]):
        new, old = directory_name(where), activemq_name(where)
        assert new != old
        (stage.folder / new).rename(stage.folder / old)
    await stage.open(stage.folder)
    assert [stage.texts(where) for where in (LONG[0], ODD[1])] == [["1"], ["2"]]
    await wait_for(stage.send(LONG[0])[1])
    await stage.open(stage.folder)
    assert stage.texts(LONG[0]) == ["1", "3"]
    assert not (stage.folder / directory_name(LONG[0])).exists()


async def test_two_directories_of_one_destination_are_reported(
    stage: Stage, caplog: pytest.LogCaptureFixture
) -> None:
    await wait_for(stage.send(LONG[0])[1])
    await stage.adapter.stop()
    name = stage.folder / directory_name(LONG[0])
    shutil.copytree(name, stage.folder / activemq_name(LONG[0]))
    await stage.open(stage.folder)
    assert stage.texts(LONG[0]) == ["1"]
    assert "are both stores of queue://per.one.xxx" in caplog.text


async def test_the_folder_of_a_removed_destination_goes_at_the_stop(stage: Stage) -> None:
    await wait_for(stage.send(ONE)[1])
    stage.adapter.remove_message_store(ONE)
    await wait_for(stage.send(ONE)[1])
    assert stage.texts(ONE) == ["2"]
    stage.adapter.remove_message_store(ONE)
    assert stage.adapter.destinations() == set()
    await stage.adapter.stop()
    assert not (stage.folder / "queue#3a#2f#2fper.one").exists()


async def copied(stage: Stage, name: str) -> Path:
    """What a broker that is killed now leaves, all that was appended being written."""
    for share in stage.adapter.partitions:
        for adapter in share.adapters:
            await wait_for(adapter.journal.barrier())
    decisions = stage.adapter._decisions
    assert decisions is not None
    await wait_for(decisions.journal.barrier())
    return Path(shutil.copytree(stage.folder, stage.folder.with_name(name)))


def outcome_records(folder: Path) -> list[type]:
    return [type(r.command()) for r in JournalFiles(folder / "txStore").records()]


@pytest.mark.fact("activemq-persistence K26")
async def test_one_store_commits_in_one_phase_and_several_in_two(stage: Stage) -> None:
    stage.send(ORDERS, LOCAL)
    await stage.commit(LOCAL)
    folder = await copied(stage, "one")
    commands = [r.command() for r in JournalFiles(folder / "queue#3a#2f#2forders.#3e").records()]
    assert KahaCommitCommand in map(type, commands)
    assert KahaPrepareCommand not in map(type, commands)
    assert outcome_records(folder) == []
    for where in (ORDERS, ONE, OTHER):
        stage.send(where, LOCAL)
    await stage.commit(LOCAL)
    folder = await copied(stage, "several")
    for name in ("queue#3a#2f#2forders.#3e", "queue#3a#2f#2fper.one", "#210"):
        commands = [r.command() for r in JournalFiles(folder / name).records()]
        (prepared,) = (c for c in commands if isinstance(c, KahaPrepareCommand))
        xa = prepared.transaction_info.xa_transaction_id
        assert xa is not None and xa.format_id == LOCAL_FORMAT_ID
        assert (xa.global_transaction_id, xa.branch_qualifier) == (b"ID:client-1", b"5")
    assert outcome_records(folder) == [KahaPrepareCommand, KahaCommitCommand]


async def test_a_transaction_over_several_stores_is_seen_when_it_is_done(stage: Stage) -> None:
    kept, _ = stage.send(ORDERS)
    sent = [stage.send(where, LOCAL)[0] for where in (ORDERS, ONE, OTHER)]
    context = stage.context(LOCAL)
    stage.adapter.queue_message_store(ORDERS).remove_message(context, kept)
    assert all(reference.position is None for reference in sent)
    assert stage.texts(ORDERS) == ["1"]
    await stage.commit(LOCAL)
    for reference in sent:
        assert reference.position is not None
        stage.adapter.queue_message_store(reference.destination.destination).mark_visible(reference)
    assert [stage.texts(w) for w in (ORDERS, ONE, OTHER)] == [["2"], ["3"], ["4"]]
    await stage.open(stage.folder)
    assert [stage.texts(w) for w in (ORDERS, ONE, OTHER)] == [["2"], ["3"], ["4"]]


async def test_a_rollback_over_several_stores(stage: Stage) -> None:
    for where in (ORDERS, ONE, OTHER):
        stage.send(where, LOCAL)
    await wait_for(stage.adapter.transaction_store().rollback(LOCAL))
    await stage.commit(LOCAL)
    await stage.open(stage.folder)
    assert [stage.texts(w) for w in (ORDERS, ONE, OTHER)] == [[], [], []]


async def two_phase(stage: Stage, *, decided: bool, committed: int) -> Path:
    """A local commit over three stores that got as far as told when the broker was killed."""
    kept, _ = stage.send(ORDERS)
    for where in (ORDERS, ONE, OTHER):
        stage.send(where, LOCAL)
    stage.adapter.queue_message_store(ORDERS).remove_message(stage.context(LOCAL), kept)
    transactions = stage.adapter.transaction_store()
    opened = transactions._open[LOCAL]
    for store in opened.stores:
        await wait_for(store.prepare(opened.xid))
    if decided:
        assert stage.adapter._decisions is not None
        await wait_for(stage.adapter._decisions.decide(opened.xid))
    for store in list(opened.stores)[:committed]:
        await wait_for(store.commit(opened.xid, True))
    return await copied(stage, "killed")


@pytest.mark.parametrize("committed", [0, 1, 2, 3])
async def test_what_was_decided_is_carried_out_after_a_crash(stage: Stage, committed: int) -> None:
    await stage.open(await two_phase(stage, decided=True, committed=committed))
    for _ in range(2):
        assert [stage.texts(w) for w in (ORDERS, ONE, OTHER)] == [["2"], ["3"], ["4"]]
        assert stage.adapter.transaction_store().recovered_transactions() == []
        await stage.open(stage.folder)
    assert stage.adapter._decisions is not None and stage.adapter._decisions.decided == {}


async def test_what_was_not_decided_never_happened(stage: Stage) -> None:
    await stage.open(await two_phase(stage, decided=False, committed=0))
    for _ in range(2):
        assert [stage.texts(w) for w in (ORDERS, ONE, OTHER)] == [["1"], [], []]
        assert stage.adapter.transaction_store().recovered_transactions() == []
        await stage.open(stage.folder)


@pytest.mark.parametrize(("strategy", "left"), [("never", 1), ("commit", 0), ("rollback", 0)])
async def test_prepared_xa_transactions_of_several_stores_come_back_as_one(
    stage: Stage, strategy: str, left: int
) -> None:
    for where in (ORDERS, ONE, OTHER):
        stage.send(where, XA)
    await wait_for(stage.adapter.transaction_store().prepare(XA))
    folder = await copied(stage, "killed")
    await stage.open(folder, strategy=strategy)
    recovered = stage.adapter.transaction_store().recovered_transactions()
    assert len(recovered) == left
    committed = [["1"], ["2"], ["3"]]
    if recovered:
        assert recovered[0].xid == XA
        assert {(d, m.type) for d, m in recovered[0].added} == {
            *((ORDERS, "1"), (ONE, "2"), (OTHER, "3"))
        }
        await stage.commit(XA, prepared=True)
        for destination, message in recovered[0].added:
            assert message.message_id is not None
            found = stage.adapter.transaction_store().position_of(destination, message.message_id)
            assert found is not None and found.arrival == 1
        assert stage.adapter.transaction_store().recovered_transactions() == []
        await stage.open(folder)
    expected = [[], [], []] if strategy == "rollback" else committed
    assert [stage.texts(w) for w in (ORDERS, ONE, OTHER)] == expected
    nobody = MessageId(None, PRODUCER, 99, 99)
    assert stage.adapter.transaction_store().position_of(Queue("per.no"), nobody) is None


async def test_a_store_that_cannot_prepare_makes_it_a_rollback(stage: Stage) -> None:
    for where in (ORDERS, OTHER):
        stage.send(where, LOCAL)
    failed = Completion()
    opened = stage.adapter.transaction_store()._open[LOCAL]

    class Broken:
        """A store whose disk fails while it prepares."""

        def prepare(self, xid: TransactionId) -> Completion:
            return failed

        def rollback(self, xid: TransactionId) -> None:
            """It has nothing."""

    opened.stores[Broken()] = None  # type: ignore[index]
    answer = stage.adapter.transaction_store().commit(LOCAL, False)
    assert answer is not COMPLETED
    failed.complete(ResourceAllocationException("no disk"))
    with pytest.raises(ResourceAllocationException, match="no disk"):
        await wait_for(answer)
    folder = await copied(stage, "killed")
    await stage.open(folder)
    assert [stage.texts(w) for w in (ORDERS, OTHER)] == [[], []]
    assert outcome_records(folder) == []


async def fill_decisions(stage: Stage) -> None:
    """Commit transactions over two stores, until there are several segments of outcomes."""
    for number in range(400):
        xid = LocalTransactionId(number, ConnectionId("ID:" + "x" * 200))
        stage.send(ORDERS, xid)
        stage.send(OTHER, xid)
        await stage.commit(xid)


async def test_decisions_that_are_no_longer_needed_are_deleted(stage: Stage) -> None:
    await fill_decisions(stage)
    decisions = stage.adapter._decisions
    assert decisions is not None
    assert len(decisions.journal.segments()) > 2
    await stage.adapter.checkpoint()
    assert len(decisions.journal.segments()) <= 2
    assert decisions.decided == {}
    assert JOURNAL.max_file_length < stage.adapter.size


class StubbornDisk(Disk):
    """The real disk, on which the next removals of outcomes fail."""

    def __init__(self) -> None:
        super().__init__()
        self.refusals = 0

    def remove(self, path: Path) -> None:
        if self.refusals and path.parent.name == "txStore":
            self.refusals -= 1
            raise OSError(errno.EIO, "simulated")
        super().remove(path)


async def test_failed_maintenance_is_retried(
    stage: Stage, caplog: pytest.LogCaptureFixture
) -> None:
    disk = StubbornDisk()
    async with VirtualClock() as clock:
        await stage.open(stage.folder, disk=disk, cleanup_interval=30.0)
        await fill_decisions(stage)
        assert stage.adapter._decisions is not None
        segments = stage.adapter._decisions.journal.segments
        before = segments()
        assert len(before) > 2
        disk.refusals = 1
        await clock.advance(30.1)
        await until_stored(lambda: "The maintenance of" in caplog.text)
        assert disk.refusals == 0
        assert segments() == before
        await clock.advance(30.1)
        await until_stored(lambda: len(segments()) <= 2)
        await stage.adapter.stop()


async def test_beginning_with_nothing(stage: Stage) -> None:
    folder = await two_phase(stage, decided=True, committed=1)
    again = make(folder)
    await again.delete_all_messages()
    await again.start()
    assert again.destinations() == set()
    with pytest.raises(IllegalStateException, match="started"):
        await again.delete_all_messages()
    await again.stop()
    assert not (folder / "queue#3a#2f#2fper.one").exists()
    assert outcome_records(folder) == []


async def test_one_lock_for_all(stage: Stage) -> None:
    second = make(stage.folder, fail_if_locked=True)
    with pytest.raises(ResourceAllocationException, match="locked"):
        await second.start()
    assert not second.is_slave
    await stage.adapter.stop()
    await second.start()
    assert not (stage.folder / "#210" / "lock").exists()
    await second.stop()
    await second.stop()
    with pytest.raises(IllegalStateException, match="not started"):
        second.queue_message_store(ORDERS)


async def test_a_folder_that_cannot_be_created_is_reported(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    adapter = make(tmp_path / "file" / "m", use_lock=False)
    with pytest.raises(ResourceAllocationException, match="Cannot open the store in"):
        await adapter.start()
    assert not adapter.is_slave


async def test_a_store_per_destination_that_cannot_be_created_is_an_error(stage: Stage) -> None:
    (stage.folder / "queue#3a#2f#2fper.one").write_text("in the way")
    with pytest.raises(ResourceAllocationException, match="Cannot create a store"):
        stage.adapter.queue_message_store(ONE)
    await wait_for(stage.send(TWO)[1])
    (stage.folder / "queue#3a#2f#2fper.one").unlink()
    await wait_for(stage.send(ONE)[1])
    assert stage.texts(ONE) == ["2"]


async def test_the_worst_state_counts(stage: Stage) -> None:
    states: list[StoreState] = []
    stage.adapter.on_state = lambda state, _: states.append(state)
    stage.adapter.queue_message_store(ONE)
    one, other = (share.adapters[0] for share in stage.adapter.partitions[1:])
    for adapter, state in (
        *((one, StoreState.CONGESTED), (other, StoreState.SUSPENDED)),
        *((one, StoreState.RUNNING), (other, StoreState.RUNNING)),
    ):
        adapter._state_changed(state, None)
    assert states == [StoreState.CONGESTED, StoreState.SUSPENDED, StoreState.RUNNING]
    assert stage.adapter.state is StoreState.RUNNING


def test_local_transactions_have_an_xa_name() -> None:
    assert as_xa(XA) is XA
    assert as_xa(LOCAL) == XATransactionId(LOCAL_FORMAT_ID, b"ID:client-1", b"5")
    assert as_xa(LocalTransactionId(5)) == XATransactionId(LOCAL_FORMAT_ID, b"", b"5")
