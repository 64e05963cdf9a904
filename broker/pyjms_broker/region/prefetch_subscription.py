"""The prefetch window of queue consumers and durable subscriptions, and their acknowledgements.

Messages stay in `dispatched`, in dispatch order, until they are settled. Acknowledgements in a
transaction take effect when it ends.
(ActiveMQ PrefetchSubscription; activemq-broker 7.1, A1, A2, Q13, Q18)
"""

from __future__ import annotations

from abc import abstractmethod
from collections import OrderedDict
from typing import Final

from pyjms.errors import JMSException
from pyjms.runtime import clock as _clock
from pyjms.wire.openwire.commands import AckType, MessageAck, MessageId, XATransactionId
from pyjms_broker.api.completion import COMPLETED, Completion, all_of
from pyjms_broker.api.context import ConsumerExchange
from pyjms_broker.api.message import (
    NO_TRANSACTION,
    SYNCED,
    MessageReference,
    OperationContext,
    SubscriptionKey,
)
from pyjms_broker.api.transaction import Synchronization, Transaction
from pyjms_broker.region.subscription import (
    LAST_DELIVERED_UNKNOWN,
    LAST_DELIVERED_UNSET,
    AbstractSubscription,
    SubscriptionRequest,
)

_DELIVERED: Final = int(AckType.DELIVERED)
_POISON: Final = int(AckType.POISON)
_STANDARD: Final = int(AckType.STANDARD)
_REDELIVERED: Final = int(AckType.REDELIVERED)
_INDIVIDUAL: Final = int(AckType.INDIVIDUAL)
_EXPIRED: Final = int(AckType.EXPIRED)


