"""Subscriptions: selector, prefetch window, acknowledgements, pulls, and sending to the client.

Destinations call `matches` and dispatch messages; the client's acknowledgements and pulls arrive
through the region broker. `AbstractSubscription` is the base of all of them, `PrefetchSubscription`
of those whose messages stay in their destination until they are acknowledged: `QueueSubscription`
and durable ones. They stay in `dispatched`, in dispatch order, until they are settled;
acknowledgements in a transaction take effect when it ends. `QueueBrowserSubscription` gets copies
and removes nothing.
(ActiveMQ Subscription, AbstractSubscription, PrefetchSubscription, QueueSubscription,
QueueBrowserSubscription; activemq-broker 7.1, A1, A2, Q13, Q18, Q31)
"""

from __future__ import annotations

import logging
from abc import abstractmethod
from collections import OrderedDict, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import chain, islice
from typing import TYPE_CHECKING, Final, cast

from anyio import lowlevel

from pyjms.errors import InvalidDestinationException, JMSException, LocalProtocolError
from pyjms.jms.destination import Destination
from pyjms.runtime import clock as _clock
from pyjms.runtime import event_loop
from pyjms.runtime.logging import get_logger
from pyjms.selector import Selector, SelectorLimitException, compile_selector, selector_or_none
from pyjms.wire.limits import LARGE_FRAME
from pyjms.wire.openwire.commands import (
    AckType,
    ConsumerControl,
    ConsumerId,
    ConsumerInfo,
    MessageAck,
    MessageDispatch,
    MessageId,
    MessagePull,
    Throwable,
    TransactionId,
    XATransactionId,
)
from pyjms_broker.api.completion import COMPLETED, Completion, all_of
from pyjms_broker.api.context import ConnectionContext, ConsumerExchange
from pyjms_broker.api.destination import BrokerDestination
from pyjms_broker.api.message import (
    NO_TRANSACTION,
    SYNCED,
    MessageReference,
    OperationContext,
    SubscriptionKey,
)
from pyjms_broker.api.subscription import Subscription
from pyjms_broker.api.transaction import Synchronization, Transaction
from pyjms_broker.api.usage import MATCH_SIZE, ClientMemory
from pyjms_broker.policy.entry import PolicyEntry
from pyjms_broker.region.bridge_filter import ConditionalBridgeFilter, lets_pass

if TYPE_CHECKING:
    from pyjms_broker.region.queue import Candidate, Queue
    from pyjms_broker.region.region_broker import RegionBroker

logger = get_logger(__name__)

_FRAME_SPACE: Final = 512
"""Bytes of a dispatch besides its message, more than most have."""
_RETRY_DELAY: Final = 5.0
"""Seconds until failed marks are retried."""

_Marker = Callable[["MessageReference"], Completion]
"""Marks a message in its store."""


class _PendingMessage:
    __slots__ = ("has_failed", "is_marked", "redelivery_counter", "reference")

    def __init__(self, reference: MessageReference, redelivery_counter: int) -> None:
        self.reference = reference
        self.redelivery_counter = redelivery_counter
        self.is_marked = False
        self.has_failed = False


class PendingRedeliveryMarks:
    """The messages of one consumer that wait until the store has marked them as redelivered.

    Theory of operation:

    With `persist_jms_redelivered`, a queue's store records that a message may have been delivered
    *before* the message is sent. If the broker crashes in between, the message is delivered again
    with JMSRedelivered set, which is allowed; without the mark, a message that a consumer has
    already received would be delivered again as a new one.

    Marking is a store write, so it takes time. Each consumer has one list of messages in dispatch
    order, which is sent from its head:

        state of a message      next                            when
        ======================  ==============================  ================================
        (dispatched)            waiting for its mark            `put`
        waiting for its mark    marked                          the store has recorded it, or
                                                                the queue needs no mark
        waiting for its mark    failed                          the store could not record it
        failed                  waiting for its mark            `_RETRY_DELAY` seconds later
        marked                  sent                            all messages before it were sent
        any                     returned to its queue, unsent   the consumer leaves the queue

    - The order of the list is that of `PrefetchSubscription.dispatched`, and messages are sent only
      in that order, because acknowledgements refer to ranges of it. That is why a message that
      needs no mark waits behind one that does, and why a consumer of several queues has a single
      list.
    - A message in the list counts as dispatched: it occupies the prefetch window and has an owner.
    - A message that was never sent does not count as delivered when the consumer leaves
      (`remove_queue` returns those messages), although it may be marked in the store.

    Marking a message when it is returned, instead of before it is sent, would be cheaper, but after
    a crash nothing is returned. (ActiveMQ persistJMSRedelivered)
    """

    def __init__(self, subscription: AbstractSubscription) -> None:
        self._subscription = subscription
        self._pending: deque[_PendingMessage] = deque()
        self._markers: dict[BrokerDestination, _Marker] = {}
        self._retry: event_loop.BackgroundTask | None = None

    def add_queue(self, queue: BrokerDestination, mark: _Marker) -> None:
        """Mark the messages of a queue with `mark`; other queues' messages need no mark."""
        self._markers[queue] = mark

    def remove_queue(self, queue: BrokerDestination) -> set[MessageReference]:
        """Stop sending messages of a queue, and return those that were not sent."""
        unsent = {p.reference for p in self._pending if p.reference.destination is queue}
        if unsent:
            self._pending = deque(p for p in self._pending if p.reference.destination is not queue)
            self._send_marked()
        self._markers.pop(queue, None)
        return unsent

    def put(self, reference: MessageReference, redelivery_counter: int) -> None:
        """Send a message after the waiting ones, as soon as the store has its mark."""
        pending = _PendingMessage(reference, redelivery_counter)
        self._pending.append(pending)
        self._mark(pending)

    def close(self) -> None:
        """Stop retrying failed marks."""
        if self._retry is not None:
            self._retry.cancel()

    def _mark(self, pending: _PendingMessage) -> None:
        reference = pending.reference
        mark = self._markers.get(reference.destination)
        try:
            marked = COMPLETED if mark is None else mark(reference)
        except Exception as error:
            self._on_marked(pending, error)
            return
        marked.then(lambda done: self._on_marked(pending, done.error))

    def _on_marked(self, pending: _PendingMessage, error: Exception | None) -> None:
        if error is None:
            pending.is_marked = True
            self._send_marked()
            return
        pending.has_failed = True
        if self._retry is None or self._retry.done:
            logger.error(
                "%s waits: the store of %s failed to mark messages as redelivered, "
                "next attempt in %g s: %s",
                self._subscription,
                pending.reference.destination,
                _RETRY_DELAY,
                error,
            )
            self._retry = event_loop.spawn(
                self._retry_failed, name=f"redelivery marks for {self._subscription}"
            )

    async def _retry_failed(self) -> None:
        await _clock.sleep(_RETRY_DELAY)
        self._retry = None
        for pending in [pending for pending in self._pending if pending.has_failed]:
            pending.has_failed = False
            self._mark(pending)

    def _send_marked(self) -> None:
        messages, subscription = self._pending, self._subscription
        while messages and messages[0].is_marked:
            pending = messages.popleft()
            reference, connection = pending.reference, subscription.context.connection
            if connection is None or reference.dropped:
                continue
            try:
                connection.dispatch(
                    reference.dispatch_to(subscription.consumer_id, pending.redelivery_counter)
                )
            except LocalProtocolError as error:
                subscription.on_unwritable(reference, error)
                if subscription.prefetch_size == 0:
                    subscription.end_pull()


