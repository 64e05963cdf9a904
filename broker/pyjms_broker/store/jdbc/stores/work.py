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
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import ClassVar, Protocol

from pyjms.jms.destination import Destination
from pyjms.wire.kahadb.frames import encode_message
from pyjms.wire.openwire.commands import (
    ActiveMQMessage,
    MessageId,
    TransactionId,
    XATransactionId,
)
from pyjms_broker.api.message import Position, SubscriptionKey
from pyjms_broker.store.api import StoredSubscription
from pyjms_broker.store.jdbc.execution.operations import (
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
from pyjms_broker.store.jdbc.schema.xids import encode_xid
from pyjms_broker.store.jdbc.stores.context import StoreContext, duplicate_id, split_id
from pyjms_broker.store.jdbc.stores.overlay import Overlay

__all__ = [
    "Acknowledgement",
    "Addition",
    "Removal",
    "Subscriber",
    "SubscriptionStore",
    "Work",
    "WorkQueue",
    "WorkStore",
]


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
