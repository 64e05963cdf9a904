"""Work on single messages: done at once, or kept by a transaction until it ends.

A piece of work is committed, or prepared and then committed or rolled back. Each step returns the
operations for the database and updates the overlay immediately, on the loop; `completed` reports
later whether the database has executed the operations. The states:

    event               Addition                 Removal, Acknowledgement
    created             not in the tables        visible
    prepare             row with an XID          hidden (overlay), XID in the tables
    commit              has its position, in     hidden from readers (overlay)
                        the overlay
    completed(None)     read from the table      removed from the table
    completed(error)    never existed            visible again
    rollback            row deleted              visible again

Stores are accessed through the protocols `WorkStore` and `SubscriptionStore`, so this module does
not depend on how they read.

The overlay of a destination: changes that its tables do not show yet.

The store serves readers on the loop while a thread writes to the database. A reader therefore takes
the tables' rows, skips those that the overlay lists as removed or invisible, and adds the overlay's
messages. An entry is deleted when the loop learns that its unit is committed. Until then a row may
be in both places, which is harmless because ids are unique.

    added      messages whose insertion is not committed, by id
    removed    ids whose deletion is not committed
    hidden     ids that a prepared transaction has acknowledged; visible again on rollback
    unshown    ids that are stored but not yet visible to readers (`mark_visible`), or quarantined
    frames     updated messages whose update is not committed

Operations that the overlay cannot represent (a purge, a removed subscription, a rollback) are
listed in `UNSETTLING`; readers write them out first.

Duplicate detection by message id, in a bounded window per producer.

(activemq-persistence J1 `enableAudit`)

State that the stores of one adapter share: the database, its writer, and the counters.

Ids are assigned on the loop, in the order in which units go to the database. A message therefore
has its position at once, and ids increase in commit order.

Open transactions: their work is kept in memory, and once prepared also in the tables.

A prepared message has a row with an XID and a provisional id. It gets the next id at the commit,
so that ids increase in commit order. (activemq-persistence J8)
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Final, NamedTuple, Protocol

from pyjms.errors import JMSException
from pyjms.jms.destination import Destination
from pyjms.jms.properties import DUPLICATE_ID_PROPERTY
from pyjms.wire.kahadb.errors import KahaDBFormatError
from pyjms.wire.kahadb.frames import decode_message, encode_message
from pyjms.wire.limits import MAX_PROPERTY_VALUES
from pyjms.wire.openwire.commands import ActiveMQMessage, MessageId, TransactionId, XATransactionId
from pyjms.wire.openwire.primitives import decode_map
from pyjms.wire.sequence_window import SequenceWindow
from pyjms_broker.api.completion import COMPLETED, Completion
from pyjms_broker.api.message import Position, SubscriptionKey
from pyjms_broker.store.api import RecoveredTransaction, StoredSubscription
from pyjms_broker.store.damage import Quarantine, is_damage
from pyjms_broker.store.jdbc.database import Database
from pyjms_broker.store.jdbc.operations import (
    UNSETTLING,
    AcknowledgeMessage,
    AddMessage,
    CommitAcknowledgement,
    CommitAdd,
    Operation,
    PrepareAcknowledgement,
    PrepareAdd,
    PrepareRemove,
    RemoveMessage,
    RemoveTopicMessage,
    RollbackAcknowledgement,
    RollbackAdd,
    RollbackRemove,
    Unit,
)
from pyjms_broker.store.jdbc.schema import Statements, base_of, encode_xid
from pyjms_broker.store.jdbc.settings import JDBCSettings

__all__ = [
    "Acknowledgement",
    "Addition",
    "JDBCTransactionStore",
    "MessageAudit",
    "Overlay",
    "Removal",
    "StoreContext",
    "StoredDestination",
    "Subscriber",
    "SubscriptionStore",
    "Work",
    "WorkQueue",
    "WorkStore",
    "duplicate_id",
    "split_id",
]


class Overlay:
    """The uncommitted changes of one destination."""

    def __init__(self) -> None:
        self.added: dict[int, AddMessage] = {}
        self.removed: set[int] = set()
        self.hidden: set[int] = set()
        """Acknowledged in a prepared transaction."""
        self.unshown: set[int] = set()
        """Added but not visible yet, whether or not in the table; or damaged and quarantined."""
        self.frames: dict[int, bytes] = {}
        """Updated messages."""
        self._ids: dict[tuple[str, int], int] = {}
        self._order: list[int] = []

    def add(self, message: AddMessage) -> None:
        """Add a message whose id is higher than all earlier ones."""
        self.added[message.id] = message
        self.unshown.add(message.id)
        self._ids[message.producer, message.sequence] = message.id
        self._order.append(message.id)

    def forget_added(self, message_id: int) -> None:
        """Drop a message that is now in the table, or never will be."""
        message = self.added.pop(message_id, None)
        if message is not None:
            key = (message.producer, message.sequence)
            if self._ids.get(key) == message_id:
                del self._ids[key]
            if len(self._order) > 64 + 2 * len(self.added):
                self._order = list(self.added)

    def remove(self, message_id: int) -> None:
        """Hide a message from all readers."""
        self.removed.add(message_id)
        self.unshown.discard(message_id)
        self.forget_added(message_id)

    def clear(self) -> None:
        """Drop all messages."""
        self.added.clear()
        self.unshown.clear()
        self.frames.clear()
        self._ids.clear()
        self._order.clear()

    def find(self, producer: str, sequence: int) -> AddMessage | None:
        """Return the message with an id; None if the overlay does not have it."""
        message_id = self._ids.get((producer, sequence))
        return None if message_id is None else self.added.get(message_id)

    def is_visible(self, message_id: int) -> bool:
        """Return whether readers may see the message, if it is stored."""
        return not (
            message_id in self.removed or message_id in self.unshown or message_id in self.hidden
        )

    def after(self, message_id: int) -> Iterator[AddMessage]:
        """Yield the messages after an id, in order."""
        order = self._order
        for index in range(bisect_right(order, message_id), len(order)):
            message = self.added.get(order[index])
            if message is not None:
                yield message


class MessageAudit:
    """Remembers the last `depth` sequence numbers of each of the last `producers` producers."""

    def __init__(self, depth: int, producers: int) -> None:
        self._depth = depth
        self._maximum_producers = producers
        self._windows: OrderedDict[tuple[str, str], SequenceWindow] = OrderedDict()

    def seen(self, container: str, producer: str, sequence: int) -> bool:
        """Record a message id; return whether it was recorded before.

        An id from before the window counts as new.
        """
        key = (container, producer)
        windows = self._windows
        window = windows.get(key)
        if window is not None:
            windows.move_to_end(key)
            return window.add(sequence)
        windows[key] = SequenceWindow(sequence, self._depth)
        if len(windows) > self._maximum_producers:
            windows.popitem(last=False)
        return False

    def forget(self, container: str, producer: str, sequence: int) -> None:
        """Withdraw a message id, since the message was not stored."""
        window = self._windows.get((container, producer))
        if window is not None:
            window.remove(sequence)


_DUPLICATE_ID_BYTES: Final = DUPLICATE_ID_PROPERTY.encode()


class UnitWriter(Protocol):
    """Writes units: to the database, or to a journal in front of it."""

    def submit(self, unit: Unit) -> Completion:
        """Queue a unit after all earlier ones; the completion is done when it is durable."""

    def settle(self) -> None:
        """Write all queued units to the database now, blocking the loop.

        Raises:
            JMSException: the database has failed.
        """

    def check(self) -> None:
        """Raise if the tables cannot be read.

        Raises:
            JMSException: the database has failed.
        """


class StoredDestination(NamedTuple):
    """The arguments for the creation of a message store."""

    destination: Destination
    prioritized: bool
    base: int
    """The ID before that of the destination's first message."""
    epoch: int


