"""The broker's interface, implemented by the region broker and every filter around it.

It combines the interfaces below, so that a collaborator can depend on only those it needs. Methods
run to completion on the broker's event loop; `send`, `acknowledge` and the transaction methods may
return a Completion. Any method may raise a JMSException, which becomes the client's response.
(ActiveMQ Broker, Region; activemq-broker B1 to B6)
"""

from __future__ import annotations

from abc import ABC, abstractmethod

from pyjms.jms.destination import Destination
from pyjms.wire.openwire.commands import (
    ActiveMQMessage,
    BrokerInfo,
    ConnectionInfo,
    ConsumerControl,
    ConsumerInfo,
    DestinationInfo,
    MessageAck,
    MessagePull,
    ProducerInfo,
    RemoveSubscriptionInfo,
    SessionInfo,
    Throwable,
    TransactionId,
    XATransactionId,
)
from pyjms_broker.api.completion import Completion
from pyjms_broker.api.context import ConnectionContext
from pyjms_broker.api.destination import BrokerDestination
from pyjms_broker.api.exchange import ConsumerExchange, ProducerExchange
from pyjms_broker.api.message import MessageReference
from pyjms_broker.api.subscription import Subscription
from pyjms_broker.api.usage import MemoryUsage

__all__ = [
    "Broker",
    "BrokerEvents",
    "BrokerTransactions",
    "ClientRegistry",
    "DestinationRegistry",
    "MessageRouter",
    "SubscriptionRegistry",
]


class ClientRegistry(ABC):
    """Registers and removes connections, sessions and producers."""

    @property
    @abstractmethod
    def authenticates_clients(self) -> bool:
        """Whether clients must be authenticated or admitted as guests."""

    @abstractmethod
    def authenticate(self, context: ConnectionContext, info: ConnectionInfo) -> Completion:
        """Authenticate a client and set `context.security`.

        A connector calls this method first for each connection, and passes `context` to
        `add_connection` when the completion is done.

        Raises:
            JMSSecurityException: the client is refused; may also be the completion's error.
        """

    @abstractmethod
    def add_connection(self, context: ConnectionContext, info: ConnectionInfo) -> None:
        """Register a connection.

        Raises:
            InvalidClientIDException: the client id is missing or used by another connection.
        """

    @abstractmethod
    def remove_connection(
        self, context: ConnectionContext, info: ConnectionInfo, error: Exception | None
    ) -> None:
        """Remove a connection that was closed because of `error` (None: by the client)."""

    @abstractmethod
    def add_session(self, context: ConnectionContext, info: SessionInfo) -> None:
        """Register a session."""

    @abstractmethod
    def remove_session(self, context: ConnectionContext, info: SessionInfo) -> None:
        """Remove a session."""

    @abstractmethod
    def add_producer(self, context: ConnectionContext, info: ProducerInfo) -> None:
        """Register a producer; its destination is created if it does not exist."""

    @abstractmethod
    def remove_producer(self, context: ConnectionContext, info: ProducerInfo) -> None:
        """Remove a producer."""


class DestinationRegistry(ABC):
    """Creates and removes destinations."""

    @abstractmethod
    def add_destination_info(self, context: ConnectionContext, info: DestinationInfo) -> None:
        """Create a destination at a client's request."""

    @abstractmethod
    def remove_destination_info(self, context: ConnectionContext, info: DestinationInfo) -> None:
        """Remove a destination at a client's request."""

    @abstractmethod
    def add_destination(
        self, context: ConnectionContext, destination: Destination, create_temporary: bool = False
    ) -> BrokerDestination:
        """Return a destination, which is created if it does not exist. (activemq-broker D3, D4)

        Raises:
            DestinationDoesNotExistException: a temporary destination was not created before.
            IllegalStateException: the policy's maximum is reached.
            ResourceAllocationException: a maximum of the broker, the connection or the user is
                reached.
            InvalidDestinationException: the name cannot be stored.
        """

    @abstractmethod
    def remove_destination(
        self, context: ConnectionContext, destination: Destination, timeout: float
    ) -> None:
        """Remove a destination and its messages; `timeout` is in seconds, 0: it must be unused.

        Raises:
            JMSException: it still has a subscription. (activemq-broker D9)
        """

    @abstractmethod
    def destinations(self) -> dict[Destination, BrokerDestination]:
        """Return a copy of the table of destinations."""


class SubscriptionRegistry(ABC):
    """Registers and removes consumers and durable subscriptions."""

    @abstractmethod
    def add_consumer(self, context: ConnectionContext, info: ConsumerInfo) -> Subscription:
        """Register a consumer and return its subscription.

        Raises:
            InvalidSelectorException: its selector is invalid.
            JMSException: it requests a durable subscription that is in use or impossible.
        """

    @abstractmethod
    def remove_consumer(
        self, context: ConnectionContext, info: ConsumerInfo, last_delivered_sequence_id: int
    ) -> None:
        """Remove a consumer; the sequence id determines which delivery counts are incremented.
        (activemq-broker Q29)
        """

    @abstractmethod
    def remove_subscription(
        self, context: ConnectionContext, info: RemoveSubscriptionInfo
    ) -> Completion:
        """Remove a durable subscription; done when the stores have recorded it.

        Raises:
            InvalidDestinationException: there is no subscription of that name.
            JMSException: a consumer uses it.
        """

    @abstractmethod
    def process_consumer_control(
        self, exchange: ConsumerExchange, control: ConsumerControl
    ) -> None:
        """Change a consumer's prefetch."""