LAST_DELIVERED_UNKNOWN: Final = -2
"""The client does not say which message it delivered last: any of them may have been."""
LAST_DELIVERED_UNSET: Final = -1
"""The client has delivered no message."""
SELECTS_NOTHING: Final = "FALSE"
"""The replacement for a selector that has exceeded its limits."""
_QUOTED: Final = 200
"""The maximum number of logged characters of a selector."""


class SubscriptionRequest:
    """The arguments for creating a subscription."""

    def __init__(
        self,
        broker: RegionBroker,
        context: ConnectionContext,
        info: ConsumerInfo,
        policy: PolicyEntry,
        prefetch_size: int,
    ) -> None:
        self.broker = broker
        self.context = context
        self.info = info
        self.policy = policy
        self.prefetch_size = prefetch_size


class AbstractSubscription(Subscription):
    """The base class of subscriptions."""

    # defaults of the class: an instance with more than 30 attributes takes 1.6 kB
    reserved: int = 0
    saved: Completion = COMPLETED
    """Completed when the stores have the subscription, or its removal. None: nothing to do."""
    redelivery_marking: PendingRedeliveryMarks | None = None
    """Messages whose sending waits for their redelivery marks; None: none wait."""
    _selector_failed: bool = False
    _pulls: int = 0

    def __init__(self, request: SubscriptionRequest) -> None:
        """Create the subscription that `request.info` describes.

        Raises:
            InvalidSelectorException: its selector is invalid.
            InvalidDestinationException: it has no destination.
        """
        info, policy = request.info, request.policy
        if info.destination is None:
            raise InvalidDestinationException("A consumer must have a destination")
        self.broker = request.broker
        self.context = request.context
        self.policy = policy
        self.requested: Destination = info.destination
        self.prefetch_size = request.prefetch_size
        self.destinations: list[BrokerDestination] = []
        self._matches_memory: ClientMemory | None = request.context.memory
        """Where its matches count; None: a durable subscription, which outlives its client."""
        self.enqueue_count = 0
        self.dequeue_count = 0
        self.dispatched_count = 0
        self.prefetch_extension = 0
        self.last_ack_time = _clock.now()
        self.times_acks = request.broker.slow_consumers.times_acks
        self.use_prefetch_extension = policy.use_prefetch_extension
        # not defaults of the class: mypyc leaves out None of a type that it does not compile
        self._pull_timer: event_loop.BackgroundTask | None = None
        self._unwritable_task: event_loop.BackgroundTask | None = None
        self.set_info(info)

    def set_info(self, info: ConsumerInfo) -> None:
        """Apply a consumer's `info`; a durable subscription gets each new consumer's."""
        self.info = info
        self.consumer_id: ConsumerId | None = info.consumer_id
        limits = self.broker.selector_limits._replace(meter=self.broker.selector_meter)
        self.selector: Selector | None = selector_or_none(info.selector, limits)
        self._connection_id = (
            info.consumer_id.connection_id if info.no_local and info.consumer_id else None
        )
        self._policy = self.context.message_policy
        self._bridge: Callable[[MessageReference], bool] | None = self._bridge_filter(info)
        self.matches_all: bool = (
            self.selector is None
            and self._connection_id is None
            and self._policy is None
            and self._bridge is None
        )

    def _bridge_filter(self, info: ConsumerInfo) -> Callable[[MessageReference], bool] | None:
        """Return the filter of a bridge's consumer; None if the consumer is not a bridge's."""
        bridge = info.additional_predicate
        return None if bridge is None else partial(lets_pass, bridge)

    def reset_statistics(self) -> None:
        self.enqueue_count = self.discarded_count = 0
        self.dispatched_count = self.in_flight
        self.dequeue_count = 0

    def matches(self, reference: MessageReference) -> bool:
        """Return whether the message is for this consumer.

        That depends on target, noLocal, policy, bridge and selector. A selector that fails on a
        message does not match it (activemq-broker Q11). Nor does one that exceeds its limits,
        whose consumer is also closed.
        """
        message = reference.cached or reference.message
        if message.target_consumer_id is not None:
            if message.target_consumer_id != self.consumer_id:
                return False
        elif self.matches_all:
            return True
        if (
            self._connection_id is not None
            and message.producer_id is not None
            and message.producer_id.connection_id == self._connection_id
        ):
            return False
        if self._policy is not None and not self._policy(message):
            return False
        if self._bridge is not None and not self._bridge(reference):
            return False
        return self.selects(reference)

    def refusal_of(self, reference: MessageReference) -> str:
        """Return what keeps a message from this consumer, without any effect; empty: nothing.

        It is `target`, `no_local`, `policy`, `bridge` or `selector`; see `matches`.
        """
        message = reference.message
        if message.target_consumer_id is not None:
            if message.target_consumer_id != self.consumer_id:
                return "target"
        elif self.matches_all:
            return ""
        if (
            self._connection_id is not None
            and message.producer_id is not None
            and message.producer_id.connection_id == self._connection_id
        ):
            return "no_local"
        if self._policy is not None and not self._policy(message):
            return "policy"
        if self._bridge is not None and not self._bridge(reference):
            return "bridge"
        try:
            is_selected = self.selector is None or self.selector.matches(reference.lookup)
        except JMSException:  # as in `selects`, which also closes a consumer at its limits
            is_selected = False
        return "" if is_selected else "selector"

    def selects(self, reference: MessageReference) -> bool:
        """Return whether the selector matches the message; see `matches`."""
        if self.selector is None:
            return True
        try:
            return self.selector.matches(reference.lookup)
        except SelectorLimitException as error:
            return self.selector_exceeded(error, reference)
        except Exception as error:
            level = logging.DEBUG if self._selector_failed else logging.WARNING
            self._selector_failed = True
            logger.log(
                level,
                "Selector %r of %s failed on message %s, which counts as no match: %s",
                (self.info.selector or "")[:_QUOTED],
                self,
                reference.message_id,
                error,
                exc_info=not isinstance(error, JMSException),  # which is the message's fault
            )
            return False

    def selector_exceeded(self, error: SelectorLimitException, reference: MessageReference) -> bool:
        """Close the consumer whose selector exceeded its limits on a message; return False.

        The client gets the error and a request to close the consumer. Until then, the consumer
        gets no further messages, and its selector is not evaluated again.
        """
        self.selector = compile_selector(SELECTS_NOTHING)
        self.close_consumer(error)
        return False

    def close_consumer(self, error: SelectorLimitException) -> None:
        """Send the error and a command to close the consumer to the client."""
        logger.error(
            "%s is closed: its selector %r exceeds a limit: %s",
            self,
            (self.info.selector or "")[:_QUOTED],
            error,
        )
        connection = self.context.connection
        if connection is not None:
            reason = f"Consumer {self.consumer_id} on {self.requested} is closed: {error.reason}"
            connection.service_exception(SelectorLimitException(reason, hint=error.hint))
            connection.send_command(ConsumerControl(close=True, consumer_id=self.consumer_id))

    def report_slow(self) -> None:
        """Report to the destinations that the subscription became slow."""
        for destination in tuple(self.destinations):
            destination.base.slow_consumer(self)

    def destination_removed(self, destination: BrokerDestination) -> None:
        """Detach from a destination that was removed."""
        if destination in self.destinations:
            self.destinations.remove(destination)
            if self._matches_memory is not None:
                self._matches_memory.release(MATCH_SIZE)

    def reserve_match(self) -> None:
        if self._matches_memory is not None:
            self._matches_memory.reserve(MATCH_SIZE)

    def set_prefetch(self, prefetch_size: int) -> None:
        """Change the prefetch window at once (activemq-broker Q15)."""
        self.prefetch_size = prefetch_size
        self.window_freed()

    def request_pulls(self) -> None:
        connection, client = self.context.connection, self.context.info
        if connection is not None and client is not None and client.manageable:
            connection.send_command(ConsumerControl(consumer_id=self.consumer_id, prefetch=0))
        else:  # such as a STOMP client: it would wait for ever
            self.set_prefetch(1)

    def close(self) -> None:
        """Stop the background tasks of this subscription."""
        self._stop_pull_timer()
        if self.redelivery_marking is not None:
            self.redelivery_marking.close()

    # pulls
    def pull(self, pull: MessagePull) -> None:
        """Dispatch one message to a consumer without prefetch.

        If none is available, it waits for the timeout in milliseconds; 0: without limit;
        negative: not at all. After the timeout the client gets an empty dispatch.
        (activemq-broker Q14)
        """
        if self.prefetch_size != 0:
            return
        self._stop_pull_timer()
        self._pulls = 1
        before = self.dispatched_count
        self.window_freed()
        if self.dispatched_count != before or self._pulls == 0:
            return
        if pull.timeout < 0:
            self.end_pull()
        elif pull.timeout > 0:
            self._pull_timer = event_loop.spawn(
                self._pull_timeout, pull.timeout / 1000, name=f"pull of {self.consumer_id}"
            )

    @property
    def credit(self) -> int:
        """How many messages a consumer without prefetch has asked for and not got."""
        return self._pulls

    def set_credit(self, credit: int) -> None:
        self._pulls = credit
        if credit:
            self.window_freed()

    async def _pull_timeout(self, seconds: float) -> None:
        await _clock.sleep(seconds)
        self._pull_timer = None
        if self._pulls:
            self.end_pull()

    def end_pull(self) -> None:
        """Answer the pull, if there is one, without a message."""
        self._pulls = 0
        self.dispatch_nothing()

    def _stop_pull_timer(self) -> None:
        if self._pull_timer is not None:
            self._pull_timer.cancel()
            self._pull_timer = None

    # sending to the client
    def transmit(self, reference: MessageReference, redelivery_counter: int) -> None:
        """Send a message to the client and count it as dispatched."""
        self.dispatched_count += 1
        pulls, timer = self._pulls, self._pull_timer
        if self.prefetch_size == 0:
            self._pulls, self._pull_timer = max(0, pulls - 1), None
        if self.redelivery_marking is not None:
            self.redelivery_marking.put(reference, redelivery_counter)
        elif (connection := self.context.connection) is not None:
            try:
                connection.dispatch(reference.dispatch_to(self.consumer_id, redelivery_counter))
            except LocalProtocolError as error:
                self._pulls, self._pull_timer = pulls, timer
                self.on_unwritable(reference, error)
                return
        if timer is not None:
            timer.cancel()
        if reference.destination.reports_dispatched:
            reference.destination.report_dispatched(reference, self)

    def transmit_run(self, references: Iterable[MessageReference], most: int) -> int:
        """Send the first of these messages, at most `most`, in one step; return how many.

        It ends before one that needs `transmit`, which may be the first.
        """
        connection = self.context.connection
        if self.redelivery_marking is not None or connection is None:
            return 0
        if not self.prefetch_size:
            if self._pull_timer is not None:
                return 0
            most = min(most, self._pulls)
        room, now, consumer_id = connection.run_room, _clock.time_ms(), self.consumer_id
        run: list[MessageDispatch] = []
        are_raw = connection.runs_are_raw
        for reference in references:
            message = reference.cached
            if message is None or message.target_consumer_id is not None:
                break
            raw, size = message.raw, _FRAME_SPACE
            if raw is not None:
                size += len(raw)
            elif are_raw:
                break
            else:
                size += len(message.content or b"") + len(message.marshalled_properties or b"")
            room -= size
            if room < 0 or len(run) == most or size > LARGE_FRAME:
                break
            if reference.group_id is not None or reference.destination.reports_dispatched:
                break
            if 0 < reference.expiration < now:  # while its transaction was open
                break
            run.append(reference.dispatch_to(consumer_id, reference.redelivery_counter, now))
        count = connection.dispatch_run(run) if run else 0
        self.dispatched_count += count
        if not self.prefetch_size:
            self._pulls -= count
        return count

    def on_unwritable(self, reference: MessageReference, error: LocalProtocolError) -> None:
        """Set a message aside that the connection cannot carry; the consumer gets the next ones."""
        self.dispatched_count -= 1
        reference.destination.on_unwritable(reference, self, error)

    def dispatch_nothing(self) -> None:
        """Send an empty dispatch, which ends a pull or a browse without another message."""
        connection = self.context.connection
        if connection is not None:
            connection.dispatch(MessageDispatch(self.consumer_id, None, None, 0))

    def __str__(self) -> str:
        return f"{type(self).__name__} {self.consumer_id} on {self.requested}"

    @property
    def log_fields(self) -> dict[str, object]:
        """What JSON lines of the log about this subscription tell of it and its client."""
        return {"destination": str(self.requested), **self.context.log_fields}


