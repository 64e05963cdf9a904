"""The stores of queues and topics, on the loop.

The loop serves readers while a thread writes to the database, so the tables lag behind. A store
therefore has an overlay: the changes that its tables do not show yet. A reader takes the tables'
rows, skips those that the overlay lists as removed or invisible, and adds the overlay's messages.
An entry is deleted when the loop learns that its unit is committed. Until then a row may be in both
places, which is harmless because ids are unique.

    added      messages whose insertion is not committed, by id
    removed    ids whose deletion is not committed
    hidden     ids that a prepared transaction has acknowledged; visible again on rollback
    unshown    ids that are stored but not yet visible to readers (`mark_visible`), or quarantined
    frames     updated messages whose update is not committed

Operations that the overlay cannot represent (a purge, a removed subscription, a rollback) are
listed in `UNSETTLING`; readers write them out first. (activemq-persistence J3, J5)

Work. What is done to one message is a piece of work. It is done at once, or kept by a transaction
until that ends: it is committed, or prepared and then committed or rolled back. Each step returns
the operations for the database and updates the store's overlay immediately, on the loop; `complete`
reports later whether the database has executed the operations. The states:

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
from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from pyjms.errors import JMSException
from pyjms.jms.destination import Destination
from pyjms.wire.kahadb.frames import encode_message
from pyjms.wire.openwire.commands import ActiveMQMessage, MessageId, TransactionId, XATransactionId
from pyjms_broker.api.completion import COMPLETED, Completion
from pyjms_broker.api.message import (
    MessageReference,
    OperationContext,
    Position,
    Positions,
    StoredMessage,
    SubscriptionKey,
    duplicate_id_of,
)
from pyjms_broker.store.api import RecoveredTransaction, StoredSubscription
from pyjms_broker.store.jdbc import operations as ops
from pyjms_broker.store.jdbc.schema import encode_xid
from pyjms_broker.store.jdbc.writer import Writer

if TYPE_CHECKING:
    from pyjms_broker.store.jdbc.adapter import JDBCPersistenceAdapter

_SMALLEST_PAGE: Final = 100
_HIGHEST_PRIORITY: Final = 9


class _Overlay:
    """The uncommitted changes of one destination."""

    def __init__(self) -> None:
        self.added: dict[int, ops.AddMessage] = {}
        self.removed: set[int] = set()
        self.hidden: set[int] = set()
        """Acknowledged in a prepared transaction."""
        self.unshown: set[int] = set()
        """Added but not visible yet, whether or not in the table; or damaged and quarantined."""
        self.frames: dict[int, bytes] = {}
        """Updated messages."""
        self._ids: dict[tuple[str, int], int] = {}
        self._order: list[int] = []

    def add(self, message: ops.AddMessage) -> None:
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

    def find(self, producer: str, sequence: int) -> ops.AddMessage | None:
        """Return the message with an id; None if the overlay does not have it."""
        message_id = self._ids.get((producer, sequence))
        return None if message_id is None else self.added.get(message_id)

    def is_visible(self, message_id: int) -> bool:
        """Return whether readers may see the message, if it is stored."""
        return not (
            message_id in self.removed or message_id in self.unshown or message_id in self.hidden
        )

    def after(self, message_id: int) -> Iterator[ops.AddMessage]:
        """Yield the messages after an id, in order."""
        order = self._order
        for index in range(bisect_right(order, message_id), len(order)):
            message = self.added.get(order[index])
            if message is not None:
                yield message


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


class _PageQuery(NamedTuple):
    """The messages that a page may contain."""

    statement: Any
    parameters: dict[str, object]
    skip: Positions
    visible: Callable[[int], bool]


class JDBCMessageStore:
    """The messages of one destination. (ActiveMQ: JDBCMessageStore)"""

    def __init__(
        self,
        adapter: JDBCPersistenceAdapter,
        destination: Destination,
        prioritized: bool,
        base: int,
        epoch: int,
    ) -> None:
        """Create an empty store; `base` is the ID before that of the first message."""
        self.adapter = adapter
        self.destination = destination
        self.prioritized = prioritized
        self.base = base
        self.epoch = epoch
        self.container = self.destination.qualified_name
        self.overlay = _Overlay()
        self._count = 0
        self._size = 0
        self.last_id = self.base
        self._sequences: OrderedDict[str, int] = OrderedDict()
        self._duplicates: OrderedDict[str, int] | None = None
        self.is_removed = False
        """Whether the destination was removed, so that this store ignores messages."""

    def load(self, count: int, size: int, last_id: int) -> None:
        """Set the counts that were read from the tables."""
        self._count, self._size, self.last_id = count, size, last_id

    # -- the interface of the broker

    def add_message(self, context: OperationContext, reference: MessageReference) -> Completion:
        reference.position = None
        message, message_id = reference.message, reference.message_id
        work = Addition(self, message, message_id, reference.size, reference)
        answer = self._do(context, work)
        if answer is COMPLETED and context.xid is None and reference.position is None:
            # a duplicate: done when the stored message is durable
            return self.adapter.writer.submit(())
        return answer

    def mark_visible(self, reference: MessageReference) -> None:
        if reference.position is not None:
            self.overlay.unshown.discard(self.id_at(reference.position))

    def remove_message(self, context: OperationContext, reference: MessageReference) -> Completion:
        position = reference.position or self._find(reference.message_id)
        if position is None:
            return COMPLETED
        return self._do(context, Removal(self, self.id_at(position), reference.size))

    def update_message(self, reference: MessageReference) -> Completion:
        position = self._find(reference.message_id)
        if position is None:
            return COMPLETED
        frame = encode_message(reference.message)
        number = self.id_at(position)
        frames = self.overlay.frames
        frames[number] = frame

        def complete(_: Exception | None) -> None:
            if frames.get(number) is frame:
                del frames[number]

        operation = ops.UpdateMessage(self.container, number, reference.message.expiration, frame)
        return self.adapter.writer.submit((operation,), complete, len(frame))

    def get_message(self, message_id: MessageId) -> StoredMessage | None:
        position = self._find(message_id)
        return None if position is None else next(iter(self._load([position])), None)

    def next_messages(
        self, after: Position | None, limit: int, skip: Positions = ()
    ) -> list[StoredMessage]:
        self._settle()
        query = _PageQuery(self._page_statement, {}, skip, self.overlay.is_visible)
        return self._page(query, after, limit)

    def remove_all_messages(self, context: OperationContext) -> Completion:
        before = self._count, self._size
        self._count = self._size = 0
        self.overlay.clear()

        def complete(error: Exception | None) -> None:
            if error is not None:
                self.adjust_counts(*before)

        return self.adapter.writer.submit((ops.RemoveAll(self.container, self.last_id),), complete)

    @property
    def message_count(self) -> int:
        return self._count

    @property
    def message_size(self) -> int:
        return self._size

    @property
    def last_arrival(self) -> int:
        return self.last_id - self.base

    # -- for work (see `transactions`)

    @property
    def subscribers(self) -> int:
        """The number of durable subscriptions that get a message added now."""
        return 0

    def contains(self, message_id: MessageId, duplicate_id: str | None) -> bool:
        """Return whether a message is stored already, by its id or its duplicate id.

        (activemq-persistence S6)
        """
        producer, sequence = split_id(message_id)
        if self._has_id(message_id, producer, sequence):
            return True
        audit = self.adapter.audit
        if audit is not None and audit.add((self.container, producer), sequence):
            return True
        return duplicate_id is not None and duplicate_id in self._duplicate_ids()

    def add(self, message: ops.AddMessage) -> None:
        """Add a message with an assigned ID to the overlay, so that readers find it."""
        self._count += 1
        self._size += message.size
        self.overlay.add(message)
        if message.duplicate_id is not None:
            duplicates = self._duplicate_ids()
            duplicates[message.duplicate_id] = message.id
            if len(duplicates) > self.adapter.settings.duplicate_id_window:
                duplicates.popitem(last=False)

    def complete_add(self, message: ops.AddMessage, error: Exception | None) -> None:
        """Handle the result of an insertion: the row exists, or the message could not be stored."""
        if error is None:
            self.overlay.forget_added(message.id)
            return
        self.adjust_counts(-1, -message.size)
        self.overlay.forget_added(message.id)
        self.overlay.unshown.discard(message.id)
        if message.duplicate_id is not None:
            self._duplicate_ids().pop(message.duplicate_id, None)
        if self.adapter.audit is not None:
            self.adapter.audit.remove((self.container, message.producer), message.sequence)

    def remove(self, message_id: int, size: int) -> bool:
        """Hide a message from readers; False: it was removed already."""
        if message_id in self.overlay.removed:
            return False
        self.overlay.remove(message_id)
        self._count -= 1
        self._size -= size
        return True

    def complete_remove(self, message_id: int, size: int, error: Exception | None) -> None:
        """Handle the result of a deletion: the row is deleted, or `error` says why it is not."""
        self.overlay.removed.discard(message_id)
        self.overlay.hidden.discard(message_id)
        if error is not None:
            self.adjust_counts(1, size)

    def adjust_counts(self, count: int, size: int) -> None:
        """Add corrections that the database has reported to the counts."""
        self._count = max(0, self._count + count)
        self._size = max(0, self._size + size) if self._count else 0

    def drop_messages(self, count: int) -> None:
        """Subtract a number of messages and the corresponding share of the size."""
        self.adjust_counts(-count, -(self._size * count // self._count if self._count else 0))

    # -- internals

    def _do(self, context: OperationContext, work: Work) -> Completion:
        if context.xid is not None:
            self.adapter.transaction_store().add(context.xid, work)
            return COMPLETED
        operations = work.commit()
        if not operations:
            return COMPLETED
        return self.adapter.writer.submit(operations, work.complete, work.size)

    def position_at(self, message_id: int, priority: int) -> Position:
        """Return the position of the message with an ID."""
        level = _HIGHEST_PRIORITY - priority if self.prioritized else 0
        return Position(level, message_id - self.base)

    def id_at(self, position: Position) -> int:
        """Return the ID of the message at a position."""
        return self.base + position.arrival

    def _has_id(self, message_id: MessageId, producer: str, sequence: int) -> bool:
        """Look the id up in the table only if the producer's sequence numbers do not increase."""
        known = self._sequences.pop(producer, None)
        if known is None:
            self._settle()
            statement = self.adapter.statements.last_sequence_in_container
            stored = self.adapter.read(statement, producer=producer, at=self.container)[0][0]
            known = -1 if stored is None else stored
        self._sequences[producer] = max(known, sequence)
        if len(self._sequences) > self.adapter.settings.max_producers_to_audit:
            self._sequences.popitem(last=False)
        if self.overlay.find(producer, sequence) is not None:
            return True
        return sequence <= known and self._find(message_id) is not None

    def _duplicate_ids(self) -> OrderedDict[str, int]:
        """Return the window of duplicate ids, loading it on first use."""
        duplicates = self._duplicates
        if duplicates is None:
            adapter = self.adapter
            limit = adapter.settings.duplicate_id_window
            rows = adapter.read(adapter.statements.duplicates, at=self.container, limit=limit)
            duplicates = OrderedDict((text, number) for number, text in reversed(rows))
            self._duplicates = duplicates
        return duplicates

    def first_duplicate_id(self) -> int | None:
        """Return the ID of the first message in the window of duplicate ids; None: it is empty."""
        if not self._duplicates:
            return None
        return next(iter(self._duplicates.values()))

    def _find(self, message_id: MessageId) -> Position | None:
        """Return the position of a message, visible or not; None if it does not exist."""
        producer, sequence = split_id(message_id)
        unwritten = self.overlay.find(producer, sequence)
        if unwritten is not None:
            return self.position_at(unwritten.id, unwritten.priority)
        self._settle()
        rows = self.adapter.read(
            self._find_statement, producer=producer, sequence=sequence, at=self.container
        )
        invisible = self.overlay.removed | self.overlay.hidden
        for number, priority in rows:
            if number not in invisible:
                return self.position_at(number, priority)
        return None

    def _settle(self) -> None:
        """Make the tables readable."""
        self.adapter.writer.settle_container(self.container)

    @property
    def _page_statement(self) -> Any:
        return self.adapter.statements.queue_page[self.prioritized]

    @property
    def _find_statement(self) -> Any:
        return self.adapter.statements.find_message

    def _page(self, query: _PageQuery, after: Position | None, limit: int) -> list[StoredMessage]:
        """Return the messages of a page; reads again if some were quarantined, to fill the page."""
        before, found = -1, list[StoredMessage]()
        while before != len(self.overlay.unshown):
            before = len(self.overlay.unshown)
            found = self._load(self._positions(query, after, limit))
        return found

    def _positions(self, query: _PageQuery, after: Position | None, limit: int) -> list[Position]:
        found: list[Position] = []
        start = after or Position(0, 0)
        for level in range(start.level, _HIGHEST_PRIORITY + 1 if self.prioritized else 1):
            first = Position(level, start.arrival if level == start.level else 0)
            wanted = limit - len(found)
            if wanted <= 0:
                break
            found += self._page_of_level(query, first, wanted)
        return found

    def _page_of_level(self, query: _PageQuery, after: Position, wanted: int) -> list[Position]:
        statement, parameters, skip, visible = query
        level = after.level
        parameters = {**parameters, "at": self.container}
        if self.prioritized:
            parameters["level"] = _HIGHEST_PRIORITY - level
        unwritten = self.overlay.added
        size = min(max(wanted, _SMALLEST_PAGE), self.adapter.settings.max_rows)
        found: list[Position] = []
        last = self.id_at(after)
        while len(found) < wanted:
            rows = self.adapter.read(statement, after=last, limit=size, **parameters)
            for number, _ in rows:
                position = Position(level, number - self.base)
                if number not in unwritten and visible(number) and position not in skip:
                    found.append(position)
            if len(rows) < size:
                break
            last = rows[-1][0]
        left = wanted
        for message in self.overlay.after(self.id_at(after)):
            position = self.position_at(message.id, message.priority)
            if position.level == level and visible(message.id) and position not in skip:
                found.append(position)
                left -= 1
                if left == 0:
                    break
        return sorted(found)[:wanted]

    def _load(self, positions: list[Position]) -> list[StoredMessage]:
        overlay, ids = self.overlay, [self.id_at(position) for position in positions]
        frames = {i: overlay.added[i].frame for i in ids if i in overlay.added}
        frames.update({i: overlay.frames[i] for i in ids if i in overlay.frames})
        missing = [i for i in ids if i not in frames]
        step = min(self.adapter.settings.max_rows, 1000)
        for start in range(0, len(missing), step):
            chunk = missing[start : start + step]
            rows = self.adapter.read(self.adapter.statements.load_messages, ids=chunk)
            frames.update(tuple(row) for row in rows)
        messages = []
        for position, i in zip(positions, ids, strict=True):
            if i in frames:
                message = self.adapter.decode(self.container, i, frames[i])
                if message is not None:
                    messages.append(StoredMessage(position, message))
                else:
                    overlay.unshown.add(i)
        return messages


