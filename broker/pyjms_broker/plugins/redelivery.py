"""redeliveryPlugin: redelivers messages later, instead of dead-lettering them.

A poison acknowledgement turns a message into a scheduled message for the same queue. The original
is removed only once the scheduled one is stored, so that a crash loses nothing. (activemq-broker
R10)
"""

from __future__ import annotations

import itertools
from abc import abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from pyjms.errors import ConfigurationException
from pyjms.jms.destination import Destination
from pyjms.jms.metadata import DUPLICATE_ID_PROPERTY
from pyjms.jms.redelivery import next_delay
from pyjms.jms.scheduled import AMQ_SCHEDULED_DELAY, AMQ_SCHEDULED_ID
from pyjms.jms.types import Long
from pyjms.runtime.ids import IdGenerator
from pyjms.runtime.logging import get_logger
from pyjms.wire.openwire.commands import ActiveMQMessage, MessageId, ProducerId, Throwable
from pyjms.wire.openwire.primitives import encode_map
from pyjms_broker.api.broker import Broker, BrokerFilter
from pyjms_broker.api.completion import COMPLETED, all_of, completion_of
from pyjms_broker.api.context import ConnectionContext, ProducerExchange
from pyjms_broker.api.message import MessageReference, copy_command
from pyjms_broker.api.subscription import Subscription
from pyjms_broker.attribute import attribute, count, duration, flag
from pyjms_broker.filters.scheduler.schedule_properties import number_of
from pyjms_broker.policy.wildcard import matches, specificity

logger = get_logger(__name__)


class DeadLetterFilter(BrokerFilter):
    """Passes on the dead letters that `is_dead_letter` allows; acknowledgement always continues."""

    def send_to_dead_letter_queue(
        self,
        context: ConnectionContext,
        reference: MessageReference,
        subscription: Subscription | None,
        cause: Throwable | None,
    ) -> bool:
        return self.is_dead_letter(reference) and self.next.send_to_dead_letter_queue(
            context, reference, subscription, cause
        )

    @abstractmethod
    def is_dead_letter(self, reference: MessageReference) -> bool:
        """Return whether the rest of the chain should dead-letter the message.

        Called once per message, so an implementation may also process the message.
        """


REDELIVERY_DELAY: Final = "redeliveryDelay"
"""The property with the delay of the last redelivery in milliseconds."""
_LEAST_DELAY: Final = 1.0
_UNLIMITED: Final = -1


@dataclass(frozen=True, kw_only=True)
class RedeliveryPolicy:
    """The number and the times of redeliveries for the messages of a destination.

    Source: ActiveMQ RedeliveryPolicy, as used by the broker.

    Raises:
        ConfigurationException: a delay is below one second.
    """

    destination: Destination | None = None
    """The queue or topic, possibly a pattern; None: all destinations without another policy."""
    maximum_redeliveries: int = attribute(
        6, "How often a message is delivered again; -1: no limit.", minimum=_UNLIMITED
    )
    initial_redelivery_delay: float = duration(1.0, "Time before the first redelivery, 1s or more.")
    redelivery_delay: float = duration(1.0, "Time before each further redelivery, 1s or more.")
    use_exponential_back_off: bool = flag(
        "Whether this time is multiplied for each further redelivery."
    )
    back_off_multiplier: float = attribute(5.0, "Factor of the time; 1 or less: no multiplication.")
    maximum_redelivery_delay: float = duration(0.0, "Maximum time; 0: unlimited.")
    use_collision_avoidance: bool = flag("Whether the times of further redeliveries vary randomly.")
    collision_avoidance_percent: int = count(15, "Maximum variation in percent.", maximum=100)

    def __post_init__(self) -> None:
        for name in ("initial_redelivery_delay", "redelivery_delay"):
            delay = getattr(self, name)
            if delay < _LEAST_DELAY:
                where = "" if self.destination is None else f" for {self.destination}"
                raise ConfigurationException(
                    f"{name} of a redelivery policy{where} is {delay:g} s",
                    hint="the broker delivers again after one second at the earliest; for shorter "
                    "times use the redelivery policy of the client",
                )

    def allows(self, redeliveries: int) -> bool:
        """Return whether a message with this number of redeliveries may be redelivered again."""
        return self.maximum_redeliveries == _UNLIMITED or redeliveries < self.maximum_redeliveries

    def delay(self, redeliveries: int, previous: float) -> float:
        """Return the delay of the next redelivery in seconds; `previous` is the last delay."""
        longest = self.maximum_redelivery_delay
        last = previous if redeliveries else None
        return next_delay(self, last, longest if longest > 0 else None)


