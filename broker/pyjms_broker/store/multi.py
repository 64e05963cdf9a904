"""mKahaDB: several KahaDB stores in one directory, one for each filter or destination.

Each store has its own directory but no lock: the parent directory's lock covers all of them. A
destination's messages are in the store of the filter that matches it best, and the broker uses that
store directly; only its transactions are coordinated. Decisions about transactions across several
stores are in `txStore`. All names are ActiveMQ's, so each broker can open what the other has
written. (activemq-persistence K25, K26)

The names of directories. ActiveMQ escapes a destination's name and uses the last 64 characters as
the directory's name. That is ambiguous: long names lose their beginning, and `#`, the escape
character, is not escaped itself. Two destinations may therefore get the same directory, and a start
cannot tell whose it is. If ActiveMQ's name is unambiguous it is used, so that both brokers can use
a data directory. For other destinations, the name consists of the beginning of the escaped name and
a hash of the true name. The store in a directory determines its destination; the directory's name
only has to match.

Transactions. Each store has its own transaction store. The multi store is the coordinator: it
enlists a store in a transaction at the first operation on one of its destinations. In the stores,
the transaction has an XA id (`as_xa`), because only XA transactions can be prepared.

    commit, one store          one phase: that store commits
    commit, several stores     1. all stores prepare
                               2. the decision to commit is appended to the decision log, synced
                               3. all stores commit
                               4. the log records, lazily, that the decision is carried out
    prepare, commit by an XA   the stores prepare and commit; the transaction manager decides,
    transaction manager        so no decision is logged

The transaction is committed once its decision is durable. An earlier failure, as of a prepare,
rolls it back in all stores. A later failure is repaired at the next start. A prepared transaction
whose decision is in the log is committed in every store that still has it prepared; a local one
without a decision is rolled back; the others wait for their transaction manager.
(activemq-persistence K26; ActiveMQ MultiKahaDBTransactionStore)

The log of decisions is a journal: a prepare record says that a transaction is prepared in all
stores and will be committed; a commit record says that it is committed in all stores. ActiveMQ's
`txStore` has the same records. (activemq-persistence K26)
"""

from __future__ import annotations

import hashlib
import re
import shutil
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Final, NamedTuple

from anyio import CancelScope, to_thread

from pyjms.errors import (
    ConfigurationException,
    IllegalStateException,
    InvalidDestinationException,
    ResourceAllocationException,
)
from pyjms.jms.destination import Destination, Queue, Topic, name_matches, parse_destination
from pyjms.runtime import event_loop
from pyjms.runtime.logging import get_logger
from pyjms.wire.kahadb.codec import encode_command
from pyjms.wire.kahadb.commands import KahaCommitCommand, KahaPrepareCommand
from pyjms.wire.kahadb.frames import from_transaction_info, to_transaction_info
from pyjms.wire.kahadb.journal import Location, segment_number
from pyjms.wire.openwire.commands import MessageId, ProducerId, TransactionId, XATransactionId
from pyjms_broker.api.completion import COMPLETED, Completion, all_of, wait_for
from pyjms_broker.api.message import Position
from pyjms_broker.store.adapters import FileAdapter, run_every
from pyjms_broker.store.api import RecoveredTransaction, StoreState, TransactionStore
from pyjms_broker.store.journal.disk import OS_DISK, Disk
from pyjms_broker.store.journal.journal import Journal, StateListener
from pyjms_broker.store.journal.settings import JournalSettings
from pyjms_broker.store.kahadb.adapter import KahaDBPersistenceAdapter
from pyjms_broker.store.kahadb.maintenance import SegmentReport
from pyjms_broker.store.kahadb.settings import KahaDBSettings, PurgeRecoveredXATransactionStrategy
from pyjms_broker.store.kahadb.stores import KahaDBMessageStore, KahaDBTopicMessageStore
from pyjms_broker.store.kahadb.transactions import KahaDBTransactionStore

logger = get_logger(__name__)

LOCAL_FORMAT_ID: Final = 61616
"""The XA format id under which stores know local transactions (ActiveMQ's localXaFormatId)."""


