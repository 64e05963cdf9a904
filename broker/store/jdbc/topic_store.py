"""The messages of one topic and its durable subscriptions. (J3, J5)"""

from __future__ import annotations

from collections.abc import Callable, Container
from typing import TYPE_CHECKING, Any

from broker.api.completion import Completion
from broker.api.context import ConnectionContext
from broker.api.message import Position, StoredMessage, SubscriptionKey
from broker.store.api import StoredSubscription
from broker.store.jdbc.core import Core
from broker.store.jdbc.message_store import JDBCMessageStore
from broker.store.jdbc.operations import (
    AddMessage,
    AddSubscription,
    RemoveSubscription,
    SetPrioritized,
)
from broker.store.jdbc.work import Acknowledgement
from pyjms.jms.destination import Destination

if TYPE_CHECKING:
    from broker.api.message import MessageReference
    from broker.store.jdbc.transactions import JDBCTransactionStore

__all__ = ["JDBCTopicMessageStore", "Subscriber"]


class Subscriber:
    """A durable subscription, and what of it is not in the tables yet."""

    def __init__(self, subscription: StoredSubscription, count: int, start: int) -> None:
        self.stored = subscription
        self.count = count
        self.start = start
        """Messages up to here came before it."""
        self.acknowledged: set[int] = set()
        """On the way to the table."""
        self.hidden: set[int] = set()
        """Acknowledged in a prepared transaction."""


