"""A topic, which passes each message to every matching subscription and keeps none itself.

A message counts as used memory while a subscription or transaction retains it.
(ActiveMQ Topic; activemq-broker T1 to T6, T10, T19)
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import takewhile
from typing import TYPE_CHECKING, Final

from pyjms.errors import ResourceAllocationException
from pyjms.jms.destination import Destination
from pyjms.runtime import clock as _clock
from pyjms.runtime.logging import get_logger
from pyjms.wire.openwire.commands import ActiveMQMessage, Command, DataStructure
from pyjms.wire.openwire.primitives import encode_map
from pyjms_broker.api.completion import COMPLETED, Completion, all_of, completion_of
from pyjms_broker.api.context import ConnectionContext, ProducerExchange
from pyjms_broker.api.message import NO_TRANSACTION, MessageReference, copy_command
from pyjms_broker.api.subscription import Subscription
from pyjms_broker.api.transaction import Transaction
from pyjms_broker.policy.entry import PolicyEntry
from pyjms_broker.region.base_destination import ArrivalOrder, BaseDestination
from pyjms_broker.region.dead_letters import DeadLetterOrdering
from pyjms_broker.region.durable_subscription import DurableTopicSubscription
from pyjms_broker.region.memory_relief import Holder
from pyjms_broker.region.system_usage import DiskUsage
from pyjms_broker.region.topic_subscription import TopicSubscription
from pyjms_broker.region.transaction_work import PendingSend
from pyjms_broker.store.api import (
    OperationContext,
    StoredMessage,
    SubscriptionKey,
    TopicMessageStore,
)

if TYPE_CHECKING:
    from pyjms_broker.region.region_broker import RegionBroker

logger = get_logger(__name__)

_RETAIN: Final = "ActiveMQ.Retain"
_RETAINED: Final = "ActiveMQ.Retained"
RETAIN_MARK: Final = _RETAIN.encode()
"""The bytes in the marshalled properties of each message with the property, and of few others."""


class TopicRecovery:
    """The kept messages of one topic."""

    def __init__(self, topic: BaseDestination) -> None:
        policy = topic.policy.subscription_recovery_policy
        self._topic = topic
        self._kept = None if policy is None else policy.recovery_for(topic)
        self._retained: MessageReference | None = None
        self.wants_all = self._kept is not None
        """Whether `add` must be called for every message, not only for those with RETAIN_MARK."""

    def add(self, reference: MessageReference) -> bool:
        """Keep a message if required; return whether the topic may publish it."""
        properties = reference.properties
        if _RETAIN in properties:
            self._retain_or_clear(reference, properties)
        kept = self._kept
        if kept is None or reference.message.target_consumer_id is not None:
            return True
        may_publish = kept.add(reference)
        while self._is_memory_short() and kept.evict():
            pass
        return may_publish

    def _retain_or_clear(self, reference: MessageReference, properties: dict[str, object]) -> None:
        live = {name: value for name, value in properties.items() if name != _RETAIN}
        is_marked = str(properties[_RETAIN]).lower() == "true"
        published = copy_command(reference.message)  # the store may still write the original
        if is_marked:
            self._clear()
            if published.content:
                retained = copy_command(published)
                retained.marshalled_properties = encode_map({**live, _RETAINED: True})
                self._retain(self._topic.reference_to(retained))
            published.marshalled_properties = encode_map(live) if live else None
            reference.replace_message(published)

    def _retain(self, reference: MessageReference) -> None:
        reference.increment_reference_count()
        if self._is_memory_short():
            logger.warning("%s: memory is short, so a message is not retained", self._topic)
            reference.decrement_reference_count()
        else:
            self._retained = reference

    def _is_memory_short(self) -> bool:
        return self._topic.memory.is_above(self._topic.policy.cursor_memory_high_water_mark)

    def messages(self, requested: Destination) -> Iterator[MessageReference]:
        """Return the messages that a new consumer of `requested` may get, before selection."""
        if self._retained is not None and not self._retained.is_expired():
            yield self._retained
        for reference in () if self._kept is None else self._kept.messages(requested):
            if not reference.is_expired():
                yield reference

    def close(self) -> None:
        """Drop all messages, as the topic is removed or the broker stops. Idempotent."""
        self._clear()
        if self._kept is not None:
            self._kept.close()

    def _clear(self) -> None:
        if self._retained is not None:
            self._retained.decrement_reference_count()
            self._retained = None


_Subscriber = TopicSubscription | DurableTopicSubscription
_Subscribers = list[_Subscriber]


class Topic(BaseDestination):
    """A topic of the broker, permanent or temporary."""

    FIXED = ("prioritized_messages", "dispatch_policy", "subscription_recovery_policy")

    def __init__(
        self,
        broker: RegionBroker,
        destination: Destination,
        policy: PolicyEntry,
        store: TopicMessageStore | None,
    ) -> None:
        """Create a topic; `store` is None for temporary and advisory topics."""
        super().__init__(broker, destination, policy)
        self.store: TopicMessageStore | None = store
        self._is_concurrent = broker.store_capabilities.concurrent_store_and_dispatch_topics
        self._arrivals = ArrivalOrder(self.publish_retained, self._discard_unstored)
        self._unstored = self._arrivals.messages
        """Messages that become visible only once they are stored, and those behind them."""
        self._recovery = TopicRecovery(self)
        self._keeps_all = self._recovery.wants_all
        self._subscribers: _Subscribers = []
        self.durable_count = 0
        self._is_on_disk = store is not None and not broker.store_capabilities.is_volatile
        self._spooling: set[TopicSubscription] = set()
        """Subscriptions with pending messages in the temp store, to which new ones also go."""
        self._deferring: set[Transaction] = set()
        """Transactions whose persistent messages are stored at the commit, if at all."""
        if policy.dispatch_policy not in _DISPATCH_POLICIES:
            raise ValueError(
                f"policy entry for {destination}: unknown dispatch_policy "
                f"{policy.dispatch_policy!r}; use one of {', '.join(_DISPATCH_POLICIES)}"
            )
        self._reorder = _DISPATCH_POLICIES[policy.dispatch_policy]
        self._exclude = _EXCLUSIONS.get(policy.dispatch_policy)

    @property
    def consumers(self) -> list[Subscription]:
        return list(self._subscribers)

    # sending
    def send_run(self, exchange: ProducerExchange, messages: list[ActiveMQMessage]) -> int:
        """Publish the first of these messages together; return how many; see `take_run`.

        A subscriber gets all of them before the next one gets the first.
        """
        if exchange.transaction is not None or self.durable_count or self.needs_disk:
            return 0
        if self._keeps_all or self._reorder is not None or self._exclude is not None:
            return 0
        run = self.take_run(exchange, list(takewhile(_is_not_kept, messages)), is_stored=False)
        statistics = self.statistics
        for reference in run:
            statistics.total_size += reference.size
            if not statistics.min_size <= reference.size <= statistics.max_size:
                statistics.new_extreme_size(reference.size)
        statistics.enqueues += len(run)
        for subscriber in tuple(self._subscribers) if run else ():
            assert isinstance(subscriber, TopicSubscription), "there are no durable ones"
            subscriber.add_run(run)
        return len(run)

    def accept(self, exchange: ProducerExchange, reference: MessageReference) -> Completion:
        if exchange.transaction is not None:
            return self._accept_transacted(exchange.transaction, reference)
        stored: Completion = COMPLETED
        store = self.store if self.durable_count and reference.persistent else None
        if store is not None:
            stored = completion_of(
                store.add_message(NO_TRANSACTION, reference), store, "add_message"
            )
        if store is not None and reference.position is None:
            self.log_duplicate(reference)
        else:
            if stored is not COMPLETED:
                context = exchange.context
                stored.then(lambda done: self.report_lost(context, reference, done))
            must_wait = self.running_commits or not self._is_concurrent
            if self._unstored or (stored is not COMPLETED and must_wait):
                reference.increment_reference_count()
                self._arrivals.append(reference, stored)
            else:
                self._publish(reference)
        message = reference.cached or reference.message
        return stored if message.response_required else COMPLETED

    def _accept_transacted(
        self, transaction: Transaction, reference: MessageReference
    ) -> Completion:
        """Store the message with its transaction, now or at the commit.

        It is stored at the commit if no durable subscription exists yet, since one may by then.
        So are then all later messages of the transaction to this topic, in order.
        """
        stored: Completion = COMPLETED
        store = self.store if reference.persistent else None
        is_stored = (
            store is not None and self.durable_count > 0 and transaction not in self._deferring
        )
        if store is not None:
            if is_stored:
                context = OperationContext(transaction.xid)
                stored = completion_of(store.add_message(context, reference), store, "add_message")
            else:
                self._deferring.add(transaction)
        reference.increment_reference_count()  # an open transaction's messages also use memory
        transaction.add(_TopicSend(self, transaction, reference, is_stored))
        return stored

    def _discard_unstored(self, reference: MessageReference, error: Exception) -> None:
        reference.decrement_reference_count()

    def publish_retained(self, reference: MessageReference) -> None:
        """Publish a message and release the reference count that was taken until now."""
        self.publish(reference)
        reference.decrement_reference_count()

    def publish(self, reference: MessageReference) -> None:
        """Publish a message, unless it expired while its transaction was open."""
        if not reference.expiration or not reference.is_expired():
            self._publish(reference)
            return
        if reference.position is not None and self.store is not None:
            self.store.mark_visible(reference)
        self.on_expired(self.broker.context, reference, None)
        for subscriber in self._subscribers:
            if isinstance(subscriber, DurableTopicSubscription):
                self.store_dead_lettered(NO_TRANSACTION, reference, subscriber.key)

    def _publish(self, reference: MessageReference) -> None:
        statistics = self.statistics
        statistics.enqueues += 1
        statistics.total_size += reference.size
        if not statistics.min_size <= reference.size <= statistics.max_size:
            statistics.new_extreme_size(reference.size)
        if reference.position is not None and self.store is not None:
            self.store.mark_visible(reference)
        properties = reference.message.marshalled_properties
        if (
            self._keeps_all or (properties is not None and properties.find(RETAIN_MARK) >= 0)
        ) and not self._recovery.add(reference):
            return
        subscribers = self._subscribers
        excluded = () if self._exclude is None else self._exclude(subscribers, reference)
        first: _Subscriber | None = None
        for subscriber in tuple(subscribers):
            if subscriber not in excluded and subscriber.matches(reference):
                first = first or subscriber
                subscriber.add(reference)
            elif isinstance(subscriber, DurableTopicSubscription):
                self.store_acknowledgement(NO_TRANSACTION, reference, subscriber.key)
        if self._reorder is not None and first is not None:
            self._reorder(subscribers, first)
        if self.reports_arrivals:
            if first is None:
                self.report_no_consumer(reference)
            self.report_delivered(reference)

    # consumption
    def store_acknowledgement(
        self, context: OperationContext, reference: MessageReference, key: SubscriptionKey | None
    ) -> Completion:
        store = self.store
        if store is None or key is None or not reference.persistent:
            return COMPLETED
        return completion_of(store.acknowledge(context, key, reference), store, "acknowledge")

    def _dead_letter_ordering(self, key: SubscriptionKey | None) -> DeadLetterOrdering | None:
        subscription = None if self.store is None or key is None else self._durable(key)
        return None if subscription is None else subscription.dead_letter_ordering(self)

    def on_consumed(self, context: ConnectionContext, reference: MessageReference) -> None:
        self.statistics.dequeues += 1
        if self.reports_consumed:
            self.report_consumed(context, reference)

    def undo_consumed(self, reference: MessageReference) -> None:
        self.statistics.dequeues -= 1

    # transactions that were prepared before the broker started
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

    def memory_holders(self) -> Iterable[Holder]:
        if not self._is_on_disk:
            return ()
        return [each for each in self._subscribers if isinstance(each, DurableTopicSubscription)]

    # subscribers
    def add_subscription(self, context: ConnectionContext, subscription: Subscription) -> None:
        if not isinstance(subscription, TopicSubscription | DurableTopicSubscription):
            raise TypeError(f"{subscription} cannot subscribe to a topic")
        start = None
        if isinstance(subscription, DurableTopicSubscription):
            start = self._save(subscription)  # first, because the store may refuse it
        self.statistics.consumers += 1
        self._subscribers.append(subscription)
        if self.policy.dispatch_policy == "priority":
            self._subscribers.sort(key=lambda subscriber: -subscriber.info.priority)
        if isinstance(subscription, DurableTopicSubscription):
            self._count_durable(1)
            subscription.attach(self, start)
        else:
            subscription.attach(self, self._on_spooling_changed)
            for reference in self.kept_for(subscription):
                subscription.add(reference)

    def kept_for(self, subscription: Subscription) -> Iterator[MessageReference]:
        """Return the kept messages for a retroactive subscription, oldest first.

        Other subscriptions get none. (activemq-broker 4.2)
        """
        if not subscription.info.retroactive and not self.policy.always_retroactive:
            return
        for reference in self._recovery.messages(subscription.requested):
            if subscription.matches(reference):
                yield reference

    def _save(self, subscription: DurableTopicSubscription) -> int | None:
        """Store the subscription; return the last arrival number before it (None: no store)."""
        store = self.store
        if store is None:
            return None
        if store.lookup_subscription(subscription.key) is not None:
            return 0
        saved = completion_of(
            store.add_subscription(subscription.stored, subscription.info.retroactive),
            store,
            "add_subscription",
        )
        subscription.saved = all_of([subscription.saved, saved])
        return store.last_arrival

    def _has_subscription(self, subscription: Subscription) -> bool:
        return subscription in self._subscribers

    def _detach(self, subscription: Subscription, last_delivered_sequence_id: int) -> None:
        assert isinstance(subscription, TopicSubscription | DurableTopicSubscription)
        self._subscribers.remove(subscription)
        if isinstance(subscription, DurableTopicSubscription):
            self._count_durable(-1)
            subscription.detach(self)
            if self.store is not None:
                deleted = completion_of(
                    self.store.delete_subscription(subscription.key),
                    self.store,
                    "delete_subscription",
                )
                subscription.saved = all_of([subscription.saved, deleted])
        else:
            subscription.detach(self)
            self._on_spooling_changed(subscription, False)

    def _count_durable(self, change: int) -> None:
        """Count durable subscriptions; messages need space in the stores only if there are any."""
        self.durable_count += change
        self._update_needs_disk()

    def _on_spooling_changed(self, subscription: TopicSubscription, spooling: bool) -> None:
        (self._spooling.add if spooling else self._spooling.discard)(subscription)
        self._update_needs_disk()

    def _update_needs_disk(self) -> None:
        self.needs_disk = bool(self._spooling) or (self._is_on_disk and self.durable_count > 0)

    def full_disk(self, reference: MessageReference) -> DiskUsage | None:
        full = None
        if self._spooling:
            full = self.temp_usage.full(self.policy.store_usage_high_water_mark)
        if full is None and self._is_on_disk and self.durable_count:
            full = super().full_disk(reference)
        return full

    def stop_deferring(self, transaction: Transaction) -> None:
        """Drop an ended transaction, for which nothing remains to be stored."""
        self._deferring.discard(transaction)

    def messages(self) -> Iterator[MessageReference]:
        """Return an empty iterator: a topic keeps no messages itself."""
        return iter(())

    def expire_messages(self) -> None:
        for subscriber in tuple(self._subscribers):
            if isinstance(subscriber, DurableTopicSubscription):
                subscriber.expire_messages(self.policy.max_expire_page_size)

    def stop(self) -> None:
        self._recovery.close()

    def dispose(self, context: ConnectionContext) -> None:
        self.disposed = True
        self._recovery.close()
        if self.store is not None:
            self.store.remove_all_messages(NO_TRANSACTION)
        self.memory.close()


class _TopicSend(PendingSend):
    __slots__ = ("_is_stored", "_topic")

    def __init__(
        self, topic: Topic, transaction: Transaction, reference: MessageReference, is_stored: bool
    ) -> None:
        super().__init__(transaction, reference)
        self._topic = topic
        self._is_stored = is_stored

    def before_commit(self) -> None:
        super().before_commit()
        topic, reference = self._topic, self.reference
        if self._is_stored or topic.store is None or topic.disposed:
            return
        if not topic.durable_count or not reference.persistent:
            return
        stored = topic.store.add_message(OperationContext(self.transaction.xid), reference)
        completion_of(stored, topic.store, "add_message")
        self._is_stored = True

    def after_commit(self) -> None:
        topic, reference = self._topic, self.reference
        self._end()
        if topic.disposed:
            reference.decrement_reference_count()
        elif self._is_stored and reference.position is None:
            topic.log_duplicate(reference)
            reference.decrement_reference_count()
        else:
            topic.publish_retained(reference)

    def after_rollback(self) -> None:
        self._end()
        self.reference.decrement_reference_count()

    def _end(self) -> None:
        self.release()
        self._topic.stop_deferring(self.transaction)


def _is_not_kept(message: ActiveMQMessage) -> bool:
    properties = message.marshalled_properties
    return properties is None or RETAIN_MARK not in properties


def _rotate(subscribers: _Subscribers, first: _Subscriber) -> None:
    subscribers.remove(first)
    subscribers.append(first)


_DISPATCH_POLICIES: Final[dict[str, Callable[[_Subscribers, _Subscriber], None] | None]] = {
    "simple": None,
    "round_robin": _rotate,
    "strict_order": None,
    "priority": None,
    "priority_network": None,
    "client_id_filter": None,
}
"""Functions that reorder the subscribers after each message, or None, by dispatch policy."""


def _of_other_clients(
    subscribers: _Subscribers, reference: MessageReference
) -> Sequence[_Subscriber]:
    """Return the subscribers of other clients than the one that a message names, if it does.

    On a topic whose name does not end with the suffix, a message for one client reaches none.
    """
    properties = reference.message.marshalled_properties
    if properties is None or _CLIENT_ID.encode() not in properties:
        return ()
    wanted = reference.properties.get(_CLIENT_ID)
    if wanted is None:
        return ()
    if not reference.destination.destination.physical_name.endswith(_FOR_ONE_CLIENT):
        return tuple(subscribers)
    return [each for each in subscribers if _client_id(each) != wanted]


def _client_id(subscriber: _Subscriber) -> str | None:
    if isinstance(subscriber, DurableTopicSubscription):
        return subscriber.key.client_id
    return subscriber.context.client_id


def _with_a_better_path(
    subscribers: _Subscribers, _reference: MessageReference
) -> Sequence[_Subscriber]:
    """Return the bridges' subscriptions whose remote consumer another one serves better.

    The one of the highest priority gets the message, of equal ones the oldest.
    """
    best: list[_Subscriber] = []
    excluded: list[_Subscriber] = []
    for each in subscribers:
        path = each.info.network_consumer_path if each.info.network_subscription else None
        if not path:
            continue
        rivals = [b for b in best if not set(path).isdisjoint(b.info.network_consumer_path or ())]
        if any(rival.info.priority >= each.info.priority for rival in rivals):
            excluded.append(each)
        else:
            excluded += rivals
            best = [*(b for b in best if b not in rivals), each]
    return excluded


_CLIENT_ID: Final = "PTP_CLIENTID"
_FOR_ONE_CLIENT: Final = ".PTP"
_Exclude = Callable[[_Subscribers, MessageReference], Sequence[_Subscriber]]
_EXCLUSIONS: Final[dict[str, _Exclude]] = {
    "client_id_filter": _of_other_clients,
    "priority_network": _with_a_better_path,
}
"""Functions that return the subscribers that do not get a message, by dispatch policy."""


_LOG_PERIOD: Final = 60.0
"""Seconds between two log lines about dropped advisories of one topic."""
_STRUCTURE: Final = 1024
"""Bytes accounted for the command in an advisory, in addition to its strings."""


class AdvisoryTopic(Topic):
    """A topic `ActiveMQ.Advisory.*`: without a store, and without flow control."""

    dropped_count = 0
    """The number of missed advisories, summed over the consumers."""
    _next_log = 0.0

    def accept(self, exchange: ProducerExchange, reference: MessageReference) -> Completion:
        about = reference.message.data_structure
        if about is not None:
            reference.size += _size_of(about) + len(self.destination.physical_name)
        if not self._has_space():
            if exchange.transaction is not None:  # a client's: the broker's advisories have none
                raise ResourceAllocationException(f"{self} has no space for {reference.message_id}")
            self._publish_to_ready(reference)
            return COMPLETED
        return super().accept(exchange, reference)

    def _has_space(self) -> bool:
        if not self._spooling and not self.memory.is_full:
            return True
        if self.broker.temp_store is None or self.policy.pending_subscriber_policy == "vmCursor":
            return False
        return self.temp_usage.full() is None  # a spooled message needs no memory

    def _publish_to_ready(self, reference: MessageReference) -> None:
        """Publish to the consumers to which the message can be sent now."""
        self.statistics.enqueues += 1
        for subscriber in tuple(self._subscribers):
            if not subscriber.matches(reference):
                continue
            if subscriber.pending_count or subscriber.is_full():
                self._count_dropped()
            else:
                subscriber.add(reference)

    def _count_dropped(self) -> None:
        self.dropped_count += 1
        now = _clock.now()
        if now >= self._next_log:
            self._next_log = now + _LOG_PERIOD
            logger.warning(
                "%s: memory and temp store have no space, so consumers that are behind miss "
                "advisories (%d so far)",
                self,
                self.dropped_count,
            )


def _size_of(about: DataStructure | Destination) -> int:
    """Return the approximate memory size of a command, from its strings and destinations."""
    size = _STRUCTURE
    if not isinstance(about, Command):
        return size
    for field in about.LAYOUT:
        value = getattr(about, field.name)
        if isinstance(value, str | bytes):
            size += len(value)
        elif isinstance(value, Destination):
            size += len(value.physical_name)
    return size
