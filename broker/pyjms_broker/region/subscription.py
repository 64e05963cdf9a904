"""The base class of subscriptions: selector, destinations, pulls and sending to the client.

Destinations call `matches` and dispatch messages; the client's acknowledgements and pulls arrive
through the region broker. (ActiveMQ Subscription, AbstractSubscription)

Sending of messages only after the store has marked them as redelivered.

Theory of operation
-------------------

With `persist_jms_redelivered`, a queue's store records that a message may have been delivered
*before* the message is sent. If the broker crashes in between, the message is delivered again with
JMSRedelivered set, which is allowed; without the mark, a message that a consumer has already
received would be delivered again as a new one.

Marking is a store write, so it takes time. Each consumer has one list of messages in dispatch
order, which is sent from its head:

    state of a message      next                            when
    ======================  ==============================  ====================================
    (dispatched)            waiting for its mark            `put`
    waiting for its mark    marked                          the store has recorded it, or the
                                                            queue needs no mark
    waiting for its mark    failed                          the store could not record it
    failed                  waiting for its mark            `_RETRY_DELAY` seconds later
    marked                  sent                            all messages before it were sent
    any                     returned to its queue, unsent   the consumer leaves the queue

Invariants:

- The order of the list is that of `PrefetchSubscription.dispatched`, and messages are sent only in
that order, because acknowledgements refer to ranges of it. That is why a message that needs no
mark waits behind one that does, and why a consumer of several queues has a single list.
- A message in the list counts as dispatched: it occupies the prefetch window and has an owner.
- A message that was never sent does not count as delivered when the consumer leaves (`remove_queue`
returns those messages), although it may be marked in the store.
Marking a message when it is returned, instead of before it is sent, would be cheaper, but after a
crash nothing is returned. (ActiveMQ persistJMSRedelivered)
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Final

from pyjms.errors import InvalidDestinationException, JMSException
from pyjms.jms.destination import Destination
from pyjms.runtime import clock as _clock
from pyjms.runtime import event_loop as _wakeup
from pyjms.runtime.logging import get_logger
from pyjms.selector import Selector, SelectorLimitException, compile_selector, selector_or_none
from pyjms.wire.openwire.commands import (
    ConsumerControl,
    ConsumerId,
    ConsumerInfo,
    MessageDispatch,
    MessagePull,
)
from pyjms_broker.api.completion import COMPLETED, Completion
from pyjms_broker.api.context import ConnectionContext
from pyjms_broker.api.destination import BrokerDestination
from pyjms_broker.api.message import MessageReference
from pyjms_broker.api.subscription import Subscription
from pyjms_broker.policy.entry import PolicyEntry
from pyjms_broker.region.bridge_filter import lets_pass

if TYPE_CHECKING:
    from pyjms_broker.region.region_broker import RegionBroker

logger = get_logger(__name__)

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
    """The messages of one consumer that wait for their marks; see the module's docstring."""

    def __init__(self, subscription: Subscription) -> None:
        self._subscription = subscription
        self._pending: deque[_PendingMessage] = deque()
        self._markers: dict[BrokerDestination, _Marker] = {}
        self._retry: _wakeup.BackgroundTask | None = None

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
            self._retry = _wakeup.spawn(
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
            if connection is not None and not reference.dropped:
                connection.dispatch(
                    reference.dispatch_to(subscription.consumer_id, pending.redelivery_counter)
                )


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
        self.saved: Completion = COMPLETED
        """Completed when the stores have the subscription, or its removal. None: nothing to do."""
        self.enqueue_count = 0
        self.dequeue_count = 0
        self.dispatched_count = 0
        self.prefetch_extension = 0
        self.last_ack_time = _clock.now()
        self.times_acks = request.broker.slow_consumers.times_acks
        self.use_prefetch_extension = policy.use_prefetch_extension
        self.set_info(info)
        self.redelivery_marking: PendingRedeliveryMarks | None = None
        """Messages whose sending waits for their redelivery marks; None: none wait."""
        self._pulls = 0
        self._pull_timer: _wakeup.BackgroundTask | None = None

    def set_info(self, info: ConsumerInfo) -> None:
        """Apply a consumer's `info`; a durable subscription gets each new consumer's."""
        self.info = info
        self.consumer_id: ConsumerId | None = info.consumer_id
        limits = self.broker.selector_limits._replace(meter=self.broker.selector_meter)
        self.selector: Selector | None = selector_or_none(info.selector, limits)
        self._selector_failed = False
        self._connection_id = (
            info.consumer_id.connection_id if info.no_local and info.consumer_id else None
        )
        self._policy = self.context.message_policy
        self._bridge: Callable[[MessageReference], bool] | None = self._bridge_filter(info)
        self._matches_all = (
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
        message = reference.message
        if message.target_consumer_id is not None:
            if message.target_consumer_id != self.consumer_id:
                return False
        elif self._matches_all:
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

    def set_prefetch(self, prefetch_size: int) -> None:
        """Change the prefetch window at once (activemq-broker Q15)."""
        self.prefetch_size = prefetch_size
        self.window_freed()

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
            self._end_pull()
        elif pull.timeout > 0:
            self._pull_timer = _wakeup.spawn(
                self._pull_timeout, pull.timeout / 1000, name=f"pull of {self.consumer_id}"
            )

    async def _pull_timeout(self, seconds: float) -> None:
        await _clock.sleep(seconds)
        self._pull_timer = None
        if self._pulls:
            self._end_pull()

    def _end_pull(self) -> None:
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
        if self.prefetch_size == 0:
            self._pulls = 0
            self._stop_pull_timer()
        if self.redelivery_marking is not None:
            self.redelivery_marking.put(reference, redelivery_counter)
        elif (connection := self.context.connection) is not None:
            connection.dispatch(reference.dispatch_to(self.consumer_id, redelivery_counter))
        if reference.destination.reports_dispatched:
            reference.destination.report_dispatched(reference, self)

    def dispatch_nothing(self) -> None:
        """Send an empty dispatch, which ends a pull or a browse without another message."""
        connection = self.context.connection
        if connection is not None:
            connection.dispatch(MessageDispatch(self.consumer_id, None, None, 0))

    def __str__(self) -> str:
        return f"{type(self).__name__} {self.consumer_id} on {self.requested}"