def as_xa(xid: TransactionId) -> XATransactionId:
    """Return the XA id of `xid` in the stores, since only XA transactions can be prepared."""
    if isinstance(xid, XATransactionId):
        return xid
    connection = getattr(xid, "connection_id", None)
    name = "" if connection is None or connection.value is None else connection.value
    number = getattr(xid, "value", 0)
    return XATransactionId(LOCAL_FORMAT_ID, name.encode(), str(number).encode())


class DecisionLog:
    """The decisions that are not carried out in all stores yet. Use it on the loop."""

    def __init__(
        self, directory: Path, settings: JournalSettings, disk: Disk, on_state: StateListener
    ) -> None:
        self.journal = Journal(directory, settings, disk, on_state)
        self.decided: dict[XATransactionId, Location] = {}
        """Locations of the decisions, by transactions that a store may still have prepared."""

    async def open(self) -> None:
        """Open the log and read the decisions."""
        await self.journal.open()
        try:
            await to_thread.run_sync(self._read)
        except OSError as e:
            raise ResourceAllocationException(
                f"Cannot read the decisions in {self.journal.directory}: {e}"
            ) from e

    def _read(self) -> None:
        for record in self.journal.records_from(None):
            command = record.command()
            if isinstance(command, KahaPrepareCommand):
                self.decided[_xid(command)] = record.location
            elif isinstance(command, KahaCommitCommand):
                self.decided.pop(_xid(command), None)

    def decide(self, xid: XATransactionId) -> Completion:
        """Log the decision to commit `xid`; completed when it is durable."""
        waiter = Completion()
        payload = encode_command(KahaPrepareCommand(to_transaction_info(xid)))
        self.decided[xid] = self.journal.append(payload, waiter, sync=True)
        return waiter

    def mark_completed(self, xid: XATransactionId) -> None:
        """Record, lazily, that `xid` is committed in all stores."""
        if self.decided.pop(xid, None) is not None:
            payload = encode_command(KahaCommitCommand(to_transaction_info(xid)))
            self.journal.append(payload, lazy=True)

    async def clean_up(self) -> None:
        """Delete the segments before the first decision that is not carried out.

        The stores must have synced their commits.
        """
        first = min(self.decided.values(), default=self.journal.written).file_id
        for file_id in self.journal.segments():
            if file_id < min(first, self.journal.written.file_id):
                await self.journal.delete(file_id)


def _xid(command: KahaPrepareCommand | KahaCommitCommand) -> XATransactionId:
    return as_xa(from_transaction_info(command.transaction_info))


class _OpenTransaction(NamedTuple):
    """A transaction and the stores enlisted in it."""

    xid: XATransactionId
    stores: dict[TransactionStore, None]


