"""The message consumer: the broker's dispatches enter it, receive() or a listener gets them.

    transport -> connection -> dispatch() -> [duplicate audit] -> prefetch buffer
        prefetch buffer -> next_dispatch() -> receive()                    -> application
                                           -> dispatcher -> deliver_one()  -> listener

Arrival. `dispatch` runs on the loop while a socket is read, and must not wait. It checks for a
duplicate, appends to the buffer and wakes a waiting `receive` or the session's dispatcher.

Delivery. Only `next_dispatch` takes messages from the buffer. It skips expired messages (EXPIRED
ack) and those that were redelivered too often (POISON ack), so both rules apply to `receive` and
listener alike. The ledger then decides when the message is acknowledged, and
`redelivery` what happens after a rollback.

Invariants:
- A buffered message is received without a wait, a cancel scope or a task switch, except that
  every 256th call lets other tasks run.
- Cancelling `receive` loses nothing: there is no await between removing a message from the buffer
  and returning it.
- Messages are delivered only while the session is started and the consumer neither paused by a
  redelivery nor closed. The consumer has one flag for that, updated when one of the three changes,
  because it is read for every message.

Life cycle:

    state       entered by                    receive()                 arriving messages
    ----------  ----------------------------  ------------------------  -----------------
    open        creation                      waits                     are buffered
    closed      close()                       returns None or raises    are dropped
    disposed    session closed or failed      returns None, or raises   are dropped
                                              the failure

A closed consumer whose messages are not settled stays with its session, unknown to the
application, until they are: commit and acknowledge still cover them. (activemq-broker X7)

Without prefetch every receive sends a MessagePull. The broker responds with a message or, if the
pull has a timeout that has passed, with a dispatch without message. A receive that is cancelled
leaves its pull pending at the broker, so pulls are counted: the response to an abandoned pull must
not be mistaken for the response to the present one. (activemq-broker Q14)

ActiveMQ never signals a timeout for a pull without a timeout. Artemis does so at once if the queue
is empty; from then on, the receives of such a consumer repeat pulls with a timeout.

(JMS 1.1, section 4.5; activemq-edges N8 to N10)

Acknowledgement. A ledger knows what a consumer has delivered, and when it is acknowledged. The
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

Prefetch. The broker dispatches up to `prefetch_size` messages ahead of their acknowledgements; they
wait in the buffer until the application receives them. The prefetch bounds the buffer.

Announcements (ActiveMQ's MessageAvailableListener) tell of messages that can be received at once.
Each message that arrives is announced once, by the session's listener dispatcher, so that the
listener may receive it and never runs at the same time as another listener. Messages that have been
received in the meantime are not announced. Buffered messages are announced again when delivery
starts or resumes, and after a rollback.

Duplicates. A broker dispatches a message once to a live connection. After a failover, or when a
slow store loses a race with a redispatch, it may dispatch the message again, and the application
would process it twice. ActiveMQ's client therefore audits the messages that it receives, and so
does this client.

Keys. A message id consists of a producer id and that producer's sequence number. For queues, one
window of numbers serves all consumers of the connection, since a message goes to only one of them;
for topics, every consumer has its own window, since each consumer gets a copy. (activemq-edges N13)
If a consumer has a single queue, the window is that queue's: Artemis dispatches the copies that a
virtual topic made for several queues with the topic's name, and these are not duplicates.

Windows. `MessageAudit` records which of a producer's latest `audit_depth` (2048) numbers were
received, for each of `audit_maximum_producer_number` (64) producers. A number older than the window
counts as new: a false positive would make a valid message a dead letter, whereas a missed duplicate
is a repetition that at-least-once delivery allows.

Forgetting. A message that the client itself returns may legitimately be dispatched again and is
removed from the window: at rollback and recover, and all buffered messages when a consumer closes.

What happens to a duplicate depends on which open transaction has the first copy:

    ======================================  ================================================
    first copy is held by                   the duplicate is
    ======================================  ================================================
    a transaction of the same consumer      acknowledged as DELIVERED: the commit covers it
    a transaction of another consumer       delivered: that transaction may still roll back
    no open transaction                     refused with a POISON ack: it was processed
    ======================================  ================================================

(activemq-broker R8)
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Awaitable, Callable, Iterator
from inspect import isawaitable
from threading import get_ident
from typing import TYPE_CHECKING, ClassVar, Final, Protocol, TypedDict, Unpack

from anyio.lowlevel import checkpoint

from pyjms.client.dispatcher import ListenerTarget, OwnedTasks
from pyjms.client.messages import CommandSource, ReroutedSource, from_command, transform_received
from pyjms.client.policies import RedeliveryPolicy
from pyjms.client.rollback import Redeliverer
from pyjms.enums import AcknowledgeMode
from pyjms.errors import IllegalStateException, JMSException, PoisonMessageException
from pyjms.jms import api
from pyjms.jms.api import MessageAvailableListener
from pyjms.jms.blob import BlobMessage
from pyjms.jms.destination import Destination
from pyjms.jms.message import Acknowledger, Message
from pyjms.management import JMSConsumerStats
from pyjms.runtime import clock as _clock
from pyjms.runtime.clock import FOR_EVER, check_seconds
from pyjms.runtime.event_loop import Waiter
from pyjms.runtime.logging import get_logger
from pyjms.wire.limits import MAX_INFLATED_SIZE
from pyjms.wire.message_audit import MessageAudit
from pyjms.wire.openwire.commands import (
    AckType,
    ConsumerId,
    ConsumerInfo,
    MessageAck,
    MessageDispatch,
    MessageId,
    MessagePull,
    Throwable,
)

if TYPE_CHECKING:
    from pyjms.client.connection import ActiveMQConnection
    from pyjms.client.session import ActiveMQSession

logger: Final = get_logger(__name__)

_OPTIMIZED_SHARE = 0.65  # of the prefetch
_LAZY_SHARE = 0.5

_STANDARD = int(AckType.STANDARD)
_DELIVERED = int(AckType.DELIVERED)
_INDIVIDUAL = int(AckType.INDIVIDUAL)


class AckDetails(TypedDict, total=False):
    """The keyword arguments of `send_ack`, for its overrides."""

    in_transaction: bool
    cause: Throwable | None


class AckLedger(ABC):
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

    def start_timer(self, tasks: OwnedTasks) -> None:  # noqa: B027 - only some rules have timers
        """Start the timer of acknowledgements, if one is configured."""

    def close(self) -> None:  # noqa: B027 - as above
        """Stop the timer of acknowledgements."""

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

    def acknowledge(self) -> None:  # noqa: B027 - only deferred rules wait for it
        """CLIENT: acknowledge all delivered messages."""

    def acknowledge_in_transaction(self) -> None:  # noqa: B027 - only deferred rules wait for it
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
        self, kind: int, dispatches: list[MessageDispatch], **details: Unpack[AckDetails]
    ) -> None:
        self.send_range()
        super().send_ack(kind, dispatches, **details)

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
        self.redelivers_on_error: bool = session.acknowledge_mode == AcknowledgeMode.INDIVIDUAL

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


class DispatchBuffer(Protocol):
    """A prefetch buffer."""

    def __len__(self) -> int: ...
    def __iter__(self) -> Iterator[MessageDispatch]: ...
    def append(self, dispatch: MessageDispatch, /) -> None:
        """Add a message."""

    def requeue(self, dispatches: list[MessageDispatch]) -> None:
        """Put `dispatches`, oldest first, before all others (of their priority)."""

    def popleft(self) -> MessageDispatch:
        """Remove and return the next message; raise IndexError if there is none."""

    def clear(self) -> None:
        """Drop all messages."""


class FifoBuffer(deque[MessageDispatch]):
    """Messages in the order of arrival."""

    def requeue(self, dispatches: list[MessageDispatch]) -> None:
        self.extendleft(reversed(dispatches))


class PriorityBuffer:
    """Messages by priority, highest first, and in order of arrival within one."""

    def __init__(self) -> None:
        self._queues = [FifoBuffer() for _ in range(10)]
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[MessageDispatch]:
        for queue in reversed(self._queues):
            yield from queue

    def append(self, dispatch: MessageDispatch) -> None:
        self._queue_of(dispatch).append(dispatch)
        self._count += 1

    def requeue(self, dispatches: list[MessageDispatch]) -> None:
        for dispatch in reversed(dispatches):
            self._queue_of(dispatch).appendleft(dispatch)
        self._count += len(dispatches)

    def popleft(self) -> MessageDispatch:
        for queue in reversed(self._queues):
            if queue:
                self._count -= 1
                return queue.popleft()
        raise IndexError("the buffer is empty")

    def clear(self) -> None:
        for queue in self._queues:
            queue.clear()
        self._count = 0

    def _queue_of(self, dispatch: MessageDispatch) -> FifoBuffer:
        assert dispatch.message is not None
        return self._queues[min(max(dispatch.message.priority, 0), 9)]


class MeasuredBuffer:
    """A buffer that measures how many messages wait in it, and for how long."""

    def __init__(self, buffer: DispatchBuffer, stats: JMSConsumerStats) -> None:
        self._buffer = buffer
        self._stats = stats
        self._arrivals: dict[int, float] = {}

    def __len__(self) -> int:
        return len(self._buffer)

    def __iter__(self) -> Iterator[MessageDispatch]:
        return iter(self._buffer)

    def append(self, dispatch: MessageDispatch) -> None:
        self._buffer.append(dispatch)
        self._note_arrival(dispatch)

    def requeue(self, dispatches: list[MessageDispatch]) -> None:
        self._buffer.requeue(dispatches)
        for dispatch in dispatches:
            self._note_arrival(dispatch)

    def popleft(self) -> MessageDispatch:
        dispatch = self._buffer.popleft()
        self._stats.pending_message_count.decrement()
        self._stats.message_wait_time.add_time(_clock.now() - self._arrivals.pop(id(dispatch)))
        return dispatch

    def clear(self) -> None:
        self._stats.pending_message_count.decrement(len(self._buffer))
        self._buffer.clear()
        self._arrivals.clear()

    def _note_arrival(self, dispatch: MessageDispatch) -> None:
        self._arrivals[id(dispatch)] = _clock.now()
        self._stats.pending_message_count.increment()


class Announcements(ListenerTarget):
    """The announcements of one consumer's messages to one listener."""

    def __init__(
        self, consumer: ActiveMQMessageConsumer, listener: MessageAvailableListener
    ) -> None:
        """Keep `listener`, which is called with `consumer`.

        Raises:
            IllegalStateException: the session has a message listener, so `receive` is refused.
            JMSException: there is no prefetch, so messages arrive only during a `receive`.
        """
        if consumer.session.has_listener:
            raise IllegalStateException(
                "Cannot announce messages when a MessageListener is set",
                hint="set_message_listener(None) first, or use another session",
            )
        if consumer.info.prefetch_size == 0:
            raise JMSException(
                "Messages cannot be announced with a prefetch size of zero: they arrive only during"
                " a receive()",
                hint="set a prefetch of at least 1",
            )
        self.listener = listener
        self.listener_name = f"the message available listener of consumer {consumer.consumer_id}"
        self._consumer = consumer
        self._dispatcher = consumer.session.dispatcher
        self._due = 0

    def announce(self) -> None:
        """Announce a message that arrived."""
        if self._consumer.available:
            self._due += 1
            self._dispatcher.wake(self)

    def announce_all(self) -> None:
        """Announce every buffered message."""
        self._due = self._consumer.available
        self._dispatcher.wake(self)

    async def end(self) -> None:
        """Stop announcing, and wait until the listener is not running."""
        self._due = 0
        await self._dispatcher.wait_idle(self)

    async def deliver_one(self) -> bool:
        """Make one announcement if its message is still buffered; return whether more are due."""
        self._due = min(self._due, self._consumer.available)
        if not self._due:
            return False
        self._due -= 1
        try:
            result = self.listener(self._consumer)
            if result is not None and isawaitable(result):
                await result
        except Exception:
            logger.exception(
                "%s: the message available listener failed", self._consumer.consumer_id
            )
        return self._due > 0


