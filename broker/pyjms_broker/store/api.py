"""The contract of stores: messages by destination, durable subscriptions, transactions.

A store implements `PersistenceAdapter` and the objects that it returns: a `MessageStore` for each
queue, a `TopicMessageStore` for each topic, and one `TransactionStore`. The names are ActiveMQ's
in snake_case. A store is installed under the
entry-point group `broker.stores`; `pyjms.testing.contract.store` has the tests that every store
must pass. (activemq-persistence S1 to S6; ActiveMQ PersistenceAdapter, MessageStore,
TopicMessageStore, TransactionStore)

Life cycle
----------

`delete_all_messages` (only if the operator asks for it), `start`, any number of other calls,
`stop`. Between `start` and `stop` an adapter returns the same object each time it is asked for
the store of a destination, until that destination is removed. After `stop` an adapter is not
started again; a restart makes a new one.

Threads
-------

All calls come from the event loop that awaited `start`, one at a time, and all callbacks
(`Completion`, `on_state`) have to run on that loop. Calls that are not `async` must not wait for
the disk or the network: they start the work and return a `Completion`. The exceptions are the
methods that return messages (`get_message`, `next_messages`, `next_subscription_messages`),
which may block on reads.

Completions
-----------

A call that changes something returns a `Completion`, never None. It is `COMPLETED` if the change
is already as durable as requested; a store in memory always returns that. Any other completion is
completed on the loop, without an error once the change is durable, or with an error if it never
will be. The broker sends the client's response only then. The durability that a call requests
(activemq-persistence K13):

    add_message             `message.response_required`: survives a power failure; else written
    remove_message,         `context.response_required`: survives a power failure; else written
    acknowledge             some time soon, and `COMPLETED` may be returned
    rollback                of a prepared transaction: survives a power failure
    all others              survives a power failure

Effects are visible at once: the next call sees them, before their completion is completed.

Order
-----

Each message gets a `Position` in its destination when the store numbers it: within
`add_message`, or within the commit of its transaction, in the order of the transaction's calls.
Arrival numbers increase in that order, are never used twice and are the same after a restart.
Changes of one destination become durable in the order of the calls: a message is never durable
unless all earlier ones that were not removed are durable, too.

Visibility
----------

`next_messages` does not return an added message until the broker calls `mark_visible`. Each
message is therefore either dispatched from the sender's reference or read back later, never both.
After a restart all messages are visible, except those that a prepared transaction has
acknowledged, which are hidden until the transaction ends.

Duplicates
----------

A store drops a message whose id is already stored, or whose duplicate id
(`reference.duplicate_id`, from the property `_AMQ_DUPL_ID`) is among the last 20,000 of the
destination. In that case `reference.position` stays None after `add_message` (in a transaction:
after the commit). The returned completion is that of the first message, so the response to the
sender waits until the first message is durable.

Transactions
------------

With `context.xid` set, `add_message`, `remove_message` and `acknowledge` belong to that
transaction: they return None, and have no visible effect before `TransactionStore.commit`. The
changes of a transaction to all its destinations are committed atomically, even after a crash.

States
------

    RUNNING     too much waits to be written      -> CONGESTED
    CONGESTED   enough of it is written           -> RUNNING
    RUNNING,    the disk is full, or the database
    CONGESTED   is temporarily unreachable        -> SUSPENDED; the store keeps retrying
    SUSPENDED   a retry succeeds                  -> RUNNING
    any         a permanent error                 -> FAILED, permanently

`on_state` is called after each transition. In CONGESTED and SUSPENDED the broker holds senders
back; calls are still accepted, and their changes wait in memory. In FAILED all pending
completions are completed with an error, calls raise JMSException, and the broker stops.

Errors
------

Operations raise `JMSException` (usually `ResourceAllocationException`) if the store has failed
or a message cannot be read or stored, and `IllegalStateException` if the adapter is not started.
A message or subscription that does not exist is ignored. Stores keep marshalled bytes, never
references.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import NamedTuple, Protocol

from pyjms.jms.destination import Destination
from pyjms.wire.openwire.commands import (
    ActiveMQMessage,
    MessageId,
    ProducerId,
    TransactionId,
    XATransactionId,
)
from pyjms_broker.api.completion import Completion
from pyjms_broker.api.message import (
    MessageReference,
    OperationContext,
    Position,
    Positions,
    StoredMessage,
    SubscriptionKey,
)

__all__ = [
    "MessageStore",
    "OperationContext",
    "PersistenceAdapter",
    "Position",
    "Positions",
    "RecoveredTransaction",
    "StorePartition",
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
    """The topic or pattern that it subscribes to."""
    selector: str | None = None
    no_local: bool = False
    owner: str | None = None
    """The user who made it; None: unknown."""


class RecoveredTransaction(NamedTuple):
    """A transaction that was prepared before the store was opened."""

    xid: XATransactionId
    added: list[tuple[Destination, ActiveMQMessage]]
    removed: list[tuple[Destination, SubscriptionKey | None, StoredMessage]]
    """Messages acknowledged in it, by a durable subscription or (None) a queue's consumer.
    They are hidden until the transaction ends."""


class StoreState(Enum):
    """The state of a store, from the best to the worst; see the module's table of transitions."""

    RUNNING = "running"
    CONGESTED = "congested"
    """Too many changes wait to be written; senders are held back."""
    SUSPENDED = "suspended"
    """Nothing can be written at present; operations wait and are retried."""
    FAILED = "failed"
    """A permanent error. All guarantees are void; the broker stops (activemq-persistence K24)."""


