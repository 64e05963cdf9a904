"""The exchanges of a producer and of a consumer with the broker."""

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
    """A producer's context, and the destination it last sent to.

    Source: ActiveMQ ProducerBrokerExchange.
    """

    context: ConnectionContext
    info: ProducerInfo | None = None
    transaction: Transaction | None = None
    """The transaction that its messages are part of; None: they take effect at once."""
    is_internal: bool = field(default=False, init=False)
    """Whether the broker forwards a client's message to one of its internal destinations."""
    sent_count: int = field(default=0, init=False)
    """How many messages the producer has sent."""
    blocked_sends: int = field(default=0, init=False)
    """How many of its messages had to wait for space."""
    blocked_time: float = field(default=0.0, init=False)
    """For how long they have waited, in milliseconds."""
    is_redelivery: bool = field(default=False, init=False)
    """Whether the broker sends a message that failed: it is scheduled, as no other of its own."""
    outer: ProducerExchange | None = field(default=None, init=False)
    """Of an exchange within a transaction: the producer's own."""
    _transacted: ProducerExchange | None = field(default=None, init=False)
    destination: object = field(default=None, init=False)
    region_destination: BrokerDestination | None = field(default=None, init=False)
    table_version: int = field(default=-1, init=False)
    """The version of the destinations' table when these two were set."""
    last_stored_sequence: int | None = field(default=None, init=False)
    """After a failover: the sequence number up to which the store has its messages.
    (activemq-broker T27)"""
    unanswered: deque[Completion] | None = field(default=None, init=False)
    """Only for clients that may fail over: the sends that are not stored yet, oldest first."""

    def within(self, transaction: Transaction) -> ProducerExchange:
        """Return this producer's exchange for messages of `transaction`.

        That of the last transaction is cached: a transaction usually has many messages.
        """
        transacted = self._transacted
        if transacted is None or transacted.transaction is not transaction:
            transacted = ProducerExchange(self.context, self.info, transaction)
            transacted.outer = self
            self._transacted = transacted
        return transacted

    def for_forwarding(self) -> ProducerExchange:
        """Return a new exchange of the same producer and transaction, for another destination."""
        return ProducerExchange(self.context, self.info, self.transaction)

    def for_internal(self) -> ProducerExchange:
        """Return a new exchange that forwards to an internal destination of the broker."""
        forwarding = self.for_forwarding()
        forwarding.is_internal = True
        return forwarding


@dataclass(slots=True, eq=False, repr=False)
class ConsumerExchange:
    """A consumer's context and subscription. Source: ActiveMQ ConsumerBrokerExchange."""

    context: ConnectionContext
    subscription: Subscription | None
    transaction: Transaction | None = None
    """The transaction that its acknowledgements are part of."""
