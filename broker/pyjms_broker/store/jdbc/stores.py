"""The store of one queue, which is also the base class of topic stores.

The store of one topic: its messages and durable subscriptions.

(activemq-persistence J3, J5)
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from pyjms.wire.kahadb.frames import encode_message
from pyjms.wire.openwire.commands import MessageId
from pyjms_broker.api.completion import COMPLETED, Completion
from pyjms_broker.api.message import (
    OperationContext,
    Position,
    Positions,
    StoredMessage,
    SubscriptionKey,
)
from pyjms_broker.store.api import StoredSubscription
from pyjms_broker.store.jdbc.operations import (
    AddMessage,
    AddSubscription,
    RemoveAll,
    RemoveSubscription,
    SetPrioritized,
    UpdateMessage,
)
from pyjms_broker.store.jdbc.transactions import (
    Acknowledgement,
    Addition,
    Overlay,
    Removal,
    StoreContext,
    StoredDestination,
    Subscriber,
    Work,
    WorkQueue,
    split_id,
)

if TYPE_CHECKING:
    from pyjms_broker.api.message import MessageReference

__all__ = ["JDBCMessageStore", "JDBCTopicMessageStore"]

_SMALLEST_PAGE: Final = 100
_HIGHEST_PRIORITY: Final = 9


class PageQuery(NamedTuple):
    """The messages that a page may contain."""

    statement: Any
    parameters: dict[str, object]
    skip: Positions
    visible: Callable[[int], bool]


class JDBCMessageStore:
    """The messages of one destination. (ActiveMQ: JDBCMessageStore)"""

    def __init__(
        self, context: StoreContext, transactions: WorkQueue, stored: StoredDestination
    ) -> None:
        self.context = context
        self.destination, self.prioritized, self.base, self._epoch = stored
        self.container = self.destination.qualified_name
        self.overlay = Overlay()
        self._transactions = transactions
        self._count = 0
        self._size = 0
        self._last_id = self.base
        self._sequences: OrderedDict[str, int] = OrderedDict()
        self._duplicates: OrderedDict[str, int] | None = None
        self.is_removed = False
        """Whether the destination was removed, so that this store ignores messages."""

    def load(self, count: int, size: int, last_id: int) -> None:
        """Set the counts that were read from the tables."""
        self._count, self._size, self._last_id = count, size, last_id

    # -- the interface of the broker

    def add_message(self, context: OperationContext, reference: MessageReference) -> Completion:
        def on_position(position: Position) -> None:
            reference.position = position

        reference.position = None
        work = Addition(self, reference.message, reference.message_id, reference.size, on_position)
        answer = self._do(context, work)
        if answer is COMPLETED and context.xid is None and reference.position is None:
            # a duplicate: done when the stored message is durable
            return self.context.submit((), lambda _: None)
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

        def completed(_: Exception | None) -> None:
            if frames.get(number) is frame:
                del frames[number]

        operation = UpdateMessage(self.container, number, reference.message.expiration, frame)
        return self.context.submit((operation,), completed, len(frame))

    def get_message(self, message_id: MessageId) -> StoredMessage | None:
        position = self._find(message_id)
        return None if position is None else next(iter(self._load([position])), None)

    def next_messages(
        self, after: Position | None, limit: int, skip: Positions = ()
    ) -> list[StoredMessage]:
        self._settle()
        query = PageQuery(self._page_statement, {}, skip, self.overlay.is_visible)
        return self._page(query, after, limit)

    def remove_all_messages(self, context: OperationContext) -> Completion:
        before = self._count, self._size
        self._count = self._size = 0
        self.overlay.clear()

        def completed(error: Exception | None) -> None:
            if error is not None:
                self.adjust_counts(*before)

        return self.context.submit((RemoveAll(self.container, self._last_id),), completed)

    @property
    def message_count(self) -> int:
        return self._count

    @property
    def message_size(self) -> int:
        return self._size

    @property
    def last_arrival(self) -> int:
        return self._last_id - self.base

    @property
    def epoch(self) -> int:
        return self._epoch

    # -- WorkStore

    @property
    def subscribers(self) -> int:
        """The number of durable subscriptions that get a message added now."""
        return 0

    def position(self, message: AddMessage) -> Position:
        """Return the position of a message in the order of delivery."""
        return self.position_at(message.id, message.priority)

    def contains(self, message_id: MessageId, duplicate_id: str | None) -> bool:
        """Return whether a message is stored already, by its id or its duplicate id.

        (activemq-persistence S6)
        """
        producer, sequence = split_id(message_id)
        if self._has_id(message_id, producer, sequence):
            return True
        audit = self.context.audit
        if audit is not None and audit.seen(self.container, producer, sequence):
            return True
        return duplicate_id is not None and duplicate_id in self._duplicate_ids()

    @property
    def keeps_messages(self) -> bool:
        """Whether a message added now will ever be read."""
        return True

    def next_id(self) -> int:
        """Return the ID of the next message."""
        self._last_id += 1
        return self._last_id

    def add_skipped(self, message: AddMessage) -> None:
        """Record the sequence numbers of a message that is not kept."""
        self.context.note(message.producer, message.sequence, message.broker_sequence)

    def add(self, message: AddMessage) -> None:
        """Add a message with an assigned ID to the overlay, so that readers find it."""
        self.context.note(message.producer, message.sequence, message.broker_sequence)
        self._count += 1
        self._size += message.size
        self.overlay.add(message)
        if message.duplicate_id is not None:
            duplicates = self._duplicate_ids()
            duplicates[message.duplicate_id] = message.id
            if len(duplicates) > self.context.settings.duplicate_id_window:
                duplicates.popitem(last=False)

    def add_completed(self, message: AddMessage, error: Exception | None) -> None:
        """Handle the result of an insertion: the row exists, or the message could not be stored."""
        if error is None:
            self.overlay.forget_added(message.id)
            return
        self.adjust_counts(-1, -message.size)
        self.overlay.forget_added(message.id)
        self.overlay.unshown.discard(message.id)
        if message.duplicate_id is not None:
            self._duplicate_ids().pop(message.duplicate_id, None)
        if self.context.audit is not None:
            self.context.audit.forget(self.container, message.producer, message.sequence)

    def remove(self, message_id: int, size: int) -> bool:
        """Hide a message from readers; False: it was removed already."""
        if message_id in self.overlay.removed:
            return False
        self.overlay.remove(message_id)
        self._count -= 1
        self._size -= size
        return True

    def remove_completed(self, message_id: int, size: int, error: Exception | None) -> None:
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
            self._transactions.add(context.xid, work)
            return COMPLETED
        operations = work.commit()
        if not operations:
            return COMPLETED
        return self.context.submit(operations, work.completed, work.size)

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
            statement = self.context.statements.last_sequence_in_container
            stored = self.context.read(statement, producer=producer, at=self.container)[0][0]
            known = -1 if stored is None else stored
        self._sequences[producer] = max(known, sequence)
        if len(self._sequences) > self.context.settings.max_producers_to_audit:
            self._sequences.popitem(last=False)
        if self.overlay.find(producer, sequence) is not None:
            return True
        return sequence <= known and self._find(message_id) is not None

    def _duplicate_ids(self) -> OrderedDict[str, int]:
        """Return the window of duplicate ids, loading it on first use."""
        duplicates = self._duplicates
        if duplicates is None:
            context = self.context
            limit = context.settings.duplicate_id_window
            rows = context.read(context.statements.duplicates, at=self.container, limit=limit)
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
            return self.position(unwritten)
        self._settle()
        rows = self.context.read(
            self._find_statement, producer=producer, sequence=sequence, at=self.container
        )
        invisible = self.overlay.removed | self.overlay.hidden
        for number, priority in rows:
            if number not in invisible:
                return self.position_at(number, priority)
        return None

    def _settle(self) -> None:
        """Make the tables readable."""
        self.context.settle(self.container)

    @property
    def _page_statement(self) -> Any:
        return self.context.statements.queue_page[self.prioritized]

    @property
    def _find_statement(self) -> Any:
        return self.context.statements.find_message

    def _page(self, query: PageQuery, after: Position | None, limit: int) -> list[StoredMessage]:
        """Return the messages of a page; reads again if some were quarantined, to fill the page."""
        before, found = -1, list[StoredMessage]()
        while before != len(self.overlay.unshown):
            before = len(self.overlay.unshown)
            found = self._load(self._positions(query, after, limit))
        return found

    def _positions(self, query: PageQuery, after: Position | None, limit: int) -> list[Position]:
        found: list[Position] = []
        start = after or Position(0, 0)
        for level in range(start.level, _HIGHEST_PRIORITY + 1 if self.prioritized else 1):
            first = Position(level, start.arrival if level == start.level else 0)
            wanted = limit - len(found)
            if wanted <= 0:
                break
            found += self._page_of_level(query, first, wanted)
        return found

    def _page_of_level(self, query: PageQuery, after: Position, wanted: int) -> list[Position]:
        statement, parameters, skip, visible = query
        level = after.level
        parameters = {**parameters, "at": self.container}
        if self.prioritized:
            parameters["level"] = _HIGHEST_PRIORITY - level
        unwritten = self.overlay.added
        size = min(max(wanted, _SMALLEST_PAGE), self.context.settings.max_rows)
        found: list[Position] = []
        last = self.id_at(after)
        while len(found) < wanted:
            rows = self.context.read(statement, after=last, limit=size, **parameters)
            for number, _ in rows:
                position = Position(level, number - self.base)
                if number not in unwritten and visible(number) and position not in skip:
                    found.append(position)
            if len(rows) < size:
                break
            last = rows[-1][0]
        left = wanted
        for message in self.overlay.after(self.id_at(after)):
            position = self.position(message)
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
        step = min(self.context.settings.max_rows, 1000)
        for start in range(0, len(missing), step):
            chunk = missing[start : start + step]
            rows = self.context.read(self.context.statements.load_messages, ids=chunk)
            frames.update(tuple(row) for row in rows)
        messages = []
        for position, i in zip(positions, ids, strict=True):
            if i in frames:
                message = self.context.decode(self.container, i, frames[i])
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
        self, context: StoreContext, transactions: WorkQueue, stored: StoredDestination
    ) -> None:
        super().__init__(context, transactions, stored)
        self._subscriptions: dict[SubscriptionKey, Subscriber] = {}
        self._unwritten = 0
        self._counted: dict[int, list[Subscriber]] = {}
        """For each message whose insertion is not committed: the subscriptions that counted it."""

    def load_subscription(self, subscription: StoredSubscription, count: int) -> None:
        """Add a subscription that was read from the tables."""
        self._subscriptions[subscription.key] = Subscriber(subscription, count, self.base)

    def set_prioritized(self, prioritized: bool) -> None:
        """Switch ordering by priority on or off, converting the rows of the subscriptions."""
        self.prioritized = prioritized
        if self._subscriptions:
            operation = SetPrioritized(self.container, prioritized)
            self.context.submit((operation,), lambda _: None)

    def add_subscription(self, subscription: StoredSubscription, retroactive: bool) -> Completion:
        key = subscription.key
        start = self.base if retroactive else self._last_id
        self._subscriptions[key] = Subscriber(subscription, 0, start)

        def completed(error: Exception | None) -> None:
            if error is not None:
                self._subscriptions.pop(key, None)

        operation = AddSubscription(
            container=self.container,
            client_id=key.client_id,
            subscription_name=key.subscription_name,
            destination=subscription.destination.qualified_name,
            selector=subscription.selector,
            no_local=subscription.no_local,
            start=start,
            retroactive=retroactive,
            prioritized=self.prioritized,
        )
        return self.context.submit((operation,), completed)

    def delete_subscription(self, key: SubscriptionKey) -> Completion:
        found = self._subscriptions.pop(key, None)
        if found is None:
            return COMPLETED

        def completed(error: Exception | None) -> None:
            if error is not None:
                self._subscriptions.setdefault(key, found)

        operation = RemoveSubscription(self.container, *key, self.prioritized)
        return self.context.submit((operation,), completed)

    def lookup_subscription(self, key: SubscriptionKey) -> StoredSubscription | None:
        found = self._subscriptions.get(key)
        return None if found is None else found.stored

    def subscriptions(self) -> list[StoredSubscription]:
        return [found.stored for found in self._subscriptions.values()]

    def acknowledge(
        self, context: OperationContext, key: SubscriptionKey, reference: MessageReference
    ) -> Completion:
        if key not in self._subscriptions:
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
        found = self._subscriptions.get(key)
        if found is None:
            return []
        self.context.settle(self.container)
        page = self.context.statements.subscription_page[self.prioritized]
        parameters: dict[str, object] = {
            "client": key.client_id,
            "subscription": key.subscription_name,
        }
        return self._page(PageQuery(page, parameters, skip, _filter(self, found)), after, limit)

    def subscription_message_count(self, key: SubscriptionKey) -> int:
        if key in self._subscriptions:
            self.context.settle(self.container)
        found = self._subscriptions.get(key)
        return 0 if found is None else found.count

    def remove_all_messages(self, context: OperationContext) -> Completion:
        before = [(found, found.count) for found in self._subscriptions.values()]
        for found, _ in before:
            found.count = 0

        def completed(completion: Completion) -> None:
            if completion.error is not None:
                for found, count in before:
                    found.count += count

        completion = super().remove_all_messages(context)
        completion.then(completed)
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

    # -- SubscriptionStore

    @property
    def subscribers(self) -> int:
        return len(self._subscriptions)

    @property
    def keeps_messages(self) -> bool:
        # without a subscription it would never be acknowledged (activemq-broker T6)
        return bool(self._subscriptions)

    def add(self, message: AddMessage) -> None:
        counted = self._counted[message.id] = list(self._subscriptions.values())
        for found in counted:
            found.count += 1
        super().add(message)

    def add_completed(self, message: AddMessage, error: Exception | None) -> None:
        for found in self._counted.pop(message.id, ()):
            if error is not None:
                found.count -= 1
        super().add_completed(message, error)

    def hide(self, key: SubscriptionKey, message_id: int) -> None:
        """Hide a message that a prepared transaction has acknowledged."""
        found = self._subscriptions.get(key)
        if found is not None:
            found.hidden.add(message_id)

    def unhide(self, key: SubscriptionKey, message_id: int) -> None:
        """Make the message visible again, since the transaction was rolled back."""
        found = self._subscriptions.get(key)
        if found is not None:
            found.hidden.discard(message_id)

    def acknowledged(self, key: SubscriptionKey, message_id: int) -> Subscriber | None:
        """Hide a message from a subscription, which is returned; None if it was not pending."""
        found = self._subscriptions.get(key)
        if found is None or message_id in found.acknowledged:
            return None
        found.acknowledged.add(message_id)
        found.count -= 1
        self._unwritten += 1
        return found

    def acknowledge_completed(
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
        found = self._subscriptions.get(key)
        if found is not None:
            found.count = max(0, found.count + count)

    # -- internals

    @property
    def _page_statement(self) -> Any:
        return self.context.statements.topic_page[self.prioritized]

    @property
    def _find_statement(self) -> Any:
        return self.context.statements.find_live_message[self.prioritized]

    def _settle(self) -> None:
        """Write out acknowledgements: only the database knows which one was a message's last."""
        if self._unwritten:
            self.context.writer.settle()
        else:
            self.context.settle(self.container)


def _filter(store: JDBCTopicMessageStore, found: Subscriber) -> Callable[[int], bool]:
    def visible(message_id: int) -> bool:
        return (
            message_id > found.start
            and message_id not in found.acknowledged
            and message_id not in found.hidden
            and store.overlay.is_visible(message_id)
        )

    return visible
