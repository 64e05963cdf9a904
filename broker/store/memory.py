"""The store of a broker without persistence: everything is gone when it stops."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from broker.completion import Completion
from broker.context import ConnectionContext
from broker.store.api import StoredSubscription, SubscriptionKey
from pyjms.jms.destination import Destination
from pyjms.wire.openwire.commands import ActiveMQMessage, MessageId, ProducerId, TransactionId

if TYPE_CHECKING:
    from broker.region.message import MessageReference

__all__ = [
    "MemoryMessageStore",
    "MemoryPersistenceAdapter",
    "MemoryTopicMessageStore",
    "MemoryTransactionStore",
]


class MemoryTransactionStore:
    """Holds what transactions will do, as calls."""

    def __init__(self) -> None:
        self._work: dict[TransactionId, list[Callable[[], None]]] = {}

    def add(self, xid: TransactionId, operation: Callable[[], None]) -> None:
        """Have `operation` done at the commit of `xid`."""
        self._work.setdefault(xid, []).append(operation)

    def prepare(self, xid: TransactionId) -> Completion | None:
        """Nothing to do: memory is as safe as it will be."""

    def commit(self, xid: TransactionId, prepared: bool) -> Completion | None:
        for operation in self._work.pop(xid, ()):
            operation()
        return None

    def rollback(self, xid: TransactionId) -> None:
        self._work.pop(xid, None)


class MemoryMessageStore:
    """The messages of one destination, in order of their storing."""

    def __init__(self, destination: Destination, adapter: MemoryPersistenceAdapter) -> None:
        self.destination = destination
        self._adapter = adapter
        self._messages: dict[MessageId, ActiveMQMessage] = {}
        self._sizes: dict[MessageId, int] = {}
        self._size = 0

    def add_message(
        self, context: ConnectionContext, reference: MessageReference
    ) -> Completion | None:
        if context.transaction is None:
            self._add(reference)
        else:
            self._adapter.transactions.add(context.transaction.xid, lambda: self._add(reference))
        return None

    def remove_message(
        self, context: ConnectionContext, reference: MessageReference
    ) -> Completion | None:
        message_id = reference.message_id
        if context.transaction is None:
            self._remove(message_id)
        else:
            self._adapter.transactions.add(
                context.transaction.xid, lambda: self._remove(message_id)
            )
        return None

    def update_message(self, reference: MessageReference) -> None:
        if reference.message_id in self._messages:
            self._messages[reference.message_id] = reference.message

    def get_message(self, message_id: MessageId) -> ActiveMQMessage | None:
        return self._messages.get(message_id)

    def recover(self, visitor: Callable[[ActiveMQMessage], bool]) -> None:
        for message in tuple(self._messages.values()):
            if not visitor(message):
                return

    def remove_all_messages(self, context: ConnectionContext) -> None:
        self._messages.clear()
        self._sizes.clear()
        self._size = 0

    @property
    def message_count(self) -> int:
        return len(self._messages)

    @property
    def message_size(self) -> int:
        return self._size

    def _add(self, reference: MessageReference) -> None:
        message_id = reference.message_id
        self._remove(message_id)
        self._messages[message_id] = reference.message
        self._sizes[message_id] = reference.size
        self._size += reference.size
        self._adapter.note(message_id)

    def _remove(self, message_id: MessageId) -> None:
        if self._messages.pop(message_id, None) is not None:
            self._size -= self._sizes.pop(message_id)


class MemoryTopicMessageStore(MemoryMessageStore):
    """The messages of one topic; a message is gone when nobody is left to acknowledge it."""

    def __init__(self, destination: Destination, adapter: MemoryPersistenceAdapter) -> None:
        super().__init__(destination, adapter)
        self._subscriptions: dict[SubscriptionKey, StoredSubscription] = {}
        self._unacknowledged: dict[SubscriptionKey, dict[MessageId, None]] = {}

    def add_subscription(self, subscription: StoredSubscription, retroactive: bool) -> None:
        key = subscription.key
        self._subscriptions[key] = subscription
        self._unacknowledged[key] = dict.fromkeys(self._messages) if retroactive else {}

    def delete_subscription(self, key: SubscriptionKey) -> None:
        self._subscriptions.pop(key, None)
        for message_id in self._unacknowledged.pop(key, {}):
            self._forget_if_done(message_id)

    def lookup_subscription(self, key: SubscriptionKey) -> StoredSubscription | None:
        return self._subscriptions.get(key)

    def subscriptions(self) -> list[StoredSubscription]:
        return list(self._subscriptions.values())

    def acknowledge(
        self, context: ConnectionContext, key: SubscriptionKey, message_id: MessageId
    ) -> Completion | None:
        if context.transaction is None:
            self._acknowledge(key, message_id)
        else:
            self._adapter.transactions.add(
                context.transaction.xid, lambda: self._acknowledge(key, message_id)
            )
        return None

    def recover_subscription(
        self, key: SubscriptionKey, visitor: Callable[[ActiveMQMessage], bool]
    ) -> None:
        for message_id in tuple(self._unacknowledged.get(key, {})):
            message = self._messages.get(message_id)
            if message is not None and not visitor(message):
                return

    def subscription_message_count(self, key: SubscriptionKey) -> int:
        return len(self._unacknowledged.get(key, {}))

    def remove_all_messages(self, context: ConnectionContext) -> None:
        super().remove_all_messages(context)
        for unacknowledged in self._unacknowledged.values():
            unacknowledged.clear()

    def _add(self, reference: MessageReference) -> None:
        if not self._unacknowledged:
            self._adapter.note(reference.message_id)
            return  # nobody would ever acknowledge it (T6)
        super()._add(reference)
        for unacknowledged in self._unacknowledged.values():
            unacknowledged[reference.message_id] = None

    def _remove(self, message_id: MessageId) -> None:
        super()._remove(message_id)
        for unacknowledged in self._unacknowledged.values():
            unacknowledged.pop(message_id, None)

    def _acknowledge(self, key: SubscriptionKey, message_id: MessageId) -> None:
        unacknowledged = self._unacknowledged.get(key)
        if unacknowledged is not None and message_id in unacknowledged:
            del unacknowledged[message_id]
            self._forget_if_done(message_id)

    def _forget_if_done(self, message_id: MessageId) -> None:
        if not any(message_id in waiting for waiting in self._unacknowledged.values()):
            self._remove(message_id)


class MemoryPersistenceAdapter:
    """Source: ActiveMQ MemoryPersistenceAdapter."""

    def __init__(self) -> None:
        self.transactions = MemoryTransactionStore()
        self._queues: dict[Destination, MemoryMessageStore] = {}
        self._topics: dict[Destination, MemoryTopicMessageStore] = {}
        self._last_broker_sequence_id = 0

    async def start(self) -> None:
        """Nothing to open."""

    async def stop(self) -> None:
        self._queues.clear()
        self._topics.clear()

    def destinations(self) -> set[Destination]:
        return {*self._queues, *self._topics}

    def queue_message_store(self, destination: Destination) -> MemoryMessageStore:
        store = self._queues.get(destination)
        if store is None:
            store = self._queues[destination] = MemoryMessageStore(destination, self)
        return store

    def topic_message_store(self, destination: Destination) -> MemoryTopicMessageStore:
        store = self._topics.get(destination)
        if store is None:
            store = self._topics[destination] = MemoryTopicMessageStore(destination, self)
        return store

    def remove_message_store(self, destination: Destination) -> None:
        self._queues.pop(destination, None)
        self._topics.pop(destination, None)

    def transaction_store(self) -> MemoryTransactionStore:
        return self.transactions

    @property
    def last_broker_sequence_id(self) -> int:
        return self._last_broker_sequence_id

    def last_producer_sequence_id(self, producer_id: ProducerId) -> int:
        """Unknown: a restart forgets everything, so no producer can be resumed."""
        return -1

    def note(self, message_id: MessageId) -> None:
        """Remember the highest broker sequence number."""
        number = message_id.broker_sequence_id
        self._last_broker_sequence_id = max(self._last_broker_sequence_id, number)