class JDBCTopicMessageStore(JDBCMessageStore):
    """The messages of one topic. (ActiveMQ: JDBCTopicMessageStore)

    Unlike ActiveMQ's, it does not lose messages when others are acknowledged out of order: those
    acknowledged ahead are listed, and LAST_ACKED_ID stays. (activemq-persistence J6)
    """

    def __init__(
        self,
        adapter: JDBCPersistenceAdapter,
        destination: Destination,
        prioritized: bool,
        base: int,
        epoch: int,
    ) -> None:
        super().__init__(adapter, destination, prioritized, base, epoch)
        self.subscribers_by_key: dict[SubscriptionKey, Subscriber] = {}
        self._unwritten = 0
        self._counted: dict[int, list[Subscriber]] = {}
        """For each message whose insertion is not committed: the subscriptions that counted it."""

    def load_subscription(self, subscription: StoredSubscription, count: int) -> None:
        """Add a subscription that was read from the tables."""
        self.subscribers_by_key[subscription.key] = Subscriber(subscription, count, self.base)

    def set_prioritized(self, prioritized: bool) -> None:
        """Switch ordering by priority on or off, converting the rows of the subscriptions."""
        self.prioritized = prioritized
        if self.subscribers_by_key:
            operation = ops.SetPrioritized(self.container, prioritized)
            self.adapter.writer.submit((operation,))

    def add_subscription(self, subscription: StoredSubscription, retroactive: bool) -> Completion:
        key = subscription.key
        start = self.base if retroactive else self.last_id
        self.subscribers_by_key[key] = Subscriber(subscription, 0, start)

        def complete(error: Exception | None) -> None:
            if error is not None:
                self.subscribers_by_key.pop(key, None)

        operation = ops.AddSubscription(
            container=self.container,
            client_id=key.client_id,
            subscription_name=key.subscription_name,
            destination=subscription.destination.qualified_name,
            selector=subscription.selector,
            no_local=subscription.no_local,
            owner=subscription.owner,
            start=start,
            retroactive=retroactive,
            prioritized=self.prioritized,
        )
        return self.adapter.writer.submit((operation,), complete)

    def delete_subscription(self, key: SubscriptionKey) -> Completion:
        found = self.subscribers_by_key.pop(key, None)
        if found is None:
            return COMPLETED

        def complete(error: Exception | None) -> None:
            if error is not None:
                self.subscribers_by_key.setdefault(key, found)

        operation = ops.RemoveSubscription(self.container, *key, self.prioritized)
        return self.adapter.writer.submit((operation,), complete)

    def lookup_subscription(self, key: SubscriptionKey) -> StoredSubscription | None:
        found = self.subscribers_by_key.get(key)
        return None if found is None else found.stored

    def subscriptions(self) -> list[StoredSubscription]:
        return [found.stored for found in self.subscribers_by_key.values()]

    def acknowledge(
        self, context: OperationContext, key: SubscriptionKey, reference: MessageReference
    ) -> Completion:
        if key not in self.subscribers_by_key:
            return COMPLETED
        position = reference.position or self._find(reference.message_id)
        if position is None:
            return COMPLETED
        number = self.id_at(position)
        work = Acknowledgement(self, key, number, reference.priority, reference.size)
        return self._do(context, work)

    def next_subscription_messages(
        self, key: SubscriptionKey, after: Position | None, limit: int, skip: Positions = ()
    ) -> list[StoredMessage]:
        found = self.subscribers_by_key.get(key)
        if found is None:
            return []
        self.adapter.writer.settle_container(self.container)
        page = self.adapter.statements.subscription_page[self.prioritized]
        parameters: dict[str, object] = {
            "client": key.client_id,
            "subscription": key.subscription_name,
        }
        return self._page(_PageQuery(page, parameters, skip, _filter(self, found)), after, limit)

    def subscription_message_count(self, key: SubscriptionKey) -> int:
        if key in self.subscribers_by_key:
            self.adapter.writer.settle_container(self.container)
        found = self.subscribers_by_key.get(key)
        return 0 if found is None else found.count

    def remove_all_messages(self, context: OperationContext) -> Completion:
        before = [(found, found.count) for found in self.subscribers_by_key.values()]
        for found, _ in before:
            found.count = 0

        def complete(completion: Completion) -> None:
            if completion.error is not None:
                for found, count in before:
                    found.count += count

        completion = super().remove_all_messages(context)
        completion.then(complete)
        return completion

    @property
    def message_count(self) -> int:
        """The number of unacknowledged messages; writes acknowledgements out first."""
        self._settle()
        return self._count

    @property
    def message_size(self) -> int:
        self._settle()
        return self._size

    # -- for work (see `transactions`)

    @property
    def subscribers(self) -> int:
        return len(self.subscribers_by_key)

    def add(self, message: ops.AddMessage) -> None:
        counted = self._counted[message.id] = list(self.subscribers_by_key.values())
        for found in counted:
            found.count += 1
        super().add(message)

    def complete_add(self, message: ops.AddMessage, error: Exception | None) -> None:
        for found in self._counted.pop(message.id, ()):
            if error is not None:
                found.count -= 1
        super().complete_add(message, error)

    def hide_acknowledged(self, key: SubscriptionKey, message_id: int) -> Subscriber | None:
        """Hide a message from a subscription, which is returned; None if it was not pending."""
        found = self.subscribers_by_key.get(key)
        if found is None or message_id in found.acknowledged:
            return None
        found.acknowledged.add(message_id)
        found.count -= 1
        self._unwritten += 1
        return found

    def complete_acknowledge(
        self, subscriber: Subscriber, message_id: int, error: Exception | None
    ) -> None:
        """Handle the result of an acknowledgement: it is in the tables, or could not be stored."""
        self._unwritten -= 1
        subscriber.acknowledged.discard(message_id)
        subscriber.hidden.discard(message_id)
        if error is not None:
            subscriber.count += 1

    def correct_subscription(self, key: SubscriptionKey, count: int) -> None:
        """Add a correction that the database has reported to the count."""
        found = self.subscribers_by_key.get(key)
        if found is not None:
            found.count = max(0, found.count + count)

    # -- internals

    @property
    def _page_statement(self) -> Any:
        return self.adapter.statements.topic_page[self.prioritized]

    @property
    def _find_statement(self) -> Any:
        return self.adapter.statements.find_live_message[self.prioritized]

    def _settle(self) -> None:
        """Write out acknowledgements: only the database knows which one was a message's last."""
        if self._unwritten:
            self.adapter.writer.settle()
        else:
            self.adapter.writer.settle_container(self.container)