_NONE_TRANSACTED: Final[set[MessageReference]] = set()
"""What all subscriptions have until a transaction acknowledges messages. Nothing is added to it."""
_DELIVERED: Final = int(AckType.DELIVERED)
_POISON: Final = int(AckType.POISON)
_STANDARD: Final = int(AckType.STANDARD)
_REDELIVERED: Final = int(AckType.REDELIVERED)
_INDIVIDUAL: Final = int(AckType.INDIVIDUAL)
_EXPIRED: Final = int(AckType.EXPIRED)


class PrefetchSubscription(AbstractSubscription):
    """A subscription whose messages stay in their destination until they are acknowledged."""

    _open_transactions: int = 0
    """The number of acknowledgements in open local transactions."""
    _gives_back: bool = False
    """Whether messages were given back, so that `dispatched` may not be in the queue's order."""
    durable_key: SubscriptionKey | None = None
    """The identity of a durable subscription; None: a queue consumer."""

    def __init__(self, request: SubscriptionRequest) -> None:
        super().__init__(request)
        self._unwritable: dict[MessageReference, LocalProtocolError | None] | None = None
        """Messages set aside, with their errors; None: they stay here until the consumer leaves."""
        self.dispatched: OrderedDict[object, MessageReference] = OrderedDict()
        """By the `identity` of their ids, or by the reference itself where ids may repeat."""
        self._by_id = not (self.requested.is_composite or self.requested.is_pattern)
        self._transacted = _NONE_TRANSACTED  # acknowledged in open transactions

    # the kinds of subscriptions
    @abstractmethod
    def settle(self, reference: MessageReference) -> None:
        """Release the message, which was consumed."""

    def settle_all(self, references: list[MessageReference]) -> None:
        """Release messages that were consumed.

        What is raised for one of them, by a filter, is raised once all are released.
        """
        failure: Exception | None = None
        for reference in references:
            try:
                self.settle(reference)
            except Exception as error:
                failure = failure or error
        if failure is not None:
            raise failure

    @abstractmethod
    def unsettle(self, reference: MessageReference) -> None:
        """Undo `settle`, which the store could not record; the message is redelivered."""

    @abstractmethod
    def requeue(self, references: list[MessageReference], has_failed: bool) -> None:
        """Return messages that are no longer in the window, to be dispatched before all others."""

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
        if self._transacted is _NONE_TRANSACTED:
            self._transacted = set()
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
        identity, dispatched = reference.message_id.identity, self.dispatched
        by_id = self._by_id and identity not in dispatched  # ids may repeat
        dispatched[identity if by_id else reference] = reference
        self.enqueue_count += 1
        self.transmit(reference, redelivery_counter)

    def give_back(self, message_ids: Sequence[MessageId], *, has_failed: bool) -> None:
        returned = []
        for message_id in message_ids:
            reference = self._dispatched_as(message_id)
            if reference is not None and reference not in self._transacted:
                self.undispatch(reference)
                returned.append(reference)
        self._gives_back = True
        self.requeue(returned, has_failed)
        self.window_freed()

    def _dispatched_as(self, message_id: MessageId) -> MessageReference | None:
        identity = message_id.identity
        found = self.dispatched.get(identity) if self._by_id else None
        if found is None:
            each = self.dispatched.values()
            found = next((r for r in each if r.message_id.identity == identity), None)
        return found

    def undispatch(self, reference: MessageReference) -> bool:
        """Remove a message from the window; return whether it was there."""
        identity = reference.message_id.identity
        if self.dispatched.get(identity) is reference:
            del self.dispatched[identity]
            return True
        return self.dispatched.pop(reference, None) is not None

    def is_dispatched(self, reference: MessageReference) -> bool:
        """Return whether the message is in the window."""
        dispatched = self.dispatched
        by_id = dispatched.get(reference.message_id.identity)
        return by_id is reference or reference in dispatched

    def remove_dispatched(self, destination: object) -> list[MessageReference]:
        """Remove the destination's messages from the window and return them in dispatch order.

        Those that were set aside come first. Messages that an open transaction has acknowledged
        stay in the window.
        """
        removed = [
            reference
            for reference in chain(self._unwritable or (), self.dispatched.values())
            if reference.destination is destination and reference not in self._transacted
        ]
        for reference in removed:
            if self._unwritable is not None:
                self._unwritable.pop(reference, None)
            self.undispatch(reference)
        if self._gives_back:
            removed.sort(key=_sequence_of)
        return removed

    # messages that the connection cannot carry
    def on_unwritable(self, reference: MessageReference, error: LocalProtocolError) -> None:
        super().on_unwritable(reference, error)
        self.undispatch(reference)
        if self._unwritable is None:
            self._unwritable = {}
        self._unwritable[reference] = error
        if self._unwritable_task is None or self._unwritable_task.done:
            # a task, as the queue that is dispatching cannot remove the message now
            self._unwritable_task = event_loop.spawn(
                self._dead_letter_unwritable, name=f"unwritable of {self}"
            )

    def close(self) -> None:
        super().close()
        if self._unwritable_task is not None:
            self._unwritable_task.cancel()

    async def _dead_letter_unwritable(self) -> None:
        """Dead-letter the unwritable messages; keep those for which there is no other queue."""
        unwritable = self._unwritable or {}
        for reference, error in list(unwritable.items()):
            if error is None:
                continue
            unwritable[reference] = None
            source = reference.destination
            target = source.dead_letter_strategy.dead_letter_destination(reference, self)
            if target == source.destination:
                continue
            cause = Throwable("java.io.IOException", f"It cannot be sent to {self}: {error.reason}")
            try:
                source.on_poisoned(self.context, reference, self, cause)
                self._complete(NO_TRANSACTION, [reference], are_dead_letters=True)
            except JMSException as failure:
                logger.error("%s stays with %s: %s", reference.message_id, self, failure)
            else:
                del unwritable[reference]

    def delivered_messages(
        self, destination: object, last_sequence_id: int
    ) -> list[tuple[MessageReference, bool]]:
        """Return the destination's messages in the window that the application may have received.

        They are those up to `last_sequence_id`, and all that were acknowledged in a transaction.
        If the last one is unknown, they are all, and the flag says which the application has
        received for certain: those acknowledged in a transaction, and the oldest of the others. A
        message that kills each process that handles it must not make dead letters of those that
        were only prefetched with it. (activemq-broker Q29)
        """
        own = [r for r in self.dispatched.values() if r.destination is destination]
        if last_sequence_id == LAST_DELIVERED_UNKNOWN:
            oldest = next((r for r in self.dispatched.values() if r not in self._transacted), None)
            return [(r, r is oldest or r in self._transacted) for r in own]
        count = 0
        if last_sequence_id != LAST_DELIVERED_UNSET:
            for index, reference in enumerate(own):
                if reference.broker_sequence_id == last_sequence_id:
                    count = index + 1
                    break
        return [(r, True) for index, r in enumerate(own) if index < count or r in self._transacted]

    # acknowledgements
    def acknowledge(self, exchange: ConsumerExchange, ack: MessageAck) -> Completion:
        if self.times_acks:
            self.last_ack_time = _clock.now()
        if self.dispatched_count == 0:
            # of a message from the broker before the client's failover (activemq-broker A2)
            return COMPLETED
        kind = ack.ack_type
        if kind == _STANDARD:
            first, last = ack.first_message_id, ack.last_message_id
            if (  # the usual case: one message
                ack.message_count == 1
                and self._by_id
                and exchange.transaction is None
                and not self._transacted
                and first is not None
                and last is not None
                and (last is first or last.identity == first.identity)
            ):
                reference = self.dispatched.pop(last.identity, None)
                if reference is not None:
                    return self._complete_one(ack, reference)
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

    def reject_at_commit(self, xid: TransactionId, message_id: MessageId) -> bool:
        transaction = self.context.transactions.get(xid)
        reference = self._dispatched_as(message_id)
        if transaction is None or reference is None or reference in self._transacted:
            return False
        self.add_transacted([reference])
        self._open_transactions += 1
        transaction.add(_Rejection(self, reference))
        return True

    def end_rejection(self, reference: MessageReference, *, committed: bool) -> None:
        """Make a message a dead letter whose transaction has committed, or keep it."""
        self.remove_transacted([reference])
        self._open_transactions -= 1
        try:
            if committed:
                reference.destination.on_poisoned(self.context, reference, self, None)
                self._complete(NO_TRANSACTION, [reference], are_dead_letters=True)
        finally:
            self.return_unacknowledged([] if committed else [reference])

    def _ack_expired(self, exchange: ConsumerExchange, ack: MessageAck) -> Completion:
        references = self._counted_range(ack, exchange.transaction)
        for reference in references:
            reference.destination.on_expired(exchange.context, reference, self)
        return self._complete(_context_of(ack), references, are_dead_letters=True)

    # the messages that an acknowledgement names
    def _find(self, ack: MessageAck) -> MessageReference:
        last = ack.last_message_id
        found = self.dispatched.get(last.identity) if self._by_id and last is not None else None
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
        first, last = ack.first_message_id, ack.last_message_id
        last_identity = None if last is None else last.identity
        found: list[MessageReference] = []
        inside = first is None
        for reference in self.dispatched.values():
            identity = reference.message_id.identity
            if not inside:
                if first is not None and identity != first.identity:
                    continue
                inside = True
            found.append(reference)
            if identity == last_identity and _is_last(reference, ack):
                return found
        missing, end = (ack.last_message_id, "end") if inside else (first, "start")
        raise _mismatch(
            ack, f"Could not find Message-ID {missing} in dispatched-list ({end} of ack)"
        )

    # settling
    def _complete_one(self, ack: MessageAck, reference: MessageReference) -> Completion:
        stored = COMPLETED
        if reference.persistent:
            context = SYNCED if ack.response_required else NO_TRANSACTION
            try:
                stored = reference.destination.store_acknowledgement(
                    context, reference, self.durable_key
                )
            except Exception:
                self.dispatched[reference.message_id.identity] = reference
                self.dispatched.move_to_end(reference.message_id.identity, last=False)
                raise
        self.dequeue_count += 1
        if self.prefetch_extension:  # first: a sender that waits for memory may fill the window
            self.prefetch_extension -= 1
        self.settle(reference)
        if stored is not COMPLETED:
            stored.then(partial(self._unsettle_if_failed, reference))
        self.window_freed()
        return stored

    def _unsettle_if_failed(self, reference: MessageReference, done: Completion) -> None:
        if done.error is not None:
            self.unsettle(reference)

    def _complete(
        self,
        context: OperationContext,
        references: list[MessageReference],
        *,
        are_dead_letters: bool = False,
    ) -> Completion:
        done: list[MessageReference] = []
        waiting: list[tuple[MessageReference, Completion]] = []
        try:
            for reference in references:
                if reference.persistent:
                    stored = self.store_acknowledgement(
                        context, reference, is_dead_letter=are_dead_letters
                    )
                    if stored is not COMPLETED:
                        waiting.append((reference, stored))
                self.undispatch(reference)
                done.append(reference)
        finally:
            self.dequeue_count += len(done)
            self._shrink(len(done))
            try:
                self.settle_all(done)
            finally:
                for reference, stored in waiting:
                    stored.then(partial(self._unsettle_if_failed, reference))
                self.window_freed()
        return all_of([stored for _, stored in waiting])

    def _complete_in_transaction(
        self, transaction: Transaction, ack: MessageAck, references: list[MessageReference]
    ) -> Completion:
        if not references:
            return COMPLETED
        context = OperationContext(transaction.xid, ack.response_required)
        key = self.durable_key
        stored = [
            each.destination.store_acknowledgement(context, each, key)
            for each in references
            if each.persistent
        ]
        self.add_transacted(references)
        local = not isinstance(transaction.xid, XATransactionId)
        self._open_transactions += local
        transaction.add(_Acknowledgement(self, references, local))
        return all_of(stored)

    def transaction_ended(
        self, references: list[MessageReference], local: bool, committed: bool
    ) -> None:
        """Apply the acknowledgements of a committed transaction, or undo those of another."""
        self.remove_transacted(references)
        leave = self.undispatch if committed else self.is_dispatched
        # those in the window: a consumer that has left has none
        self._shrink(sum([leave(reference) for reference in references]))
        self._open_transactions -= local
        try:
            if committed:
                self.dequeue_count += len(references)
                self.settle_all(references)
        finally:
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


