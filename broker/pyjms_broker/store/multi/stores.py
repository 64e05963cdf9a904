"""Store objects that forward calls to the store that contains the destination.

A call within a transaction first enlists that store.
"""

from __future__ import annotations

from operator import attrgetter
from typing import TYPE_CHECKING, Generic, TypeVar

from pyjms._forwarding import DelegatedAttribute
from pyjms.wire.openwire.commands import MessageId
from pyjms_broker.api.completion import Completion
from pyjms_broker.api.message import (
    OperationContext,
    Position,
    Positions,
    StoredMessage,
    SubscriptionKey,
)
from pyjms_broker.store.api import (
    MessageStore,
    StoredSubscription,
    TopicMessageStore,
    TransactionStore,
)
from pyjms_broker.store.multi.transactions import MultiTransactionStore

if TYPE_CHECKING:
    from pyjms_broker.api.message import MessageReference

__all__ = ["MultiMessageStore", "MultiTopicMessageStore"]

S = TypeVar("S", bound=MessageStore)


class _Store(Generic[S]):
    """See `MessageStore` for all methods."""

    def __init__(
        self, store: S, own: TransactionStore, transactions: MultiTransactionStore
    ) -> None:
        self.destination = store.destination
        self._store = store
        self._own = own
        self._transactions = transactions

    def add_message(self, context: OperationContext, reference: MessageReference) -> Completion:
        return self._store.add_message(self._transactions.enlist(context, self._own), reference)

    def mark_visible(self, reference: MessageReference) -> None:
        self._store.mark_visible(reference)

    def remove_message(self, context: OperationContext, reference: MessageReference) -> Completion:
        return self._store.remove_message(self._transactions.enlist(context, self._own), reference)

    def update_message(self, reference: MessageReference) -> Completion:
        return self._store.update_message(reference)

    def get_message(self, message_id: MessageId) -> StoredMessage | None:
        return self._store.get_message(message_id)

    def next_messages(
        self, after: Position | None, limit: int, skip: Positions = ()
    ) -> list[StoredMessage]:
        return self._store.next_messages(after, limit, skip)

    def remove_all_messages(self, context: OperationContext) -> Completion:
        return self._store.remove_all_messages(context)

    message_count = DelegatedAttribute[int](attrgetter("_store"), read_only=True)
    message_size = DelegatedAttribute[int](attrgetter("_store"), read_only=True)
    last_arrival = DelegatedAttribute[int](attrgetter("_store"), read_only=True)
    epoch = DelegatedAttribute[int](attrgetter("_store"), read_only=True)


class MultiMessageStore(_Store[MessageStore]):
    """A queue's store."""


class MultiTopicMessageStore(_Store[TopicMessageStore]):
    """A topic's store; see TopicMessageStore."""

    def add_subscription(self, subscription: StoredSubscription, retroactive: bool) -> Completion:
        return self._store.add_subscription(subscription, retroactive)

    def delete_subscription(self, key: SubscriptionKey) -> Completion:
        return self._store.delete_subscription(key)

    def lookup_subscription(self, key: SubscriptionKey) -> StoredSubscription | None:
        return self._store.lookup_subscription(key)

    def subscriptions(self) -> list[StoredSubscription]:
        return self._store.subscriptions()

    def acknowledge(
        self, context: OperationContext, key: SubscriptionKey, reference: MessageReference
    ) -> Completion:
        context = self._transactions.enlist(context, self._own)
        return self._store.acknowledge(context, key, reference)

    def next_subscription_messages(
        self, key: SubscriptionKey, after: Position | None, limit: int, skip: Positions = ()
    ) -> list[StoredMessage]:
        return self._store.next_subscription_messages(key, after, limit, skip)

    def subscription_message_count(self, key: SubscriptionKey) -> int:
        return self._store.subscription_message_count(key)