class StoreContext:
    """The state that the stores of one adapter share. Used on the loop only."""

    def __init__(self, database: Database, settings: JDBCSettings) -> None:
        self.database = database
        self.settings = settings
        self.writer: UnitWriter
        self.last_broker_sequence_id = 0
        self.last_destination = 0
        self.last_prepared_id = 0
        self.quarantine = Quarantine()
        self.audit = (
            MessageAudit(settings.max_audit_depth, settings.max_producers_to_audit)
            if settings.enable_audit
            else None
        )
        self._unsettled: Counter[str] = Counter()
        self._sequences: OrderedDict[str, int] = OrderedDict()

    @property
    def statements(self) -> Statements:
        return self.database.statements

    def next_base(self) -> int:
        """Return the ID before the first one of a new destination."""
        self.last_destination += 1
        return base_of(self.last_destination)

    def next_prepared_id(self) -> int:
        """Return an ID for a row whose transaction is not committed yet."""
        self.last_prepared_id += 1
        return self.last_prepared_id

    def submit(
        self,
        operations: Sequence[Operation],
        done: Callable[[Exception | None], None],
        size: int = 0,
    ) -> Completion:
        """Queue operations that are executed together.

        Some operations change a container's tables in ways that its overlay does not reflect.
        While one is queued, readers of the container first write out the queue (`settle`).
        """
        unsettled = [op.container for op in operations if isinstance(op, UNSETTLING)]
        if not unsettled:
            return self.writer.submit(Unit(operations, done, size))
        self._unsettled.update(unsettled)

        def completed(error: Exception | None) -> None:
            self._unsettled.subtract(unsettled)
            self._unsettled = +self._unsettled
            done(error)

        return self.writer.submit(Unit(operations, completed, size))

    def settle(self, container: str) -> None:
        """Write out queued operations that the container's overlay cannot represent.

        Raises:
            JMSException: the database has failed.
        """
        if container in self._unsettled:
            self.writer.settle()

    def read(self, statement: Any, **parameters: object) -> Sequence[Any]:
        """Return the rows of a query.

        Raises:
            JMSException: the database has failed.
        """
        self.writer.check()
        return self.database.read(statement, **parameters)

    def decode(self, container: str, number: int, frame: bytes) -> ActiveMQMessage | None:
        """Return the message of a row; None: it is damaged, and quarantined from now on."""
        try:
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

    def last_sequence(self, producer: str) -> int:
        """Return the highest sequence number of a producer in memory or in the tables.

        (activemq-broker T27)
        """
        known = self._sequences.get(producer)
        if known is not None:
            return known
        kept = self.read(self.statements.producer_sequence, of_producer=producer)
        if kept:
            return int(kept[0][0])
        stored = self.read(self.statements.last_sequence, producer=producer)[0][0]
        return -1 if stored is None else int(stored)