class _Rejection(Synchronization):
    __slots__ = ("_reference", "_subscription")

    def __init__(self, subscription: PrefetchSubscription, reference: MessageReference) -> None:
        self._subscription = subscription
        self._reference = reference

    def after_commit(self) -> None:
        self._subscription.end_rejection(self._reference, committed=True)

    def after_rollback(self) -> None:
        self._subscription.end_rejection(self._reference, committed=False)


def _context_of(ack: MessageAck) -> OperationContext:
    return SYNCED if ack.response_required else NO_TRANSACTION


def _sequence_of(reference: MessageReference) -> int:
    return reference.broker_sequence_id


def _is_last(reference: MessageReference, ack: MessageAck) -> bool:
    last = ack.last_message_id
    return (
        last is not None
        and reference.message_id.identity == last.identity
        and (ack.destination is None or ack.destination == reference.destination.destination)
    )


def _mismatch(ack: MessageAck, reason: str) -> JMSException:
    return JMSException(f"Unmatched acknowledge: {ack}; {reason}")


class QueueSubscription(PrefetchSubscription):
    """A consumer with an entry in the consumer ring of each of its queues."""

    _detached: tuple[Queue, ...] = ()
    """The queues that it left, and to which it has not returned all messages yet."""

    def __init__(self, request: SubscriptionRequest) -> None:
        super().__init__(request)
        self._candidates: dict[Queue, Candidate] = {}

    def _bridge_filter(self, info: ConsumerInfo) -> Callable[[MessageReference], bool] | None:
        conditions, bridge = self.policy.network_bridge_filter_factory, info.additional_predicate
        if bridge is None or conditions is None:
            return super()._bridge_filter(info)
        return ConditionalBridgeFilter(bridge, conditions)

    @property
    def pending_count(self) -> int:
        """Always 0: messages wait in their queues, not in the subscription."""
        return 0

    @property
    def is_slow(self) -> bool:
        """Whether it is slow; never without prefetch, where the consumer requests each message."""
        return (
            self.prefetch_size > 0
            and self.is_full()
            and any(q.dispatcher.pending_count for q in self._candidates)
        )

    def attach(self, queue: Queue, candidate: Candidate) -> None:
        """Consume from a queue from now on; `candidate` is the entry in the queue's ring."""
        self._candidates[queue] = candidate
        self.destinations.append(queue)
        if queue.marks_redelivered:
            if self.redelivery_marking is None:
                self.redelivery_marking = PendingRedeliveryMarks(self)
            self.redelivery_marking.add_queue(queue, queue.mark_redelivered)

    def detach(self, queue: Queue, last_delivered_sequence_id: int) -> None:
        """Leave a queue; unacknowledged messages return to it, after open transactions."""
        self._candidates.pop(queue, None)
        self.destination_removed(queue)
        unsent = (
            set()
            if self.redelivery_marking is None
            else self.redelivery_marking.remove_queue(queue)
        )
        for reference, is_certain in self.delivered_messages(queue, last_delivered_sequence_id):
            if reference not in unsent:
                counter = reference.redelivery_counter
                reference.redelivery_counter = counter + 1 if is_certain else max(counter, 1)
        self._detached = (*self._detached, queue)
        self.return_unacknowledged([])

    def add_transacted(self, references: list[MessageReference]) -> None:
        super().add_transacted(references)
        for reference in references:
            reference.acked = True

    def remove_transacted(self, references: list[MessageReference]) -> None:
        super().remove_transacted(references)
        for reference in references:
            reference.acked = False

    def requeue(self, references: list[MessageReference], has_failed: bool) -> None:
        by_queue: dict[Queue, list[MessageReference]] = {}
        for reference in references:
            reference.redelivery_counter += has_failed
            by_queue.setdefault(cast("Queue", reference.destination), []).append(reference)
        for queue, returned in by_queue.items():
            queue.requeue(returned)

    def return_unacknowledged(self, rolled_back: list[MessageReference]) -> None:
        """Return the messages of queues that it left, once no local transaction is open.

        They are returned all at once, so that a queue gets them back in order.
        """
        if self._open_transactions or not self._detached:
            return
        detached, self._detached = self._detached, ()
        for queue in detached:
            returned = self.remove_dispatched(queue)
            if any(reference.destination is queue for reference in self.dispatched.values()):
                # an XA transaction has acknowledged some messages
                self._detached = (*self._detached, queue)
            if returned:
                queue.requeue(returned)

    def deliver(self, reference: MessageReference) -> bool:
        """Own a message of a queue and send it to the consumer; return whether the window is full.

        The message stays in the window until it is settled.
        """
        reference.owner = self
        # congestion, which sending may cause, is noticed when the next message is offered
        dispatched = self.dispatched
        has_room = len(dispatched) + 1 - self.prefetch_extension < self.prefetch_size
        identity = reference.message_id.identity
        by_id = self._by_id and identity not in dispatched  # ids may repeat
        dispatched[identity if by_id else reference] = reference
        self.enqueue_count += 1
        self.transmit(reference, reference.redelivery_counter)
        return not has_room and self.is_full()

    def deliver_run(self, references: list[MessageReference]) -> int:
        """Own and send the first of these messages in one step; return how many.

        It ends where the window does, and before one that needs `deliver`.
        """
        dispatched, by_id = self.dispatched, self._by_id
        room = self.prefetch_size - len(dispatched) + self.prefetch_extension
        if not self.prefetch_size:
            room = self._pulls
        count = self.transmit_run(references, room) if room > 0 else 0
        for reference in islice(references, count):
            reference.owner = self
            identity = reference.message_id.identity
            dispatched[identity if by_id and identity not in dispatched else reference] = reference
        self.enqueue_count += count
        return count

    def window_freed(self) -> None:
        for queue, candidate in tuple(self._candidates.items()):
            if not (candidate.ready and queue.dispatcher.is_idle):
                queue.dispatcher.window_freed(candidate)

    def acknowledge_run(self, acks: deque[MessageAck]) -> Completion:
        """Settle messages of which each has its own acknowledgement, and free the window once."""
        if not self._by_id or self._transacted or self.times_acks or self.info.network_subscription:
            return COMPLETED
        dispatched, stored = self.dispatched, COMPLETED
        consumer_id = acks[0].consumer_id
        done: list[MessageReference] = []
        try:
            while acks and stored is COMPLETED:
                ack = acks[0]
                last = ack.last_message_id
                if (
                    ack.consumer_id is not consumer_id
                    or ack.ack_type != _STANDARD
                    or ack.message_count != 1
                    or last is None
                    or ack.first_message_id is not last
                    or (reference := dispatched.get(last.identity)) is None
                ):
                    break
                acks.popleft()
                if reference.persistent:
                    stored = reference.destination.store_acknowledgement(
                        NO_TRANSACTION, reference, None
                    )
                del dispatched[last.identity]
                done.append(reference)
        finally:
            if done:
                self.dequeue_count += len(done)
                self._shrink(len(done))
                try:
                    self.settle_all(done)
                finally:
                    if stored is not COMPLETED:
                        stored.then(partial(self._unsettle_if_failed, done[-1]))
                    self.window_freed()
        return stored

    def settle_all(self, references: list[MessageReference]) -> None:
        queue = references[0].destination if references else None
        # not of several: of a pattern's queues, or of one that was removed and its successor
        settled = [each for each in references if each.destination is queue]
        if queue is None or len(settled) < len(references) or self.info.network_subscription:
            super().settle_all(references)
        else:
            cast("Queue", queue).on_consumed_run(self.context, references)

    def settle(self, reference: MessageReference) -> None:
        reference.destination.on_consumed(self.context, reference)
        if self.info.network_subscription:  # another broker may send the message back
            cast("Queue", reference.destination).forget_duplicate(reference)

    def unsettle(self, reference: MessageReference) -> None:
        reference.destination.undo_consumed(reference)