class MessageStore(Protocol):
    """The messages of one destination; returned by a `PersistenceAdapter`."""

    destination: Destination

    def add_message(self, context: OperationContext, reference: MessageReference) -> Completion:
        """Store a message behind all others, invisible, and set `reference.position`.

        The store must marshal the message before the call returns, because the broker may change it
        afterwards. `position` stays None for a duplicate, and in a transaction until its commit.

        Raises:
            JMSException: the message cannot be stored, or the store has failed.
        """

    def mark_visible(self, reference: MessageReference) -> None:
        """Make a message available to `next_messages`. Idempotent.

        The broker calls it once for each message with a position, when the queue counts it.
        """

    def remove_message(self, context: OperationContext, reference: MessageReference) -> Completion:
        """Remove a message; one that does not exist is ignored."""

    def update_message(self, reference: MessageReference) -> Completion:
        """Replace the stored form of the message with this id; its position stays.

        A message that does not exist is ignored.
        """

    def get_message(self, message_id: MessageId) -> StoredMessage | None:
        """Return a message, visible or not; None if it does not exist. May block on a read."""

    def next_messages(
        self, after: Position | None, limit: int, skip: Positions = ()
    ) -> list[StoredMessage]:
        """Return at most `limit` visible messages behind a position, in order. May block.

        `after` None starts at the first message. Messages in `skip` are left out, and so are
        those that a prepared transaction has acknowledged. Fewer than `limit` messages mean that
        there are no more.

        Raises:
            JMSException: a message cannot be read.
        """

    def remove_all_messages(self, context: OperationContext) -> Completion:
        """Remove all messages, visible or not. Arrival numbers continue; subscriptions remain."""

    @property
    def message_count(self) -> int:
        """The number of messages, visible or not."""

    @property
    def message_size(self) -> int:
        """The size of all messages in memory (`MessageReference.size`), in bytes."""

    @property
    def last_arrival(self) -> int:
        """The highest arrival number ever assigned; 0 if there was none."""

    @property
    def epoch(self) -> int:
        """The epoch of the numbering: an arrival number is meaningful only within its epoch.

        It changes only if arrival numbers had to restart because a program that does not keep them
        has used the store.
        """


class TopicMessageStore(MessageStore, Protocol):
    """The messages of one topic, each kept until all its subscriptions have acknowledged it.

    A message that is added while there are no durable subscriptions is accepted but not kept.
    """

    def add_subscription(self, subscription: StoredSubscription, retroactive: bool) -> Completion:
        """Store a durable subscription, which gets all messages added from now on.

        With `retroactive` it also gets the messages that are still stored. A subscription with the
        same key is replaced, together with its pending messages.
        """

    def delete_subscription(self, key: SubscriptionKey) -> Completion:
        """Remove a subscription, and the messages that only it had not acknowledged."""

    def lookup_subscription(self, key: SubscriptionKey) -> StoredSubscription | None:
        """Return a subscription, or None."""

    def subscriptions(self) -> list[StoredSubscription]:
        """Return all subscriptions of the topic."""

    def acknowledge(
        self, context: OperationContext, key: SubscriptionKey, reference: MessageReference
    ) -> Completion:
        """Record a subscription's acknowledgement; the last subscription's removes the message.

        A repeated acknowledgement is ignored.
        """

    def next_subscription_messages(
        self, key: SubscriptionKey, after: Position | None, limit: int, skip: Positions = ()
    ) -> list[StoredMessage]:
        """Return messages like `next_messages`, without those that the subscription acknowledged.

        An unknown subscription has no messages. May block on reads.
        """

    def subscription_message_count(self, key: SubscriptionKey) -> int:
        """Return how many messages a subscription has not acknowledged; 0 if it is unknown."""


