"""What a store promises: messages by destination, durable subscriptions, transactions.

Calls never wait: they return None when what they did is safe already, or a Completion.
With `context.transaction` set, an addition or removal is part of that transaction and
happens at the transaction store's `commit`.

Each message gets a `Position` in its destination when the store numbers it: at once, or
at its transaction's commit. Numbers follow the order of the journal, are never used twice
and are the same after a restart. `reference.position` says it; one that is None after
`add_message` (after the commit, in a transaction) means that the store has that message
already, or its duplicate id: it is to be dropped, and the sender hears that all is well.

A message that was added is not seen by `next_messages` before the broker called `shown`:
so a message is either handed to its queue by its sender's way or read back later, never
both. Stores keep bytes, not references. (persistence S1 to S6; ActiveMQ PersistenceAdapter)
"""

from __future__ import annotations

from collections.abc import Callable, Container
from enum import Enum
from typing import NamedTuple, Protocol

from broker.api.completion import Completion
from broker.api.context import ConnectionContext
from broker.api.message import MessageReference, Position, StoredMessage, SubscriptionKey
from pyjms.jms.destination import Destination
from pyjms.wire.openwire.commands import (
    ActiveMQMessage,
    MessageId,
    ProducerId,
    TransactionId,
    XATransactionId,
)

__all__ = [
    "MessageStore",
    "PersistenceAdapter",
    "Position",
    "RecoveredTransaction",
    "StoreState",
    "StoredMessage",
    "StoredSubscription",
    "SubscriptionKey",
    "TopicMessageStore",
    "TransactionStore",
]


class StoredSubscription(NamedTuple):
    """A durable subscription as the store keeps it."""

    key: SubscriptionKey
    destination: Destination
    """What it subscribed to: the topic, or a pattern."""
    selector: str | None = None
    no_local: bool = False


class RecoveredTransaction(NamedTuple):
    """A prepared transaction from before the start."""

    xid: XATransactionId
    added: list[tuple[Destination, ActiveMQMessage]]
    removed: list[tuple[Destination, SubscriptionKey | None, StoredMessage]]
    """Acknowledged in it, by the durable subscription if there is one; hidden until its end."""


class StoreState(Enum):
    """How a store does."""

    RUNNING = "running"
    CONGESTED = "congested"
    """More waits to be written than should; senders shall wait."""
    SUSPENDED = "suspended"
    """The disk takes nothing at the moment; what was sent waits, tried again and again."""
    FAILED = "failed"
    """An error that does not pass. Nothing more is promised; the broker stops. (K24)"""


class MessageStore(Protocol):
    """The messages of one destination."""

    destination: Destination

    def add_message(
        self, context: ConnectionContext, reference: MessageReference
    ) -> Completion | None:
        """Keep a message, behind those that are there, and set its `position`.

        The answer is done when the message is as safe as its sender asked for: on the disk
        where the command wants an answer, else written (`message.response_required`; K13).
        """

    def mark_visible(self, reference: MessageReference) -> None:
        """Let `next_messages` see a message from now on: its queue counts it."""

    def remove_message(
        self, context: ConnectionContext, reference: MessageReference
    ) -> Completion | None:
        """Forget a message; synced where `context.wants_answer`. Absent ones are no error."""

    def update_message(self, reference: MessageReference) -> Completion | None:
        """Keep the message in its present form instead of the one that has its id; synced."""

    def get_message(self, message_id: MessageId) -> StoredMessage | None:
        """Return a message, None if there is none."""

    def next_messages(
        self, after: Position | None, limit: int, skip: Container[Position] = ()
    ) -> list[StoredMessage]:
        """Return at most `limit` messages behind a position, in their order.

        Those that were not `shown`, that a prepared transaction has acknowledged, and those
        in `skip` are left out. Reads from the disk where it must.
        """

    def remove_all_messages(self, context: ConnectionContext) -> Completion | None:
        """Forget all."""

    @property
    def message_count(self) -> int: ...

    @property
    def message_size(self) -> int:
        """Bytes of all messages, as memory counts them."""

    @property
    def last_arrival(self) -> int:
        """The number of the last arrival ever; 0 if there was none."""

    @property
    def epoch(self) -> int:
        """Changes when arrival numbers had to begin anew; a number means something in it only."""


