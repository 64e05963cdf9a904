"""What a store promises: messages by destination, durable subscriptions, transactions.

Calls never wait: they return None when what they did is safe already, or a Completion.
With `context.transaction` set, an addition or removal is part of that transaction and
happens at the transaction store's `commit`. Stores keep commands, not references; they
may keep `message.raw` as it is when called. (persistence notes; ActiveMQ PersistenceAdapter)
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple, Protocol

from broker.completion import Completion
from broker.context import ConnectionContext
from pyjms.jms.destination import Destination
from pyjms.wire.openwire.commands import ActiveMQMessage, MessageId, ProducerId, TransactionId

if TYPE_CHECKING:
    from broker.region.message import MessageReference

__all__ = [
    "MessageStore",
    "PersistenceAdapter",
    "StoredSubscription",
    "SubscriptionKey",
    "TopicMessageStore",
    "TransactionStore",
]


class SubscriptionKey(NamedTuple):
    """What names a durable subscription (T16)."""

    client_id: str
    subscription_name: str


class StoredSubscription(NamedTuple):
    """A durable subscription as the store keeps it."""

    key: SubscriptionKey
    destination: Destination
    """What it subscribed to: the topic, or a pattern."""
    selector: str | None = None
    no_local: bool = False


class MessageStore(Protocol):
    """The messages of one destination."""

    destination: Destination

    def add_message(
        self, context: ConnectionContext, reference: MessageReference
    ) -> Completion | None:
        """Keep a message, behind those that are there."""

    def remove_message(
        self, context: ConnectionContext, reference: MessageReference
    ) -> Completion | None:
        """Forget a message. One that is not there is no error."""

    def update_message(self, reference: MessageReference) -> None:
        """Keep the message in its present form instead of the one that has its id."""

    def get_message(self, message_id: MessageId) -> ActiveMQMessage | None:
        """Return a message, None if there is none."""

    def recover(self, visitor: Callable[[ActiveMQMessage], bool]) -> None:
        """Show all messages in their order to `visitor`, until it returns False."""

    def remove_all_messages(self, context: ConnectionContext) -> None:
        """Forget all."""

    @property
    def message_count(self) -> int: ...

    @property
    def message_size(self) -> int:
        """Bytes of all messages, as memory counts them."""


class TopicMessageStore(MessageStore, Protocol):
    """The messages of one topic, each kept until all its subscriptions acknowledged it."""

    def add_subscription(self, subscription: StoredSubscription, retroactive: bool) -> None:
        """Keep a durable subscription for what comes from now on, or also for what is there."""

    def delete_subscription(self, key: SubscriptionKey) -> None:
        """Forget a subscription and what only it still had to get."""

    def lookup_subscription(self, key: SubscriptionKey) -> StoredSubscription | None:
        """Return a subscription, None if there is none."""

    def subscriptions(self) -> list[StoredSubscription]:
        """Return all subscriptions of the topic."""

    def acknowledge(
        self, context: ConnectionContext, key: SubscriptionKey, message_id: MessageId
    ) -> Completion | None:
        """Note that a subscription is done with a message."""

    def recover_subscription(
        self, key: SubscriptionKey, visitor: Callable[[ActiveMQMessage], bool]
    ) -> None:
        """Show what a subscription has not acknowledged to `visitor`, until it returns False."""

    def subscription_message_count(self, key: SubscriptionKey) -> int:
        """Return how many messages a subscription has not acknowledged."""


class TransactionStore(Protocol):
    """The open transactions of a store."""

    def prepare(self, xid: TransactionId) -> Completion | None:
        """Make sure that the transaction can be committed whatever happens."""

    def commit(self, xid: TransactionId, prepared: bool) -> Completion | None:
        """Do all that the transaction holds, or nothing. One without work is no error."""

    def rollback(self, xid: TransactionId) -> None:
        """Forget all that the transaction holds."""


class PersistenceAdapter(Protocol):
    """A store. Open it with `start` before use."""

    async def start(self) -> None:
        """Open it.

        Raises:
            JMSException: it cannot be opened.
        """

    async def stop(self) -> None:
        """Write what is not written and close it. Idempotent."""

    def destinations(self) -> set[Destination]:
        """Return the destinations that have something here."""

    def queue_message_store(self, destination: Destination) -> MessageStore:
        """Return the queue's store, made now if need be."""

    def topic_message_store(self, destination: Destination) -> TopicMessageStore:
        """Return the topic's store, made now if need be."""

    def remove_message_store(self, destination: Destination) -> None:
        """Forget a destination and all it has."""

    def transaction_store(self) -> TransactionStore:
        """Return the one transaction store."""

    @property
    def last_broker_sequence_id(self) -> int:
        """The highest broker sequence number ever stored; 0 if none (Q3)."""

    def last_producer_sequence_id(self, producer_id: ProducerId) -> int:
        """Return the highest sequence number stored from that producer, -1 if unknown (T27)."""