class PrefetchSubscription(AbstractSubscription):
    """A subscription whose messages stay in their destination until they are acknowledged."""

    durable_key: SubscriptionKey | None = None
    """The identity of a durable subscription; None: a queue consumer."""

    def __init__(self, request: SubscriptionRequest) -> None:
        super().__init__(request)
        self.dispatched: OrderedDict[object, MessageReference] = OrderedDict()
        self._by_id = not (self.requested.is_composite or self.requested.is_pattern)
        self._transacted: set[MessageReference] = set()  # acknowledged in open transactions
        self._open_transactions = 0  # acknowledgements in open local transactions

    # the kinds of subscriptions
    @abstractmethod
    def settle(self, reference: MessageReference) -> None:
        """Release the message, which was consumed."""

    @abstractmethod
    def unsettle(self, reference: MessageReference) -> None:
        """Undo `settle`, which the store could not record; the message is redelivered."""

    @abstractmethod
    def return_unacknowledged(self, rolled_back: list[MessageReference]) -> None:
        """Return the messages of consumers that left, unless a transaction keeps them.

        Called after the end of a transaction; `rolled_back` are the messages whose
        acknowledgements were undone.
        """

    def store_acknowledgement(
        self,
        context: OperationContext,
        reference: MessageReference,
        *,
        is_dead_letter: bool = False,
    ) -> Completion:
        """Record in the store, in the context's transaction if any, that the message was consumed.

        With `is_dead_letter`, the store changes only after the dead letter was stored.
        """
        if not reference.persistent:
            return COMPLETED
        destination, key = reference.destination, self.durable_key
        if is_dead_letter:
            return destination.store_dead_lettered(context, reference, key)
        return destination.store_acknowledgement(context, reference, key)

    # messages that were acknowledged in open transactions
    def add_transacted(self, references: list[MessageReference]) -> None:
        """Record that an open transaction has acknowledged the messages."""
        self._transacted.update(references)

    def remove_transacted(self, references: list[MessageReference]) -> None:
        """Record that the transaction of the messages has ended."""
        self._transacted.difference_update(references)

    # the window
    def is_full(self) -> bool:
        if self.context.congested:
            return True
        if self.prefetch_size == 0:
            return self._pulls == 0
        return len(self.dispatched) - self.prefetch_extension >= self.prefetch_size

    @property
    def room(self) -> int:
        """The number of messages for which the window has space."""
        if self.context.congested:
            return 0
        if self.prefetch_size == 0:
            return self._pulls
        return max(0, self.prefetch_size - len(self.dispatched) + self.prefetch_extension)

    @property
    def in_flight(self) -> int:
        return len(self.dispatched)

    def dispatch(self, reference: MessageReference, redelivery_counter: int) -> None:
        """Send the message to the consumer; it stays in the window until it is settled."""
        by_id = self._by_id and reference.message_id not in self.dispatched  # ids may repeat
        self.dispatched[reference.message_id if by_id else reference] = reference
        self.enqueue_count += 1
        self.transmit(reference, redelivery_counter)

    def undispatch(self, reference: MessageReference) -> bool:
        """Remove a message from the window; return whether it was there."""
        if self.dispatched.get(reference.message_id) is reference:
            del self.dispatched[reference.message_id]
            return True
        return self.dispatched.pop(reference, None) is not None

    def is_dispatched(self, reference: MessageReference) -> bool:
        """Return whether the message is in the window."""
        dispatched = self.dispatched
        return dispatched.get(reference.message_id) is reference or reference in dispatched

    def remove_dispatched(self, destination: object) -> list[MessageReference]:
        """Remove the destination's messages from the window and return them in dispatch order.

        Messages that an open transaction has acknowledged stay in the window.
        """
        removed = [
            reference
            for reference in self.dispatched.values()
            if reference.destination is destination and reference not in self._transacted
        ]
        for reference in removed:
            self.undispatch(reference)
        return removed

    def delivered_messages(
        self, destination: object, last_sequence_id: int
    ) -> list[MessageReference]:
        """Return the destination's messages in the window that the application has received.

        They are those up to `last_sequence_id`, and all that were acknowledged in a transaction.
        (activemq-broker Q29)
        """
        own = [r for r in self.dispatched.values() if r.destination is destination]
        if last_sequence_id == LAST_DELIVERED_UNKNOWN:
            return own
        count = 0
        if last_sequence_id != LAST_DELIVERED_UNSET:
            for index, reference in enumerate(own):
                if reference.broker_sequence_id == last_sequence_id:
                    count = index + 1
                    break
        return [r for index, r in enumerate(own) if index < count or r in self._transacted]

    # acknowledgements
    def acknowledge(self, exchange: ConsumerExchange, ack: MessageAck) -> Completion:
        if self.times_acks:
            self.last_ack_time = _clock.now()
        if self.dispatched_count == 0:
            # of a message from the broker before the client's failover (activemq-broker A2)
            return COMPLETED
        kind = ack.ack_type
        if kind == _STANDARD:
            return self._ack_standard(exchange, ack)
        if kind == _DELIVERED:
            self._ack_delivered(ack)
            return COMPLETED
        if kind == _POISON:
            return self._ack_poison(exchange, ack)
        if kind == _INDIVIDUAL:
            return self._ack_individual(exchange, ack)
        if kind == _EXPIRED:
            return self._ack_expired(exchange, ack)
        if kind == _REDELIVERED:
            self._find(ack)
            return COMPLETED
        raise JMSException(f"Invalid acknowledgment: {ack}")

    def _ack_standard(self, exchange: ConsumerExchange, ack: MessageAck) -> Completion:
        transaction = exchange.transaction
        last = ack.last_message_id
        if (
            transaction is None
            and not self._transacted
            and self._by_id
            and ack.message_count == 1
            and last is not None
            and last == ack.first_message_id
        ):
            reference = self.dispatched.pop(last, None)
            if reference is not None:
                return self._complete_one(_context_of(ack), reference)
        references = self._counted_range(ack, transaction)
        if transaction is not None:
            return self._complete_in_transaction(transaction, ack, references)
        return self._complete(_context_of(ack), references)

    def _ack_individual(self, exchange: ConsumerExchange, ack: MessageAck) -> Completion:
        reference = self._find(ack)
        if reference in self._transacted:
            raise _mismatch(ack, "it was acknowledged before in an open transaction")
        if exchange.transaction is None:
            return self._complete(_context_of(ack), [reference])
        self._extend(1)
        stored = self._complete_in_transaction(exchange.transaction, ack, [reference])
        self.window_freed()
        return stored

    def _ack_delivered(self, ack: MessageAck) -> None:
        self._find(ack)
        self._extend(ack.message_count)
        self.window_freed()

    def _ack_poison(self, exchange: ConsumerExchange, ack: MessageAck) -> Completion:
        if exchange.transaction is not None:
            raise JMSException(f"Poison ack cannot be transacted: {ack}")
        references = [r for r in self._range(ack) if r not in self._transacted]
        for reference in references:
            reference.destination.on_poisoned(exchange.context, reference, self, ack.poison_cause)
        return self._complete(_context_of(ack), references, are_dead_letters=True)

    def _ack_expired(self, exchange: ConsumerExchange, ack: MessageAck) -> Completion:
        references = self._counted_range(ack, exchange.transaction)
        for reference in references:
            reference.destination.on_expired(exchange.context, reference, self)
        return self._complete(_context_of(ack), references, are_dead_letters=True)

    # the messages that an acknowledgement names
    def _find(self, ack: MessageAck) -> MessageReference:
        last = ack.last_message_id
        found = self.dispatched.get(last) if self._by_id else None
        if found is None:
            found = next((r for r in self.dispatched.values() if _is_last(r, ack)), None)
        if found is None:
            raise JMSException(f"Could not correlate acknowledgment with dispatched message: {ack}")
        return found

    def _counted_range(
        self, ack: MessageAck, transaction: Transaction | None
    ) -> list[MessageReference]:
        """Return the messages of the range that no open transaction has already acknowledged.

        Their number must match the acknowledgement's count: after a failover the dispatch order may
        differ, and the range may include messages that were never delivered. In a transaction, the
        count may include already acknowledged messages. A wrong count makes the transaction
        rollback-only.
        """
        whole = self._range(ack)
        references = [reference for reference in whole if reference not in self._transacted]
        most = references if transaction is None else whole
        if len(references) <= ack.message_count <= len(most):
            return references
        error = _mismatch(
            ack,
            f"Expected message count ({ack.message_count}) differs from count in "
            f"dispatched-list ({len(references)})",
        )
        if transaction is not None:
            transaction.set_rollback_only(error)
        raise error

    def _range(self, ack: MessageAck) -> list[MessageReference]:
        """Return the messages of the range, in dispatch order. (activemq-broker 7.1, A1)"""
        first: MessageId | None = ack.first_message_id
        found: list[MessageReference] = []
        inside = first is None
        for reference in self.dispatched.values():
            if not inside:
                if reference.message_id != first:
                    continue
                inside = True
            found.append(reference)
            if _is_last(reference, ack):
                return found
        missing, end = (ack.last_message_id, "end") if inside else (first, "start")
        raise _mismatch(
            ack, f"Could not find Message-ID {missing} in dispatched-list ({end} of ack)"
        )

    # settling
    def _complete_one(self, context: OperationContext, reference: MessageReference) -> Completion:
        try:
            stored = self.store_acknowledgement(context, reference)
        except Exception:
            self.dispatched[reference.message_id] = reference
            self.dispatched.move_to_end(reference.message_id, last=False)
            raise
        self.dequeue_count += 1
        self.settle(reference)
        if stored is not COMPLETED:
            stored.then(lambda done: self._unsettle_if_failed(done, reference))
        if self.prefetch_extension:
            self.prefetch_extension -= 1
        self.window_freed()
        return stored

    def _unsettle_if_failed(self, done: Completion, reference: MessageReference) -> None:
        if done.error is not None:
            self.unsettle(reference)

    def _complete(
        self,
        context: OperationContext,
        references: list[MessageReference],
        *,
        are_dead_letters: bool = False,
    ) -> Completion:
        stored = [
            self._complete_in_range(context, reference, is_dead_letter=are_dead_letters)
            for reference in references
        ]
        self._shrink(len(references))
        self.window_freed()
        return all_of(stored)

    def _complete_in_range(
        self, context: OperationContext, reference: MessageReference, *, is_dead_letter: bool
    ) -> Completion:
        stored = self.store_acknowledgement(context, reference, is_dead_letter=is_dead_letter)
        self.undispatch(reference)
        self.dequeue_count += 1
        self.settle(reference)
        if stored is not COMPLETED:
            stored.then(lambda done: self._unsettle_if_failed(done, reference))
        return stored

    def _complete_in_transaction(
        self, transaction: Transaction, ack: MessageAck, references: list[MessageReference]
    ) -> Completion:
        if not references:
            return COMPLETED
        context = OperationContext(transaction.xid, ack.response_required)
        stored = [self.store_acknowledgement(context, reference) for reference in references]
        self.add_transacted(references)
        local = not isinstance(transaction.xid, XATransactionId)
        self._open_transactions += local
        transaction.add(_Acknowledgement(self, references, local))
        return all_of(stored)

    def transaction_ended(
        self, references: list[MessageReference], local: bool, committed: bool
    ) -> None:
        """Apply the acknowledgements of a committed transaction, or undo those of another.

        (activemq-broker X2, X3)
        """
        self.remove_transacted(references)
        in_window = 0  # excludes messages of a consumer that has left
        for reference in references:
            if committed:
                in_window += self.undispatch(reference)
                self.dequeue_count += 1
                self.settle(reference)
            else:
                in_window += self.is_dispatched(reference)
        self._shrink(in_window)
        self._open_transactions -= local
        self.return_unacknowledged([] if committed else references)
        self.window_freed()

    def _extend(self, count: int) -> None:
        if self.use_prefetch_extension and self.prefetch_size:
            self.prefetch_extension += count

    def _shrink(self, count: int) -> None:
        self.prefetch_extension = max(0, self.prefetch_extension - count)


class _Acknowledgement(Synchronization):
    __slots__ = ("_local", "_references", "_subscription")

    def __init__(
        self, subscription: PrefetchSubscription, references: list[MessageReference], local: bool
    ) -> None:
        self._subscription = subscription
        self._references = references
        self._local = local

    def after_commit(self) -> None:
        self._subscription.transaction_ended(self._references, self._local, committed=True)

    def after_rollback(self) -> None:
        self._subscription.transaction_ended(self._references, self._local, committed=False)


def _context_of(ack: MessageAck) -> OperationContext:
    return SYNCED if ack.response_required else NO_TRANSACTION


def _is_last(reference: MessageReference, ack: MessageAck) -> bool:
    return reference.message_id == ack.last_message_id and (
        ack.destination is None or ack.destination == reference.destination.destination
    )


def _mismatch(ack: MessageAck, reason: str) -> JMSException:
    return JMSException(f"Unmatched acknowledge: {ack}; {reason}")