class MultiTransactionStore:
    """The transaction store of several stores. ActiveMQ: MultiKahaDBTransactionStore."""

    def __init__(
        self, decisions: DecisionLog, find: Callable[[Destination], TransactionStore | None]
    ) -> None:
        """Coordinate the stores; `find` returns the transaction store of a destination."""
        self._decisions = decisions
        self._find = find
        self._open: dict[TransactionId, _OpenTransaction] = {}
        self._recovered: dict[TransactionId, RecoveredTransaction] = {}

    def enlist(self, xid: TransactionId, store: TransactionStore) -> TransactionId:
        """Enlist a store in a transaction; return the id that the transaction has there."""
        opened = self._open.get(xid)
        if opened is None:
            opened = self._open[xid] = _OpenTransaction(as_xa(xid), {})
        opened.stores[store] = None
        return opened.xid

    def prepare(self, xid: TransactionId) -> Completion:
        """Prepare it in all its stores."""
        opened = self._open.get(xid)
        if opened is None:
            return COMPLETED
        return all_of([store.prepare(opened.xid) for store in opened.stores])

    def commit(self, xid: TransactionId, prepared: bool) -> Completion:
        """Commit it in all its stores or in none; positions are set on completion."""
        opened = self._pop(xid)
        if opened is None:
            return COMPLETED
        if prepared or len(opened.stores) == 1:
            return all_of([store.commit(opened.xid, prepared) for store in opened.stores])
        result = Completion()
        ready = all_of([store.prepare(opened.xid) for store in opened.stores])
        _continue(ready, result, lambda: self._decide(opened, result), lambda: self._undo(opened))
        return result

    def rollback(self, xid: TransactionId) -> Completion:
        """Roll it back in all its stores."""
        opened = self._pop(xid)
        return COMPLETED if opened is None else self._undo(opened)

    def recovered_transactions(self) -> list[RecoveredTransaction]:
        """Return the prepared transactions of all stores, with their branches merged."""
        return list(self._recovered.values())

    def position_of(self, destination: Destination, message_id: MessageId) -> Position | None:
        """Return the position from the destination's store."""
        store = self._find(destination)
        return None if store is None else store.position_of(destination, message_id)

    async def recover(self, partitions: Iterable[KahaDBPartition]) -> None:
        """Commit the decided transactions that stores found prepared, and take over the others."""
        waiting: list[tuple[TransactionStore, RecoveredTransaction]] = []
        results: list[Completion] = []
        for partition in partitions:
            strategy = partition.filter.settings.purge_recovered_xa_transaction_strategy
            for adapter in partition.adapters:
                store = adapter.transaction_store()
                for found in store.recovered_transactions():
                    if found.xid in self._decisions.decided:
                        logger.info("Committing %s in %s, as decided", found.xid, adapter.directory)
                        results.append(adapter.commit_recovered(found))
                    elif found.xid.format_id == LOCAL_FORMAT_ID:
                        logger.info("Rolling back %s in %s", found.xid, adapter.directory)
                        results.append(store.rollback(found.xid))
                    elif strategy is PurgeRecoveredXATransactionStrategy.NEVER:
                        waiting.append((store, found))
                    else:
                        logger.warning("Prepared transaction %s: %s", found.xid, strategy.value)
                        commit = strategy is PurgeRecoveredXATransactionStrategy.COMMIT
                        results.append(
                            adapter.commit_recovered(found) if commit else store.rollback(found.xid)
                        )
        await wait_for(all_of(results))
        for xid in list(self._decisions.decided):
            self._decisions.mark_completed(xid)
        for own, part in waiting:
            whole = self._recovered.setdefault(part.xid, RecoveredTransaction(part.xid, [], []))
            whole.added.extend(part.added)
            whole.removed.extend(part.removed)
            self._open.setdefault(part.xid, _OpenTransaction(part.xid, {})).stores[own] = None

    def _pop(self, xid: TransactionId) -> _OpenTransaction | None:
        self._recovered.pop(xid, None)
        return self._open.pop(xid, None)

    def _decide(self, opened: _OpenTransaction, result: Completion) -> None:
        """Decide to commit, after all stores have prepared."""
        decided = self._decisions.decide(opened.xid)
        _continue(decided, result, lambda: self._carry_out(opened, result), lambda: None)

    def _carry_out(self, opened: _OpenTransaction, result: Completion) -> None:
        done = all_of([store.commit(opened.xid, True) for store in opened.stores])

        def finish() -> None:
            self._decisions.mark_completed(opened.xid)
            result.complete()

        # a store that fails now will commit it at its next start
        _continue(done, result, finish, lambda: None)

    def _undo(self, opened: _OpenTransaction) -> Completion:
        return all_of([store.rollback(opened.xid) for store in opened.stores])


def _continue(
    step: Completion,
    result: Completion,
    succeeded: Callable[[], object],
    failed: Callable[[], object],
) -> None:
    """Continue after `step`; an error, also one raised in the continuation, completes `result`."""

    def when_done(done: Completion) -> None:
        error = done.error
        try:
            if error is None:
                succeeded()
                return
            failed()
        except Exception as raised:
            error = error or raised
        result.complete(error)

    step.then(when_done)


_LONGEST_NAME: Final = 64
_BEGINNING: Final = 40
_HASH_DIGITS: Final = 24
_PREFIXES: Final = ("queue#", "topic#")
_ESCAPED: Final = re.compile(r"#([0-9a-f]{2,4}?)")
_UNSAFE: Final = re.compile(r"[^A-Za-z0-9_.#-]")


def directory_name(destination: Destination) -> str:
    """Return the unique name of the directory for a destination's separate store."""
    escaped = _escape(destination)
    if len(escaped) <= _LONGEST_NAME and "#" not in destination.physical_name:
        return escaped
    digest = hashlib.sha256(destination.qualified_name.encode("utf-8", "surrogatepass"))
    return f"{escaped[:_BEGINNING]}#{digest.hexdigest()[:_HASH_DIGITS]}"