class MessageRouter(ABC):
    """Routes messages, acknowledgements and pulls."""

    @abstractmethod
    def send(self, exchange: ProducerExchange, message: ActiveMQMessage) -> Completion:
        """Accept a message; done when it is as durable as its sender requires."""

    @abstractmethod
    def acknowledge(self, exchange: ConsumerExchange, ack: MessageAck) -> Completion:
        """Apply an acknowledgement; done when the store has recorded it."""

    @abstractmethod
    def is_awaited(self, reference: MessageReference) -> bool:
        """Whether a queue should get a message even though none of its consumers selects it.

        Called for selector-aware virtual topics. (activemq-broker V3)
        """

    @abstractmethod
    def message_pull(self, context: ConnectionContext, pull: MessagePull) -> None:
        """Dispatch one message to a consumer without prefetch."""


class BrokerTransactions(ABC):
    """Transactions by id, implemented by the transaction filter."""

    @abstractmethod
    def begin_transaction(self, context: ConnectionContext, xid: TransactionId) -> None:
        """Begin a transaction; an XA branch may be begun repeatedly."""

    @abstractmethod
    def prepare_transaction(
        self, context: ConnectionContext, xid: TransactionId
    ) -> int | Completion:
        """Return XA_OK or XA_RDONLY; a Completion without an error means XA_OK."""

    @abstractmethod
    def commit_transaction(
        self, context: ConnectionContext, xid: TransactionId, one_phase: bool
    ) -> Completion:
        """Commit a transaction; done when the work is durable."""

    @abstractmethod
    def rollback_transaction(self, context: ConnectionContext, xid: TransactionId) -> Completion:
        """Roll back a transaction; done when the store has recorded it."""

    @abstractmethod
    def forget_transaction(self, context: ConnectionContext, xid: TransactionId) -> Completion:
        """Forget a heuristically completed transaction, which means to roll it back."""

    @abstractmethod
    def set_rollback_only(
        self, context: ConnectionContext, xid: TransactionId, cause: Exception
    ) -> None:
        """Make the commit of a transaction fail, if it is open. (activemq-broker C5)"""

    @abstractmethod
    def prepared_transactions(self, context: ConnectionContext) -> list[XATransactionId]:
        """Return the prepared XA transactions (XA recover)."""


class BrokerEvents(ABC):
    """Events that the regions report to the outermost filter, so that all filters see them."""

    @abstractmethod
    def message_expired(
        self,
        context: ConnectionContext,
        reference: MessageReference,
        subscription: Subscription | None,
    ) -> None:
        """Report an expired message, which may become a dead letter."""

    @abstractmethod
    def send_to_dead_letter_queue(
        self,
        context: ConnectionContext,
        reference: MessageReference,
        subscription: Subscription | None,
        cause: Throwable | None,
    ) -> bool:
        """Dead-letter a message if its strategy decides so; return whether it was."""

    @abstractmethod
    def message_consumed(self, context: ConnectionContext, reference: MessageReference) -> None:
        """Report an acknowledged message, if the policy enables it."""

    @abstractmethod
    def message_delivered(self, context: ConnectionContext, reference: MessageReference) -> None:
        """Report a message that arrived in its destination, if the policy enables it."""

    @abstractmethod
    def message_dispatched(
        self, context: ConnectionContext, reference: MessageReference, subscription: Subscription
    ) -> None:
        """Report a message that was sent to a consumer, if the policy enables it."""

    @abstractmethod
    def message_without_consumers(
        self, context: ConnectionContext, reference: MessageReference
    ) -> None:
        """Report a non-persistent message without a consumer, if the policy enables it."""

    @abstractmethod
    def message_discarded(
        self,
        context: ConnectionContext,
        reference: MessageReference,
        subscription: Subscription | None,
    ) -> None:
        """Report a message evicted from a topic subscription, if the policy enables it."""

    @abstractmethod
    def slow_consumer(
        self, context: ConnectionContext, destination: BrokerDestination, subscription: Subscription
    ) -> None:
        """Report a consumer that became slow, if the policy enables it."""

    @abstractmethod
    def fast_producer(
        self, context: ConnectionContext, info: ProducerInfo, destination: BrokerDestination
    ) -> None:
        """Report a producer that sends while memory is full, if the policy enables it."""

    @abstractmethod
    def destination_full(
        self, context: ConnectionContext, destination: BrokerDestination, usage: MemoryUsage
    ) -> None:
        """Report a message that arrived while memory was full, if the policy enables it.

        Source: ActiveMQ Broker.isFull.
        """

    @abstractmethod
    def now_master_broker(self) -> None:
        """Report that the broker has started and holds the store's lock."""

    @abstractmethod
    def network_bridge_started(
        self, info: BrokerInfo, created_by_duplex: bool, remote_address: str
    ) -> None:
        """Report that a bridge to another broker has started to forward.

        `created_by_duplex`: the other broker opened the connection.
        """

    @abstractmethod
    def network_bridge_stopped(self, info: BrokerInfo) -> None:
        """Report that a bridge reported as started has ended."""

    @abstractmethod
    def network_forward_failed(self, message: ActiveMQMessage, cause: Exception) -> None:
        """Report a message that another broker refused, if the bridge enables it.

        Source: ActiveMQ fireFailedForwardAdvisory.
        """


class Broker(
    ClientRegistry,
    DestinationRegistry,
    SubscriptionRegistry,
    MessageRouter,
    BrokerTransactions,
    BrokerEvents,
):
    """The complete interface of the region broker and the filters around it."""

    @property
    @abstractmethod
    def broker_name(self) -> str:
        """The broker's name."""

    @property
    @abstractmethod
    def scheduler_support(self) -> bool:
        """Whether messages with AMQ_SCHEDULED_DELAY are scheduled."""

    @abstractmethod
    async def start(self) -> None:
        """Start after the store was opened."""

    @abstractmethod
    async def stop(self) -> None:
        """Stop dispatching and all background tasks. Idempotent."""