@dataclass(frozen=True, kw_only=True)
class RedeliveryPlugin:
    """Redelivers messages according to policies. Source: ActiveMQ RedeliveryPlugin.

    Raises:
        ConfigurationException: there are several policies for the same destination.
    """

    send_to_dlq_if_max_retries_exceeded: bool = flag(
        "Whether a message is dead-lettered after its last redelivery; false: it is discarded.",
        default=True,
    )
    fallback_to_dead_letter: bool = flag(
        "Whether messages without a policy are dead-lettered; false: they are discarded.",
        default=True,
    )
    redelivery_policy_map: tuple[RedeliveryPolicy, ...] = ()
    """The policies, of which the most specific applies; one may have no destination."""

    def __post_init__(self) -> None:
        destinations = [policy.destination for policy in self.redelivery_policy_map]
        for each in destinations:
            if destinations.count(each) > 1:
                what = "without a destination" if each is None else f"for {each}"
                raise ConfigurationException(
                    f"redelivery_policy_map: there is more than one policy {what}",
                    hint="keep one of them",
                )

    def install_plugin(self, broker: Broker) -> Broker:
        """Return the filter around `broker`.

        Raises:
            ConfigurationException: the broker has no scheduler.
        """
        if not broker.scheduler_support:
            raise ConfigurationException(
                "The redelivery plug-in needs the scheduler", hint="set scheduler_support: true"
            )
        return RedeliveryBroker(broker, self)


class RedeliveryBroker(DeadLetterFilter):
    """Schedules messages that would be dead-lettered, unless they have expired."""

    def __init__(self, next_broker: Broker, options: RedeliveryPlugin) -> None:
        super().__init__(next_broker)
        self._options = options
        self._producer_id = ProducerId(IdGenerator().generate())
        self._numbers = itertools.count(1)

    def is_dead_letter(self, reference: MessageReference) -> bool:
        options = self._options
        destination = reference.destination.destination
        policy = _policy_for(destination, options.redelivery_policy_map)
        if reference.is_expired():
            dead = True
        elif policy is None:
            dead = options.fallback_to_dead_letter
        elif policy.allows(reference.redelivery_counter):
            self._schedule(reference, policy)
            return False
        else:
            dead = options.send_to_dlq_if_max_retries_exceeded
        if dead:
            return True
        logger.debug("%s: message %s discarded", destination, reference.message_id)
        return False

    def _schedule(self, reference: MessageReference, policy: RedeliveryPolicy) -> None:
        message = _redelivery_of(reference, policy)
        # Duplicate audits know the original, so this must be a different message. A queue no longer
        # has the original, so JMSMessageID, the text, stays; a topic may have it for others.
        is_queue = reference.destination.destination.is_queue
        text = str(reference.message_id) if is_queue else None
        message.message_id = MessageId(text, self._producer_id, next(self._numbers))
        context = ConnectionContext()
        context.is_broker = True
        context.user_name = message.user_id
        exchange = ProducerExchange(context)
        exchange.is_redelivery = True
        stored = completion_of(self.next.send(exchange, message), self.next, "send")
        if reference.dead_letter.done:
            reference.dead_letter = COMPLETED
        if stored is not COMPLETED:
            reference.dead_letter = all_of([reference.dead_letter, stored])


def _redelivery_of(reference: MessageReference, policy: RedeliveryPolicy) -> ActiveMQMessage:
    """Return the message that is scheduled; the caller sets its id."""
    message = reference.message
    properties = message.properties
    redeliveries = reference.redelivery_counter
    previous = (number_of(properties, REDELIVERY_DELAY) or 0) / 1000
    delay = Long(round(policy.delay(redeliveries, previous) * 1000))
    for name in (AMQ_SCHEDULED_ID, DUPLICATE_ID_PROPERTY):  # they identify the earlier delivery
        properties.pop(name, None)
    properties |= {REDELIVERY_DELAY: delay, AMQ_SCHEDULED_DELAY: delay}
    copy = copy_command(message)
    copy.destination = reference.destination.destination
    copy.transaction_id = None
    copy.redelivery_counter = redeliveries + 1
    copy.jms_xgroup_first_for_consumer = False
    copy.marshalled_properties = encode_map(properties)
    copy.response_required = True  # the send completes when the schedule is stored
    copy.raw = None
    return copy


def _policy_for(
    destination: Destination, policies: Iterable[RedeliveryPolicy]
) -> RedeliveryPolicy | None:
    """Return the most specific policy of a destination; None if it has none."""
    default: RedeliveryPolicy | None = None
    found: list[tuple[bool, tuple[tuple[int, str], ...], RedeliveryPolicy]] = []
    for policy in policies:
        target = policy.destination
        if target is None:
            default = policy
        elif target == destination or matches(target, destination):
            found.append((target != destination, specificity(target), policy))
    return min(found, key=lambda each: each[:2])[2] if found else default
