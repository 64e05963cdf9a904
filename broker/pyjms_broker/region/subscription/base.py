"""The base class of subscriptions: selector, destinations, pulls and sending to the client.

Destinations call `matches` and dispatch messages; the client's acknowledgements and pulls arrive
through the region broker. (ActiveMQ Subscription, AbstractSubscription)
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import partial
from typing import Final, NamedTuple

from pyjms import _clock, _wakeup
from pyjms._logger import get_logger
from pyjms.errors import InvalidDestinationException, JMSException
from pyjms.jms.destination import Destination
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
from pyjms_broker.region.services import RegionServices
from pyjms_broker.region.subscription.bridge_filter import lets_pass
from pyjms_broker.region.subscription.redelivery_marking import PendingRedeliveryMarks

__all__ = [
    "LAST_DELIVERED_UNKNOWN",
    "LAST_DELIVERED_UNSET",
    "SELECTS_NOTHING",
    "AbstractSubscription",
    "SubscriptionRequest",
]

logger = get_logger(__name__)

LAST_DELIVERED_UNKNOWN: Final = -2
"""The client does not say which message it delivered last: any of them may have been."""
LAST_DELIVERED_UNSET: Final = -1
"""The client has delivered no message."""
SELECTS_NOTHING: Final = "FALSE"
"""The replacement for a selector that has exceeded its limits."""
_QUOTED: Final = 200
"""The maximum number of logged characters of a selector."""


class SubscriptionRequest(NamedTuple):
    """The arguments for creating a subscription."""

    broker: RegionServices
    context: ConnectionContext
    info: ConsumerInfo
    policy: PolicyEntry
    prefetch_size: int


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
