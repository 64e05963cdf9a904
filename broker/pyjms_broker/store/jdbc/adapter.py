"""The JDBC persistence adapter. (ActiveMQ: JDBCPersistenceAdapter)

A start reads the stores' in-memory state from the tables, in a thread. Rows that another broker
(ActiveMQ) has written meanwhile are renumbered behind the last ID of their destination, and
counted.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import anyio
import anyio.to_thread
from sqlalchemy import Connection

from pyjms.errors import JMSException, ResourceAllocationException
from pyjms.jms.destination import Destination, Topic, parse_destination
from pyjms.runtime import clock as _clock
from pyjms.runtime.event_loop import BackgroundTask, end_tasks, spawn
from pyjms.runtime.logging import get_logger
from pyjms.wire.kahadb.errors import KahaDBFormatError
from pyjms.wire.kahadb.frames import decode_message
from pyjms.wire.message_audit import SequenceAudit
from pyjms.wire.openwire.commands import (
    MESSAGE_OVERHEAD,
    ActiveMQMessage,
    ProducerId,
    XATransactionId,
    message_size,
)
from pyjms_broker.api.message import StoredMessage, SubscriptionKey
from pyjms_broker.store.adapters import DestinationStores
from pyjms_broker.store.api import RecoveredTransaction, StoredSubscription, StoreState
from pyjms_broker.store.damage import Quarantine, is_damage
from pyjms_broker.store.files import create_private_file, make_private_directory, wait_for_lock
from pyjms_broker.store.jdbc import database as db
from pyjms_broker.store.jdbc import operations as ops
from pyjms_broker.store.jdbc.schema import base_of, decode_xid, destination_number, range_end
from pyjms_broker.store.jdbc.settings import JDBCSettings
from pyjms_broker.store.jdbc.stores import (
    Acknowledgement,
    Addition,
    JDBCMessageStore,
    JDBCTopicMessageStore,
    JDBCTransactionStore,
    Removal,
    Work,
)
from pyjms_broker.store.jdbc.writer import Writer

logger = get_logger(__name__)


class LoadedSubscription(NamedTuple):
    """A durable subscription, and the number of messages that it has not acknowledged."""

    container: str
    subscription: StoredSubscription
    messages: int
    prioritized: bool


class LoadedDestination(NamedTuple):
    """A destination's row."""

    epoch: int
    last_id: int
    messages: int
    size: int


@dataclass(slots=True)
class Contents:
    """The in-memory state of the stores."""

    last_broker_sequence_id: int = 0
    last_destination: int = 0
    last_prepared_id: int = 0
    destinations: dict[str, LoadedDestination] = field(default_factory=dict)
    subscriptions: list[LoadedSubscription] = field(default_factory=list)
    prepared: list[Any] = field(default_factory=list)
    """Rows of messages that prepared transactions added, and of those acknowledged in them."""


def load(database: db.Database) -> Contents:
    """Read the contents of the tables. Blocks."""
    s = database.statements
    contents = Contents()
    state = make_state(database)
    highest = database.read(s.highest_without_destination)[0][0] or 0
    contents.last_prepared_id = highest
    # ActiveMQ uses the same sequence for messages and rows
    contents.last_broker_sequence_id = max(state[ops.LAST_BROKER_SEQUENCE_ID], highest)
    database.set_state(ops.LAST_BROKER_SEQUENCE_ID, contents.last_broker_sequence_id)
    contents.last_destination = state[ops.LAST_DESTINATION]
    with database.engine.begin() as connection:
        _adopt(connection, database, contents)
    _load_subscriptions(database, contents)
    _load_destinations(database, contents)
    prepared = (s.prepared_messages, s.prepared_acknowledgements)
    contents.prepared = [row for each in prepared for row in database.read(each)]
    return contents


def make_state(database: db.Database) -> dict[str, int]:
    """Return the numbers of the state table; missing ones are inserted as 0."""
    s = database.statements
    with database.engine.begin() as connection:
        state: dict[str, int] = {row.name: row.value for row in connection.execute(s.state)}
        for name in (ops.LAST_BROKER_SEQUENCE_ID, ops.LAST_DESTINATION, ops.JOURNAL_MARK):
            if name not in state:
                state[name] = 0
                connection.execute(s.insert_state, {"name": name, "value": 0})
    return state