class TopicMessageStore(MessageStore, Protocol):
    """The messages of one topic, each kept until all its subscriptions acknowledged it."""

    def add_subscription(
        self, subscription: StoredSubscription, retroactive: bool
    ) -> Completion | None:
        """Keep a durable subscription for what comes from now on, or also for what is there."""

    def delete_subscription(self, key: SubscriptionKey) -> Completion | None:
        """Forget a subscription and what only it still had to get."""

    def lookup_subscription(self, key: SubscriptionKey) -> StoredSubscription | None:
        """Return a subscription, None if there is none."""

    def subscriptions(self) -> list[StoredSubscription]:
        """Return all subscriptions of the topic."""

    def acknowledge(
        self, context: ConnectionContext, key: SubscriptionKey, reference: MessageReference
    ) -> Completion | None:
        """Note that a subscription is done with a message."""

    def next_subscription_messages(
        self,
        key: SubscriptionKey,
        after: Position | None,
        limit: int,
        skip: Container[Position] = (),
    ) -> list[StoredMessage]:
        """Return at most `limit` messages that a subscription has not acknowledged, in order."""

    def subscription_message_count(self, key: SubscriptionKey) -> int:
        """Return how many messages a subscription has not acknowledged."""


class TransactionStore(Protocol):
    """The open transactions of a store."""

    def prepare(self, xid: TransactionId) -> Completion | None:
        """Make sure that the transaction can be committed whatever happens."""

    def commit(self, xid: TransactionId, prepared: bool) -> Completion | None:
        """Do all that the transaction holds, or nothing. One without work is no error."""

    def rollback(self, xid: TransactionId) -> Completion | None:
        """Forget all that the transaction holds."""

    def recovered(self) -> list[RecoveredTransaction]:
        """Return the prepared transactions that the store had when it was opened.

        Their messages have no reference: after the commit ask `position_of`.
        """

    def position_of(self, destination: Destination, message_id: MessageId) -> Position | None:
        """Return where a message of a committed, recovered transaction stands.

        None: it was there already and is dropped. Each is to be asked for once.
        """


class PersistenceAdapter(Protocol):
    """A store. Open it with `start` before use."""

    on_state: Callable[[StoreState, Exception | None], None] | None
    """Called on the broker's loop when the state changes, with the error that made it."""

    async def start(self) -> None:
        """Open it; waits for its lock where another broker has it.

        Raises:
            JMSException: it cannot be opened.
        """

    async def stop(self) -> None:
        """Write what is not written and close it. Idempotent."""

    @property
    def state(self) -> StoreState: ...

    def destinations(self) -> set[Destination]:
        """Return the destinations that have something here."""

    def queue_message_store(
        self, destination: Destination, prioritized: bool = False
    ) -> MessageStore:
        """Return the queue's store, made now if need be."""

    def topic_message_store(
        self, destination: Destination, prioritized: bool = False
    ) -> TopicMessageStore:
        """Return the topic's store, made now if need be."""

    def remove_message_store(self, destination: Destination) -> None:
        """Forget a destination, all it has, and what open transactions have for it.

        Nothing of that is done at their commits: additions get no position. The destination's
        store takes nothing more.
        """

    def transaction_store(self) -> TransactionStore:
        """Return the one transaction store."""

    async def checkpoint(self) -> None:
        """Bring what is only in the journal into the index, and let go of what is not needed."""

    async def delete_all_messages(self) -> None:
        """Begin with nothing; before `start` only (deleteAllMessagesOnStartup)."""

    @property
    def size(self) -> int:
        """Bytes on the disk; 0 in memory. (M3)"""

    @property
    def last_broker_sequence_id(self) -> int:
        """The highest broker sequence number ever stored; 0 if none (Q3)."""

    def last_producer_sequence_id(self, producer_id: ProducerId) -> int:
        """Return the highest sequence number stored from that producer, -1 if unknown (T27)."""
