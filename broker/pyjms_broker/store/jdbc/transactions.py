"""Transactions of a JDBC store, and the work on single messages that they consist of.

A piece of work is done at once, or kept by a transaction until it ends: it is committed, or
prepared and then committed or rolled back. Each step returns the operations for the database and
updates the store's overlay immediately, on the loop; `complete` reports later whether the database
has executed the operations. The states:

    event               Addition                 Removal, Acknowledgement
    created             not in the tables        visible
    prepare             row with an XID          hidden (overlay), XID in the tables
    commit              has its position, in     hidden from readers (overlay)
                        the overlay
    complete(None)      read from the table      removed from the table
    complete(error)     never existed            visible again
    rollback            row deleted              visible again

A prepared message has a row with an XID and a provisional id. It gets the next id at the commit,
so that ids increase in commit order. (activemq-persistence J8)
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from pyjms.errors import JMSException
from pyjms.jms.destination import Destination
from pyjms.jms.message import DUPLICATE_ID_PROPERTY
from pyjms.wire.kahadb.frames import encode_message
from pyjms.wire.limits import MAX_PROPERTY_VALUES
from pyjms.wire.openwire.commands import ActiveMQMessage, MessageId, TransactionId, XATransactionId
from pyjms.wire.openwire.primitives import decode_map
from pyjms_broker.api.completion import COMPLETED, Completion
from pyjms_broker.api.message import MessageReference, Position, SubscriptionKey
from pyjms_broker.store.api import RecoveredTransaction
from pyjms_broker.store.jdbc.operations import (
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
)
from pyjms_broker.store.jdbc.schema import encode_xid
from pyjms_broker.store.jdbc.writer import Writer

if TYPE_CHECKING:
    from pyjms_broker.store.jdbc.stores import JDBCMessageStore, JDBCTopicMessageStore, Subscriber

_DUPLICATE_ID_BYTES: Final = DUPLICATE_ID_PROPERTY.encode()


class Work(ABC):
    """A piece of work on one message."""

    size = 64
    """The memory that it occupies, in bytes."""

    @abstractmethod
    def prepare(self, xid: XATransactionId) -> Sequence[Operation]:
        """Return the operations that make the work durable while it stays invisible."""

    @abstractmethod
    def commit(self) -> Sequence[Operation]:
        """Make the work visible to readers; return the operations for the database."""

    @abstractmethod
    def rollback(self) -> Sequence[Operation]:
        """Return the operations that undo prepared work."""

    @abstractmethod
    def complete(self, error: Exception | None) -> None:
        """Handle the result of the operations of `commit`: executed, or failed with `error`."""


class Addition(Work):
    """The addition of a message; `reference` is None if the transaction was recovered."""

    def __init__(
        self,
        store: JDBCMessageStore,
        message: ActiveMQMessage,
        message_id: MessageId,
        size: int,
        reference: MessageReference | None = None,
        prepared_id: int | None = None,
    ) -> None:
        self.store = store
        self.message_id = message_id
        self.position: Position | None = None
        """The position of the message; None before the commit, or if it was dropped."""
        self._reference = reference
        self._prepared_id = prepared_id
        self._added: AddMessage | None = None
        self._producer, self._sequence = split_id(message_id)
        self._frame = encode_message(message)
        self._priority = message.priority
        self._expiration = message.expiration
        self._message_size = size
        self._duplicate_id = _duplicate_id(message.marshalled_properties)
        self.size = len(self._frame)

    def prepare(self, xid: XATransactionId) -> Sequence[Operation]:
        if self.store.is_removed:
            return ()
        self._prepared_id = self.store.adapter.next_prepared_id()
        message = self._operation(self._prepared_id, self._frame)
        return (PrepareAdd(message, encode_xid(xid, added=True)),)

    def commit(self) -> Sequence[Operation]:
        self._added = self.position = None
        store = self.store
        if store.is_removed or store.contains(self.message_id, self._duplicate_id):
            return self.rollback()
        if not store.keeps_messages:
            store.note(self._operation(0, self._frame))
            self._set_position(Position(0, 0))
            return self.rollback()
        prepared_id, message_id = self._prepared_id, store.next_id()
        message = self._added = self._operation(message_id, self._frame)
        self._set_position(store.position_at(message_id, self._priority))
        store.add(message)
        if prepared_id is None:
            return (message,)
        # the frame is in the table already
        return (CommitAdd(prepared_id, self._operation(message_id, b"")),)

    def rollback(self) -> Sequence[Operation]:
        return () if self._prepared_id is None else (RollbackAdd(self._prepared_id),)

    def complete(self, error: Exception | None) -> None:
        if self._added is not None:
            self.store.complete_add(self._added, error)

    def _set_position(self, position: Position) -> None:
        self.position = position
        if self._reference is not None:
            self._reference.position = position

    def _operation(self, row_id: int, frame: bytes) -> AddMessage:
        return AddMessage(
            container=self.store.container,
            id=row_id,
            producer=self._producer,
            sequence=self._sequence,
            expiration=self._expiration,
            priority=self._priority,
            size=self._message_size,
            broker_sequence=self.message_id.broker_sequence_id,
            subscribers=self.store.subscribers,
            duplicate_id=self._duplicate_id,
            frame=frame,
        )


class Removal(Work):
    """The removal of a message."""

    def __init__(self, store: JDBCMessageStore, row_id: int, size: int) -> None:
        self._store = store
        self._id = row_id
        self._message_size = size
        self._removed = False

    def prepare(self, xid: XATransactionId) -> Sequence[Operation]:
        if self._store.is_removed:
            return ()
        self._store.overlay.hidden.add(self._id)
        text = encode_xid(xid, added=False)
        return (PrepareRemove(self._store.container, self._id, text),)

    def commit(self) -> Sequence[Operation]:
        store, row_id, size = self._store, self._id, self._message_size
        self._removed = not store.is_removed and store.remove(row_id, size)
        if not self._removed:
            return ()
        if store.destination.is_topic:
            return (RemoveTopicMessage(store.container, row_id, size, store.prioritized),)
        return (RemoveMessage(store.container, row_id, size),)

    def rollback(self) -> Sequence[Operation]:
        self._store.overlay.hidden.discard(self._id)
        return (RollbackRemove(self._store.container, self._id),)

    def complete(self, error: Exception | None) -> None:
        if self._removed:
            self._store.complete_remove(self._id, self._message_size, error)


class Acknowledgement(Work):
    """The acknowledgement of a message by a durable subscription."""

    def __init__(
        self,
        store: JDBCTopicMessageStore,
        key: SubscriptionKey,
        row_id: int,
        priority: int,
        size: int,
        *,
        prepared: bool = False,
    ) -> None:
        self._store = store
        self._key = key
        self._id = row_id
        self._priority = priority
        self._message_size = size
        self._prepared = prepared
        self._subscriber: Subscriber | None = None

    def prepare(self, xid: XATransactionId) -> Sequence[Operation]:
        if self._store.is_removed:
            return ()
        self._prepared = True
        subscriber = self._store.subscribers_by_key.get(self._key)
        if subscriber is not None:
            subscriber.hidden.add(self._id)
        return (PrepareAcknowledgement(self._operation(), encode_xid(xid, added=False)),)

    def commit(self) -> Sequence[Operation]:
        self._subscriber = None
        if self._store.is_removed:
            return ()
        self._subscriber = self._store.hide_acknowledged(self._key, self._id)
        if self._prepared:
            return (CommitAcknowledgement(self._operation()),)
        return () if self._subscriber is None else (self._operation(),)

    def rollback(self) -> Sequence[Operation]:
        subscriber = self._store.subscribers_by_key.get(self._key)
        if subscriber is not None:
            subscriber.hidden.discard(self._id)
        return (RollbackAcknowledgement(self._operation()),)

    def complete(self, error: Exception | None) -> None:
        if self._subscriber is not None:
            self._store.complete_acknowledge(self._subscriber, self._id, error)

    def _operation(self) -> AcknowledgeMessage:
        return AcknowledgeMessage(
            container=self._store.container,
            client_id=self._key.client_id,
            subscription_name=self._key.subscription_name,
            id=self._id,
            priority=self._priority,
            size=self._message_size,
            prioritized=self._store.prioritized,
        )


class _Transaction:
    def __init__(self, works: list[Work] | None = None) -> None:
        self.works = works or []
        self.recovered = self.prepared = works is not None


class JDBCTransactionStore:
    """The transactions of one adapter. (ActiveMQ: JdbcMemoryTransactionStore)"""

    def __init__(self) -> None:
        self._open: dict[TransactionId, _Transaction] = {}
        self._recovered: list[RecoveredTransaction] = []
        self._positions: dict[tuple[Destination, MessageId], Position] = {}
        self._writer: Writer

    def open(self, writer: Writer) -> None:
        """Start without transactions."""
        self._writer = writer
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
        self._open[transaction.xid] = _Transaction(works)
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
        return self._writer.submit(operations, size=size)

    def commit(self, xid: TransactionId, prepared: bool) -> Completion:
        transaction = self._open.pop(xid, None)
        if transaction is None:
            return COMPLETED
        works = transaction.works
        operations = [op for work in works for op in work.commit()]
        if transaction.recovered:
            self._set_positions(works)

        def complete(error: Exception | None) -> None:
            for work in works:
                work.complete(error)
            if error is not None and transaction.prepared:
                self._open.setdefault(xid, transaction)  # its rows are still in the tables

        if not operations:
            complete(None)
        return self._writer.submit(operations, complete, sum(work.size for work in works))

    def rollback(self, xid: TransactionId) -> Completion:
        transaction = self._open.pop(xid, None)
        if transaction is None or not transaction.prepared:
            return COMPLETED
        operations = [op for work in transaction.works for op in work.rollback()]

        def complete(error: Exception | None) -> None:
            if error is not None:
                self._open.setdefault(xid, transaction)

        return self._writer.submit(operations, complete)

    def recovered(self) -> list[RecoveredTransaction]:
        return [found for found in self._recovered if found.xid in self._open]

    def position_of(self, destination: Destination, message_id: MessageId) -> Position | None:
        return self._positions.pop((destination, message_id), None)

    def _set_positions(self, works: list[Work]) -> None:
        additions = [work for work in works if isinstance(work, Addition)]
        for work in additions:  # the commit may have been tried before
            self._positions.pop((work.store.destination, work.message_id), None)
        for work in additions:
            if work.position is not None:
                self._positions[work.store.destination, work.message_id] = work.position


def split_id(message_id: MessageId) -> tuple[str, int]:
    """Return MSGID_PROD and MSGID_SEQ of a message id."""
    if message_id.producer_id is None:
        return str(message_id), message_id.producer_sequence_id
    return str(message_id.producer_id), message_id.producer_sequence_id


def _duplicate_id(marshalled_properties: bytes | None) -> str | None:
    """Return the duplicate id (`_AMQ_DUPL_ID`) of a message; None: it has none."""
    if marshalled_properties is None or _DUPLICATE_ID_BYTES not in marshalled_properties:
        return None
    value = dict(decode_map(marshalled_properties, MAX_PROPERTY_VALUES)).get(DUPLICATE_ID_PROPERTY)
    return None if value is None else str(value)