def _adopt(connection: Connection, database: db.Database, contents: Contents) -> None:
    """Renumber rows that another broker wrote, behind the last ID of their destination."""
    s = database.statements
    known = {row.container: row.last_id for row in connection.execute(s.destination_rows)}
    found = {row.container for row in connection.execute(s.message_counts)}
    found |= {row.container for row in connection.execute(s.subscriptions)}
    for container in sorted(found - known.keys()):
        contents.last_destination += 1
        known[container] = base_of(contents.last_destination)
        row = {"container": container, "epoch": _clock.time_ms(), "last_id": known[container]}
        connection.execute(s.insert_destination, {**row, "msg_count": -1, "msg_size": 0})
    number = {"state": ops.LAST_DESTINATION, "new": contents.last_destination}
    connection.execute(s.set_state, number)
    for container in sorted(known):
        _renumber(connection, database, container, known[container])


def _renumber(connection: Connection, database: db.Database, container: str, last_id: int) -> None:
    s = database.statements
    base = base_of(destination_number(last_id))
    limits = {"at": container, "begin": base, "end": range_end(base)}
    used = connection.execute(s.highest_in_range, limits).scalar()
    before, last_id = last_id, max(last_id, used or 0)
    rows = list(connection.execute(s.foreign_rows, limits).scalars())
    for mark in list(connection.execute(s.foreign_marks, limits).scalars()):
        acked = bisect_right(rows, mark or 0)
        new = last_id + acked if acked or (mark or 0) > base else base
        moved = {"at": container, "old_mark": mark, "new_mark": new}
        connection.execute(s.renumber_mark, moved)
    if rows or last_id > before:
        ids = [{"row_id": old, "new_id": last_id + n} for n, old in enumerate(rows, 1)]
        if ids:
            connection.execute(s.renumber, ids)
        counted = {"where_container": container, "new_last": last_id + len(rows)}
        connection.execute(s.count_destination, {**counted, "count": 0, "bytes": 0})


def _load_subscriptions(database: db.Database, contents: Contents) -> None:
    s = database.statements
    no_local = {tuple(row) for row in database.read(s.no_local)}
    owners = {tuple(row[:3]): row.owner for row in database.read(s.owners)}
    rows: dict[tuple[str, str, str], list[Any]] = {}
    for row in database.read(s.subscriptions):
        rows.setdefault((row.container, row.client_id, row.sub_name), []).append(row)
    for (container, client_id, name), found in rows.items():
        key = SubscriptionKey(client_id, name)
        try:
            destination = parse_destination(found[0].sub_dest or container, default=Topic)
        except JMSException as error:
            logger.error("%s: %s cannot be read and is quarantined: %s", container, key, error)
            continue
        subscription = StoredSubscription(
            key,
            destination,
            found[0].selector or None,
            (container, client_id, name) in no_local,
            owners.get((container, client_id, name)),
        )
        prioritized = len(found) > 1
        count = database.read(
            s.pending_count[prioritized], at=container, client=client_id, subscription=name
        )[0][0]
        contents.subscriptions.append(
            LoadedSubscription(container, subscription, count, prioritized)
        )


def _load_destinations(database: db.Database, contents: Contents) -> None:
    """Use the counts of the last batch, unless another broker has changed the rows since."""
    s = database.statements
    counted = {row.container: row.messages for row in database.read(s.message_counts)}
    prioritized = {loaded.container: loaded.prioritized for loaded in contents.subscriptions}
    for row in database.read(s.destination_rows):
        container = row.container
        count, size = counted.get(container, 0), row.msg_size
        if container in prioritized:
            count = database.read(s.live_count[prioritized[container]], at=container)[0][0]
        if row.msg_count != count:
            frames = database.read(s.frame_size, at=container)[0][0] or 0
            size = int(frames) + count * MESSAGE_OVERHEAD if count else 0
            with database.engine.begin() as connection:
                values = {"where_container": container, "count": count, "bytes": size}
                connection.execute(s.set_destination, values)
        contents.destinations[container] = LoadedDestination(row.epoch, row.last_id, count, size)