def _filter(store: JDBCTopicMessageStore, found: Subscriber) -> Callable[[int], bool]:
    def visible(message_id: int) -> bool:
        return (
            message_id > found.start
            and message_id not in found.acknowledged
            and message_id not in found.hidden
            and store.overlay.is_visible(message_id)
        )

    return visible


class Work(ABC):
    """A piece of work on one message."""

    size = 64
    """The memory that it occupies, in bytes."""

    @abstractmethod
    def prepare(self, xid: XATransactionId) -> Sequence[ops.Operation]:
        """Return the operations that make the work durable while it stays invisible."""

    @abstractmethod
    def commit(self) -> Sequence[ops.Operation]:
        """Make the work visible to readers; return the operations for the database."""

    @abstractmethod
    def rollback(self) -> Sequence[ops.Operation]:
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
        self._added: ops.AddMessage | None = None
        self._producer, self._sequence = split_id(message_id)
        self._frame = encode_message(message)
        self._priority = message.priority
        self._expiration = message.expiration
        self._message_size = size
        self._duplicate_id = duplicate_id_of(message)
        self.size = len(self._frame)

    def prepare(self, xid: XATransactionId) -> Sequence[ops.Operation]:
        if self.store.is_removed:
            return ()
        self._prepared_id = self.store.adapter.next_prepared_id()
        message = self._operation(self._prepared_id, self._frame)
        return (ops.PrepareAdd(message, encode_xid(xid, added=True)),)

    def commit(self) -> Sequence[ops.Operation]:
        self._added = self.position = None
        store = self.store
        if store.is_removed or store.contains(self.message_id, self._duplicate_id):
            return self.rollback()
        broker_sequence = self.message_id.broker_sequence_id
        store.adapter.note(self._producer, self._sequence, broker_sequence)
        # without a subscription it would never be acknowledged (activemq-broker T6)
        is_kept = not store.destination.is_topic or store.subscribers > 0
        prepared_id, message_id = self._prepared_id, 0
        self.position = Position(0, 0)
        if is_kept:
            store.last_id = message_id = store.last_id + 1
            self.position = store.position_at(message_id, self._priority)
        if self._reference is not None:
            self._reference.position = self.position
        if not is_kept:
            return self.rollback()
        message = self._added = self._operation(message_id, self._frame)
        store.add(message)
        if prepared_id is None:
            return (message,)
        # the frame is in the table already
        return (ops.CommitAdd(prepared_id, self._operation(message_id, b"")),)

    def rollback(self) -> Sequence[ops.Operation]:
        return () if self._prepared_id is None else (ops.RollbackAdd(self._prepared_id),)

    def complete(self, error: Exception | None) -> None:
        if self._added is not None:
            self.store.complete_add(self._added, error)

    def _operation(self, row_id: int, frame: bytes) -> ops.AddMessage:
        return ops.AddMessage(
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

    def prepare(self, xid: XATransactionId) -> Sequence[ops.Operation]:
        if self._store.is_removed:
            return ()
        self._store.overlay.hidden.add(self._id)
        text = encode_xid(xid, added=False)
        return (ops.PrepareRemove(self._store.container, self._id, text),)

    def commit(self) -> Sequence[ops.Operation]:
        store, row_id, size = self._store, self._id, self._message_size
        self._removed = not store.is_removed and store.remove(row_id, size)
        if not self._removed:
            return ()
        if store.destination.is_topic:
            return (ops.RemoveTopicMessage(store.container, row_id, size, store.prioritized),)
        return (ops.RemoveMessage(store.container, row_id, size),)

    def rollback(self) -> Sequence[ops.Operation]:
        self._store.overlay.hidden.discard(self._id)
        return (ops.RollbackRemove(self._store.container, self._id),)

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

    def prepare(self, xid: XATransactionId) -> Sequence[ops.Operation]:
        if self._store.is_removed:
            return ()
        self._prepared = True
        subscriber = self._store.subscribers_by_key.get(self._key)
        if subscriber is not None:
            subscriber.hidden.add(self._id)
        return (ops.PrepareAcknowledgement(self._operation(), encode_xid(xid, added=False)),)

    def commit(self) -> Sequence[ops.Operation]:
        self._subscriber = None
        if self._store.is_removed:
            return ()
        self._subscriber = self._store.hide_acknowledged(self._key, self._id)
        if self._prepared:
            return (ops.CommitAcknowledgement(self._operation()),)
        return () if self._subscriber is None else (self._operation(),)

    def rollback(self) -> Sequence[ops.Operation]:
        subscriber = self._store.subscribers_by_key.get(self._key)
        if subscriber is not None:
            subscriber.hidden.discard(self._id)
        return (ops.RollbackAcknowledgement(self._operation()),)

    def complete(self, error: Exception | None) -> None:
        if self._subscriber is not None:
            self._store.complete_acknowledge(self._subscriber, self._id, error)

    def _operation(self) -> ops.AcknowledgeMessage:
        return ops.AcknowledgeMessage(
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

    def recovered_transactions(self) -> list[RecoveredTransaction]:
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