def activemq_name(destination: Destination) -> str:
    """Return ActiveMQ's name for the directory of a destination or pattern.

    For example `queue#3a#2f#2forders.#3e`; a long name loses its beginning. Source: ActiveMQ
    IOHelper.toFileSystemSafeName.
    """
    return _escape(destination)[-_LONGEST_NAME:]


def _belongs_to(name: str, destination: Destination) -> bool:
    """Return whether a directory's name is one that the destination's separate store may have."""
    return name in (directory_name(destination), activemq_name(destination))


def _store_names(directory: Path) -> list[str]:
    """Return the sorted names of directories that may hold a destination's store. Blocks."""
    return sorted(
        path.name
        for path in directory.iterdir()
        if (path.name.startswith(_PREFIXES) or len(path.name) == _LONGEST_NAME) and path.is_dir()
    )


def likely_destination(name: str) -> Destination | None:
    """Return the destination of a directory with ActiveMQ's name, unless the name was cut."""
    if not name.startswith(_PREFIXES) or len(name) >= _LONGEST_NAME:
        return None
    text = _ESCAPED.sub(lambda found: chr(int(found[1], 16)), name)
    return parse_destination(text, default=Queue)


def _escape(destination: Destination) -> str:
    return _UNSAFE.sub(lambda found: f"#{ord(found[0]):x}", destination.qualified_name)


_ALL: Final = "#210"
"""ActiveMQ's name for the directory of the catch-all filter: a character as 16 bits."""
_RANKS: Final = {"*": 1, ">": 2}


@dataclass(frozen=True)
class FilteredKahaDB:
    """A store for the destinations that match a pattern; without a pattern, for all.

    ActiveMQ: filteredKahaDB. `queue` and `topic` are patterns with `*` and `>`, or several
    separated by commas; at most one of them is given.

    Raises:
        ConfigurationException: both are given.
    """

    queue: str | None = None
    topic: str | None = None
    per_destination: bool = False
    """Whether each destination has a separate store, created with the destination."""
    settings: KahaDBSettings = field(default_factory=KahaDBSettings)
    """The settings of each store; locking is done for the parent directory instead."""
    store_limit: int = 0
    """The maximum total size of its stores in bytes; 0: only the broker's limit applies."""

    def __post_init__(self) -> None:
        if self.queue is not None and self.topic is not None:
            raise ConfigurationException(
                "A filteredKahaDB has a queue or a topic, not both",
                hint="use one filter for each, or give neither to match everything",
            )

    @cached_property
    def destination(self) -> Destination | None:
        """The pattern as a destination; None: everything."""
        if self.queue is not None:
            return Queue(self.queue)
        return None if self.topic is None else Topic(self.topic)

    @property
    def directory_name(self) -> str:
        """ActiveMQ's name for the directory of its store."""
        return _ALL if self.destination is None else activemq_name(self.destination)

    def rank(self, destination: Destination) -> tuple[tuple[int, ...], ...] | None:
        """Return a rank of how specifically it matches (smaller is better); None: no match."""
        pattern = self.destination
        if pattern is None:
            return ((_RANKS[">"],), (1,))
        if pattern.is_queue != destination.is_queue:
            return None
        name = destination.physical_name
        matching = [
            m for m in pattern.composite_destinations if name_matches(m.physical_name, name)
        ]
        return min(((_specificity(m.physical_name), (0,)) for m in matching), default=None)

    def __str__(self) -> str:
        each = " (per destination)" if self.per_destination else ""
        return f"{self.destination or 'everything'}{each}"


def best_filter(
    filters: Iterable[FilteredKahaDB], destination: Destination
) -> FilteredKahaDB | None:
    """Return the most specific matching filter, the first of equal ones; None: no match."""
    ranked = [(rank, f) for f in filters if (rank := f.rank(destination)) is not None]
    return min(ranked, key=lambda pair: pair[0])[1] if ranked else None


def _specificity(pattern: str) -> tuple[int, ...]:
    return tuple(_RANKS.get(part, 0) for part in pattern.split("."))


_BEST_FIRST: Final = tuple(StoreState)