def split_id(message_id: MessageId) -> tuple[str, int]:
    """Return MSGID_PROD and MSGID_SEQ of a message id."""
    if message_id.producer_id is None:
        return str(message_id), message_id.producer_sequence_id
    return str(message_id.producer_id), message_id.producer_sequence_id


def duplicate_id(marshalled_properties: bytes | None) -> str | None:
    """Return the duplicate id (`_AMQ_DUPL_ID`) of a message; None: it has none."""
    if marshalled_properties is None or _DUPLICATE_ID_BYTES not in marshalled_properties:
        return None
    value = dict(decode_map(marshalled_properties, MAX_PROPERTY_VALUES)).get(DUPLICATE_ID_PROPERTY)
    return None if value is None else str(value)


class Work(Protocol):
    """A piece of work on one message."""

    @property
    def size(self) -> int:
        """The memory that it occupies, in bytes."""

    def prepare(self, xid: XATransactionId) -> Sequence[Operation]:
        """Return the operations that make the work durable while it stays invisible."""

    def commit(self) -> Sequence[Operation]:
        """Make the work visible to readers; return the operations for the database."""

    def rollback(self) -> Sequence[Operation]:
        """Return the operations that undo prepared work."""

    def completed(self, error: Exception | None) -> None:
        """Handle the result of the operations of `commit`: executed, or failed with `error`."""