_MAX_AUDITS = 1000  # destinations and topic consumers; the oldest are dropped


class ConnectionAudit:
    """The audits of one connection."""

    def __init__(self, depth: int, maximum_producers: int) -> None:
        self._depth = depth
        self._maximum_producers = maximum_producers
        self._audits: dict[Destination | ConsumerId, MessageAudit] = {}

    def __len__(self) -> int:
        return len(self._audits)

    def audit_for(self, destination: Destination, consumer_id: ConsumerId) -> MessageAudit:
        """Return the audit that applies to dispatches from `destination` to this consumer."""
        key = destination if destination.is_queue else consumer_id
        audit = self._audits.get(key)
        if audit is None:
            if len(self._audits) >= _MAX_AUDITS:
                del self._audits[next(iter(self._audits))]
            audit = self._audits[key] = MessageAudit(self._depth, self._maximum_producers)
        return audit

    def remove(self, consumer_id: ConsumerId) -> None:
        """Drop the audit of a topic consumer."""
        self._audits.pop(consumer_id, None)


_YIELD_MASK = 0xFF  # every 256th receive lets other tasks run
_SECONDS_OF_REPEATED_PULLS = 30.0


class ActiveMQMessageConsumer(api.MessageConsumer, ListenerTarget):
    """Receives the messages of one destination. Created by a session.

    For one task at a time, except `close`, which any task on the loop may call.
    """

    is_measured: ClassVar[bool] = True
    """Whether it has statistics if `stats_enabled` is on."""
    takes_turns = True
    on_closed: Callable[[], Awaitable[None]] | None = None  # awaited at the end of `close`

    def __init__(self, session: ActiveMQSession, info: ConsumerInfo) -> None:
        assert info.destination is not None
        assert info.consumer_id is not None
        options = session.connection.options
        self.info: ConsumerInfo = info
        self.consumer_id: ConsumerId = info.consumer_id
        self.listener_name = f"the listener of consumer {info.consumer_id}"
        self.session: ActiveMQSession = session
        policies = options.redelivery_policy_map
        self.redelivery_policy: RedeliveryPolicy = policies.entry_for(info.destination)
        self.ledger: AckLedger = self._new_ledger()
        self.last_delivered_sequence_id: int = -1
        self._audit: MessageAudit | None = None
        """The duplicate audit of its messages; None: not looked for yet, or there are several."""
        self.is_removed_by_broker = False
        """Whether the broker removes the consumer by itself, so that no RemoveInfo is sent."""
        self._is_closed = False
        self.failure: JMSException | None = None
        prioritized = options.message_priority_supported
        self._buffer: DispatchBuffer = PriorityBuffer() if prioritized else FifoBuffer()
        self.stats: JMSConsumerStats | None = None
        """The statistics of its receives; None if `stats_enabled` is off."""
        if session.stats is not None and self.is_measured:
            self.stats = session.stats.add_consumer(
                str(info.consumer_id),
                info.destination.physical_name,
                durable=info.subscription_name is not None,
            )
            self._buffer = MeasuredBuffer(self._buffer, self.stats)
        self.redeliverer: Redeliverer = Redeliverer(self)
        self.pulls: PullRequests = PullRequests(session.connection, info)
        self._checks_expiry = options.consumer_expiry_check_enabled
        self._max_inflated_size = _max_inflated_size(session.connection)
        self._ack_responses = session.ack_responses
        self._acknowledger: Acknowledger = session.acknowledger_for(self.ledger.acknowledger_of_one)
        self.transformer: api.MessageTransformer | None = session.transformer
        """Replaces the messages that are delivered; None: no transformer."""
        self._listener: api.MessageListener | None = None
        self._announcements: Announcements | None = None
        self.receivers: list[Waiter] = []
        """The tasks that wait in `receive`."""
        self._paused = False
        self._flowing = session.is_started
        self._received = 0
        self._check: Callable[[Message], object] | None = None

    def _new_ledger(self) -> AckLedger:
        return choose_ledger(self.session, self.info)

    @property
    def is_closed(self) -> bool:
        return self._is_closed

    @property
    def destination(self) -> Destination:
        assert self.info.destination is not None
        return self.info.destination

    @property
    def message_selector(self) -> str | None:
        self._check_open()
        return self.info.selector

    @property
    def message_listener(self) -> api.MessageListener | None:
        self._check_open()
        return self._listener

    @property
    def has_listener(self) -> bool:
        """Whether a listener is set on this consumer."""
        return self._listener is not None

    @property
    def has_unsettled(self) -> bool:
        """Whether delivered messages await a commit or an acknowledge()."""
        return self.ledger.has_unsettled

    @property
    def buffered(self) -> int:
        """The number of messages that were dispatched to this consumer and not delivered yet."""
        return len(self._buffer)

    @property
    def available(self) -> int:
        """The number of messages that can be received without waiting."""
        return len(self._buffer) if self._flowing else 0

    # For the application.

    async def set_message_listener(self, listener: api.MessageListener | None) -> None:
        self._check_open()
        if self.info.prefetch_size == 0:
            raise JMSException(
                "Illegal prefetch size of zero. This setting is not supported for asynchronous"
                " consumers please set a value of at least 1"
            )
        if listener is not None and self._announcements is not None:
            raise IllegalStateException(
                "Cannot set a MessageListener when a message available listener is set",
                hint="set_message_available_listener(None) first",
            )
        self._listener = listener
        self.session.update_has_listener()
        self._wake()

    @property
    def message_available_listener(self) -> api.MessageAvailableListener | None:
        """The listener that is called when a message can be received at once, if any."""
        self._check_open()
        return None if self._announcements is None else self._announcements.listener

    async def set_message_available_listener(
        self, listener: api.MessageAvailableListener | None
    ) -> None:
        self._check_open()
        announcements = None
        if listener is not None:
            announcements = Announcements(self, listener)
        previous, self._announcements = self._announcements, announcements
        if previous is not None:
            await previous.end()
        self._wake()

    async def receive(self, timeout: float | None = None) -> Message | None:
        session = self.session
        if self._is_closed or session.has_listener:
            self._check_open()
            raise IllegalStateException(  # (activemq-edges N8)
                "Cannot synchronously receive a message when a MessageListener is set",
                hint="use another session for receive()",
            )
        if session.thread != get_ident() or session.ending is not None:
            session.check_use("receive()")
        if self._buffer and self._flowing:
            self._received += 1
            if not self._received & _YIELD_MASK:
                await checkpoint()
            message = self.receive_buffered()
            if message is not None:
                if self._ack_responses is not None:
                    await self._ack_responses.wait()
                return message
        message = await self._wait_for_message(timeout)
        if message is not None and self._ack_responses is not None:
            await self._ack_responses.wait()
        return message

    async def receive_checked(
        self, check: Callable[[Message], object], timeout: float | None = None
    ) -> Message | None:
        self._check = check
        try:
            return await self.receive(timeout)
        finally:
            self._check = None

    async def close(self) -> None:
        if self._is_closed:
            return
        self._is_closed = True
        self.update_flow()
        self.wake_receivers()
        await self.session.dispatcher.wait_idle(self)
        if self._announcements is not None:
            await self._announcements.end()
        self.session.remove_consumer(self)
        if self.on_closed is not None:
            await self.on_closed()

    # Arrival.

    def dispatch(self, dispatch: MessageDispatch) -> None:
        """Accept a dispatch from the broker. Synchronous; a closed consumer drops it."""
        command = dispatch.message
        if command is None:
            self.pulls.on_timeout()
            self.wake_receivers()
            return
        if self._is_closed:
            return
        audit = self._audit
        if audit is None:
            audit = self._find_audit(dispatch)
        if (
            audit is not None
            and audit.is_duplicate(command.message_id)
            and not self._takes_duplicate(dispatch)
        ):
            if self.info.prefetch_size == 0:  # it was the response to a pull: pull the next one
                self.pulls.on_message()
                self.wake_receivers()
            return
        if not self.session.is_started:
            self.session.warn_unstarted()
        self._enqueue(dispatch)

    def _enqueue(self, dispatch: MessageDispatch) -> None:
        self._buffer.append(dispatch)
        if self.info.prefetch_size == 0:
            self.pulls.on_message()
        if self._listener is not None:
            if not self.is_queued:
                self._wake()
            return
        if self.receivers:
            self.wake_receivers()
        if self._announcements is not None:
            self._announcements.announce()

    def _find_audit(self, dispatch: MessageDispatch) -> MessageAudit | None:
        """Return the duplicate audit that applies to `dispatch`, or None."""
        audits, own = self.session.connection.audit, self.destination
        if audits is None or self.info.browser or dispatch.destination is None:
            return None
        if own.is_composite or (own.is_queue and own.is_pattern):  # one for each of its queues
            return audits.audit_for(dispatch.destination, self.consumer_id)
        self._audit = audits.audit_for(own, self.consumer_id)
        return self._audit

    def _takes_duplicate(self, dispatch: MessageDispatch) -> bool:
        """Handle a duplicate as the module says; return whether it is delivered."""
        assert dispatch.message is not None
        if self.ledger.takes_copy(dispatch):
            return False
        message_id = dispatch.message.message_id
        holders = self.session.connection.consumers_holding(message_id)
        if self.consumer_id in holders:
            self.ledger.acknowledge_again(dispatch)
            return False
        if holders:
            logger.warning(
                "%s delivers the duplicate %s: a transaction on %s may still roll back",
                self.consumer_id,
                message_id,
                holders[0],
            )
            return True
        logger.warning(
            "%s suppresses a duplicate delivery on its connection, poison acking: %s",
            self.consumer_id,
            message_id,
        )
        reason = f"Suppressing duplicate delivery on connection, consumer {self.consumer_id}"
        self.ledger.acknowledge_poison([dispatch], Throwable("java.lang.Throwable", reason))
        return False

    def forget(self, dispatch: MessageDispatch) -> None:
        """Remove `dispatch` from the duplicate audit, so that it may be dispatched again."""
        audit = self._audit or self._find_audit(dispatch)
        if audit is not None and dispatch.message is not None:
            audit.forget(dispatch.message.message_id)

    def on_interruption(self) -> None:
        """Drop the lost broker's messages: the next broker dispatches them again."""
        dropped = [*self._buffer, *self.redeliverer.pop_waiting(), *self.ledger.on_interruption()]
        self._buffer.clear()
        for dispatch in dropped:
            self.forget(dispatch)

    # Delivery.

    def next_dispatch(self) -> MessageDispatch | None:
        """Remove and return the next message that may be delivered; None if there is none."""
        buffer = self._buffer
        while self._flowing and buffer:
            dispatch = buffer.popleft()
            command = dispatch.message
            assert command is not None
            expiration = command.expiration
            if expiration and self._checks_expiry and expiration <= _clock.time_ms():
                self.ledger.acknowledge_expired(dispatch)
                if self.stats is not None:
                    self.stats.expired_message_count.increment()
            elif dispatch.redelivery_counter and self.redeliverer.is_exceeded(dispatch):
                self.redeliverer.refuse(dispatch)
            else:
                return dispatch
        return None

    def _to_message(self, dispatch: MessageDispatch) -> Message:
        command = dispatch.message
        assert command is not None
        message_id = command.message_id
        self.last_delivered_sequence_id = (
            -1 if message_id is None else message_id.broker_sequence_id
        )
        source = CommandSource if command.original_destination is None else ReroutedSource
        message = from_command(
            command,
            dispatch.redelivery_counter,
            source(command, self._max_inflated_size),
            self._acknowledger,
            dispatch,
        )
        if type(message) is BlobMessage:
            from pyjms.client.blobs import PolicyTransfer  # noqa: PLC0415 - rare, slow to import

            policy = self.session.connection.options.blob_transfer_policy
            message.transfer = PolicyTransfer(policy)
        return message

    async def deliver_one(self) -> bool:
        """Deliver the next message to the listener; return whether there are more."""
        listener = self._listener
        if listener is None or self.session.has_own_listener:
            return False
        dispatch = self.next_dispatch()
        if dispatch is not None:
            await self.call_listener(listener, dispatch)
        return self._flowing and bool(self._buffer)

    async def call_listener(self, listener: api.MessageListener, dispatch: MessageDispatch) -> None:
        """Call `listener` with a message and settle it according to the session's mode."""
        stats = self.stats
        began = 0.0 if stats is None else _clock.now()
        try:
            message = self._to_message(dispatch)
            self.ledger.before_delivery(dispatch)
            try:
                if self.transformer is not None:
                    message = transform_received(self.transformer, self, message)
                result = listener(message)
                if result is not None and isawaitable(result):
                    await result
            except Exception as error:
                logger.exception(
                    "%s: the listener failed on %s", self.consumer_id, message.message_id
                )
                dispatch.rollback_cause = error
                if self.ledger.redelivers_on_error:
                    self.redeliverer.roll_back()
                    return
            # a listener container reports the errors of its listener itself and raises nothing
            if self.ledger.redelivers_on_error and isinstance(
                dispatch.rollback_cause, PoisonMessageException
            ):
                self.redeliverer.roll_back()
                return
            self.ledger.has_more = self._flowing and bool(self._buffer)
            self.ledger.after_delivery(dispatch)
            if self._ack_responses is not None:
                try:
                    await self._ack_responses.wait()
                except JMSException as error:
                    self.session.connection.report(error)
        finally:
            if stats is not None:
                stats.message_process_time.add_time(_clock.now() - began)
                stats.on_message()

    def receive_buffered(self) -> Message | None:
        """Deliver the next buffered message to receive(); None if there is none."""
        dispatch = self.next_dispatch()
        if dispatch is None:
            return None
        message = self._to_message(dispatch)
        if self._check is not None or self.transformer is not None:
            try:
                if self.transformer is not None:
                    message = transform_received(self.transformer, self, message)
                if self._check is not None:
                    self._check(message)
            except BaseException:
                self._buffer.requeue([dispatch])
                raise
        self.ledger.before_delivery(dispatch)
        self.ledger.after_delivery(dispatch)
        if self.stats is not None:
            self.stats.on_message()
        return message

    async def _wait_for_message(self, timeout: float | None) -> Message | None:
        """Return the next message; None after `timeout` seconds or if the consumer is closed.

        Raises:
            TypeError: the timeout is not a number.
            ValueError: the timeout is not finite.
        """
        deadline = None
        if timeout is not None:
            check_seconds("timeout", timeout, least=None, otherwise=FOR_EVER)
            deadline = _clock.now() + timeout
        if self.info.prefetch_size == 0 and not self._buffer:
            return await self._wait_for_pull(timeout, deadline)
        if timeout is not None and timeout <= 0:
            await checkpoint()
            return self.receive_buffered()
        left = timeout
        if not self.session.is_started:
            left = await self._wait_unstarted(left, deadline)
        while not self._is_closed and (left is None or left > 0):
            await self.wait_for_arrival(left)
            message = self.receive_buffered()
            if message is not None:
                return message
            left = _seconds_left(deadline)
            if self.info.prefetch_size == 0:  # the broker has just said so
                return await self._wait_for_pull(left, deadline)
        self.raise_failure()
        return self.receive_buffered()

    async def _wait_unstarted(self, left: float | None, deadline: float | None) -> float | None:
        """Wait until messages are warned of that the unstarted session keeps; return what is left.

        Those that come later are warned of when they arrive.
        """
        seconds = self.session.seconds_until_warning()
        if seconds:
            await self.wait_for_arrival(seconds if left is None else min(seconds, left))
        if self._buffer and not self.session.is_started:
            self.session.warn_unstarted()
        return _seconds_left(deadline)

    async def _wait_for_pull(self, timeout: float | None, deadline: float | None) -> Message | None:
        """Pull a message; the broker signals the timeout. (activemq-edges N9)"""
        pulls = self.pulls
        is_stale = pulls.begin(timeout)
        while not (self._is_closed or pulls.timed_out):
            if not pulls.is_pending:  # the pulled message had expired or was a duplicate
                pulls.request(_seconds_left(deadline))
            own_clock = deadline is not None and (is_stale or bool(self._buffer))
            left = _seconds_left(deadline) if own_clock else None
            if left is None or left > 0:
                await self.wait_for_arrival(left)
            message = self.receive_buffered()
            if (
                message is not None
                or pulls.timed_out
                or (own_clock and not _seconds_left(deadline))
            ):
                return message
        self.raise_failure()
        return None

    async def wait_for_arrival(self, seconds: float | None) -> None:
        """Wait until `wake_receivers` is called, at most `seconds`; None: for ever."""
        waiter = Waiter()
        self.receivers.append(waiter)
        try:
            await _clock.wait(waiter, seconds)
        finally:
            if waiter in self.receivers:
                self.receivers.remove(waiter)

    def wake_receivers(self) -> None:
        """Wake all tasks that wait in `receive`."""
        waiting, self.receivers = self.receivers, []
        for waiter in waiting:
            waiter.wake()

    # Flow: see the module's invariants.

    def requeue(self, dispatches: list[MessageDispatch]) -> None:
        """Return messages to the front of the buffer."""
        if not self._is_closed:
            self._buffer.requeue(dispatches)
            self._wake()

    def pause(self, paused: bool) -> None:
        """Stop delivery while a redelivery is delayed, or resume it."""
        self._paused = paused
        self.update_flow()

    def update_flow(self) -> None:
        """Start or stop delivery after a change of the session or of this consumer."""
        self._flowing = self.session.is_started and not self._paused and not self._is_closed
        turns = self.session.connection.listener_turns
        if turns is not None and not self._flowing:
            turns.withdraw(self)  # a stop or close must not wait for the listener's turn
        self._wake()

    def _wake(self) -> None:
        if self._flowing and self._buffer:
            if self._listener is not None:
                self.session.dispatcher.wake(self)
            elif self._announcements is not None:
                self._announcements.announce_all()
            self.wake_receivers()

    # The end.

    def deregister(self) -> None:
        """Receive nothing more from the connection."""
        self.session.connection.remove_consumer(self.consumer_id)

    def dispose(self, failure: JMSException | None = None) -> None:
        """Close it without telling the broker; waiting receives return None or raise `failure`."""
        self.failure = self.failure or failure
        self._is_closed = True
        self.redeliverer.close()
        self.ledger.close()
        if failure is None:
            self.ledger.flush()
        failed = [*self.redeliverer.waiting, *self.ledger.delivered]
        if failed:  # the broker counts a failed delivery of each message up to this one
            self.last_delivered_sequence_id = max(map(_sequence_id, failed))
        for dispatch in [*self._buffer, *failed]:
            self.forget(dispatch)
        self._buffer.clear()
        self.update_flow()
        self.wake_receivers()
        if self.stats is not None:
            self.stats.close()

    def mark_failed(self, failure: JMSException) -> None:
        """Make every further call raise the connection's failure; do not wake anything."""
        self.failure = failure
        self._is_closed = True

    def raise_failure(self) -> None:
        """Raise the connection's failure, if it has ended the consumer."""
        if self.failure is not None:
            raise self.session.connection.failed_error()

    def _check_open(self) -> None:
        self.raise_failure()
        if self._is_closed:
            raise IllegalStateException("The Consumer is closed")


