"""The state of producers and consumers that is passed with their requests."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from pyjms.wire.openwire.commands import ProducerInfo
from pyjms_broker.api.completion import Completion
from pyjms_broker.api.context import ConnectionContext
from pyjms_broker.api.transaction import Transaction

if TYPE_CHECKING:
    from pyjms_broker.api.destination import BrokerDestination
    from pyjms_broker.api.subscription import Subscription

__all__ = ["ConsumerExchange", "ProducerExchange"]


@dataclass(slots=True, eq=False, repr=False)
class ProducerExchange:
    """A producer's context, with its last destination cached.

    Source: ActiveMQ ProducerBrokerExchange.
    """

    context: ConnectionContext
    info: ProducerInfo | None = None
    transaction: Transaction | None = None
    """The transaction of its messages; None: they take effect at once."""
    is_internal: bool = field(default=False, init=False)
    """Whether the broker forwards a client's message to an internal destination."""
    sent_count: int = field(default=0, init=False)
    """Number of messages sent."""
    blocked_sends: int = field(default=0, init=False)
    """Number of messages that had to wait for space."""
    blocked_time: float = field(default=0.0, init=False)
    """Total time that messages have waited, in milliseconds."""
    is_redelivery: bool = field(default=False, init=False)
    """Whether the broker redelivers a failed message, which is scheduled unlike its other ones."""
    outer: ProducerExchange | None = field(default=None, init=False)
    """The producer's own exchange, if this one is within a transaction."""
    _transacted: ProducerExchange | None = field(default=None, init=False)
    destination: object = field(default=None, init=False)
    region_destination: BrokerDestination | None = field(default=None, init=False)
    table_version: int = field(default=-1, init=False)
    """The version of the destination table when the two fields above were set."""
    last_stored_sequence: int | None = field(default=None, init=False)
    """After a failover: the highest sequence number of its stored messages.
    (activemq-broker T27)"""
    unanswered: deque[Completion] | None = field(default=None, init=False)
    """The sends that are not stored yet, oldest first; only for clients that may fail over."""

    def within(self, transaction: Transaction) -> ProducerExchange:
        """Return the producer's exchange for messages of `transaction`.

        The last one is cached, because a transaction usually has many messages.
        """
        transacted = self._transacted
        if transacted is None or transacted.transaction is not transaction:
            transacted = ProducerExchange(self.context, self.info, transaction)
            transacted.outer = self
            self._transacted = transacted
        return transacted

    def for_forwarding(self) -> ProducerExchange:
        """Return a new exchange of the same producer and transaction for another destination."""
        return ProducerExchange(self.context, self.info, self.transaction)

    def for_internal(self) -> ProducerExchange:
        """Return a new exchange for forwarding to an internal destination."""
        forwarding = self.for_forwarding()
        forwarding.is_internal = True
        return forwarding


@dataclass(slots=True, eq=False, repr=False)
class ConsumerExchange:
    """A consumer's context and subscription. Source: ActiveMQ ConsumerBrokerExchange."""

    context: ConnectionContext
    subscription: Subscription | None
    transaction: Transaction | None = None
    """The transaction of its acknowledgements."""