class WorkQueue(Protocol):
    """Keeps the work of open transactions."""

    def add(self, xid: TransactionId, work: Work) -> None:
        """Keep a piece of work until the transaction ends."""


class WorkStore(Protocol):
    """The part of a destination's store that work uses."""

    context: StoreContext
    container: str
    destination: Destination
    overlay: Overlay
    prioritized: bool
    is_removed: bool

    @property
    def subscribers(self) -> int:
        """The number of durable subscriptions that get a message added now."""

    @property
    def keeps_messages(self) -> bool:
        """Whether a message added now will ever be read."""

    def contains(self, message_id: MessageId, duplicate_id: str | None) -> bool:
        """Return whether a message is stored already, by its id or its duplicate id."""

    def next_id(self) -> int:
        """Return the ID of the next message."""

    def position(self, message: AddMessage) -> Position:
        """Return the position of a message in the order of delivery."""

    def add(self, message: AddMessage) -> None:
        """Add a message with an assigned ID to the overlay, so that readers find it."""

    def add_skipped(self, message: AddMessage) -> None:
        """Record the sequence numbers of a message that is not kept."""

    def add_completed(self, message: AddMessage, error: Exception | None) -> None:
        """Handle the result of an insertion: the row exists, or the message could not be stored."""

    def remove(self, message_id: int, size: int) -> bool:
        """Hide a message from readers; False: it was removed already."""

    def remove_completed(self, message_id: int, size: int, error: Exception | None) -> None:
        """Handle the result of a deletion: the row is deleted, or `error` says why it is not."""


class Subscriber:
    """A durable subscription, and its changes that are not in the tables yet."""

    def __init__(self, subscription: StoredSubscription, count: int, start: int) -> None:
        self.stored = subscription
        self.count = count
        self.start = start
        """Messages up to this ID were added before the subscription."""
        self.acknowledged: set[int] = set()
        """Acknowledgements that are not in the table yet."""
        self.hidden: set[int] = set()
        """Acknowledged in a prepared transaction."""


class SubscriptionStore(WorkStore, Protocol):
    """The part of a topic's store that acknowledgements use."""

    def hide(self, key: SubscriptionKey, message_id: int) -> None:
        """Hide a message that a prepared transaction has acknowledged."""

    def unhide(self, key: SubscriptionKey, message_id: int) -> None:
        """Make the message visible again, since the transaction was rolled back."""

    def acknowledged(self, key: SubscriptionKey, message_id: int) -> Subscriber | None:
        """Hide a message from a subscription, which is returned; None if it was not pending."""

    def acknowledge_completed(
        self, subscriber: Subscriber, message_id: int, error: Exception | None
    ) -> None:
        """Handle the result of an acknowledgement: it is in the tables, or could not be stored."""


