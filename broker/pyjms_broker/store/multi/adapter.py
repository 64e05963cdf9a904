"""mKahaDB: several KahaDB stores in one directory, one for each filter or destination.

Each store has its own directory but no lock: the parent directory's lock covers all of them.
Decisions about transactions across several stores are in `txStore`; see `transactions`. All names
are ActiveMQ's, so each broker can open what the other has written. (activemq-persistence K25, K26)
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

from anyio import CancelScope, to_thread

from pyjms import _wakeup
from pyjms.errors import IllegalStateException, InvalidDestinationException
from pyjms.jms.destination import Destination
from pyjms.wire.openwire.commands import ProducerId
from pyjms_broker.store.api import StoreState
from pyjms_broker.store.destination_stores import DestinationStores
from pyjms_broker.store.file_adapter import FileAdapter
from pyjms_broker.store.journal.disk import OS_DISK, Disk
from pyjms_broker.store.journal.settings import JournalSettings
from pyjms_broker.store.kahadb.adapter import KahaDBPersistenceAdapter
from pyjms_broker.store.kahadb.maintenance.cleanup import SegmentReport
from pyjms_broker.store.kahadb.settings import PurgeRecoveredXATransactionStrategy
from pyjms_broker.store.kahadb.transactions.transaction_store import KahaDBTransactionStore
from pyjms_broker.store.multi import partition as partitions
from pyjms_broker.store.multi.decision_log import DecisionLog
from pyjms_broker.store.multi.directories import directory_name
from pyjms_broker.store.multi.existing_stores import ExistingStores
from pyjms_broker.store.multi.filters import FilteredKahaDB, best_filter
from pyjms_broker.store.multi.partition import KahaDBPartition
from pyjms_broker.store.multi.stores import MultiMessageStore, MultiTopicMessageStore
from pyjms_broker.store.multi.transactions import MultiTransactionStore, recover_transactions
from pyjms_broker.store.periodic import run_every

__all__ = ["MultiKahaDBPersistenceAdapter"]

_DECISIONS: Final = "txStore"


class MultiKahaDBPersistenceAdapter(
    FileAdapter, DestinationStores[MultiMessageStore, MultiTopicMessageStore]
):
    """The stores in `directory`. While started, they are used on one loop only.

    ActiveMQ: MultiKahaDBPersistenceAdapter.
    """

    def __init__(
        self,
        directory: Path,
        filters: Sequence[FilteredKahaDB],
        *,
        transaction_journal: JournalSettings | None = None,
        cleanup_interval: float = 30.0,
        use_lock: bool = True,
        fail_if_locked: bool = False,
        lock_acquire_sleep_interval: float = 10.0,
        lock_keep_alive_period: float = 0.0,
        disk: Disk = OS_DISK,
    ) -> None:
        """Configure the stores; `start` opens them. Times are in seconds.

        `transaction_journal` has the settings of `txStore`, which is cleaned up every
        `cleanup_interval` (0: only at a `checkpoint`).
        """
        super().__init__(
            directory,
            use_lock=use_lock,
            fail_if_locked=fail_if_locked,
            lock_acquire_sleep_interval=lock_acquire_sleep_interval,
        )
        self.filters = tuple(filters)
        self.has_several_journals = True
        self.concurrent_store_and_dispatch_queues = all(
            f.settings.concurrent_store_and_dispatch_queues for f in self.filters
        )
        self.concurrent_store_and_dispatch_topics = all(
            f.settings.concurrent_store_and_dispatch_topics for f in self.filters
        )
        self.partitions = tuple(KahaDBPartition(f) for f in self.filters)
        """The stores of each filter, with their size, limit and state."""
        self._disk = disk
        self._decision_settings = transaction_journal or JournalSettings()
        self._cleanup_interval = cleanup_interval
        self._keep_alive_period = lock_keep_alive_period if use_lock else 0.0
        self._decisions: DecisionLog | None = None
        self._transactions: MultiTransactionStore | None = None
        self._by_filter: dict[FilteredKahaDB, KahaDBPersistenceAdapter] = {}
        self._by_destination: dict[Destination, KahaDBPersistenceAdapter] = {}
        self._queues: dict[Destination, MultiMessageStore] = {}
        self._topics: dict[Destination, MultiTopicMessageStore] = {}
        self._tasks: list[_wakeup.BackgroundTask] = []

    # -- opening and closing

    async def start(self) -> None:
        await super().start()
        self._spawn(self._cleanup_interval, self._clean_up)
        self._spawn(self._keep_alive_period, self._keep_alive)

    async def _open(self) -> None:
        self._state = StoreState.RUNNING
        decisions_directory = self.directory / _DECISIONS
        await to_thread.run_sync(self._disk.make_directory, decisions_directory)
        if self._delete_all:
            await to_thread.run_sync(partitions.delete_journal, decisions_directory, self._disk)
        decisions = self._decisions = DecisionLog(
            decisions_directory, self._decision_settings, self._disk, self._state_changed
        )
        await decisions.open()
        for each in self.filters:
            if not each.per_destination and each not in self._by_filter:
                self._by_filter[each] = await self._start_adapter(each, each.directory_name)
        existing = ExistingStores(
            self.directory, self.filters, self._start_adapter, self._stop_adapter
        )
        await existing.open(self._by_destination)
        self._delete_all = False
        self._transactions = MultiTransactionStore(decisions, self._transactions_of)
        opened = [
            (adapter, partition.filter.settings.purge_recovered_xa_transaction_strategy)
            for partition in self.partitions
            for adapter in partition.adapters
        ]
        await recover_transactions(opened, decisions, self._transactions)

    async def _start_adapter(self, each: FilteredKahaDB, name: str) -> KahaDBPersistenceAdapter:
        adapter = self._make_adapter(each, name)
        if self._delete_all:
            await adapter.delete_all_messages()
        await adapter.start()
        return adapter

    async def _stop_adapter(self, each: FilteredKahaDB, adapter: KahaDBPersistenceAdapter) -> None:
        await adapter.stop()
        self._partition(each).adapters.remove(adapter)

    def _make_adapter(self, each: FilteredKahaDB, name: str) -> KahaDBPersistenceAdapter:
        never = PurgeRecoveredXATransactionStrategy.NEVER  # decided below, with all stores open
        settings = replace(
            each.settings, use_lock=False, purge_recovered_xa_transaction_strategy=never
        )
        adapter = KahaDBPersistenceAdapter(self.directory / name, settings, disk=self._disk)
        adapter.on_state = self._state_changed
        self._partition(each).adapters.append(adapter)
        return adapter

    async def stop(self) -> None:
        """Write everything and close all stores. Idempotent.

        Raises:
            ResourceAllocationException: the end of a journal could not be written.
        """
        tasks, self._tasks = self._tasks, []
        await _wakeup.end_tasks(*tasks)
        opened = self._transactions is not None
        empty = [
            a.directory for a in self._by_destination.values() if opened and not a.destinations()
        ]
        await self._close()
        for directory in empty:
            await to_thread.run_sync(partitions.delete_store, directory)

    async def _close(self) -> None:
        with CancelScope(shield=True):
            adapters = [adapter for partition in self.partitions for adapter in partition.adapters]
            for partition in self.partitions:
                partition.adapters.clear()
            for table in (self._by_filter, self._by_destination, self._queues, self._topics):
                table.clear()
            self._transactions = None
            decisions, self._decisions = self._decisions, None
            closing = [adapter.stop for adapter in adapters]
            if decisions is not None:
                closing.append(decisions.journal.close)
            try:
                await partitions.close_all(closing)
            finally:
                self._lock.release()

    @property
    def _is_open(self) -> bool:
        return self._transactions is not None

    # -- state

    def _state_changed(self, _: StoreState, error: Exception | None) -> None:
        states = [adapter.state for adapter in self._partition_adapters()]
        if self._decisions is not None:
            states.append(self._decisions.journal.state)
        state = partitions.worst(states)
        if state is not self._state:
            self._report(state, error)

    # -- stores

    def destinations(self) -> set[Destination]:
        """See PersistenceAdapter."""
        return {d for adapter in self._adapters() for d in adapter.destinations()}

    def _new_queue(self, destination: Destination, prioritized: bool) -> MultiMessageStore:
        adapter = self._adapter_for(destination)
        store = adapter.queue_message_store(destination, prioritized)
        return MultiMessageStore(store, adapter.transaction_store(), self.transaction_store())

    def _new_topic(self, destination: Destination, prioritized: bool) -> MultiTopicMessageStore:
        adapter = self._adapter_for(destination)
        store = adapter.topic_message_store(destination, prioritized)
        return MultiTopicMessageStore(store, adapter.transaction_store(), self.transaction_store())

    def remove_message_store(self, destination: Destination) -> None:
        """See PersistenceAdapter. A separate store is deleted when all stores are stopped."""
        self._queues.pop(destination, None)
        self._topics.pop(destination, None)
        adapter = self._existing_adapter(destination)
        if adapter is not None:
            adapter.remove_message_store(destination)

    def transaction_store(self) -> MultiTransactionStore:
        """See PersistenceAdapter."""
        if self._transactions is None:
            raise IllegalStateException("The store is not started")
        return self._transactions

    def partition_of(self, destination: Destination) -> KahaDBPartition | None:
        """Return the stores that share the limit of a destination's filter.

        (activemq-persistence K25)
        """
        each = best_filter(self.filters, destination)
        return None if each is None else self._partition(each)

    def _adapter_for(self, destination: Destination) -> KahaDBPersistenceAdapter:
        """Return a destination's adapter. Blocks if it creates one.

        Raises:
            InvalidDestinationException: no filter matches it.
        """
        self.transaction_store()
        adapter = self._existing_adapter(destination)
        if adapter is None:
            each = best_filter(self.filters, destination)
            if each is None:
                raise InvalidDestinationException(
                    "No matching persistence adapter configured for destination: "
                    f"{destination.qualified_name}, options: {', '.join(map(str, self.filters))}",
                    hint="add a filteredKahaDB without queue and topic: it matches all others",
                )
            adapter = self._make_adapter(each, directory_name(destination))
            try:
                adapter.start_new()
            except BaseException:
                self._partition(each).adapters.remove(adapter)
                self._tasks.append(_wakeup.spawn(adapter.stop, name="mKahaDB"))
                raise
            self._by_destination[destination] = adapter
        return adapter

    def _existing_adapter(self, destination: Destination) -> KahaDBPersistenceAdapter | None:
        each = best_filter(self.filters, destination)
        own = self._by_destination.get(destination)
        return own if own is not None or each is None else self._by_filter.get(each)

    def _transactions_of(self, destination: Destination) -> KahaDBTransactionStore | None:
        adapter = self._existing_adapter(destination)
        return None if adapter is None else adapter.transaction_store()

    def _partition(self, each: FilteredKahaDB) -> KahaDBPartition:
        return self.partitions[self.filters.index(each)]

    def _partition_adapters(self) -> Iterator[KahaDBPersistenceAdapter]:
        return (adapter for partition in self.partitions for adapter in partition.adapters)

    def _adapters(self) -> Iterator[KahaDBPersistenceAdapter]:
        yield from self._by_filter.values()
        yield from self._by_destination.values()

    # -- maintenance and statistics

    async def checkpoint(self) -> None:
        """See PersistenceAdapter.

        Raises:
            JMSException: a journal has failed.
        """
        for adapter in list(self._adapters()):
            await adapter.checkpoint()
        await self._clean_up()

    def segment_reports(self) -> dict[str, list[SegmentReport]]:
        """Return the reports of each store's segments, by the name of the store's directory."""
        return {each.directory.name: each.segment_report() for each in self._adapters()}

    def reclaim_soon(self) -> None:
        """See PersistenceAdapter."""
        for partition in self.partitions:
            partition.reclaim_soon()

    async def _clean_up(self) -> None:
        if self._decisions is not None:
            await self._decisions.clean_up()

    async def _keep_alive(self) -> None:
        if not self._lock.keep_alive():
            self._lock_lost()

    def _spawn(self, interval: float, work: Callable[[], Awaitable[None]]) -> None:
        if interval:
            what = f"The maintenance of {self.directory}"
            self._tasks.append(_wakeup.spawn(run_every, interval, work, what, name="mKahaDB"))

    @property
    def size(self) -> int:
        """The size of all journals on disk in bytes."""
        decisions = 0 if self._decisions is None else self._decisions.journal.size
        return decisions + sum(partition.size for partition in self.partitions)

    @property
    def last_broker_sequence_id(self) -> int:
        """The highest broker sequence number ever stored; 0 if none (activemq-broker Q3)."""
        return max((a.last_broker_sequence_id for a in self._adapters()), default=0)

    def last_producer_sequence_id(self, producer_id: ProducerId) -> int:
        """Return the highest sequence number stored from that producer, -1 if unknown."""
        found = (a.last_producer_sequence_id(producer_id) for a in self._adapters())
        return max(found, default=-1)
