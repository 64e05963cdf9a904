"""The interface of a consumer for filters, connectors and destinations."""

from __future__ import annotations

from abc import abstractmethod
from collections import deque
from collections.abc import Sequence
from typing import TYPE_CHECKING

from pyjms.jms.destination import Destination
from pyjms.wire.openwire.commands import (
    ConsumerId,
    ConsumerInfo,
    MessageAck,
    MessageId,
    MessagePull,
    TransactionId,
)
from pyjms_broker.api.completion import COMPLETED, Completion
from pyjms_broker.api.context import ConnectionContext

if TYPE_CHECKING:
    from pyjms_broker.api.context import ConsumerExchange
    from pyjms_broker.api.destination import BrokerDestination
    from pyjms_broker.api.message import MessageReference


class Subscription:
    """A consumer, or a durable subscription without a consumer. Hashes by identity.

    Source: ActiveMQ Subscription.
    """

    context: ConnectionContext
    info: ConsumerInfo
    consumer_id: ConsumerId | None
    requested: Destination
    """The destination in the request: a name, a pattern or a composite."""
    prefetch_size: int
    destinations: list[BrokerDestination]
    """The destinations that it is attached to."""
    saved: Completion
    """Done when the stores have recorded the subscription, or its removal."""
    reserved: int
    """The bytes reserved for it in the memory of its client."""
    enqueue_count: int
    dequeue_count: int
    dispatched_count: int
    last_ack_time: float
    """`_clock.now()` of the last acknowledgement of any kind, or of the creation.
    Kept only where a policy has a slow consumer strategy."""
    discarded_count: int
    """Number of messages evicted because too many were pending (topics only)."""

    @abstractmethod
    def reserve_match(self) -> None:
        """Reserve memory of its client for one more destination.

        Raises:
            ResourceAllocationException: the client has too many resources.
        """

    @abstractmethod
    def reset_statistics(self) -> None:
        """Set the counters to zero; messages in flight still count as dispatched."""

    @property
    @abstractmethod
    def is_slow(self) -> bool:
        """Whether messages wait because this consumer cannot keep up.
        (activemq-broker T7, T12)
        """

    @property
    @abstractmethod
    def in_flight(self) -> int:
        """Number of messages dispatched and not acknowledged."""

    @property
    @abstractmethod
    def pending_count(self) -> int:
        """Number of messages in the subscription that wait for the prefetch window."""

    @abstractmethod
    def matches(self, reference: MessageReference) -> bool:
        """Whether the message is for this consumer: target consumer, noLocal, selector."""

    @abstractmethod
    def is_full(self) -> bool:
        """Whether the prefetch window is full. (activemq-broker Q13)"""

    @abstractmethod
    def acknowledge(self, exchange: ConsumerExchange, ack: MessageAck) -> Completion:
        """Apply an acknowledgement. (activemq-broker 7.1)

        Raises:
            JMSException: it does not match the dispatched messages.
        """

    def acknowledge_run(self, acks: deque[MessageAck]) -> Completion:
        """Apply the first of these acknowledgements; see `Broker.acknowledge_run`."""
        return COMPLETED

    @abstractmethod
    def pull(self, pull: MessagePull) -> None:
        """Dispatch one message to a consumer without prefetch. (activemq-broker Q14)"""

    @abstractmethod
    def set_credit(self, credit: int) -> None:
        """Let a consumer without prefetch get so many messages from now on, and no more."""

    def give_back(self, message_ids: Sequence[MessageId], *, has_failed: bool) -> None:
        """Take dispatched messages back, to dispatch them again before all others.

        With `has_failed` that counts as a delivery. Subscriptions that do not keep their messages
        do nothing.
        """
        return

    def reject_at_commit(self, xid: TransactionId, message_id: MessageId) -> bool:
        """Make a dispatched message a dead letter when an open transaction of its client commits.

        It stays here until then, also if the consumer leaves. Returns False, and does nothing, if
        the transaction or the message is unknown: subscriptions that do not keep their messages
        know none.
        """
        return False

    @abstractmethod
    def request_pulls(self) -> None:
        """Tell the client that a policy takes the prefetch of its consumer, so that it pulls.

        A client that cannot be told gets a prefetch of 1. (activemq-broker Q15)
        """

    @abstractmethod
    def set_prefetch(self, prefetch_size: int) -> None:
        """Change the size of the prefetch window at once. (activemq-broker Q15)"""

    @abstractmethod
    def window_freed(self) -> None:
        """Dispatch pending messages, because the window may have free space."""

    def recover_kept(self) -> None:
        """Send what topics keep for retroactive consumers once more; others get nothing."""
        return

    @abstractmethod
    def destination_removed(self, destination: BrokerDestination) -> None:
        """Detach from a removed destination."""

    @abstractmethod
    def close(self) -> None:
        """Stop the background tasks of this subscription."""