class Addition:
    """The addition of a message."""

    def __init__(
        self,
        store: WorkStore,
        message: ActiveMQMessage,
        message_id: MessageId,
        size: int,
        on_position: Callable[[Position], None],
        prepared_id: int | None = None,
    ) -> None:
        self._store = store
        self._on_position = on_position
        self._prepared_id = prepared_id
        self._added: AddMessage | None = None
        self._position: Position | None = None
        producer, sequence = split_id(message_id)
        self._frame = encode_message(message)
        self.message_id = message_id
        self._priority = message.priority
        self._expiration = message.expiration
        self._producer = producer
        self._sequence = sequence
        self._message_size = size
        self._duplicate_id = duplicate_id(message.marshalled_properties)

    @property
    def size(self) -> int:
        return len(self._frame)

    @property
    def position(self) -> Position | None:
        """The position of the message; None before the commit, or if it was dropped."""
        return self._position

    @property
    def destination(self) -> Destination:
        return self._store.destination

    def prepare(self, xid: XATransactionId) -> Sequence[Operation]:
        if self._store.is_removed:
            return ()
        message = self._make(self._store.context.next_prepared_id())
        self._prepared_id = message.id
        return (PrepareAdd(message, encode_xid(xid, added=True)),)

    def commit(self) -> Sequence[Operation]:
        self._added = self._position = None
        store = self._store
        if store.is_removed or store.contains(self.message_id, self._duplicate_id):
            return self.rollback()
        if not store.keeps_messages:
            store.add_skipped(self._make(0))
            self._set_position(Position(0, 0))
            return self.rollback()
        message = self._make(store.next_id())
        self._added = message
        self._set_position(store.position(message))
        store.add(message)
        if self._prepared_id is None:
            return (message,)
        row = self._make(message.id, b"")  # the frame is in the table already
        return (CommitAdd(self._prepared_id, row),)

    def rollback(self) -> Sequence[Operation]:
        return () if self._prepared_id is None else (RollbackAdd(self._prepared_id),)

    def completed(self, error: Exception | None) -> None:
        if self._added is not None:
            self._store.add_completed(self._added, error)

    def _set_position(self, position: Position) -> None:
        self._position = position
        self._on_position(position)

    def _make(self, message_id: int, frame: bytes | None = None) -> AddMessage:
        return AddMessage(
            container=self._store.container,
            id=message_id,
            producer=self._producer,
            sequence=self._sequence,
            expiration=self._expiration,
            priority=self._priority,
            size=self._message_size,
            broker_sequence=self.message_id.broker_sequence_id,
            subscribers=self._store.subscribers,
            duplicate_id=self._duplicate_id,
            frame=self._frame if frame is None else frame,
        )


class Removal:
    """The removal of a message."""

    size = 64

    def __init__(self, store: WorkStore, message_id: int, size: int) -> None:
        self._store = store
        self._id = message_id
        self._message_size = size
        self._removed = False

    def prepare(self, xid: XATransactionId) -> Sequence[Operation]:
        if self._store.is_removed:
            return ()
        self._store.overlay.hidden.add(self._id)
        text = encode_xid(xid, added=False)
        return (PrepareRemove(self._store.container, self._id, text),)

    def commit(self) -> Sequence[Operation]:
        store = self._store
        self._removed = not store.is_removed and store.remove(self._id, self._message_size)
        if not self._removed:
            return ()
        if store.destination.is_topic:
            return (
                RemoveTopicMessage(
                    store.container, self._id, self._message_size, store.prioritized
                ),
            )
        return (RemoveMessage(store.container, self._id, self._message_size),)

    def rollback(self) -> Sequence[Operation]:
        self._store.overlay.hidden.discard(self._id)
        return (RollbackRemove(self._store.container, self._id),)

    def completed(self, error: Exception | None) -> None:
        if self._removed:
            self._store.remove_completed(self._id, self._message_size, error)


@dataclass(slots=True, eq=False, repr=False)
class Acknowledgement:
    """The acknowledgement of a message by a durable subscription."""

    store: SubscriptionStore
    key: SubscriptionKey
    id: int
    priority: int
    message_size: int
    prepared: bool = field(default=False, kw_only=True)
    _subscriber: Subscriber | None = field(default=None, init=False)

    size: ClassVar[int] = 64

    def prepare(self, xid: XATransactionId) -> Sequence[Operation]:
        if self.store.is_removed:
            return ()
        self.prepared = True
        self.store.hide(self.key, self.id)
        text = encode_xid(xid, added=False)
        return (PrepareAcknowledgement(self._operation(), text),)

    def commit(self) -> Sequence[Operation]:
        self._subscriber = None
        if self.store.is_removed:
            return ()
        self._subscriber = self.store.acknowledged(self.key, self.id)
        if self.prepared:
            return (CommitAcknowledgement(self._operation()),)
        return () if self._subscriber is None else (self._operation(),)

    def rollback(self) -> Sequence[Operation]:
        self.store.unhide(self.key, self.id)
        return (RollbackAcknowledgement(self._operation()),)

    def completed(self, error: Exception | None) -> None:
        if self._subscriber is not None:
            self.store.acknowledge_completed(self._subscriber, self.id, error)

    def _operation(self) -> AcknowledgeMessage:
        return AcknowledgeMessage(
            container=self.store.container,
            client_id=self.key.client_id,
            subscription_name=self.key.subscription_name,
            id=self.id,
            priority=self.priority,
            size=self.message_size,
            prioritized=self.store.prioritized,
        )