class JDBCTopicMessageStore(JDBCMessageStore):
    """ActiveMQ: JDBCTopicMessageStore, except that no message is lost which a subscription
    passes over: what is acknowledged ahead of others is listed, LAST_ACKED_ID stays (J6).
    """

    def __init__(
        self,
        core: Core,
        transactions: JDBCTransactionStore,
        destination: Destination,
        prioritized: bool,
        base: int,
        epoch: int,
    ) -> None:
        super().__init__(core, transactions, destination, prioritized, base, epoch)
        self._subscriptions: dict[SubscriptionKey, Subscriber] = {}
        self._unwritten = 0
        self._counted: dict[int, list[Subscriber]] = {}
        """Who counted a message that is on its way to the table."""

    def load_subscription(self, subscription: StoredSubscription, count: int) -> None:
        """Begin with a subscription that the tables have."""
        self._subscriptions[subscription.key] = Subscriber(subscription, count, self.base)

    def set_prioritized(self, prioritized: bool) -> None:
        """Heed priorities, or not, whatever the tables were made for."""
        self.prioritized = prioritized
        if self._subscriptions:
            operation = SetPrioritized(self.container, prioritized)
            self.core.submit((operation,), lambda _: None)

    def add_subscription(
        self, subscription: StoredSubscription, retroactive: bool
    ) -> Completion | None:
        key = subscription.key
        start = self.base if retroactive else self._last_id
        self._subscriptions[key] = Subscriber(subscription, 0, start)

        def done(error: Exception | None) -> None:
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
        return self.core.submit((operation,), done)

    def delete_subscription(self, key: SubscriptionKey) -> Completion | None:
        found = self._subscriptions.pop(key, None)
        if found is None:
            return None

        def done(error: Exception | None) -> None:
            if error is not None:
                self._subscriptions.setdefault(key, found)

        operation = RemoveSubscription(self.container, *key, self.prioritized)
        return self.core.submit((operation,), done)

    def lookup_subscription(self, key: SubscriptionKey) -> StoredSubscription | None:
        found = self._subscriptions.get(key)
        return None if found is None else found.stored

    def subscriptions(self) -> list[StoredSubscription]:
        return [found.stored for found in self._subscriptions.values()]

    def acknowledge(
        self, context: ConnectionContext, key: SubscriptionKey, reference: MessageReference
    ) -> Completion | None:
        if key not in self._subscriptions:
            return None
        position = reference.position or self._find(reference.message_id)
        if position is None:
            return None
        number = self.id_at(position)
        work = Acknowledgement(self, key, number, reference.priority, reference.size)
        return self._do(context, work)

    def next_subscription_messages(
        self,
        key: SubscriptionKey,
        after: Position | None,
        limit: int,
        skip: Container[Position] = (),
    ) -> list[StoredMessage]:
        found = self._subscriptions.get(key)
        if found is None:
            return []
        self.core.settle(self.container)
        page = self.core.statements.subscription_page[self.prioritized]
        parameters: dict[str, object] = {
            "client": key.client_id,
            "subscription": key.subscription_name,
        }
        return self._page(page, parameters, after, limit, skip, _filter(self, found))

    def subscription_message_count(self, key: SubscriptionKey) -> int:
        if key in self._subscriptions:
            self.core.settle(self.container)
        found = self._subscriptions.get(key)
        return 0 if found is None else found.count

    def remove_all_messages(self, context: ConnectionContext) -> Completion | None:
        before = [(found, found.count) for found in self._subscriptions.values()]
        for found, _ in before:
            found.count = 0

        def done(answer: Completion) -> None:
            if answer.error is not None:
                for found, count in before:
                    found.count += count

        answer = super().remove_all_messages(context)
        if answer is not None:
            answer.then(done)
        return answer

    @property
    def message_count(self) -> int:
        """Messages that a subscription has still to get; settles acknowledgements first."""
        self._settle()
        return self._count

    @property
    def message_size(self) -> int:
        self._settle()
        return self._size

    # -- what works tell

    @property
    def subscribers(self) -> int:
        return len(self._subscriptions)

    @property
    def is_wanted(self) -> bool:
        return bool(self._subscriptions)  # else nobody would ever acknowledge it (T6)

    def add(self, message: AddMessage) -> None:
        counted = self._counted[message.id] = list(self._subscriptions.values())
        for found in counted:
            found.count += 1
        super().add(message)

    def added(self, message: AddMessage, error: Exception | None) -> None:
        for found in self._counted.pop(message.id, ()):
            if error is not None:
                found.count -= 1
        super().added(message, error)

    def hide(self, key: SubscriptionKey, message_id: int) -> None:
        """A prepared transaction has acknowledged the message."""
        found = self._subscriptions.get(key)
        if found is not None:
            found.hidden.add(message_id)

    def unhide(self, key: SubscriptionKey, message_id: int) -> None:
        """It was rolled back."""
        found = self._subscriptions.get(key)
        if found is not None:
            found.hidden.discard(message_id)

    def acknowledged(self, key: SubscriptionKey, message_id: int) -> Subscriber | None:
        """Show the subscription no more of a message and return it; None: it had none."""
        found = self._subscriptions.get(key)
        if found is None or message_id in found.acknowledged:
            return None
        found.acknowledged.add(message_id)
        found.count -= 1
        self._unwritten += 1
        return found

    def acknowledgement_done(
        self, found: Subscriber, message_id: int, error: Exception | None
    ) -> None:
        """The acknowledgement is in the tables, or is not."""
        self._unwritten -= 1
        found.acknowledged.discard(message_id)
        found.hidden.discard(message_id)
        if error is not None:
            found.count += 1

    def correct_subscription(self, key: SubscriptionKey, count: int) -> None:
        """Add what the database knew better."""
        found = self._subscriptions.get(key)
        if found is not None:
            found.count = max(0, found.count + count)

    # -- inside

    @property
    def _page_statement(self) -> Any:
        return self.core.statements.topic_page[self.prioritized]

    @property
    def _find_statement(self) -> Any:
        return self.core.statements.find_live_message[self.prioritized]

    def _settle(self) -> None:
        """Only the database knows whose acknowledgement was the last."""
        if self._unwritten:
            self.core.writer.settle()
        else:
            self.core.settle(self.container)


def _filter(store: JDBCTopicMessageStore, found: Subscriber) -> Callable[[int], bool]:
    def visible(message_id: int) -> bool:
        return (
            message_id > found.start
            and message_id not in found.acknowledged
            and message_id not in found.hidden
            and store.overlay.is_visible(message_id)
        )

    return visible