class PullRequests:
    """The pulls of one consumer that are pending at the broker; see the module."""

    def __init__(self, connection: ActiveMQConnection, info: ConsumerInfo) -> None:
        self._connection = connection
        self._info = info
        self.pending_timeouts: int = 0
        """The number of pulls with a timeout to which the broker has not responded."""
        self.timed_out: bool = False
        """Whether the broker has signalled the timeout of the last pull."""
        self._is_ahead = False
        self._unlimited = False  # a pull without timeout is pending
        self._waits_for_ever = False  # the present receive has no timeout
        self._repeated = False  # receives without a timeout repeat pulls with a timeout

    @property
    def is_pending(self) -> bool:
        """Whether a pull may still bring a message."""
        return self._unlimited or self.pending_timeouts > 0

    def request_ahead(self, timeout: float | None) -> None:
        """Pull a message for a `receive` that is about to follow, if there is no prefetch."""
        if self._info.prefetch_size == 0:
            self.request(timeout)
            self._is_ahead = True

    def begin(self, timeout: float | None) -> bool:
        """Pull a message for a `receive`, unless it was requested ahead.

        Returns whether the broker may first signal the timeout of an earlier, cancelled pull.
        """
        if self._is_ahead:
            self._is_ahead = False
            return False
        is_stale = self.pending_timeouts > 0
        self.request(timeout)
        return is_stale

    def request(self, timeout: float | None) -> None:
        """Pull a message within `timeout` seconds; at most one unlimited pull is pending."""
        self.timed_out = False
        self._waits_for_ever = timeout is None
        if timeout is None and self._repeated:
            timeout = _SECONDS_OF_REPEATED_PULLS
        if timeout is None and self._unlimited:
            return
        if timeout is None:
            self._unlimited = True
            milliseconds = 0
        else:
            self.pending_timeouts += 1
            milliseconds = max(1, round(timeout * 1000)) if timeout > 0 else -1
        info = self._info
        self._connection.oneway(MessagePull(info.consumer_id, info.destination, milliseconds))

    def on_message(self) -> None:
        """Record that a message arrived: the broker signals none of the pending timeouts."""
        self.pending_timeouts = 0
        self._unlimited = self._is_ahead = False

    def on_timeout(self) -> None:
        """Record a dispatch without message: the oldest pull has timed out."""
        if self.pending_timeouts:
            self.pending_timeouts -= 1
        elif self._unlimited:
            self._unlimited = self._is_ahead = False
            self._repeated = True
        self.timed_out = not (self.pending_timeouts or self._waits_for_ever)


def _max_inflated_size(connection: ActiveMQConnection) -> int:
    """Return the most bytes to which a compressed body may inflate.

    ActiveMQ: `jms.maxInflatedDataSizeRatio`, the ratio of that limit to the largest frame.
    """
    frame = connection.transport.max_frame_size
    if frame is None:
        return MAX_INFLATED_SIZE
    return min(frame * connection.options.max_inflated_data_size_ratio, MAX_INFLATED_SIZE)


def _seconds_left(deadline: float | None) -> float | None:
    """Return the seconds until `deadline`, at least 0; None: there is none."""
    return None if deadline is None else max(0.0, deadline - _clock.now())


def _sequence_id(dispatch: MessageDispatch) -> int:
    """Return the broker's number of the message, -1 if it has none."""
    assert dispatch.message is not None
    message_id = dispatch.message.message_id
    return -1 if message_id is None else message_id.broker_sequence_id