class TransactionStore(Protocol):
    """The open transactions of a store, both local and XA.

    A transaction begins with the first call whose `context.xid` has its id. One that
    was never used, or has ended, is unknown; all methods ignore unknown transactions.
    """

    def prepare(self, xid: TransactionId) -> Completion:
        """Make the transaction durable, so that it can be committed even after a crash.

        From now on the messages that it acknowledged are hidden.
        """

    def commit(self, xid: TransactionId, prepared: bool) -> Completion:
        """Carry out the transaction atomically, and set the positions of its messages.

        The broker marks the added messages visible, one by one.
        """

    def rollback(self, xid: TransactionId) -> Completion:
        """Discard the transaction; messages that it acknowledged become visible again."""

    def recovered_transactions(self) -> list[RecoveredTransaction]:
        """Return the transactions that were prepared before `start` and have not ended yet.

        They are committed and rolled back like any other. Their messages have no reference: the
        broker calls `position_of` after the commit.
        """

    def position_of(self, destination: Destination, message_id: MessageId) -> Position | None:
        """Return the position of a message of a committed, recovered transaction.

        None: it was a duplicate and was dropped. Each message can be asked for once.
        """


class StorePartition(Protocol):
    """A part of a store with a separate size limit; see `PersistenceAdapter`."""

    @property
    def limit(self) -> int:
        """Its maximum size in bytes; 0: no separate limit."""

    @property
    def size(self) -> int:
        """The number of bytes that it uses on disk."""

    @property
    def state(self) -> StoreState: ...


class PersistenceAdapter(Protocol):
    """A store. The module's docstring states the rules for all its methods.

    An adapter may also have these attributes; if one is missing, the broker assumes its default:

    - `is_volatile: bool = False`: it keeps all messages in memory, so cursors need not release
      theirs, and nothing survives a restart.
    - `concurrent_store_and_dispatch_queues: bool = False` and
      `concurrent_store_and_dispatch_topics: bool = False`: messages are dispatched while they
      are being stored; only the sender's response waits for the completion.
    - `has_several_journals: bool = False`: destinations become durable independently, so a
      message may be durable without an earlier one of another destination.
    - `partition_of(destination) -> StorePartition | None`: the part of the store that a
      destination's messages count against.
    - `is_slave: bool` and `on_lock_lost: Callable[[], None] | None`, both or neither: whether
      `start` is waiting for another broker's lock, and the callback for a lost lock.
    - `on_progress: Callable[[int, object], None] | None`: called during a long `start` with the
      number of records recovered so far and the current location.
    - `directory: Path`: the directory of its files.
    - `reclaim_soon() -> None`: called once a second while sends wait because its size has reached
      a limit; it should reclaim space now instead of later. A `StorePartition` may have it, too.
    """

    on_state: Callable[[StoreState, Exception | None], None] | None
    """Called on the broker's loop after each change of `state`, with the error that caused it."""

    async def start(self) -> None:
        """Open the store, waiting for its lock while another broker holds it. Cancellable.

        If it raises or is cancelled, the store is closed again and holds no lock.

        Raises:
            JMSException: it cannot be opened.
        """

    async def stop(self) -> None:
        """Write everything and close the store. Idempotent; also after a failed `start`.

        Raises:
            JMSException: a change could not be written; the store is closed nevertheless.
        """

    @property
    def state(self) -> StoreState: ...

    def destinations(self) -> set[Destination]:
        """Return the destinations that have, or once had, messages or subscriptions."""

    def queue_message_store(
        self, destination: Destination, prioritized: bool = False
    ) -> MessageStore:
        """Return the queue's store, creating it if needed.

        With `prioritized`, messages with a higher priority come first. It takes effect at the
        first call for the destination, and is turned off only while there are no messages.
        """

    def topic_message_store(
        self, destination: Destination, prioritized: bool = False
    ) -> TopicMessageStore:
        """Return the topic's store, creating it if needed; `prioritized` as for queues."""

    def remove_message_store(self, destination: Destination) -> None:
        """Remove a destination with its messages, subscriptions and open transactional work.

        Open transactions commit without it: messages that they added to it get no position.
        The `MessageStore` object ignores all further calls; the adapter returns a new one.
        """

    def transaction_store(self) -> TransactionStore:
        """Return the transaction store."""

    async def checkpoint(self) -> None:
        """Bring indexes up to date and release disk space that is no longer needed.

        Raises:
            JMSException, OSError: it failed; the store continues unless `state` changed.
        """

    async def delete_all_messages(self) -> None:
        """Make `start` begin with an empty store; call it only before `start`.

        ActiveMQ: deleteAllMessagesOnStartup.
        """

    @property
    def size(self) -> int:
        """The bytes used on local disk; 0 for a store without local files (activemq-broker M3)."""

    @property
    def last_broker_sequence_id(self) -> int:
        """The highest broker sequence number ever stored; 0 if none (activemq-broker Q3)."""

    def last_producer_sequence_id(self, producer_id: ProducerId) -> int:
        """Return the highest sequence number stored from a producer; -1 if unknown.

        A producer that reconnects asks for it to avoid sending stored messages again
        (activemq-broker T27). A store may remember only the most recent producers.
        """