def recover_prepared(
    rows: list[Any],
    store_of: Callable[[str], JDBCMessageStore],
    transactions: JDBCTransactionStore,
) -> None:
    """Add the transactions to `transactions`; rows that cannot be read are logged and stay.

    `store_of` returns the store of a container.
    """
    found: dict[XATransactionId, RecoveredTransaction] = {}
    works: dict[XATransactionId, list[Work]] = {}
    for row in rows:
        try:
            xid, added = decode_xid(row.xid)
            transaction = found.get(xid) or RecoveredTransaction(xid, [], [])
            work = _recover_row(row, store_of(row.container), transaction, added)
        except Exception as error:  # no stored data may prevent a start
            logger.error(
                "%s: row %d of a prepared transaction cannot be read and is quarantined: %s",
                row.container,
                row.id,
                error,
            )
            continue
        found[xid] = transaction
        works.setdefault(xid, []).append(work)
    for xid, transaction in found.items():
        transactions.recover(transaction, works[xid])


def _recover_row(
    row: Any, store: JDBCMessageStore, transaction: RecoveredTransaction, added: bool
) -> Work:
    message = decode_message(bytes(row.msg))
    size = message_size(message)
    if added:
        message_id = message.message_id
        if message_id is None:
            raise ValueError("the message has no id")
        transaction.added.append((store.destination, message))
        return Addition(store, message, message_id, size, prepared_id=row.id)
    stored = StoredMessage(store.position_at(row.id, row.priority), message)
    key = SubscriptionKey(row.client_id, row.sub_name) if hasattr(row, "client_id") else None
    if key is None:
        work: Work = Removal(store, row.id, size)
    elif isinstance(store, JDBCTopicMessageStore):
        work = Acknowledgement(store, key, row.id, row.priority, size, prepared=True)
    else:
        raise ValueError(f"{store.destination} is not a topic")
    transaction.removed.append((store.destination, key, stored))
    return work


_MOST_CLEANED = 5000
_FIRST_DELAY, _LONGEST_DELAY = 1.0, 30.0
"""Seconds between two tries to open a database whose server does not respond."""

_S = TypeVar("_S", bound=JDBCMessageStore)
_T = TypeVar("_T")


async def _in_thread(work: Callable[[], _T]) -> _T:
    return await anyio.to_thread.run_sync(db.translate_errors, work)


