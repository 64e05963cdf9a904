"""The store of a broker without persistence: its contents are lost when it stops.

(activemq-persistence E1)
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable
from operator import attrgetter
from typing import Final, TypeAlias

from pyjms.jms.destination import Destination
from pyjms.wire.openwire.commands import ActiveMQMessage, MessageId, ProducerId, TransactionId
from pyjms_broker.api.completion import COMPLETED, Completion
from pyjms_broker.api.message import MessageReference
from pyjms_broker.store.adapters import DestinationStores
from pyjms_broker.store.api import (
    OperationContext,
    Position,
    Positions,
    RecoveredTransaction,
    StoredMessage,
    StoredSubscription,
    StoreState,
    SubscriptionKey,
)

__all__ = [
    "MemoryMessageStore",
    "MemoryPersistenceAdapter",
    "MemoryTopicMessageStore",
    "MemoryTransactionStore",
]


class MemoryEntry:
    """A message in memory."""

    __slots__ = ("hidden_from", "is_visible", "message", "position", "size")

    def __init__(self, position: Position, message: ActiveMQMessage, size: int) -> None:
        self.position = position
        self.message = message
        self.size = size
        self.is_visible = False
        self.hidden_from: frozenset[SubscriptionKey | None] = frozenset()
        """Subscriptions that acknowledged it in a prepared transaction; None is the queue."""


_Removal: TypeAlias = tuple[MemoryEntry, SubscriptionKey | None]


class MemoryTransactionStore:
    """Holds the operations of open transactions as callables."""

    def __init__(self) -> None:
        self._work: dict[TransactionId, list[Callable[[], None]]] = {}
        self._removals: dict[TransactionId, list[_Removal]] = {}

    def add(
        self, xid: TransactionId, operation: Callable[[], None], removal: _Removal | None = None
    ) -> None:
        """Run `operation` at the commit of `xid`; `removal`: the message that it removes."""
        self._work.setdefault(xid, []).append(operation)
        if removal is not None:
            self._removals.setdefault(xid, []).append(removal)

    def prepare(self, xid: TransactionId) -> Completion:
        """Hide the acknowledged messages."""
        for entry, key in self._removals.get(xid, ()):
            entry.hidden_from |= {key}
        return COMPLETED

    def commit(self, xid: TransactionId, prepared: bool) -> Completion:
        self._removals.pop(xid, None)
        for operation in self._work.pop(xid, ()):
            operation()
        return COMPLETED

    def rollback(self, xid: TransactionId) -> Completion:
        self._work.pop(xid, None)
        for entry, key in self._removals.pop(xid, ()):
            entry.hidden_from -= {key}
        return COMPLETED

    def recovered_transactions(self) -> list[RecoveredTransaction]:
        """Return an empty list: no transaction survives a restart."""
        return []

    def position_of(self, destination: Destination, message_id: MessageId) -> Position | None:
        """Return None: there are no recovered transactions."""
        return None


_DUPLICATE_IDS: Final = 20_000
_HIGHEST_PRIORITY: Final = 9


_position = attrgetter("position")


class MemoryMessageStore:
    """The messages of one destination."""

    epoch: int = 0
    """Always 0: the numbers are not kept across restarts."""

    def __init__(
        self, destination: Destination, adapter: MemoryPersistenceAdapter, prioritized: bool
    ) -> None:
        self.destination = destination
        self._adapter = adapter
        self._prioritized = prioritized
        self._entries: dict[MessageId, MemoryEntry] = {}
        self._by_arrival: dict[int, MemoryEntry] = {}
        self._duplicate_ids: OrderedDict[str, None] = OrderedDict()
        self.message_size = 0
        self.last_arrival = 0
        self.is_removed = False
        """Whether the destination was removed, so that this store ignores all further calls."""

    def add_message(self, context: OperationContext, reference: MessageReference) -> Completion:
        if context.xid is None:
            self._add(reference)
        else:
            self._adapter.transactions.add(context.xid, lambda: self._add(reference))
        return COMPLETED

    def mark_visible(self, reference: MessageReference) -> None:
        entry = self._entries.get(reference.message_id)
        if entry is not None:
            entry.is_visible = True

    def remove_message(self, context: OperationContext, reference: MessageReference) -> Completion:
        message_id = reference.message_id
        if context.xid is None:
            self._remove(message_id)
        else:
            entry = self._entries.get(message_id)
            self._adapter.transactions.add(
                context.xid,
                lambda: self._remove(message_id),
                None if entry is None else (entry, None),
            )
        return COMPLETED

    def update_message(self, reference: MessageReference) -> Completion:
        entry = self._entries.get(reference.message_id)
        if entry is not None:
            entry.message = reference.message
            self.message_size += reference.size - entry.size
            entry.size = reference.size
        return COMPLETED

    def get_message(self, message_id: MessageId) -> StoredMessage | None:
        entry = self._entries.get(message_id)
        return None if entry is None else StoredMessage(entry.position, entry.message)

    def next_messages(
        self, after: Position | None, limit: int, skip: Positions = ()
    ) -> list[StoredMessage]:
        if not self._prioritized and after is not None:
            by_arrival = self._by_arrival
            first = max(after.arrival + 1, next(iter(by_arrival), self.last_arrival + 1))
            found = map(by_arrival.get, range(first, self.last_arrival + 1))
            return _select(found, limit, skip)
        return _page(self._entries.values(), after, limit, skip)

    def remove_all_messages(self, context: OperationContext) -> Completion:
        self._entries.clear()
        self._by_arrival.clear()
        self.message_size = 0
        return COMPLETED

    @property
    def message_count(self) -> int:
        return len(self._entries)

    def _add(self, reference: MessageReference) -> None:
        message_id = reference.message_id
        message = reference.message
        if (
            self.is_removed
            or message_id in self._entries
            or (
                message.marshalled_properties is not None
                and self._is_duplicate(reference.duplicate_id)
            )
        ):
            return
        self.last_arrival += 1
        level = _level(reference.priority) if self._prioritized else 0
        reference.position = position = Position(level, self.last_arrival)
        entry = MemoryEntry(position, message, reference.size)
        self._entries[message_id] = self._by_arrival[position.arrival] = entry
        self.message_size += reference.size
        adapter = self._adapter
        adapter.last_broker_sequence_id = max(
            adapter.last_broker_sequence_id, message_id.broker_sequence_id
        )

    def _is_duplicate(self, duplicate_id: str | None) -> bool:
        if duplicate_id is None:
            return False
        known = self._duplicate_ids
        if duplicate_id in known:
            return True
        known[duplicate_id] = None
        if len(known) > _DUPLICATE_IDS:
            known.popitem(last=False)
        return False

    def _remove(self, message_id: MessageId) -> None:
        entry = self._entries.pop(message_id, None)
        if entry is not None:
            del self._by_arrival[entry.position.arrival]
            self.message_size -= entry.size


class MemoryTopicMessageStore(MemoryMessageStore):
    """The messages of one topic, each kept until all subscriptions have acknowledged it."""

    def __init__(
        self, destination: Destination, adapter: MemoryPersistenceAdapter, prioritized: bool
    ) -> None:
        super().__init__(destination, adapter, prioritized)
        self._subscriptions: dict[SubscriptionKey, StoredSubscription] = {}
        self._unacknowledged: dict[SubscriptionKey, dict[MessageId, MemoryEntry]] = {}

    def add_subscription(self, subscription: StoredSubscription, retroactive: bool) -> Completion:
        key = subscription.key
        self._subscriptions[key] = subscription
        self._unacknowledged[key] = dict(self._entries) if retroactive else {}
        return COMPLETED

    def delete_subscription(self, key: SubscriptionKey) -> Completion:
        self._subscriptions.pop(key, None)
        for message_id in self._unacknowledged.pop(key, {}):
            self._remove_if_acknowledged(message_id)
        return COMPLETED

    def lookup_subscription(self, key: SubscriptionKey) -> StoredSubscription | None:
        return self._subscriptions.get(key)

    def subscriptions(self) -> list[StoredSubscription]:
        return list(self._subscriptions.values())

    def acknowledge(
        self, context: OperationContext, key: SubscriptionKey, reference: MessageReference
    ) -> Completion:
        message_id = reference.message_id
        if context.xid is None:
            self._acknowledge(key, message_id)
        else:
            entry = self._entries.get(message_id)
            self._adapter.transactions.add(
                context.xid,
                lambda: self._acknowledge(key, message_id),
                None if entry is None else (entry, key),
            )
        return COMPLETED

    def next_subscription_messages(
        self, key: SubscriptionKey, after: Position | None, limit: int, skip: Positions = ()
    ) -> list[StoredMessage]:
        return _page(self._unacknowledged.get(key, {}).values(), after, limit, skip, key)

    def subscription_message_count(self, key: SubscriptionKey) -> int:
        return len(self._unacknowledged.get(key, {}))

    def remove_all_messages(self, context: OperationContext) -> Completion:
        for unacknowledged in self._unacknowledged.values():
            unacknowledged.clear()
        return super().remove_all_messages(context)

    def _add(self, reference: MessageReference) -> None:
        super()._add(reference)
        message_id = reference.message_id
        entry = self._entries.get(message_id)
        if entry is None or entry.position != reference.position:
            return  # a duplicate
        if not self._unacknowledged:
            self._remove(message_id)  # nothing would ever acknowledge it (activemq-broker T6)
        for unacknowledged in self._unacknowledged.values():
            unacknowledged[message_id] = entry

    def _remove(self, message_id: MessageId) -> None:
        super()._remove(message_id)
        for unacknowledged in self._unacknowledged.values():
            unacknowledged.pop(message_id, None)

    def _acknowledge(self, key: SubscriptionKey, message_id: MessageId) -> None:
        unacknowledged = self._unacknowledged.get(key)
        if unacknowledged is not None and message_id in unacknowledged:
            del unacknowledged[message_id]
            self._remove_if_acknowledged(message_id)

    def _remove_if_acknowledged(self, message_id: MessageId) -> None:
        if not any(message_id in waiting for waiting in self._unacknowledged.values()):
            self._remove(message_id)


class MemoryPersistenceAdapter(DestinationStores[MemoryMessageStore, MemoryTopicMessageStore]):
    """A store in memory.

    Source: ActiveMQ MemoryPersistenceAdapter.
    """

    is_volatile = True
    """Messages are in memory anyway, so a queue gains nothing by releasing its references."""

    def __init__(self) -> None:
        self.transactions = MemoryTransactionStore()
        self.on_state: Callable[[StoreState, Exception | None], None] | None = None
        self._queues: dict[Destination, MemoryMessageStore] = {}
        self._topics: dict[Destination, MemoryTopicMessageStore] = {}
        self.last_broker_sequence_id = 0

    async def start(self) -> None:
        """Do nothing: there is nothing to open."""

    async def stop(self) -> None:
        self._queues.clear()
        self._topics.clear()

    @property
    def state(self) -> StoreState:
        """Always running."""
        return StoreState.RUNNING

    def destinations(self) -> set[Destination]:
        return {*self._queues, *self._topics}

    def _new_queue(self, destination: Destination, prioritized: bool) -> MemoryMessageStore:
        return MemoryMessageStore(destination, self, prioritized)

    def _new_topic(self, destination: Destination, prioritized: bool) -> MemoryTopicMessageStore:
        return MemoryTopicMessageStore(destination, self, prioritized)

    def remove_message_store(self, destination: Destination) -> None:
        store = self._queues.pop(destination, None) or self._topics.pop(destination, None)
        if store is not None:
            store.is_removed = True

    def transaction_store(self) -> MemoryTransactionStore:
        return self.transactions

    async def checkpoint(self) -> None:
        """Do nothing: there is no journal."""

    async def delete_all_messages(self) -> None:
        await self.stop()

    @property
    def size(self) -> int:
        """0: nothing is on disk."""
        return 0

    def last_producer_sequence_id(self, producer_id: ProducerId) -> int:
        """Return -1: nothing survives a restart, so no producer can be resumed."""
        return -1


def _level(priority: int) -> int:
    return _HIGHEST_PRIORITY - min(max(priority, 0), _HIGHEST_PRIORITY)


def _page(
    entries: Iterable[MemoryEntry],
    after: Position | None,
    limit: int,
    skip: Positions,
    key: SubscriptionKey | None = None,
) -> list[StoredMessage]:
    following = sorted(entries, key=_position)
    if after is not None:
        following = [entry for entry in following if entry.position > after]
    return _select(following, limit, skip, key)


def _select(
    entries: Iterable[MemoryEntry | None],
    limit: int,
    skip: Positions,
    key: SubscriptionKey | None = None,
) -> list[StoredMessage]:
    found: list[StoredMessage] = []
    for entry in entries:  # no generator expression, which mypyc evaluates eagerly
        if len(found) >= limit:
            break
        if (
            entry is not None
            and entry.is_visible
            and key not in entry.hidden_from
            and entry.position not in skip
        ):
            found.append(StoredMessage(entry.position, entry.message))
    return found
