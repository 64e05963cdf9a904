"""The acknowledgement of what a consumer has delivered.

A ledger knows what a consumer has delivered, and when it is acknowledged. The
consumer calls its ledger twice per message: `before_delivery` when the message is passed to the
application, and `after_delivery` when the delivery is over: at once for `receive()`, otherwise when
the listener has returned. Neither call waits.

Invariants:
- `delivered` has the messages that were delivered and are not settled, oldest first. A rollback or
  `recover()` redelivers them, a commit or `acknowledge()` covers them, and they count as failed
  deliveries when the session ends without either.
- A message is settled (leaves `delivered`) in the same step that queues its acknowledgement, so
  it is never redelivered after it was acknowledged.
- An acknowledgement contains the first and the last message of a range and a count. A range is
  contiguous in the broker's dispatch order; if the client may deliver in another order (priority
  sorting, non-blocking redelivery), each message is acknowledged individually instead.

There is one class per rule, chosen once per consumer by `choose_ledger`:

    =============================  =========================================================
    AutoAckLedger                  AUTO, and DUPS_OK on queues: every message after its delivery;
                                   a burst of listener calls is acknowledged as one range
    OptimizedAckLedger             AUTO with optimizeAcknowledge: a range at 65 % of the
                                   prefetch, or after a time (activemq-broker A7)
    DupsOkAckLedger                DUPS_OK on topics: a range at half the prefetch
    DeferredAckLedger              CLIENT and TRANSACTED: one range when the application
                                   acknowledges or commits; until then DELIVERED at half
                                   the prefetch
    IndividualAckLedger            INDIVIDUAL; CLIENT and TRANSACTED if the order may change
    =============================  =========================================================

A DELIVERED acknowledgement settles nothing. It extends the prefetch window, because otherwise a
consumer that acknowledges late, or a transaction larger than the prefetch, would stall.

The rule is fixed for the life of a consumer, so it is a class, whereas ActiveMQ evaluates a chain
of conditions on the mode for every message. (activemq-broker A3 to A8; openwire-encoding 12)

Loss of the broker. The acknowledgement of a message that an AUTO listener is handling is lost with
the broker, so the next broker dispatches the message again, perhaps before the listener has
returned. The handling of this copy depends on how the listener ends:

    the listener    the copy
    --------------  ------------------------------------------------------------
    is running      waits for the listener's end
    has returned    is acknowledged: its message was handled
    has raised      is delivered as the message's redelivery

A transaction's acknowledgements are lost as well. The next broker may dispatch its messages again,
to this consumer or to another one, or not at all, because the lost broker had committed the
transaction. The transaction can be committed only if all of them are dispatched again to this
consumer; until then they are stale. (activemq-edges F5)
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from typing import TYPE_CHECKING, TypedDict

from pyjms.client.dispatcher import OwnedTasks
from pyjms.enums import AcknowledgeMode
from pyjms.runtime import clock as _clock
from pyjms.wire.openwire.commands import (
    AckType,
    ConsumerInfo,
    MessageAck,
    MessageDispatch,
    MessageId,
    Throwable,
)

if TYPE_CHECKING:
    from pyjms.client.session import ActiveMQSession

_OPTIMIZED_SHARE = 0.65  # of the prefetch
_LAZY_SHARE = 0.5

_STANDARD = int(AckType.STANDARD)
_DELIVERED = int(AckType.DELIVERED)
_INDIVIDUAL = int(AckType.INDIVIDUAL)


class AckDetails(TypedDict, total=False):
    """The keyword arguments of `send_ack`, for its overrides."""

    in_transaction: bool
    cause: Throwable | None


class AckLedger:
    """Base class of all rules: the list of delivered messages, and sending acknowledgements."""

    has_more = False
    """Whether the listener gets the next message without delay."""
    redelivers_on_error = True
    """Whether a message is redelivered if the listener raises; False: the next message follows."""

    def __init__(self, session: ActiveMQSession, info: ConsumerInfo) -> None:
        self._session = session
        self._info = info
        self.delivered: list[MessageDispatch] = []

    def before_delivery(self, dispatch: MessageDispatch) -> None:
        """Record that `dispatch` is passed to the application."""
        self.delivered.append(dispatch)

    @abstractmethod
    def after_delivery(self, dispatch: MessageDispatch) -> None:
        """Record that the delivery of `dispatch` is over."""

    @abstractmethod
    def flush(self) -> None:
        """Send deferred acknowledgements, because the consumer or its session is about to close."""

    def start_timer(self, tasks: OwnedTasks) -> None:
        """Start the timer of acknowledgements, if one is configured."""

    def close(self) -> None:
        """Stop the timer of acknowledgements."""

    @property
    def unsettled(self) -> list[MessageDispatch]:
        """The messages that were delivered and are not settled, oldest first."""
        return self.delivered

    @property
    def has_unsettled(self) -> bool:
        """Whether delivered messages await a commit or an acknowledge()."""
        return False

    @property
    def stale_count(self) -> int:
        """The number of messages delivered before an interruption and not delivered again."""
        return 0

    @property
    def acknowledger_of_one(self) -> Callable[[MessageDispatch], None] | None:
        """INDIVIDUAL: the function that acknowledges one message."""
        return None

    def acknowledge(self) -> None:
        """CLIENT: acknowledge all delivered messages."""

    def acknowledge_in_transaction(self) -> None:
        """Acknowledge the messages that the transaction has consumed, before it ends."""

    def settle(self) -> None:
        """Forget the delivered messages, because they were committed or acknowledged."""
        self.delivered.clear()

    def pop_delivered(self) -> list[MessageDispatch]:
        """Return the delivered messages, oldest first, and forget them."""
        popped, self.delivered = self.delivered, []
        return popped

    def on_interruption(self) -> list[MessageDispatch]:
        """Record the loss of the broker: its dispatches can no longer be acknowledged.

        Returns the messages that are to be delivered again when the next broker dispatches them.
        Messages that the application has processed stay recorded as received, and duplicates of
        them are refused.
        """
        self.delivered.clear()
        return []

    def acknowledge_again(self, dispatch: MessageDispatch) -> None:
        """Acknowledge a duplicate of a message in an open transaction of this consumer."""
        self.send_ack(_DELIVERED, [dispatch])

    def takes_copy(self, dispatch: MessageDispatch) -> bool:
        """Handle the copy of a message whose delivery was interrupted; return whether it is one."""
        return False

    def pop_stale(self) -> list[MessageDispatch]:
        """Return and forget the messages that `stale_count` counts."""
        return []

    def pop_copies(self) -> list[MessageDispatch]:
        """Return and forget the copies that arrived during the call of a listener that raised."""
        return []

    def holds(self, message_id: MessageId | None) -> bool:
        """Return whether this message was delivered and is not settled."""
        return any(
            held.message is not None and held.message.message_id == message_id
            for held in self.delivered
        )

    def acknowledge_expired(self, dispatch: MessageDispatch) -> None:
        """Report that a message expired in the client; the broker decides what follows."""
        self.send_ack(AckType.EXPIRED, [dispatch])

    def acknowledge_redelivered(self, dispatches: list[MessageDispatch]) -> None:
        """Report that messages are redelivered by the client; the broker changes nothing."""
        self.send_ack(AckType.REDELIVERED, dispatches)

    def acknowledge_poison(self, dispatches: list[MessageDispatch], cause: Throwable) -> None:
        """Refuse messages for good: the broker makes them dead letters."""
        self.send_ack(AckType.POISON, dispatches, cause=cause)

    def send_ack(
        self,
        kind: int,
        dispatches: list[MessageDispatch],
        *,
        in_transaction: bool = False,
        cause: Throwable | None = None,
    ) -> None:
        """Acknowledge the range from the first to the last of `dispatches`."""
        first, last = dispatches[0].message, dispatches[-1].message
        assert first is not None
        assert last is not None
        ack = MessageAck(
            dispatches[-1].destination,
            self._session.transaction.id if in_transaction else None,
            self._info.consumer_id,
            kind,
            first.message_id if kind != _INDIVIDUAL else None,
            last.message_id,
            len(dispatches),
            cause,
        )
        if in_transaction and kind == _STANDARD:
            self._session.connection.hold(ack)  # the end of the transaction follows
        else:
            self._session.send_ack(ack)


class AutoAckLedger(AckLedger):
    """AUTO, and DUPS_OK on queues: acknowledges every message when its delivery is over.

    The acknowledgements of a burst of listener calls would be sent in one write, so they form one
    range. The range ends with the burst, when a listener waits for something, and before any other
    acknowledgement of the consumer.
    """

    has_ranges: bool = True

    def __init__(self, session: ActiveMQSession, info: ConsumerInfo) -> None:
        super().__init__(session, info)
        self._first: MessageDispatch | None = None
        self._last: MessageDispatch | None = None
        self._count = 0
        self._interrupted: MessageDispatch | None = None  # in delivery when the broker was lost
        self._copy: MessageDispatch | None = None  # of it
        self._handled: MessageId | None = None  # interrupted, and then handled
        self._copies: list[MessageDispatch] = []
        if session.reorders or not session.connection.options.send_acks_async:
            self.has_ranges = False

    def after_delivery(self, dispatch: MessageDispatch) -> None:
        # It may be settled already, by a recover() or close(), or the broker may be lost.
        if not self.delivered:
            self._end_interrupted()
            return
        self.delivered.clear()
        if self._last is None and not self.has_more:
            self._acknowledge(dispatch, dispatch, 1)
            return
        if self._last is not None:
            last = self._last.destination
            if dispatch.destination is last or dispatch.destination == last:
                self._last = dispatch
                self._count += 1
                return
            self.send_range()
        self._first = self._last = dispatch
        self._count = 1
        if not self.has_ranges or not self._session.dispatcher.at_end_of_burst(self.send_range):
            self.send_range()

    def send_range(self) -> None:
        """Acknowledge the messages delivered in this burst."""
        first, last = self._first, self._last
        if first is not None and last is not None:
            self._first = self._last = None
            self._acknowledge(first, last, self._count)

    def _acknowledge(self, first: MessageDispatch, last: MessageDispatch, count: int) -> None:
        self._session.send_ack(
            MessageAck(
                last.destination,
                None,
                self._info.consumer_id,
                _STANDARD,
                message_id(first),
                message_id(last),
                count,
            )
        )

    def send_ack(
        self,
        kind: int,
        dispatches: list[MessageDispatch],
        *,
        in_transaction: bool = False,
        cause: Throwable | None = None,
    ) -> None:
        self.send_range()
        super().send_ack(kind, dispatches, in_transaction=in_transaction, cause=cause)

    def on_interruption(self) -> list[MessageDispatch]:
        self._first = self._last = None
        if self.delivered:
            self._interrupted = self.delivered[-1]
        self._copy = None
        return super().on_interruption()

    def takes_copy(self, dispatch: MessageDispatch) -> bool:
        copied = message_id(dispatch)
        if self._interrupted is not None and copied == message_id(self._interrupted):
            self._copy = dispatch
            return True
        if self._handled is None or copied != self._handled:
            return False
        self._handled = None
        self.send_ack(_STANDARD, [dispatch])
        return True

    def pop_stale(self) -> list[MessageDispatch]:
        interrupted, self._interrupted = self._interrupted, None
        copy, self._copy = self._copy, None
        if copy is not None:
            self._copies = [copy]
            return []
        self._copies = []
        return [] if interrupted is None else [interrupted]

    def pop_copies(self) -> list[MessageDispatch]:
        copies, self._copies = self._copies, []
        return copies

    def _end_interrupted(self) -> None:
        interrupted, self._interrupted = self._interrupted, None
        copy, self._copy = self._copy, None
        if copy is not None:
            self.send_ack(_STANDARD, [copy])
        elif interrupted is not None:
            self._handled = message_id(interrupted)

    def flush(self) -> None:
        if self.delivered:
            self.after_delivery(self.delivered[-1])
        self.send_range()


class OptimizedAckLedger(AutoAckLedger):
    """AUTO with optimizeAcknowledge: a range at 65 % of the prefetch, or after a time.

    A message that would break the range (redelivered, or sorted by priority) is acknowledged
    individually. Ranges are no longer used once the broker announces that it shares its store with
    another one: messages whose acknowledgement is deferred would be duplicates after a failover.
    """

    def __init__(self, session: ActiveMQSession, info: ConsumerInfo) -> None:
        super().__init__(session, info)
        self._deferred: list[MessageDispatch] = []
        self._last_ack = _clock.now()
        options = session.connection.options
        self._time_out = options.optimize_acknowledge_time_out
        self._interval = options.optimized_ack_scheduled_ack_interval
        self._is_closed = False

    def after_delivery(self, dispatch: MessageDispatch) -> None:
        if not self.delivered:
            self._end_interrupted()
            return
        if dispatch.redelivery_counter or self._session.reorders:
            self.send_deferred()
            super().after_delivery(dispatch)
            self.send_range()
            return
        self.delivered.clear()
        self._deferred.append(dispatch)
        now = _clock.now()
        if (
            len(self._deferred) >= _OPTIMIZED_SHARE * self._info.prefetch_size
            or (self._time_out > 0 and now - self._last_ack >= self._time_out)
            or not self._session.connection.optimizes_acks
        ):
            self._last_ack = now
            self.send_deferred()

    def flush(self) -> None:
        self.send_deferred()
        super().flush()

    def pop_delivered(self) -> list[MessageDispatch]:
        self.send_deferred()
        return super().pop_delivered()

    def on_interruption(self) -> list[MessageDispatch]:
        self._deferred.clear()
        return super().on_interruption()

    def start_timer(self, tasks: OwnedTasks) -> None:
        if self._interval > 0:
            tasks.spawn(self._acknowledge_regularly)

    def close(self) -> None:
        self._is_closed = True

    def send_deferred(self) -> None:
        """Acknowledge the range collected so far."""
        if self._deferred:
            deferred, self._deferred = self._deferred, []
            self.send_ack(_STANDARD, deferred)

    async def _acknowledge_regularly(self) -> None:
        while not self._is_closed:
            await _clock.sleep(self._interval)
            self.send_deferred()


class DupsOkAckLedger(AckLedger):
    """DUPS_OK on topics: a range at half the prefetch. (activemq-broker A4)"""

    def after_delivery(self, dispatch: MessageDispatch) -> None:
        if len(self.delivered) >= _LAZY_SHARE * self._info.prefetch_size:
            self.flush()

    def flush(self) -> None:
        if self.delivered:
            self.send_ack(_STANDARD, self.pop_delivered())


def message_id(dispatch: MessageDispatch) -> MessageId | None:
    """Return the id of the dispatched message."""
    assert dispatch.message is not None
    return dispatch.message.message_id


class DeferredAckLedger(AckLedger):
    """CLIENT and TRANSACTED: one range, when the application acknowledges or commits.

    Until then, DELIVERED acknowledgements at half the prefetch extend the prefetch window.
    """

    def __init__(self, session: ActiveMQSession, info: ConsumerInfo) -> None:
        super().__init__(session, info)
        self.redelivers_on_error = False
        self._delivered_acks = 0  # the length of the prefix of `delivered` with a DELIVERED ack
        self._stale: set[MessageId | None] = set()
        self._was_interrupted = False

    def before_delivery(self, dispatch: MessageDispatch) -> None:
        if self._session.transacted:
            self._session.transaction.begin()
        self.delivered.append(dispatch)

    def after_delivery(self, dispatch: MessageDispatch) -> None:
        prefetch = self._info.prefetch_size
        if prefetch and len(self.delivered) - self._delivered_acks >= _LAZY_SHARE * prefetch:
            fresh = self.delivered[self._delivered_acks :]
            self._delivered_acks = len(self.delivered)
            self.send_ack(_DELIVERED, fresh, in_transaction=True)

    def flush(self) -> None:
        """Do nothing: messages that the application has not acknowledged are redelivered."""

    def acknowledge_in_transaction(self) -> None:
        if self._was_interrupted:  # the new broker's order may differ
            for dispatch in self.delivered:
                if message_id(dispatch) not in self._stale:
                    self.send_ack(_INDIVIDUAL, [dispatch], in_transaction=True)
        elif self.delivered:
            self.send_ack(_STANDARD, self.delivered, in_transaction=True)

    def acknowledge(self) -> None:
        if self.delivered:
            self.send_ack(_STANDARD, self.pop_delivered())

    def settle(self) -> None:
        self.delivered = []
        self._delivered_acks = 0
        self._stale.clear()
        self._was_interrupted = False

    def pop_delivered(self) -> list[MessageDispatch]:
        delivered = self.delivered
        self.settle()
        return delivered

    def on_interruption(self) -> list[MessageDispatch]:
        """Record the loss of the broker.

        Messages that were delivered in a transaction stay part of it and must be dispatched again
        before the commit. Otherwise they are delivered again: the application has not acknowledged
        them.
        """
        if not self._session.transacted:
            return self.pop_delivered()
        self._delivered_acks = len(self.delivered)
        self._stale.update(map(message_id, self.delivered))
        self._was_interrupted = bool(self._stale)
        self._session.transaction.has_stale |= self._was_interrupted
        return []

    @property
    def has_unsettled(self) -> bool:
        return bool(self.delivered)

    @property
    def stale_count(self) -> int:
        return len(self._stale)

    def acknowledge_again(self, dispatch: MessageDispatch) -> None:
        super().acknowledge_again(dispatch)
        self._note_redelivery(dispatch)

    def pop_stale(self) -> list[MessageDispatch]:
        ids, self._stale = self._stale, set()
        stale = [dispatch for dispatch in self.delivered if message_id(dispatch) in ids]
        self.delivered[:] = [d for d in self.delivered if message_id(d) not in ids]
        return stale

    def _note_redelivery(self, dispatch: MessageDispatch) -> None:
        redelivered = message_id(dispatch)
        if redelivered in self._stale:
            self._stale.discard(redelivered)
            self._session.transaction.on_redelivery()


class IndividualAckLedger(DeferredAckLedger):
    """INDIVIDUAL; also CLIENT and TRANSACTED if messages may be delivered out of order.

    Each message has a separate acknowledgement, which is sent at once within a transaction.
    """

    def __init__(self, session: ActiveMQSession, info: ConsumerInfo) -> None:
        super().__init__(session, info)
        self.redelivers_on_error = session.acknowledge_mode == AcknowledgeMode.INDIVIDUAL

    def before_delivery(self, dispatch: MessageDispatch) -> None:
        super().before_delivery(dispatch)
        if self._session.transacted:  # at once: a listener may commit before it returns
            self.send_ack(_INDIVIDUAL, [dispatch], in_transaction=True)

    def after_delivery(self, dispatch: MessageDispatch) -> None:
        if not self._session.transacted:
            super().after_delivery(dispatch)

    def acknowledge_in_transaction(self) -> None:
        """Do nothing: every message was acknowledged when it was delivered."""

    def acknowledge(self) -> None:
        for dispatch in self.pop_delivered():
            self.send_ack(_INDIVIDUAL, [dispatch])

    def acknowledge_again(self, dispatch: MessageDispatch) -> None:
        if self._session.transacted:
            self.send_ack(_INDIVIDUAL, [dispatch], in_transaction=True)
        self._note_redelivery(dispatch)

    @property
    def acknowledger_of_one(self) -> Callable[[MessageDispatch], None]:
        return self._acknowledge_one

    def _acknowledge_one(self, dispatch: MessageDispatch) -> None:
        """INDIVIDUAL: acknowledge this message, unless it is already settled."""
        for index, delivered in enumerate(self.delivered):
            if delivered is dispatch:
                del self.delivered[index]
                self._delivered_acks -= index < self._delivered_acks
                self.send_ack(_INDIVIDUAL, [dispatch])
                return


def choose_ledger(session: ActiveMQSession, info: ConsumerInfo) -> AckLedger:
    """Return the ledger of a new consumer; see the table of this module."""
    if info.browser:
        return AutoAckLedger(session, info)
    mode = session.acknowledge_mode
    options = session.connection.options
    if mode == AcknowledgeMode.INDIVIDUAL:
        return IndividualAckLedger(session, info)
    if mode == AcknowledgeMode.TRANSACTED:
        individual = options.transacted_individual_ack or session.reorders
        return (IndividualAckLedger if individual else DeferredAckLedger)(session, info)
    if mode == AcknowledgeMode.CLIENT:
        return (IndividualAckLedger if session.reorders else DeferredAckLedger)(session, info)
    assert info.destination is not None
    if mode == AcknowledgeMode.DUPS_OK and info.destination.is_topic and not session.reorders:
        return DupsOkAckLedger(session, info)
    return (OptimizedAckLedger if info.optimized_acknowledge else AutoAckLedger)(session, info)
