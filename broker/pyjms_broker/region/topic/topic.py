"""A topic: hands each message to every subscription that wants it, and keeps none itself.

Memory counts a message while any subscription holds it.
(ActiveMQ Topic; activemq-broker T1 to T6, T10, T19)
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Final

from pyjms.jms.destination import Destination
from pyjms_broker.api.completion import Completion, all_of
from pyjms_broker.api.context import ConnectionContext
from pyjms_broker.api.message import (
    NO_TRANSACTION,
    MessageReference,
    OperationContext,
    StoredMessage,
    SubscriptionKey,
)
from pyjms_broker.api.subscription import Subscription
from pyjms_broker.api.transaction import Transaction
from pyjms_broker.policy.entry import PolicyEntry
from pyjms_broker.region.arrival_order import arrival_order
from pyjms_broker.region.base_destination import BaseDestination
from pyjms_broker.region.flow.disk_usage import DiskUsage
from pyjms_broker.region.topic.durable_subscription import DurableTopicSubscription
from pyjms_broker.region.topic.subscription import TopicSubscription
from pyjms_broker.region.transacted_send import OpenSend
from pyjms_broker.store.api import TopicMessageStore

if TYPE_CHECKING:
    from pyjms_broker.region.services import RegionServices

__all__ = ["Topic"]

_Subscribers = list[TopicSubscription | DurableTopicSubscription]


class Topic(BaseDestination):
    """A topic of the broker, lasting or temporary."""

    def __init__(
        self,
        broker: RegionServices,
        destination: Destination,
        policy: PolicyEntry,
        store: TopicMessageStore | None,
    ) -> None:
        """Make a topic; `store` None keeps nothing (temporary and advisory topics).

        Raises:
            ValueError: the policy names an unknown dispatch policy.
        """
        super().__init__(broker, destination, policy)
        self.store = store
        traits = broker.store_capabilities
        self._is_concurrent = traits.concurrent_store_and_dispatch_topics
        self._line, self._wait_in_line = arrival_order(self.publish_held, self._refused)
        self._subscribers: _Subscribers = []
        self.durable_count = 0
        self._is_kept = store is not None and not traits.is_volatile
        self._spooling: set[Subscription] = set()
        """Those whose pending messages are in the temp store, and the next ones will be."""
        self._deferring: set[Transaction] = set()
        """Transactions whose persistent messages are stored at their end, if at all."""
        if policy.dispatch_policy not in _DISPATCH_POLICIES:
            raise ValueError(
                f"unknown dispatch policy {policy.dispatch_policy!r}: "
                f"known are {', '.join(_DISPATCH_POLICIES)}"
            )
        self._reorder = _DISPATCH_POLICIES[policy.dispatch_policy]

    @property
    def consumers(self) -> list[Subscription]:
        return list(self._subscribers)

    # in
    def accept(
        self,
        context: ConnectionContext,
        reference: MessageReference,
        transaction: Transaction | None = None,
    ) -> Completion | None:
        if transaction is not None:
            return self._accept_later(transaction, reference)
        stored = None
        store = self.store if self.durable_count and reference.persistent else None
        if store is not None:
            stored = store.add_message(NO_TRANSACTION, reference)
        if store is not None and reference.position is None:
            self.repeated(reference)
        else:
            if stored is not None:
                stored.then(lambda done: self.tell_if_lost(context, reference, done))
            if self._line or (stored is not None and (self.commits or not self._is_concurrent)):
                self.hold(reference)
                self._wait_in_line(reference, stored)
            else:
                self._publish(reference)
        return stored if reference.message.response_required else None

    def _accept_later(
        self, transaction: Transaction, reference: MessageReference
    ) -> Completion | None:
        """Store the message with its transaction: now, or where nobody needs it yet, at the end.

        The transaction's others on the topic follow it, for their order.
        """
        stored = None
        store = self.store if reference.persistent else None
        is_stored = (
            store is not None and self.durable_count > 0 and transaction not in self._deferring
        )
        if store is not None:
            if is_stored:
                stored = store.add_message(OperationContext(transaction.xid), reference)
            else:
                self._deferring.add(transaction)
        self.hold(reference)  # what a transaction keeps is memory, too
        transaction.add(_Send(self, transaction, reference, is_stored))
        return stored

    def _refused(self, reference: MessageReference, error: Exception) -> None:
        self.drop(reference)

    def publish_held(self, reference: MessageReference) -> None:
        self._publish(reference)
        self.drop(reference)

    def publish(self, reference: MessageReference) -> None:
        self._publish(reference)

    def _publish(self, reference: MessageReference) -> None:
        self.statistics.enqueues += 1
        if reference.position is not None and self.store is not None:
            self.store.mark_visible(reference)
        subscribers = self._subscribers
        if not subscribers:
            return
        first: TopicSubscription | DurableTopicSubscription | None = None
        for subscriber in tuple(subscribers):
            if subscriber.matches(reference):
                first = first or subscriber
                subscriber.add(reference)
            elif isinstance(subscriber, DurableTopicSubscription):
                self.store_subscriber_acknowledgement(NO_TRANSACTION, subscriber.key, reference)
        if self._reorder is not None and first is not None:
            self._reorder(subscribers, first)

    # memory
    def hold(self, reference: MessageReference) -> None:
        if not reference.reference_count:
            self.memory.increase(reference.size)
        reference.reference_count += 1

    def drop(self, reference: MessageReference) -> None:
        reference.reference_count -= 1
        if not reference.reference_count:
            reference.dropped = True
            self.memory.decrease(reference.size)

    def store_subscriber_acknowledgement(
        self, context: OperationContext, key: SubscriptionKey, reference: MessageReference
    ) -> Completion | None:
        if self.store is None or not reference.persistent:
            return None
        return self.store.acknowledge(context, key, reference)

    # prepared transactions from before the start
    def hide(self, stored: StoredMessage, key: SubscriptionKey | None) -> MessageReference:
        subscription = self._durable(key)
        if subscription is None:
            return self.reference_to(stored.message, stored.position)
        return subscription.hide(self, stored)

    def forget_hidden(self, reference: MessageReference, key: SubscriptionKey | None) -> None:
        subscription = self._durable(key)
        if subscription is not None:
            subscription.forget_hidden(reference)

    def restore(self, reference: MessageReference, key: SubscriptionKey | None) -> None:
        subscription = self._durable(key)
        if subscription is not None:
            subscription.restore(reference)

    def _durable(self, key: SubscriptionKey | None) -> DurableTopicSubscription | None:
        return next(
            (
                subscriber
                for subscriber in self._subscribers
                if isinstance(subscriber, DurableTopicSubscription) and subscriber.key == key
            ),
            None,
        )

    # subscribers
    def add_subscription(self, context: ConnectionContext, subscription: Subscription) -> None:
        if not isinstance(subscription, TopicSubscription | DurableTopicSubscription):
            raise TypeError(f"{subscription} cannot subscribe to a topic")
        start = None
        if isinstance(subscription, DurableTopicSubscription):
            start = self._save(subscription)  # one that the store refuses has no part in the topic
        self.statistics.consumers += 1
        self._subscribers.append(subscription)
        if self.policy.dispatch_policy == "priority":
            self._subscribers.sort(key=lambda subscriber: -subscriber.info.priority)
        if isinstance(subscription, DurableTopicSubscription):
            self._count_durable(1)
            subscription.joined(self, start)
        else:
            subscription.destinations.append(self)
            if subscription.is_spooling:
                self.spooling_changed(subscription, True)

    def _save(self, subscription: DurableTopicSubscription) -> int | None:
        """Have the store know it; return the last arrival before it, None without a store."""
        store = self.store
        if store is None:
            return None
        if store.lookup_subscription(subscription.key) is not None:
            return 0
        saved = store.add_subscription(subscription.stored, retroactive=False)
        subscription.saved = all_of([subscription.saved, saved])
        return store.last_arrival

    def remove_subscription(
        self,
        context: ConnectionContext,
        subscription: Subscription,
        last_delivered_sequence_id: int,
    ) -> None:
        """Take a subscription away; a durable one for good."""
        if not isinstance(subscription, TopicSubscription | DurableTopicSubscription):
            return
        if subscription not in self._subscribers:
            return
        self.statistics.consumers -= 1
        self._subscribers.remove(subscription)
        if isinstance(subscription, DurableTopicSubscription):
            self._count_durable(-1)
            subscription.left(self)
            if self.store is not None:
                forgotten = self.store.delete_subscription(subscription.key)
                subscription.saved = all_of([subscription.saved, forgotten])
        else:
            subscription.destination_removed(self)
            self.spooling_changed(subscription, False)

    def _count_durable(self, change: int) -> None:
        """Count durable subscriptions: with one, messages need room in the stores.

        (activemq-broker M3, T6)
        """
        self.durable_count += change
        self._update_needs_disk()

    def spooling_changed(self, subscription: Subscription, spooling: bool) -> None:
        (self._spooling.add if spooling else self._spooling.discard)(subscription)
        self._update_needs_disk()

    def _update_needs_disk(self) -> None:
        self.needs_disk = bool(self._spooling) or (self._is_kept and self.durable_count > 0)

    def full_disk(self, reference: MessageReference) -> DiskUsage | None:
        full = None
        if self._spooling:
            full = self.temp_usage.full(self.policy.store_usage_high_water_mark)
        if full is None and self._is_kept and self.durable_count:
            full = super().full_disk(reference)
        return full

    def stop_deferring(self, transaction: Transaction) -> None:
        """Forget an ended transaction, some of whose sends were to be stored at its commit."""
        self._deferring.discard(transaction)

    def messages(self) -> Iterator[MessageReference]:
        """Go through nothing: a topic keeps nothing itself."""
        return iter(())

    def expire_messages(self) -> None:
        for subscriber in tuple(self._subscribers):
            if isinstance(subscriber, DurableTopicSubscription):
                subscriber.expire_messages(self.policy.max_expire_page_size)

    def dispose(self, context: ConnectionContext) -> None:
        self.disposed = True
        if self.store is not None:
            self.store.remove_all_messages(NO_TRANSACTION)
        self.memory.close()


class _Send(OpenSend):
    __slots__ = ("_is_stored", "_topic")

    def __init__(
        self, topic: Topic, transaction: Transaction, reference: MessageReference, is_stored: bool
    ) -> None:
        super().__init__(topic.broker, transaction, reference)
        self._topic = topic
        self._is_stored = is_stored

    def before_commit(self) -> None:
        super().before_commit()
        topic, reference = self._topic, self.reference
        if self._is_stored or topic.store is None or topic.disposed:
            return
        if not topic.durable_count or not reference.persistent:
            return
        topic.store.add_message(OperationContext(self.transaction.xid), reference)
        self._is_stored = True

    def after_commit(self) -> None:
        topic, reference = self._topic, self.reference
        self._ended()
        if topic.disposed:
            topic.drop(reference)
        elif self._is_stored and reference.position is None:
            topic.repeated(reference)
            topic.drop(reference)
        else:
            topic.publish_held(reference)

    def after_rollback(self) -> None:
        self._ended()
        self._topic.drop(self.reference)

    def _ended(self) -> None:
        self.release()
        self._topic.stop_deferring(self.transaction)


def _rotate(subscribers: _Subscribers, first: TopicSubscription | DurableTopicSubscription) -> None:
    subscribers.remove(first)
    subscribers.append(first)


_DISPATCH_POLICIES: Final[
    dict[str, Callable[[_Subscribers, TopicSubscription | DurableTopicSubscription], None] | None]
] = {"simple": None, "round_robin": _rotate, "strict_order": None, "priority": None}
