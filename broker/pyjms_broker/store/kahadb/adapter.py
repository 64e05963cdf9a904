"""The KahaDB adapter: ActiveMQ's journal files and our own index. (activemq-persistence 2)

The journal is authoritative: the index can be deleted at any time. A start acquires the lock,
archives ActiveMQ's index, opens the journal and the index, replays the records that the index does
not cover, and restores the prepared transactions.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import anyio.to_thread

from pyjms.errors import IllegalStateException, ResourceAllocationException
from pyjms.jms.destination import Destination
from pyjms.runtime import clock as _clock
from pyjms.runtime.logging import get_logger
from pyjms.wire.kahadb.codec import encode_command
from pyjms.wire.kahadb.commands import KahaRemoveDestinationCommand
from pyjms.wire.kahadb.frames import from_kaha_destination, to_kaha_destination
from pyjms.wire.kahadb.journal import Location
from pyjms.wire.openwire.commands import ProducerId, TransactionId
from pyjms_broker.api.completion import Completion
from pyjms_broker.store.adapters import DestinationStores, FileAdapter
from pyjms_broker.store.api import RecoveredTransaction, StoreState
from pyjms_broker.store.files import make_private_directory
from pyjms_broker.store.journal.disk import OS_DISK, Disk
from pyjms_broker.store.journal.journal import Journal
from pyjms_broker.store.kahadb.index import IndexCorrupt, StoreIndex
from pyjms_broker.store.kahadb.maintenance import Maintenance, SegmentReport
from pyjms_broker.store.kahadb.message_database import MessageDatabase
from pyjms_broker.store.kahadb.records import RecordFormat, plain_trace
from pyjms_broker.store.kahadb.recovery import (
    OUR_INDEX,
    Progress,
    Recovered,
    archive_activemq_index,
    delete_files,
    discard_index,
    recover_store,
)
from pyjms_broker.store.kahadb.settings import KahaDBSettings, PurgeRecoveredXATransactionStrategy
from pyjms_broker.store.kahadb.stores import KahaDBMessageStore, KahaDBTopicMessageStore, LateAdds
from pyjms_broker.store.kahadb.transactions import KahaDBTransactionStore

logger = get_logger(__name__)

_WRITABLE_STATES: Final = (StoreState.RUNNING, StoreState.CONGESTED)


class KahaDBPersistenceAdapter(
    FileAdapter, DestinationStores[KahaDBMessageStore, KahaDBTopicMessageStore]
):
    """The store in `directory`. While started, it is used on one loop only.

    Source: ActiveMQ KahaDBPersistenceAdapter.
    """

    def __init__(
        self,
        directory: Path,
        settings: KahaDBSettings | None = None,
        *,
        disk: Disk = OS_DISK,
        on_progress: Progress | None = None,
    ) -> None:
        """Configure the store; `start` opens it. `on_progress` is called during a long replay."""
        self.settings = settings = settings or KahaDBSettings()
        super().__init__(
            directory,
            use_lock=settings.use_lock,
            fail_if_locked=settings.fail_if_locked,
            lock_acquire_sleep_interval=settings.lock_acquire_sleep_interval,
        )
        self.on_progress = on_progress
        self.concurrent_store_and_dispatch_queues = settings.concurrent_store_and_dispatch_queues
        self.concurrent_store_and_dispatch_topics = settings.concurrent_store_and_dispatch_topics
        self.rebuilt = False
        """Whether the last start rebuilt the index."""
        self.enlist: Callable[[TransactionId, KahaDBTransactionStore], TransactionId] | None = None
        """See `KahaDBTransactionStore.enlist`."""
        self._disk = disk
        self._index_error: Exception | None = None
        self._journal: Journal | None = None
        self._index: StoreIndex | None = None
        self._db: MessageDatabase | None = None
        self._transactions: KahaDBTransactionStore | None = None
        self._maintenance: Maintenance | None = None
        self._late: LateAdds | None = None
        self._queues: dict[Destination, KahaDBMessageStore] = {}
        self._topics: dict[Destination, KahaDBTopicMessageStore] = {}

    # -- opening and closing

    def start_new(self) -> None:
        """Create and open a new store without a lock, blocking the loop.

        For stores that are added to a running broker. Call `stop` even if it raises.

        Raises:
            ResourceAllocationException: the store cannot be created, or already exists.
        """
        index_directory = self.settings.index_directory or self.directory
        try:
            self._prepare_directory(index_directory)
            db = self._make_core(index_directory)
            db.journal.open_blocking()
            if db.journal.end != Location(1, 0):
                raise ResourceAllocationException(f"{self.directory} already contains a store")
            db.index.delete()
            db.index.open()
        except OSError as error:
            raise ResourceAllocationException(
                f"Cannot create a store in {self.directory}: {error}"
            ) from error
        self._activate(db, Recovered(None, {}, rebuilt=False))

    async def _open(self) -> None:
        settings = self.settings
        index_directory = settings.index_directory or self.directory
        foreign = await anyio.to_thread.run_sync(self._prepare_directory, index_directory)
        db = self._make_core(index_directory)
        await db.journal.open()
        recovered = await recover_store(
            db,
            settings,
            index_directory / OUR_INDEX,
            forced=foreign or settings.force_recover_index,
            progress=self.on_progress,
        )
        self._activate(db, recovered)

    def _make_core(self, index_directory: Path) -> MessageDatabase:
        settings = self.settings
        self.state, self._index_error = StoreState.RUNNING, None
        journal = Journal(self.directory, settings.journal, self._disk, self._state_changed)
        self._journal = journal
        index = self._index = StoreIndex(index_directory / OUR_INDEX)
        index.producers.limit = settings.max_failover_producers_to_track
        return MessageDatabase(journal, index, RecordFormat(settings.store_open_wire_version))

    def _activate(self, db: MessageDatabase, recovered: Recovered) -> None:
        settings, self.rebuilt = self.settings, recovered.rebuilt
        db.journal.set_segment_header(db.segment_header)
        self._db = db
        if self.concurrent_store_and_dispatch_queues:
            self._late = db.journal.late = LateAdds(db)
        transactions = self._transactions = KahaDBTransactionStore(db)
        transactions.enlist = self.enlist
        now = datetime.fromtimestamp(_clock.time_ms() / 1000, UTC)
        db.journal.append(plain_trace(f"LOADED {now:%Y-%m-%dT%H:%M:%SZ}"), sync=True)
        transactions.recover(recovered.transactions)
        self._purge(transactions)
        self._maintenance = Maintenance(
            db, transactions, settings, self._lock, self._lock_lost, self._index_error_changed
        )
        self._maintenance.start()

    def _prepare_directory(self, index_directory: Path) -> bool:
        """Create the directories, empty them if requested, archive ActiveMQ's index. Blocks."""
        self._disk.make_directory(self.directory)
        make_private_directory(index_directory)
        if self._delete_all:
            delete_files(self.directory, index_directory, self._disk)
            self._delete_all = False
        return archive_activemq_index(self.directory, self._disk, index_directory)

    def _purge(self, transactions: KahaDBTransactionStore) -> None:
        strategy = self.settings.purge_recovered_xa_transaction_strategy
        if strategy is PurgeRecoveredXATransactionStrategy.NEVER:
            return
        for found in transactions.recovered_transactions():
            logger.warning("Prepared transaction %s: %s", found.xid, strategy.value)
            if strategy is PurgeRecoveredXATransactionStrategy.COMMIT:
                self.commit_recovered(found)
            else:
                transactions.rollback(found.xid)

    def commit_recovered(self, found: RecoveredTransaction) -> Completion:
        """Commit a transaction prepared before the start; its messages are visible at once.

        Call it before any queue uses the store, because it passes no references to queues.
        """
        transactions = self.transaction_store()
        completion = transactions.commit(found.xid, prepared=True)
        for destination, message in found.added:
            index = self._require_open().index.lookup(to_kaha_destination(destination))
            assert message.message_id is not None, "the journal has it by its id"
            position = transactions.position_of(destination, message.message_id)
            if index is not None and position is not None:
                index.mark_visible(position)
        return completion

    async def stop(self) -> None:
        """Write a last checkpoint and close the store. Idempotent.

        Raises:
            ResourceAllocationException: the end of the journal could not be written.
        """
        maintenance, self._maintenance = self._maintenance, None
        try:
            if maintenance is not None:
                await maintenance.stop()
        finally:
            await self._close()

    async def _close(self) -> None:
        self._db = self._transactions = None
        self._queues.clear()
        self._topics.clear()
        index, self._index = self._index, None
        journal, self._journal = self._journal, None
        try:
            if journal is not None:
                await journal.close()
        finally:
            try:
                if index is not None:
                    self._close_index(index)
            finally:
                self._lock.release()

    def _close_index(self, index: StoreIndex) -> None:
        if index.damage is None:
            index.close()
        else:  # the next start rebuilds it
            discard_index(index, index.path, archive=self.settings.archive_corrupted_index)

    @property
    def _is_open(self) -> bool:
        return self._db is not None

    # -- state

    def _index_error_changed(self, error: Exception | None) -> None:
        """Suspend the store while too many changes wait for an index that cannot be written."""
        if isinstance(error, IndexCorrupt):
            if self.state is not StoreState.FAILED:
                self._state_changed(StoreState.FAILED, error)
        elif (error is None) != (self._index_error is None) and self._journal is not None:
            self._index_error = error
            self._state_changed(self._journal.state, error)

    def _state_changed(self, state: StoreState, error: Exception | None) -> None:
        if self.state is StoreState.FAILED:
            return  # failed permanently
        if self._index_error is not None and state in _WRITABLE_STATES:
            state, error = StoreState.SUSPENDED, self._index_error
        self._report(state, error)

    def _require_open(self) -> MessageDatabase:
        if self._db is None:
            raise IllegalStateException("The store is not started")
        return self._db

    # -- stores

    def destinations(self) -> set[Destination]:
        return {
            from_kaha_destination(d.destination) for d in self._require_open().index.destinations()
        }

    def _new_queue(self, destination: Destination, prioritized: bool) -> KahaDBMessageStore:
        db, transactions = self._require_open(), self.transaction_store()
        return KahaDBMessageStore(db, transactions, destination, prioritized, self._late)

    def _new_topic(self, destination: Destination, prioritized: bool) -> KahaDBTopicMessageStore:
        db, transactions = self._require_open(), self.transaction_store()
        return KahaDBTopicMessageStore(db, transactions, destination, prioritized)

    def remove_message_store(self, destination: Destination) -> None:
        db, kaha = self._require_open(), to_kaha_destination(destination)
        store = self._queues.pop(destination, None) or self._topics.pop(destination, None)
        if store is not None:
            store.write_late()
            store.is_removed = True
        transactions = self.transaction_store()
        if db.index.lookup(kaha) is not None or transactions.has_journalled(kaha):
            payload = encode_command(KahaRemoveDestinationCommand(kaha))
            location = db.journal.append(payload, sync=True)
            db.index.apply_destination_removal(kaha, location)
            transactions.discard_destination(kaha, location)

    def transaction_store(self) -> KahaDBTransactionStore:
        if self._transactions is None:
            raise IllegalStateException("The store is not started")
        return self._transactions

    async def checkpoint(self) -> None:
        """Write a checkpoint and remove the segments that nothing refers to.

        Raises:
            OSError: the index cannot be written.
            ResourceAllocationException: the journal has failed.
        """
        self._require_open()
        if self._maintenance is not None:
            await self._maintenance.clean_up()

    def reclaim_soon(self) -> None:
        """See PersistenceAdapter; the cleanup that follows compacts acknowledgements."""
        if self._maintenance is not None:
            self._maintenance.reclaim_soon()

    def segment_report(self) -> list[SegmentReport]:
        """Return the reasons for which each segment is kept."""
        self._require_open()
        return [] if self._maintenance is None else self._maintenance.report()

    @property
    def journal(self) -> Journal:
        """The journal, for its statistics.

        Raises:
            IllegalStateException: the store is not started.
        """
        return self._require_open().journal

    @property
    def size(self) -> int:
        """The used size of the journal in bytes."""
        return 0 if self._journal is None else self._journal.size

    @property
    def last_broker_sequence_id(self) -> int:
        """The highest broker sequence number ever stored; 0 if none. (activemq-broker Q3)"""
        return self._require_open().index.last_broker_sequence_id

    def last_producer_sequence_id(self, producer_id: ProducerId) -> int:
        self.journal.write_late()
        return self._require_open().index.producers.last(str(producer_id))
