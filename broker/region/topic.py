"""A topic: hands each message to every subscription that wants it, and keeps none itself.

Memory counts a message while any subscription holds it. (ActiveMQ Topic; T1-T6, T10, T19)
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from broker.completion import Completion
from broker.context import ConnectionContext
from broker.policy.entry import PolicyEntry
from broker.region.destination import BaseDestination
from broker.region.durable_subscription import DurableTopicSubscription
from broker.region.message import MessageReference
from broker.region.subscription import Subscription
from broker.region.topic_subscription import TopicSubscription
from broker.store.api import SubscriptionKey, TopicMessageStore
from broker.transaction.local import Synchronization
from pyjms.jms.destination import Destination

if TYPE_CHECKING:
    from broker.region.region_broker import RegionBroker

__all__ = ["Topic"]

_Subscribers = list[TopicSubscription | DurableTopicSubscription]


class Topic(BaseDestination):
    """A topic of the broker, lasting or temporary."""

    def __init__(
        self,
        broker: RegionBroker,
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
        self._subscribers: _Subscribers = []
        self._durables = 0
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
    def accept(self, context: ConnectionContext, reference: MessageReference) -> Completion | None:
        stored = None
        if self._durables and reference.persistent and self.store is not None:
            stored = self.store.add_message(context, reference)
        transaction = context.transaction
        if transaction is None:
            self._publish(reference)
        else:
            self.hold(reference)  # what a transaction keeps is memory, too
            transaction.add(_Send(self, reference))
        return stored

    def _publish(self, reference: MessageReference) -> None:
        self.statistics.enqueues += 1
        subscribers = self._subscribers
        if not subscribers:
            return
        first: TopicSubscription | DurableTopicSubscription | None = None
        for subscriber in tuple(subscribers):
            if subscriber.matches(reference):
                first = first or subscriber
                subscriber.add(reference)
            elif isinstance(subscriber, DurableTopicSubscription):
                self.store_subscriber_acknowledgement(
                    self.broker.context, subscriber.key, reference
                )
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
        self, context: ConnectionContext, key: SubscriptionKey, reference: MessageReference
    ) -> Completion | None:
        if self.store is None or not reference.persistent:
            return None
        return self.store.acknowledge(context, key, reference.message_id)

    # subscribers
    def add_subscription(self, context: ConnectionContext, subscription: Subscription) -> None:
        if not isinstance(subscription, TopicSubscription | DurableTopicSubscription):
            raise TypeError(f"{subscription} cannot subscribe to a topic")
        self.statistics.consumers += 1
        self._subscribers.append(subscription)
        if self.policy.dispatch_policy == "priority":
            self._subscribers.sort(key=lambda subscriber: -subscriber.info.priority)
        if isinstance(subscription, DurableTopicSubscription):
            self._durables += 1
            subscription.joined(self)
            if self.store is not None:
                self.store.add_subscription(subscription.stored, retroactive=False)
        else:
            subscription.destinations.append(self)

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
            self._durables -= 1
            subscription.left(self)
            if self.store is not None:
                self.store.delete_subscription(subscription.key)
        else:
            subscription.destination_removed(self)

    def browse(self) -> list[MessageReference]:
        """Return nothing: a topic keeps nothing itself."""
        return []

    def expire_messages(self) -> None:
        for subscriber in tuple(self._subscribers):
            if isinstance(subscriber, DurableTopicSubscription):
                subscriber.expire_messages(self.policy.max_expire_page_size)

    def dispose(self, context: ConnectionContext) -> None:
        self.disposed = True
        if self.store is not None:
            self.store.remove_all_messages(context)
        self.memory.close()


class _Send(Synchronization):
    __slots__ = ("_reference", "_topic")

    def __init__(self, topic: Topic, reference: MessageReference) -> None:
        self._topic = topic
        self._reference = reference

    def after_commit(self) -> None:
        self._topic._publish(self._reference)
        self._topic.drop(self._reference)

    def after_rollback(self) -> None:
        self._topic.drop(self._reference)


def _rotate(subscribers: _Subscribers, first: TopicSubscription | DurableTopicSubscription) -> None:
    subscribers.remove(first)
    subscribers.append(first)


_DISPATCH_POLICIES: Final[
    dict[str, Callable[[_Subscribers, TopicSubscription | DurableTopicSubscription], None] | None]
] = {"simple": None, "round_robin": _rotate, "strict_order": None, "priority": None}
