"""A consumer in the broker, as filters, connectors and destinations see it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

from pyjms.jms.destination import Destination
from pyjms.wire.openwire.commands import ConsumerId, ConsumerInfo, MessageAck, MessagePull
from pyjms_broker.api.completion import Completion
from pyjms_broker.api.context import ConnectionContext

if TYPE_CHECKING:
    from pyjms_broker.api.destination import BrokerDestination
    from pyjms_broker.api.exchange import ConsumerExchange
    from pyjms_broker.api.message import MessageReference

__all__ = ["Subscription"]


class Subscription(ABC):
    """One consumer, or a durable subscription without one. Hashes by identity.

    Source: ActiveMQ Subscription.
    """

    context: ConnectionContext
    info: ConsumerInfo
    consumer_id: ConsumerId | None
    requested: Destination
    """What the consumer subscribed to: a name, a pattern or a composite."""
    prefetch_size: int
    destinations: list[BrokerDestination]
    """What it is attached to."""
    saved: Completion
    """Done when the stores have recorded the subscription, or its removal."""
    enqueue_count: int
    dequeue_count: int
    dispatched_count: int
    last_ack_time: float
    """`_clock.now()` of the last acknowledgement of any kind, or of the creation.
    Kept only where a policy has a slow consumer strategy."""
    discarded_count: int
    """How many messages were evicted because too many waited (topics only)."""

    @abstractmethod
    def reset_statistics(self) -> None:
        """Set the counters to zero; messages in flight stay counted as dispatched."""

    @property
    @abstractmethod
    def is_browser(self) -> bool:
        """Whether it gets copies and removes nothing."""

    @property
    @abstractmethod
    def is_slow(self) -> bool:
        """Whether messages wait because this consumer is slower than they arrive.
        (activemq-broker T7, T12)
        """

    @property
    @abstractmethod
    def in_flight(self) -> int:
        """How many messages are dispatched and not acknowledged."""

    @property
    @abstractmethod
    def pending_count(self) -> int:
        """How many messages wait in the subscription for room in the prefetch window."""

    @abstractmethod
    def matches(self, reference: MessageReference) -> bool:
        """Whether the message is for this consumer: target consumer, noLocal, selector."""

    @abstractmethod
    def is_full(self) -> bool:
        """Whether the prefetch window has no room. (activemq-broker Q13)"""

    @abstractmethod
    def acknowledge(self, exchange: ConsumerExchange, ack: MessageAck) -> Completion:
        """Apply an acknowledgement. (activemq-broker 7.1)

        Raises:
            JMSException: it does not match what was dispatched.
        """

    @abstractmethod
    def pull(self, pull: MessagePull) -> None:
        """Let one message go to a consumer without prefetch. (activemq-broker Q14)"""

    @abstractmethod
    def set_prefetch(self, prefetch_size: int) -> None:
        """Change the prefetch window at once. (activemq-broker Q15)"""

    @abstractmethod
    def window_freed(self) -> None:
        """Dispatch waiting messages: the window may have room again."""

    @abstractmethod
    def destination_removed(self, destination: BrokerDestination) -> None:
        """Detach from a destination that was removed."""

    @abstractmethod
    def close(self) -> None:
        """Stop the background tasks of this subscription."""