_OPENS_WINDOW = (AckType.STANDARD, AckType.INDIVIDUAL, AckType.DELIVERED, AckType.EXPIRED)
_MAX_MESSAGES_PER_TURN: Final = 5000
"""The number of messages that are inspected before other tasks run."""


class QueueBrowserSubscription(AbstractSubscription):
    """Gets each message in the queues at its start once, and then an empty dispatch.

    Messages are read as space in the prefetch window permits. Acknowledgements only free the
    window.
    """

    _messages: Iterator[MessageReference | None]

    def begin(self, queues: list[BrokerDestination]) -> None:
        """Start dispatching the messages of the queues."""
        self._in_flight = 0
        self._has_ended = False
        self._next: MessageReference | None = None
        self._resume_task: event_loop.BackgroundTask | None = None
        self._messages = chain.from_iterable(map(self._browse, queues))
        self.window_freed()

    def _browse(self, queue: BrokerDestination) -> Iterator[MessageReference | None]:
        """Iterate over the messages of a queue, yielding None for those that do not match."""
        matching = self._matching(queue)
        limit = self.policy.max_browse_page_size
        return matching if limit is None else _limit(matching, limit)

    def _matching(self, queue: BrokerDestination) -> Iterator[MessageReference | None]:
        for reference in queue.messages():  # mypyc evaluates a generator expression eagerly
            yield reference if self.matches(reference) else None

    def is_full(self) -> bool:
        if self.context.congested:
            return True
        if self.prefetch_size == 0:
            return self._pulls == 0
        return self._in_flight >= self.prefetch_size

    @property
    def is_slow(self) -> bool:
        """False: a browser makes no message wait."""
        return False

    @property
    def in_flight(self) -> int:
        return self._in_flight

    @property
    def pending_count(self) -> int:
        """The number of pending messages: 0 or 1, because only the next message is known."""
        return 0 if self._next is None else 1

    def window_freed(self) -> None:
        if self._has_ended:
            return
        for _ in range(_MAX_MESSAGES_PER_TURN):
            if self._next is None and not self._read_next():
                return
            reference = self._next
            if reference is None:
                continue
            if self.is_full():
                return
            self._next = None
            self._in_flight += 1
            self.enqueue_count += 1
            self.transmit(reference, reference.redelivery_counter)
        self._resume_later()

    def on_unwritable(self, reference: MessageReference, error: LocalProtocolError) -> None:
        super().on_unwritable(reference, error)
        self._in_flight -= 1

    def _read_next(self) -> bool:
        """Read one more message, into `_next` if it matches; return False at the end.

        The end is reported to the client, if its prefetch or a pull allows.
        """
        try:
            reference = next(self._messages)
        except StopIteration:
            if self.prefetch_size or self._pulls:
                self._has_ended = True
                self._pulls = 0
                self.dispatch_nothing()
            return False
        if reference is not None and not (reference.dropped or reference.acked):
            self._next = reference
        return True

    def _resume_later(self) -> None:
        if self._resume_task is None or self._resume_task.done:
            self._resume_task = event_loop.spawn(self._resume, name=f"browser {self.consumer_id}")

    async def _resume(self) -> None:
        await lowlevel.checkpoint()
        self._resume_task = None
        self.window_freed()

    def close(self) -> None:
        super().close()
        self._has_ended = True
        if self._resume_task is not None:
            self._resume_task.cancel()

    def acknowledge(self, exchange: ConsumerExchange, ack: MessageAck) -> Completion:
        if ack.ack_type in _OPENS_WINDOW:
            self._in_flight = max(0, self._in_flight - ack.message_count)
            self.dequeue_count += ack.message_count
            self.window_freed()
        return COMPLETED


def _limit(
    messages: Iterator[MessageReference | None], limit: int
) -> Iterator[MessageReference | None]:
    for reference in messages:
        if reference is not None:
            limit -= 1
        yield reference
        if not limit:
            return