class JDBCPersistenceAdapter(DestinationStores[JDBCMessageStore, JDBCTopicMessageStore]):
    """A store in a database, which `start` opens or creates. (activemq-persistence J1 to J8)"""

    concurrent_store_and_dispatch_queues = False
    concurrent_store_and_dispatch_topics = False
    has_several_journals = True
    """A unit that the database refuses fails alone, so a message may be removed only after its
    dead letter is stored."""

    def __init__(
        self,
        directory: Path,
        settings: JDBCSettings | None = None,
        broker_name: str = "localhost",
    ) -> None:
        """Create a store; nothing is opened yet."""
        self.directory = directory
        self.settings = settings or JDBCSettings()
        self.on_state: Callable[[StoreState, Exception | None], None] | None = None
        self.on_lock_lost: Callable[[str], None] | None = None
        """Called when another broker may have taken over the database: the broker must stop.
        The argument says why.

        (activemq-persistence J7)
        """
        self.is_slave = False
        """Whether it waits for a lock that another broker holds. (activemq-persistence H4)"""
        self.database = db.Database(directory, self.settings)
        self.writer: Writer
        self.statements = self.database.statements
        self.last_broker_sequence_id = 0
        self.quarantine = Quarantine()
        self.audit = (
            SequenceAudit[tuple[str, str]](
                self.settings.max_audit_depth, self.settings.max_producers_to_audit
            )
            if self.settings.enable_audit
            else None
        )
        # Ids are assigned on the loop, in the order in which units go to the database. A message
        # therefore has its position at once, and ids increase in commit order.
        self._last_destination = 0
        self._last_prepared_id = 0
        self._sequences: OrderedDict[str, int] = OrderedDict()
        self._locker: db.DatabaseLock = db.make_locker(self.database, broker_name)
        self._transactions = JDBCTransactionStore()
        self._queues: dict[Destination, JDBCMessageStore] = {}
        self._topics: dict[Destination, JDBCTopicMessageStore] = {}
        self._by_container: dict[str, JDBCMessageStore] = {}
        self._tasks: list[BackgroundTask] = []
        self._started = False
        self._empty_first = False

    # -- start and stop

    async def start(self) -> None:
        """Open the database, wait for its lock, and read the state that the stores keep in memory.

        With a lock, a server that does not respond is waited for as well (activemq-persistence
        H5). Cancellable while it waits.
        """
        self.writer = self._make_writer()
        try:
            contents = await self._wait_for_database()
            self.writer.start()
            self._begin(contents)
        except BaseException as error:
            with anyio.CancelScope(shield=True):
                await self._end()
            if isinstance(error, JMSException) or not isinstance(error, Exception):
                raise
            raise ResourceAllocationException(
                f"The database {self.database.name} cannot be opened: {db.reason_of(error)}",
                hint="check data_source, the server and the account's rights",
            ) from error
        self._started = True
        logger.info("JDBC store: %s", self.database.name)
        self._start_tasks()

    async def stop(self) -> None:
        if not self._started:
            return
        self._started = False
        await end_tasks(*self._tasks)
        self._tasks.clear()
        try:
            await self._end()
        finally:
            self._queues.clear()
            self._topics.clear()
            self._by_container.clear()

    async def _end(self) -> None:
        """Write the queued units, and close the database even if that fails."""
        try:
            await self.writer.stop()
        finally:
            await anyio.to_thread.run_sync(self._close)

    async def _wait_for_database(self) -> Contents:
        """Open the database and read it, with back-off while the server does not respond."""
        delay = _FIRST_DELAY
        while True:
            tried_at = _clock.now()
            try:
                return await self._open_locked()
            except db.DatabaseUnavailableException as error:
                s = self.settings
                if not s.use_lock or s.fail_if_locked or self.database.is_sqlite:
                    raise
                if _clock.now() - tried_at > _LONGEST_DELAY:  # it responded meanwhile
                    delay = _FIRST_DELAY
                name = self.database.name
                logger.warning("Waiting for %s, next try in %g s: %s", name, delay, error)
            await anyio.to_thread.run_sync(self._close)
            self.is_slave = True
            await _clock.sleep(delay)
            delay = min(2 * delay, _LONGEST_DELAY)

    async def _open_locked(self) -> Contents:
        await _in_thread(self._open)
        if self.settings.use_lock:
            await wait_for_lock(
                partial(_in_thread, self._locker.try_acquire),
                "The database",
                self._set_slave,
                fail_if_locked=self.settings.fail_if_locked,
                interval=self.settings.lock_acquire_sleep_interval,
                hint="stop that broker, or give this one another database",
            )
        return await self._read_contents()

    def _set_slave(self, is_slave: bool) -> None:
        self.is_slave = is_slave

    def _make_writer(self) -> Writer:
        return Writer(self.database, self.settings, self._correct_counts, self._report)

    def _open(self) -> None:
        if self.database.file is not None:
            make_private_directory(self.database.file.parent)
            create_private_file(self.database.file)
        if self.settings.create_tables_on_startup:
            self.database.create_tables()

    async def _read_contents(self) -> Contents:
        return await _in_thread(self._load)

    def _load(self) -> Contents:
        self.database.claim()
        if self._empty_first:
            self._empty_first = False
            self.database.empty()
        contents = load(self.database)
        self._fill_audit()
        return contents

    def _close(self) -> None:
        if self.settings.use_lock:
            self._locker.release()
        self.database.close()

    def _start_tasks(self) -> None:
        settings = self.settings
        if settings.cleanup_period > 0:
            self._spawn(self._clean_up_periodically, "jdbc store clean-up")
        if settings.use_lock and settings.lock_keep_alive_period > 0:
            self._spawn(self._keep_lock, "jdbc store lock")

    def _spawn(self, function: Callable[[], object], name: str) -> None:
        self._tasks.append(spawn(function, name=name, on_error=self.writer.fail_with))  # type: ignore[arg-type]

    def _begin(self, contents: Contents) -> None:
        self.last_broker_sequence_id = contents.last_broker_sequence_id
        self._last_destination = contents.last_destination
        self._last_prepared_id = contents.last_prepared_id
        self._transactions.open(self.writer)
        prioritized = {s.container: s.prioritized for s in contents.subscriptions}
        for container, row in contents.destinations.items():
            base = base_of(destination_number(row.last_id))
            by_priority = prioritized.get(container, False)
            try:
                destination = parse_destination(container)
            except JMSException as error:
                logger.error("The stored destination %r is quarantined: %s", container, error)
                continue
            known = destination, by_priority, base, row.epoch
            store: JDBCMessageStore
            if destination.is_topic:
                store = self._topics[destination] = self._make_store(JDBCTopicMessageStore, *known)
            else:
                store = self._queues[destination] = self._make_store(JDBCMessageStore, *known)
            store.load(row.messages, row.size, row.last_id)
        for container, subscription, count, _ in contents.subscriptions:
            topic = self._by_container.get(container)
            if isinstance(topic, JDBCTopicMessageStore):
                topic.load_subscription(subscription, count)
            else:
                logger.error("%s: %s is quarantined: not a topic", container, subscription.key)
        recover_prepared(contents.prepared, self._store_of, self._transactions)

    def _fill_audit(self) -> None:
        if self.audit is not None:
            limit = self.settings.audit_recovery_depth
            for container, producer, sequence in self.database.read(
                self.statements.last_message_ids, limit=limit
            ):
                self.audit.add((container, producer or ""), sequence or 0)

    # -- destinations

    @property
    def state(self) -> StoreState:
        return self.writer.state if self._started else StoreState.RUNNING

    def destinations(self) -> set[Destination]:
        return {*self._queues, *self._topics}

    def queue_message_store(
        self, destination: Destination, prioritized: bool = False
    ) -> JDBCMessageStore:
        store = super().queue_message_store(destination, prioritized)
        store.prioritized = prioritized
        return store

    def topic_message_store(
        self, destination: Destination, prioritized: bool = False
    ) -> JDBCTopicMessageStore:
        store = super().topic_message_store(destination, prioritized)
        if store.prioritized != prioritized:
            store.set_prioritized(prioritized)
        return store

    def remove_message_store(self, destination: Destination) -> None:
        store = self._queues.pop(destination, None) or self._topics.pop(destination, None)
        if store is not None:
            store.is_removed = True
            del self._by_container[store.container]
            self.writer.submit((ops.RemoveContainer(store.container),))

    def transaction_store(self) -> JDBCTransactionStore:
        return self._transactions

    def _new_queue(self, destination: Destination, prioritized: bool) -> JDBCMessageStore:
        return self._new_store(JDBCMessageStore, destination, prioritized)

    def _new_topic(self, destination: Destination, prioritized: bool) -> JDBCTopicMessageStore:
        return self._new_store(JDBCTopicMessageStore, destination, prioritized)

    def _new_store(self, kind: type[_S], destination: Destination, prioritized: bool) -> _S:
        self._last_destination += 1
        base, epoch = base_of(self._last_destination), _clock.time_ms()
        store = self._make_store(kind, destination, prioritized, base, epoch)
        self.writer.submit((ops.AddContainer(store.container, base, epoch),))
        return store

    def _make_store(
        self, kind: type[_S], destination: Destination, prioritized: bool, base: int, epoch: int
    ) -> _S:
        store = kind(self, destination, prioritized, base, epoch)
        self._by_container[store.container] = store
        return store

    # -- for the stores

    def next_prepared_id(self) -> int:
        """Return an ID for a row whose transaction is not committed yet."""
        self._last_prepared_id += 1
        return self._last_prepared_id

    def read(self, statement: Any, **parameters: object) -> Sequence[Any]:
        """Return the rows of a query."""
        self.writer.check()
        return self.database.read(statement, **parameters)

    def decode(self, container: str, number: int, frame: object) -> ActiveMQMessage | None:
        """Return the message of a row; None: it is damaged, and quarantined from now on."""
        try:
            if not isinstance(frame, (bytes, memoryview)):  # SQLite takes anything
                raise KahaDBFormatError(f"The message is {type(frame).__name__}, not bytes")
            message = decode_message(bytes(frame))
            if message.message_id is None:
                raise KahaDBFormatError("The message has no message id")
            return message
        except Exception as error:
            if not is_damage(error):
                raise
            rows = self.read(self.statements.message_ids, ids=[number])
            message_id = ":".join(map(str, rows[0])) if rows else "?"
            self.quarantine.add(container, message_id, f"row {number}", error)
            return None

    def note(self, producer: str, sequence: int, broker_sequence: int) -> None:
        """Record the sequence numbers of a stored message."""
        self.last_broker_sequence_id = max(self.last_broker_sequence_id, broker_sequence)
        known = self._sequences.pop(producer, -1)
        self._sequences[producer] = max(known, sequence)
        if len(self._sequences) > self.settings.max_producers_to_audit:
            self._sequences.popitem(last=False)

    # -- the whole store

    async def checkpoint(self) -> None:
        """Write the queued units, and delete rows that are no longer needed."""
        self._clean_up()
        await self.writer.drain()

    async def delete_all_messages(self) -> None:
        """Make the next `start` empty all tables once it has the lock."""
        self._empty_first = True

    @property
    def size(self) -> int:
        """The size of SQLite's file in bytes; 0 for a database server, as in ActiveMQ."""
        file = self.database.file
        parts = () if file is None else (file, file.with_name(file.name + "-wal"))
        return sum(map(db.file_size, parts))

    def last_producer_sequence_id(self, producer_id: ProducerId) -> int:
        """Return the highest sequence number of a producer in memory or in the tables.

        (activemq-broker T27)
        """
        producer = str(producer_id)
        known = self._sequences.get(producer)
        if known is not None:
            return known
        kept = self.read(self.statements.producer_sequence, of_producer=producer)
        if kept:
            return int(kept[0][0])
        stored = self.read(self.statements.last_sequence, producer=producer)[0][0]
        return -1 if stored is None else int(stored)

    # -- in the background

    async def _clean_up_periodically(self) -> None:
        while True:
            await _clock.sleep(self.settings.cleanup_period)
            self._clean_up()

    def _clean_up(self) -> None:
        for topic in self._topics.values():
            self._clean_topic(topic)
        for store in self._by_container.values():
            first = store.first_duplicate_id()
            if first is not None:
                self.writer.submit((ops.TrimDuplicates(store.container, first - 1),))
        keep = self.settings.max_producers_to_audit
        self.writer.submit((ops.TrimProducers(keep),))

    def _clean_topic(self, topic: JDBCTopicMessageStore) -> None:
        limit = min(_MOST_CLEANED, self.settings.max_rows)
        operation = ops.CleanUp(topic.container, topic.prioritized, limit)
        self.writer.submit((operation,))

    async def _keep_lock(self) -> None:
        """Renew the lock periodically; stop the store if another broker may hold it."""
        held = True
        while held:
            await _clock.sleep(self.settings.lock_keep_alive_period)
            try:
                held = await _in_thread(self._locker.keep_alive)
            except db.DatabaseUnavailableException as error:
                raise db.LockLostException(f"it gives up its lock on the store: {error}") from error
        raise db.LockLostException("its lock is lost, another broker has taken over its store")

    def _correct_counts(self, outcome: ops.Outcome) -> None:
        """Correct the counts by an outcome that only the database can determine."""
        stores = self._by_container
        for container, count, size in outcome.counts:
            if container in stores:
                stores[container].adjust_counts(count, size)
        for key, count in outcome.pending:
            store = stores.get(key.container)
            if isinstance(store, JDBCTopicMessageStore):
                store.correct_subscription(
                    SubscriptionKey(key.client_id, key.subscription_name), count
                )
        for container, count in outcome.dropped:
            if container in stores:
                stores[container].drop_messages(count)
        for container, count in outcome.cleaned:
            store = stores.get(container)
            if isinstance(store, JDBCTopicMessageStore) and count >= _MOST_CLEANED:
                self._clean_topic(store)

    def _report(self, state: StoreState, error: Exception | None) -> None:
        """Report the writer's state as the state of the store; a lost lock is no failed store."""
        if isinstance(error, db.LockLostException) and self.settings.use_lock and self.on_lock_lost:
            self.on_lock_lost(str(error))
        elif self.on_state is not None:
            self.on_state(state, error)

    def _store_of(self, container: str) -> JDBCMessageStore:
        store = self._by_container.get(container)
        if store is not None:
            return store
        destination = parse_destination(container)
        if destination.is_topic:
            return self.topic_message_store(destination)
        return self.queue_message_store(destination)
