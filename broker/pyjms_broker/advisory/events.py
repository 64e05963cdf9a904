"""Advisories about messages, slow consumers, fast producers and full memory.

They are sent if the policy of the message's destination says so; copies of a message for several
destinations cause one advisory each. (activemq-broker 11)
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from pyjms._logger import get_logger
from pyjms.errors import JMSException
from pyjms.jms.destination import Destination, Topic
from pyjms.jms.types import Long
from pyjms.wire.openwire import commands
from pyjms_broker.advisory import topics
from pyjms_broker.advisory.consumers import AdvisoryConsumers
from pyjms_broker.advisory.messages import AdvisoryProducer
from pyjms_broker.api.broker import Broker
from pyjms_broker.api.context import ConnectionContext
from pyjms_broker.api.copying import copy_for_destination
from pyjms_broker.api.filter import BrokerFilter, intercepted
from pyjms_broker.policy.map import PolicyMap
from pyjms_broker.region.topic.subscription import TopicSubscription

if TYPE_CHECKING:
    from pyjms_broker.api.destination import BrokerDestination
    from pyjms_broker.api.message import MessageReference
    from pyjms_broker.api.subscription import Subscription
    from pyjms_broker.api.usage import MemoryUsage

__all__ = ["EventAdvisories"]

logger = get_logger(__name__)

_NOTHING: dict[str, object] = {}


def _expiry(reference: MessageReference, _: Subscription | None) -> Mapping[str, object]:
    return {"orignalMessageId": str(reference.message_id)}


def _discarding(
    reference: MessageReference, subscription: Subscription | None
) -> Mapping[str, object]:
    properties = _origin(reference)
    if subscription is not None:
        properties["consumerId"] = str(subscription.info.consumer_id)
        if isinstance(subscription, TopicSubscription):
            properties["discardedCount"] = subscription.discarded_count
    return properties


def _advised(
    topic_for: Callable[[Destination], Topic],
    properties: Callable[[MessageReference, Subscription | None], Mapping[str, object]],
) -> Callable[[EventAdvisories, tuple[Any, ...], Callable[[], None]], None]:
    """Return a handler that passes an event on, and then sends an advisory about its message."""

    def handle(
        self: EventAdvisories, arguments: tuple[Any, ...], proceed: Callable[[], None]
    ) -> None:
        proceed()
        _, reference, subscription = arguments
        self.advise_of_message(topic_for, reference, properties(reference, subscription))

    return handle


class EventAdvisories(BrokerFilter):
    """Sends an advisory about each event that the region reports."""

    def __init__(
        self, next_broker: Broker, producer: AdvisoryProducer, policies: PolicyMap
    ) -> None:
        super().__init__(next_broker)
        self._producer = producer
        self._advisory_consumers = AdvisoryConsumers(policies)

    # messages
    message_expired = intercepted(Broker.message_expired, _advised(topics.expired_topic, _expiry))
    message_discarded = intercepted(
        Broker.message_discarded,
        _advised(partial(topics.about, "MessageDiscarded"), _discarding),
    )

    def send_to_dead_letter_queue(
        self,
        context: ConnectionContext,
        reference: MessageReference,
        subscription: Subscription | None,
        cause: commands.Throwable | None,
    ) -> bool:
        done = self.next.send_to_dead_letter_queue(context, reference, subscription, cause)
        if done:
            self.advise_of_message(partial(topics.about, "MessageDLQd"), reference, _NOTHING)
        return done

    def message_delivered(self, context: ConnectionContext, reference: MessageReference) -> None:
        self.next.message_delivered(context, reference)
        self.advise_of_message(
            partial(topics.about, "MessageDelivered"), reference, _origin(reference)
        )

    def message_dispatched(
        self, context: ConnectionContext, reference: MessageReference, subscription: Subscription
    ) -> None:
        self.next.message_dispatched(context, reference, subscription)
        self.advise_of_message(
            partial(topics.about, "MessageDispatched"),
            reference,
            {**_origin(reference), "consumerId": str(subscription.info.consumer_id)},
        )

    def message_consumed(self, context: ConnectionContext, reference: MessageReference) -> None:
        self.next.message_consumed(context, reference)
        self.advise_of_message(
            partial(topics.about, "MessageConsumed"), reference, _origin(reference)
        )

    def message_without_consumers(
        self, context: ConnectionContext, reference: MessageReference
    ) -> None:
        """Send the message itself to the advisory topic, not an advisory about it."""
        self.next.message_without_consumers(context, reference)
        topic = topics.no_consumer_topic(reference.destination.destination)
        if not self._advisory_consumers.includes(topic):
            return
        message = reference.message
        is_forwarded = message.original_destination is not None
        copy = copy_for_destination(message, topic, message.destination if is_forwarded else None)
        copy.transaction_id = None
        copy.response_required = False
        copy.raw = None
        self._send_message(copy)

    # consumers, producers, memory
    def slow_consumer(
        self, context: ConnectionContext, destination: BrokerDestination, subscription: Subscription
    ) -> None:
        self.next.slow_consumer(context, destination, subscription)
        properties = {"consumerId": str(subscription.info.consumer_id)}
        self._advise_of_destination("SlowConsumer", destination, subscription.info, properties)

    def fast_producer(
        self,
        context: ConnectionContext,
        info: commands.ProducerInfo,
        destination: BrokerDestination,
    ) -> None:
        self.next.fast_producer(context, info, destination)
        properties = {"producerId": str(info.producer_id)}
        self._advise_of_destination("FastProducer", destination, info, properties)

    def destination_full(
        self, context: ConnectionContext, destination: BrokerDestination, usage: MemoryUsage
    ) -> None:
        self.next.destination_full(context, destination, usage)
        properties = {"usageName": usage.name, "usageCount": Long(usage.used)}
        self._advise_of_destination("FULL", destination, None, properties)

    # sending
    def _advise_of_destination(
        self,
        event: str,
        destination: BrokerDestination,
        about: commands.Command | None,
        properties: Mapping[str, object],
    ) -> None:
        if topics.is_advisory_topic(destination.destination):
            return
        topic = topics.about(event, destination.destination)
        if self._advisory_consumers.includes(topic):
            self._send(topic, about, None, properties)

    def advise_of_message(
        self,
        topic_for: Callable[[Destination], Topic],
        reference: MessageReference,
        properties: Mapping[str, object],
    ) -> None:
        """Send an advisory about a message, with these properties, if its topic has consumers."""
        base, message = reference.destination, reference.message
        sent_to = message.destination
        if sent_to is None or topics.is_advisory_topic(base.destination):
            return
        topic = topic_for(base.destination)
        if self._advisory_consumers.includes(topic):
            copy = copy_for_destination(message, sent_to, message.original_destination)
            if not base.advisories_include_body:
                copy.content = copy.raw = None
            self._send(topic, copy, None, properties)

    def _send(
        self,
        topic: Topic,
        about: commands.Command | None,
        target: commands.ConsumerId | None,
        properties: Mapping[str, object],
    ) -> None:
        self._send_message(self._producer.message(topic, about, target, properties))

    def _send_message(self, message: commands.ActiveMQMessage) -> None:
        try:
            self.next.send(self._producer.exchange(), message)
        except JMSException:
            logger.warning("Failed to send an advisory to %s", message.destination, exc_info=True)


def _origin(reference: MessageReference) -> dict[str, object]:
    """Return the origin of a message; the misspelt names are the official ones."""
    return {
        "orignalMessageId": str(reference.message_id),
        "orignalDestination": reference.destination.destination.qualified_name,
    }