class _Transaction:
    def __init__(self, *, recovered: bool = False) -> None:
        self.works: list[Work] = []
        self.prepared = recovered
        self.recovered = recovered


class JDBCTransactionStore:
    """The transactions of one adapter. (ActiveMQ: JdbcMemoryTransactionStore)"""

    def __init__(self) -> None:
        self._open: dict[TransactionId, _Transaction] = {}
        self._recovered: list[RecoveredTransaction] = []
        self._positions: dict[tuple[Destination, MessageId], Position] = {}
        self._context: StoreContext

    def open(self, context: StoreContext) -> None:
        """Start without transactions."""
        self._context = context
        self._open.clear()
        self._recovered.clear()
        self._positions.clear()

    def add(self, xid: TransactionId, work: Work) -> None:
        """Keep a piece of work until the transaction ends."""
        transaction = self._open.get(xid)
        if transaction is None:
            transaction = self._open[xid] = _Transaction()
        transaction.works.append(work)

    def recover(self, transaction: RecoveredTransaction, works: list[Work]) -> None:
        """Add a prepared transaction that was found in the tables."""
        kept = self._open[transaction.xid] = _Transaction(recovered=True)
        kept.works = works
        self._recovered.append(transaction)

    def prepare(self, xid: TransactionId) -> Completion:
        transaction = self._open.get(xid)
        if transaction is None:
            return COMPLETED
        if not isinstance(xid, XATransactionId):
            raise JMSException(f"The local transaction {xid} cannot be prepared: only XA ones can")
        transaction.prepared = True
        operations = [op for work in transaction.works for op in work.prepare(xid)]
        size = sum(work.size for work in transaction.works)
        return self._context.submit(operations, lambda _: None, size)

    def commit(self, xid: TransactionId, prepared: bool) -> Completion:
        transaction = self._open.pop(xid, None)
        if transaction is None:
            return COMPLETED
        works = transaction.works
        operations = [op for work in works for op in work.commit()]
        if transaction.recovered:
            self._set_positions(works)

        def completed(error: Exception | None) -> None:
            for work in works:
                work.completed(error)
            if error is not None and transaction.prepared:
                self._open.setdefault(xid, transaction)  # its rows are still in the tables

        if not operations:
            completed(None)
        return self._context.submit(operations, completed, sum(work.size for work in works))

    def rollback(self, xid: TransactionId) -> Completion:
        transaction = self._open.pop(xid, None)
        if transaction is None or not transaction.prepared:
            return COMPLETED
        operations = [op for work in transaction.works for op in work.rollback()]

        def completed(error: Exception | None) -> None:
            if error is not None:
                self._open.setdefault(xid, transaction)

        return self._context.submit(operations, completed)

    def recovered(self) -> list[RecoveredTransaction]:
        return [found for found in self._recovered if found.xid in self._open]

    def position_of(self, destination: Destination, message_id: MessageId) -> Position | None:
        return self._positions.pop((destination, message_id), None)

    def _set_positions(self, works: list[Work]) -> None:
        additions = [work for work in works if isinstance(work, Addition)]
        for work in additions:  # the commit may have been tried before
            self._positions.pop((work.destination, work.message_id), None)
        for work in additions:
            if work.position is not None:
                self._positions[work.destination, work.message_id] = work.position