class KahaDBPartition:
    """The open stores of a filter, as the partition that a store usage measures."""

    def __init__(self, store_filter: FilteredKahaDB) -> None:
        self.filter = store_filter
        self.adapters: list[KahaDBPersistenceAdapter] = []

    @property
    def limit(self) -> int:
        """Their maximum total size in bytes; 0: no separate limit."""
        return self.filter.store_limit

    @property
    def size(self) -> int:
        """Their total size on disk in bytes."""
        return sum(adapter.size for adapter in self.adapters)

    @property
    def state(self) -> StoreState:
        """The worst of their states."""
        return worst(adapter.state for adapter in self.adapters)

    def reclaim_soon(self) -> None:
        """Make each of them reclaim disk space."""
        for adapter in self.adapters:
            adapter.reclaim_soon()

    def __str__(self) -> str:
        return str(self.filter)


def worst(states: Iterable[StoreState]) -> StoreState:
    """Return the worst of the states; RUNNING if there are none."""
    return max(states, key=_BEST_FIRST.index, default=StoreState.RUNNING)


async def _close_all(closing: Iterable[Callable[[], Awaitable[None]]]) -> None:
    """Close all, even if some fail; raise the first error and log the others."""
    first: Exception | None = None
    for close in closing:
        try:
            await close()
        except Exception as error:
            if first is None:
                first = error
            else:
                logger.exception("Closing another store failed, too")
    if first is not None:
        raise first


def _delete_journal(directory: Path, disk: Disk) -> None:
    """Delete the segments of a closed journal. Blocks; raises OSError."""
    for name in disk.names(directory):
        if segment_number(name) is not None:
            disk.remove(directory / name)
    disk.sync_directory(directory)


_DECISIONS: Final = "txStore"


