"""The store of one topic: its messages and durable subscriptions.

(activemq-persistence J3, J5)
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from pyjms_broker.api.completion import COMPLETED, Completion
from pyjms_broker.api.message import (
    OperationContext,
    Position,
    Positions,
    StoredMessage,
    SubscriptionKey,
)
from pyjms_broker.store.api import StoredSubscription
from pyjms_broker.store.jdbc.execution.operations import (
    AddMessage,
    AddSubscription,
    RemoveSubscription,
    SetPrioritized,
)
from pyjms_broker.store.jdbc.stores.context import StoreContext, StoredDestination
from pyjms_broker.store.jdbc.stores.message_store import (
    JDBCMessageStore,
    PageQuery,
)
from pyjms_broker.store.jdbc.stores.work import Acknowledgement, Subscriber, WorkQueue

if TYPE_CHECKING:
    from pyjms_broker.api.message import MessageReference

__all__ = ["JDBCTopicMessageStore"]


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
