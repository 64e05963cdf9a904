"""mKahaDB: KahaDB stores side by side in one folder, one for each filter or destination.

Each has a folder of its own and no lock: the parent folder's serves all. Decisions about
transactions of several stores lie in `txStore`. Names are ActiveMQ's, so either opens what the
other wrote. (persistence K25, K26)
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

import anyio
from anyio import to_thread

from broker.store.api import StoreState
from broker.store.file_lock import SharedFileLock
from broker.store.journal.disk import OS_DISK, Disk
from broker.store.journal.settings import JournalSettings
from broker.store.kahadb.adapter import KahaDBPersistenceAdapter
from broker.store.kahadb.settings import PurgeRecoveredXATransactionStrategy
from broker.store.kahadb.transactions.transaction_store import KahaDBTransactionStore
from broker.store.multi.decision_log import DecisionLog
from broker.store.multi.filters import FilteredKahaDB, best_filter, safe_name
from broker.store.multi.folders import (
    delete_journal,
    delete_store,
    destination_folders,
    likely_destination,
)
from broker.store.multi.partition import StorePartition, close_all, worst
from broker.store.multi.recovery import recover_transactions
from broker.store.multi.stores import MultiMessageStore, MultiTopicMessageStore
from broker.store.multi.transactions import MultiTransactionStore
from broker.store.periodic import repeat
from pyjms import _wakeup
from pyjms.errors import (
    IllegalStateException,
    InvalidDestinationException,
    ResourceAllocationException,
)
from pyjms.jms.destination import Destination
from pyjms.wire.openwire.commands import ProducerId

__all__ = ["MultiKahaDBPersistenceAdapter"]

_OUTCOMES: Final = "txStore"
_LOCK: Final = "lock"


class MultiKahaDBPersistenceAdapter:
    """The stores in `directory`. Belongs to one loop while it is started.

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
        """Name the stores; `start` opens them. Times are seconds.

        `transaction_journal` are the settings of `txStore`, looked through for what nobody
        needs each `cleanup_interval`; 0: at a `checkpoint` only.
        """
        self.directory = directory
        self.filters = tuple(filters)
        self.on_state: Callable[[StoreState, Exception | None], None] | None = None
        self.has_several_journals = True
        self.on_lock_lost: Callable[[], None] | None = None
        """Called when somebody else has taken the lock: the broker must stop. (H2)"""
        self.concurrent_store_and_dispatch_queues = all(
            f.settings.concurrent_store_and_dispatch_queues for f in self.filters
        )
        self.concurrent_store_and_dispatch_topics = all(
            f.settings.concurrent_store_and_dispatch_topics for f in self.filters
        )
        self.shares = tuple(StorePartition(f) for f in self.filters)
        """What each filter's stores take, and how they do."""
        self._disk = disk
        self._outcome_settings = transaction_journal or JournalSettings()
        self._cleanup_interval = cleanup_interval
        self._keep_alive_period = lock_keep_alive_period if use_lock else 0.0
        self._lock = (
            SharedFileLock(
                directory / _LOCK,
                fail_if_locked=fail_if_locked,
                lock_acquire_sleep_interval=lock_acquire_sleep_interval,
            )
            if use_lock
            else None
        )
        self._delete_all = False
        self._state = StoreState.RUNNING
        self._outcomes: DecisionLog | None = None
        self._transactions: MultiTransactionStore | None = None
        self._fixed: dict[FilteredKahaDB, KahaDBPersistenceAdapter] = {}
        self._own: dict[Destination, KahaDBPersistenceAdapter] = {}
        self._queues: dict[Destination, MultiMessageStore] = {}
        self._topics: dict[Destination, MultiTopicMessageStore] = {}
        self._tasks: list[_wakeup.BackgroundTask] = []

    # -- opening and closing

    async def start(self) -> None:
        """Open all stores; waits for the lock where another broker has it.

        Raises:
            JMSException: one cannot be opened.
        """
        if self._lock is not None:
            await self._lock.acquire()
        try:
            await self._open()
        except BaseException as error:
            await self._close()
            if isinstance(error, OSError):
                raise ResourceAllocationException(
                    f"Cannot open the stores in {self.directory}: {error}"
                ) from error
            raise
        self._spawn(self._cleanup_interval, self._clean_up)
        self._spawn(self._keep_alive_period, self._keep_alive)

    async def _open(self) -> None:
        self._state = StoreState.RUNNING
        outcomes_folder = self.directory / _OUTCOMES
        await to_thread.run_sync(self._disk.make_directory, outcomes_folder)
        if self._delete_all:
            await to_thread.run_sync(delete_journal, outcomes_folder, self._disk)
        outcomes = self._outcomes = DecisionLog(
            outcomes_folder, self._outcome_settings, self._disk, self._state_changed
        )
        await outcomes.open()
        for each in self.filters:
            if not each.per_destination and each not in self._fixed:
                self._fixed[each] = await self._started(each, each.directory_name)
        await self._open_own()
        self._delete_all = False
        self._transactions = MultiTransactionStore(outcomes, self._transactions_of)
        opened = [
            (adapter, share.filter.settings.purge_recovered_xa_transaction_strategy)
            for share in self.shares
            for adapter in share.adapters
        ]
        await recover_transactions(opened, outcomes, self._transactions)

    async def _open_own(self) -> None:
        """Open the stores of single destinations that are there."""
        taken = {each.directory_name for each in self.filters if not each.per_destination}
        for name in await to_thread.run_sync(destination_folders, self.directory):
            likely = None if name in taken else best_filter(self.filters, likely_destination(name))
            if likely is None or not likely.per_destination:
                continue
            adapter = await self._started(likely, name)
            found = adapter.destinations()
            destination = next(iter(found), None)
            if destination is None or safe_name(destination) != name:
                await adapter.stop()
                self._share(likely).adapters.remove(adapter)
                if not found:
                    await to_thread.run_sync(delete_store, self.directory / name)
            else:
                self._own[destination] = adapter

    async def _started(self, each: FilteredKahaDB, name: str) -> KahaDBPersistenceAdapter:
        adapter = self._made(each, name)
        if self._delete_all:
            await adapter.delete_all_messages()
        await adapter.start()
        return adapter

    def _made(self, each: FilteredKahaDB, name: str) -> KahaDBPersistenceAdapter:
        never = PurgeRecoveredXATransactionStrategy.NEVER  # decided here, with all stores open
        settings = replace(
            each.settings, use_lock=False, purge_recovered_xa_transaction_strategy=never
        )
        adapter = KahaDBPersistenceAdapter(self.directory / name, settings, disk=self._disk)
        adapter.on_state = self._state_changed
        self._share(each).adapters.append(adapter)
        return adapter

    async def stop(self) -> None:
        """Write what is not written and close all. Idempotent.

        Raises:
            ResourceAllocationException: a journal's end could not be written.
        """
        tasks, self._tasks = self._tasks, []
        for task in tasks:
            task.cancel()
            await task.wait()
        opened = self._transactions is not None
        empty = [a.directory for a in self._own.values() if opened and not a.destinations()]
        await self._close()
        for directory in empty:
            await to_thread.run_sync(delete_store, directory)

    async def _close(self) -> None:
        with anyio.CancelScope(shield=True):
            adapters = [adapter for share in self.shares for adapter in share.adapters]
            for share in self.shares:
                share.adapters.clear()
            for table in (self._fixed, self._own, self._queues, self._topics):
                table.clear()
            self._transactions = None
            outcomes, self._outcomes = self._outcomes, None
            closing = [adapter.stop for adapter in adapters]
            if outcomes is not None:
                closing.append(outcomes.journal.close)
            try:
                await close_all(closing)
            finally:
                if self._lock is not None:
                    self._lock.release()

    async def delete_all_messages(self) -> None:
        """Have the next `start` begin with nothing; once it holds the lock.

        Raises:
            IllegalStateException: it is started.
        """
        if self._transactions is not None:
            raise IllegalStateException("The store is started: its messages cannot be deleted now")
        self._delete_all = True

    # -- state

    @property
    def state(self) -> StoreState:
        """How the store does that does worst."""
        return self._state

    @property
    def is_slave(self) -> bool:
        """Whether it waits for another broker's lock. (H4)"""
        return self._lock is not None and self._lock.slave

    def _state_changed(self, _: StoreState, error: Exception | None) -> None:
        states = [adapter.state for adapter in self._all_made()]
        if self._outcomes is not None:
            states.append(self._outcomes.journal.state)
        state = worst(states)
        if state is not self._state:
            self._state = state
            if self.on_state is not None:
                self.on_state(state, error)

    # -- stores

    def destinations(self) -> set[Destination]:
        """See PersistenceAdapter."""
        return {d for adapter in self._adapters() for d in adapter.destinations()}

    def queue_message_store(
        self, destination: Destination, prioritized: bool = False
    ) -> MultiMessageStore:
        """See PersistenceAdapter. Opens a store for it if it is to have its own: that blocks.

        Raises:
            InvalidDestinationException: no filter fits it.
        """
        store = self._queues.get(destination)
        if store is None:
            adapter = self._adapter_of(destination)
            store = self._queues[destination] = MultiMessageStore(
                adapter.queue_message_store(destination, prioritized),
                adapter.transaction_store(),
                self.transaction_store(),
            )
        return store

    def topic_message_store(
        self, destination: Destination, prioritized: bool = False
    ) -> MultiTopicMessageStore:
        """See PersistenceAdapter and `queue_message_store`."""
        store = self._topics.get(destination)
        if store is None:
            adapter = self._adapter_of(destination)
            store = self._topics[destination] = MultiTopicMessageStore(
                adapter.topic_message_store(destination, prioritized),
                adapter.transaction_store(),
                self.transaction_store(),
            )
        return store

    def remove_message_store(self, destination: Destination) -> None:
        """See PersistenceAdapter. A store of its own goes when all are stopped."""
        self._queues.pop(destination, None)
        self._topics.pop(destination, None)
        adapter = self._known_adapter_of(destination)
        if adapter is not None:
            adapter.remove_message_store(destination)

    def transaction_store(self) -> MultiTransactionStore:
        """See PersistenceAdapter."""
        if self._transactions is None:
            raise IllegalStateException("The store is not started")
        return self._transactions

    def partition_of(self, destination: Destination) -> StorePartition | None:
        """Return what counts against the limit of a destination's filter. (K25: usage)"""
        each = best_filter(self.filters, destination)
        return None if each is None else self._share(each)

    def _adapter_of(self, destination: Destination) -> KahaDBPersistenceAdapter:
        self.transaction_store()
        adapter = self._known_adapter_of(destination)
        if adapter is None:
            each = best_filter(self.filters, destination)
            if each is None:
                raise InvalidDestinationException(
                    "No matching persistence adapter configured for destination: "
                    f"{destination.qualified_name}, options: {', '.join(map(str, self.filters))}",
                    hint="add a filteredKahaDB without a queue and topic: it takes all others",
                )
            adapter = self._made(each, safe_name(destination))
            try:
                adapter.start_new()
            except BaseException:
                self._share(each).adapters.remove(adapter)
                self._tasks.append(_wakeup.spawn(adapter.stop, name="mKahaDB"))
                raise
            self._own[destination] = adapter
        return adapter

    def _known_adapter_of(self, destination: Destination) -> KahaDBPersistenceAdapter | None:
        each = best_filter(self.filters, destination)
        own = self._own.get(destination)
        return own if own is not None or each is None else self._fixed.get(each)

    def _transactions_of(self, destination: Destination) -> KahaDBTransactionStore | None:
        adapter = self._known_adapter_of(destination)
        return None if adapter is None else adapter.transaction_store()

    def _share(self, each: FilteredKahaDB) -> StorePartition:
        return self.shares[self.filters.index(each)]

    def _all_made(self) -> Iterator[KahaDBPersistenceAdapter]:
        return (adapter for share in self.shares for adapter in share.adapters)

    def _adapters(self) -> Iterator[KahaDBPersistenceAdapter]:
        yield from self._fixed.values()
        yield from self._own.values()

    # -- upkeep and figures

    async def checkpoint(self) -> None:
        """See PersistenceAdapter.

        Raises:
            JMSException: a journal has failed.
        """
        for adapter in list(self._adapters()):
            await adapter.checkpoint()
        await self._clean_up()

    async def _clean_up(self) -> None:
        if self._outcomes is not None:
            await self._outcomes.clean_up()

    async def _keep_alive(self) -> None:
        if self._lock is not None and not self._lock.keep_alive() and self.on_lock_lost:
            self.on_lock_lost()

    def _spawn(self, interval: float, work: Callable[[], Awaitable[None]]) -> None:
        if interval:
            what = f"The upkeep of {self.directory}"
            self._tasks.append(_wakeup.spawn(repeat, interval, work, what, name="mKahaDB"))

    @property
    def size(self) -> int:
        """Bytes of all journals on the disk."""
        outcomes = 0 if self._outcomes is None else self._outcomes.journal.size
        return outcomes + sum(share.size for share in self.shares)

    @property
    def last_broker_sequence_id(self) -> int:
        """The highest broker sequence number ever stored; 0 if none (Q3)."""
        return max((a.last_broker_sequence_id for a in self._adapters()), default=0)

    def last_producer_sequence_id(self, producer_id: ProducerId) -> int:
        """Return the highest sequence number stored from that producer, -1 if unknown (T27)."""
        found = (a.last_producer_sequence_id(producer_id) for a in self._adapters())
        return max(found, default=-1)