class MultiKahaDBPersistenceAdapter(FileAdapter):
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
        self._by_destination: dict[Destination, KahaDBPersistenceAdapter] = {}
        """The separate stores of destinations; a partition has all stores of its filter."""
        self._tasks: list[event_loop.BackgroundTask] = []

    # -- opening and closing

    async def start(self) -> None:
        await super().start()
        self._spawn(self._cleanup_interval, self._clean_up)
        self._spawn(self._keep_alive_period, self._keep_alive)

    async def _open(self) -> None:
        self.state = StoreState.RUNNING
        decisions_directory = self.directory / _DECISIONS
        await to_thread.run_sync(self._disk.make_directory, decisions_directory)
        if self._delete_all:
            await to_thread.run_sync(_delete_journal, decisions_directory, self._disk)
        decisions = self._decisions = DecisionLog(
            decisions_directory, self._decision_settings, self._disk, self._state_changed
        )
        await decisions.open()
        for each in self.filters:
            if not each.per_destination and not self._partition(each).adapters:
                await self._start_adapter(each, each.directory_name)
        taken = {each.directory_name for each in self.filters if not each.per_destination}
        for name in await to_thread.run_sync(_store_names, self.directory):
            if name not in taken:
                await self._open_existing(name)
        self._delete_all = False
        self._transactions = MultiTransactionStore(decisions, self._transactions_of)
        await self._transactions.recover(self.partitions)

    async def _open_existing(self, name: str) -> None:
        """Open the store in a directory if it is that of one destination; an empty one is deleted.

        The directory's name suggests the filter whose settings are used to open the store; the
        opened store then determines its destination, and thereby its filter.
        """
        likely = self._likely_filter(name)
        if likely is None:
            return
        adapter = await self._start_adapter(likely, name)
        destination = next(iter(adapter.destinations()), None)
        if destination is None:
            await self._stop_adapter(likely, adapter)
            await to_thread.run_sync(shutil.rmtree, self.directory / name)
            return
        own = best_filter(self.filters, destination)
        other = self._by_destination.get(destination)
        if other is not None:
            logger.error(
                "%s and %s are both stores of %s: the messages in the second are not used",
                other.directory,
                adapter.directory,
                destination,
            )
        if (
            own is None
            or not own.per_destination
            or other is not None
            or not _belongs_to(name, destination)
        ):
            await self._stop_adapter(likely, adapter)
            return
        if own != likely:
            await self._stop_adapter(likely, adapter)
            adapter = await self._start_adapter(own, name)
        self._by_destination[destination] = adapter

    def _likely_filter(self, name: str) -> FilteredKahaDB | None:
        """Return the filter whose settings are used to open a store; None: it is not opened."""
        guess = likely_destination(name)
        if guess is None:  # only the store itself can tell
            return next((each for each in self.filters if each.per_destination), None)
        each = best_filter(self.filters, guess)
        return each if each is not None and each.per_destination else None

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
        adapter.enlist = lambda xid, store: self.transaction_store().enlist(xid, store)
        self._partition(each).adapters.append(adapter)
        return adapter

    async def stop(self) -> None:
        """Write everything and close all stores. Idempotent."""
        tasks, self._tasks = self._tasks, []
        await event_loop.end_tasks(*tasks)
        opened = self._transactions is not None
        empty = [
            a.directory for a in self._by_destination.values() if opened and not a.destinations()
        ]
        await self._close()
        for directory in empty:
            await to_thread.run_sync(shutil.rmtree, directory)

    async def _close(self) -> None:
        with CancelScope(shield=True):
            adapters = list(self._adapters())
            for partition in self.partitions:
                partition.adapters.clear()
            self._by_destination.clear()
            self._transactions = None
            decisions, self._decisions = self._decisions, None
            closing = [adapter.stop for adapter in adapters]
            if decisions is not None:
                closing.append(decisions.journal.close)
            try:
                await _close_all(closing)
            finally:
                self._lock.release()

    @property
    def _is_open(self) -> bool:
        return self._transactions is not None

    # -- state

    def _state_changed(self, _: StoreState, error: Exception | None) -> None:
        states = [adapter.state for adapter in self._adapters()]
        if self._decisions is not None:
            states.append(self._decisions.journal.state)
        state = worst(states)
        if state is not self.state:
            self._report(state, error)

    # -- stores

    def destinations(self) -> set[Destination]:
        return {d for adapter in self._adapters() for d in adapter.destinations()}

    def queue_message_store(
        self, destination: Destination, prioritized: bool = False
    ) -> KahaDBMessageStore:
        return self._adapter_for(destination).queue_message_store(destination, prioritized)

    def topic_message_store(
        self, destination: Destination, prioritized: bool = False
    ) -> KahaDBTopicMessageStore:
        return self._adapter_for(destination).topic_message_store(destination, prioritized)

    def remove_message_store(self, destination: Destination) -> None:
        """See PersistenceAdapter. A separate store is deleted when all stores are stopped."""
        adapter = self._existing_adapter(destination)
        if adapter is not None:
            adapter.remove_message_store(destination)

    def transaction_store(self) -> MultiTransactionStore:
        if self._transactions is None:
            raise IllegalStateException("The store is not started")
        return self._transactions

    def partition_of(self, destination: Destination) -> KahaDBPartition | None:
        """Return the stores that share the limit of a destination's filter."""
        each = best_filter(self.filters, destination)
        return None if each is None else self._partition(each)

    def _adapter_for(self, destination: Destination) -> KahaDBPersistenceAdapter:
        """Return a destination's adapter. Blocks if it creates one."""
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
                self._tasks.append(event_loop.spawn(adapter.stop, name="mKahaDB"))
                raise
            self._by_destination[destination] = adapter
        return adapter

    def _existing_adapter(self, destination: Destination) -> KahaDBPersistenceAdapter | None:
        each = best_filter(self.filters, destination)
        own = self._by_destination.get(destination)
        if own is not None or each is None or each.per_destination:
            return own
        return next(iter(self._partition(each).adapters), None)

    def _transactions_of(self, destination: Destination) -> KahaDBTransactionStore | None:
        adapter = self._existing_adapter(destination)
        return None if adapter is None else adapter.transaction_store()

    def _partition(self, each: FilteredKahaDB) -> KahaDBPartition:
        return self.partitions[self.filters.index(each)]

    def _adapters(self) -> Iterator[KahaDBPersistenceAdapter]:
        return (adapter for partition in self.partitions for adapter in partition.adapters)

    # -- maintenance and statistics

    async def checkpoint(self) -> None:
        """See PersistenceAdapter."""
        for adapter in list(self._adapters()):
            await adapter.checkpoint()
        await self._clean_up()

    def segment_reports(self) -> dict[str, list[SegmentReport]]:
        """Return the reports of each store's segments, by the name of the store's directory."""
        return {each.directory.name: each.segment_report() for each in self._adapters()}

    def reclaim_soon(self) -> None:
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
            self._tasks.append(event_loop.spawn(run_every, interval, work, what, name="mKahaDB"))

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
