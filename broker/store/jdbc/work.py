"""Pieces of work on messages: done at once, or held by a transaction until its end.

Each can be committed, which says what the database is to do and shows it to readers at once,
or first prepared, and then committed or rolled back. `done` says how the database took it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Protocol

from broker.api.message import Position, SubscriptionKey
from broker.store.jdbc.core import duplicate_id, split_id
from broker.store.jdbc.operations import (
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
from broker.store.jdbc.xids import encode_xid
from pyjms.wire.kahadb.frames import encode_message
from pyjms.wire.openwire.commands import ActiveMQMessage, MessageId, XATransactionId

if TYPE_CHECKING:
    from broker.store.jdbc.message_store import JDBCMessageStore
    from broker.store.jdbc.topic_store import JDBCTopicMessageStore, Subscriber

__all__ = ["Acknowledgement", "Addition", "Removal", "Work"]


class Work(Protocol):
    """One piece of work."""

    @property
    def size(self) -> int:
        """Bytes that it keeps in memory."""

    def prepare(self, xid: XATransactionId) -> Sequence[Operation]:
        """Return what makes the work safe and keeps it hidden."""

    def commit(self) -> Sequence[Operation]:
        """Show the work to readers; return what the database is to do."""

    def rollback(self) -> Sequence[Operation]:
        """Return what undoes a prepared piece of work."""

    def done(self, error: Exception | None) -> None:
        """The database did what `commit` said, or could not."""


class Addition:
    """A message comes."""

    def __init__(
        self,
        store: JDBCMessageStore,
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
        self._message_id = message_id
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
        """Where the message stands; None before the commit, and for what is dropped."""
        return self._position

    @property
    def message_id(self) -> MessageId:
        return self._message_id

    @property
    def store(self) -> JDBCMessageStore:
        return self._store

    def prepare(self, xid: XATransactionId) -> Sequence[Operation]:
        if self._store.is_removed:
            return ()
        message = self._make(self._store.core.next_prepared_id())
        self._prepared_id = message.id
        return (PrepareAdd(message, encode_xid(xid, added=True)),)

    def commit(self) -> Sequence[Operation]:
        self._added = self._position = None
        store = self._store
        if store.is_removed or store.has(self._message_id, self._duplicate_id):
            return self.rollback()
        if not store.is_wanted:
            store.pass_over(self._make(0))
            self._numbered(Position(0, 0))
            return self.rollback()
        message = self._make(store.next_id())
        self._added = message
        self._numbered(store.position(message))
        store.add(message)
        if self._prepared_id is None:
            return (message,)
        row = self._make(message.id, b"")  # the table has the frame
        return (CommitAdd(self._prepared_id, row),)

    def rollback(self) -> Sequence[Operation]:
        return () if self._prepared_id is None else (RollbackAdd(self._prepared_id),)

    def done(self, error: Exception | None) -> None:
        if self._added is not None:
            self._store.added(self._added, error)

    def _numbered(self, position: Position) -> None:
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
            broker_sequence=self._message_id.broker_sequence_id,
            subscribers=self._store.subscribers,
            duplicate_id=self._duplicate_id,
            frame=self._frame if frame is None else frame,
        )


class Removal:
    """A message goes."""

    size = 64

    def __init__(self, store: JDBCMessageStore, message_id: int, size: int) -> None:
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

    def done(self, error: Exception | None) -> None:
        if self._removed:
            self._store.removed(self._id, self._message_size, error)


class Acknowledgement:
    """A durable subscription is done with a message."""

    size = 64

    def __init__(
        self,
        store: JDBCTopicMessageStore,
        key: SubscriptionKey,
        message_id: int,
        priority: int,
        size: int,
        *,
        prepared: bool = False,
    ) -> None:
        self._store = store
        self._key = key
        self._id = message_id
        self._priority = priority
        self._message_size = size
        self._prepared = prepared
        self._subscriber: Subscriber | None = None

    def prepare(self, xid: XATransactionId) -> Sequence[Operation]:
        if self._store.is_removed:
            return ()
        self._prepared = True
        self._store.hide(self._key, self._id)
        text = encode_xid(xid, added=False)
        return (PrepareAcknowledgement(self._operation(), text),)

    def commit(self) -> Sequence[Operation]:
        self._subscriber = None
        if self._store.is_removed:
            return ()
        self._subscriber = self._store.acknowledged(self._key, self._id)
        if self._prepared:
            return (CommitAcknowledgement(self._operation()),)
        return () if self._subscriber is None else (self._operation(),)

    def rollback(self) -> Sequence[Operation]:
        self._store.unhide(self._key, self._id)
        return (RollbackAcknowledgement(self._operation()),)

    def done(self, error: Exception | None) -> None:
        if self._subscriber is not None:
            self._store.acknowledgement_done(self._subscriber, self._id, error)

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
