"""The base class of queues and topics: settings, statistics, memory accounting, admission.

`send` may drop an expired message, refuse a message, or make it wait for space; otherwise it calls
`accept`, which queues and topics implement. Messages that become visible only once they are stored
keep their order of arrival (`ArrivalOrder`).
(ActiveMQ BaseDestination; activemq-broker Q1, Q2, Q4, T5, M2; activemq-persistence K13)
"""

from __future__ import annotations

import logging
import sys
from abc import abstractmethod
from collections import OrderedDict
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import TYPE_CHECKING, ClassVar, Final

from pyjms.errors import LocalProtocolError
from pyjms.jms.destination import ADVISORY_PREFIX, Destination
from pyjms.runtime import clock as _clock
from pyjms.runtime.logging import get_logger
from pyjms.wire.message_audit import MessageAudit
from pyjms.wire.openwire.commands import ActiveMQMessage, MessageId, Throwable
from pyjms_broker.api.completion import COMPLETED, Completion
from pyjms_broker.api.context import ConnectionContext, ProducerExchange
from pyjms_broker.api.destination import RegionDestination
from pyjms_broker.api.fields import check_message, needs_no_check
from pyjms_broker.api.message import MessageReference, OperationContext, Position, SubscriptionKey
from pyjms_broker.api.statistics import DestinationStatistics
from pyjms_broker.api.subscription import Subscription
from pyjms_broker.api.usage import MemoryUsage
from pyjms_broker.policy.entry import PolicyEntry
from pyjms_broker.region.dead_letters import DeadLetterOrdering, unstored_dead_letter
from pyjms_broker.region.flow_control import wait_for_space
from pyjms_broker.region.memory_relief import Holder
from pyjms_broker.region.system_usage import DiskUsage
from pyjms_broker.store.api import MessageStore, StoreState

if TYPE_CHECKING:
    from pyjms_broker.region.region_broker import RegionBroker

logger = get_logger(__name__)

USUAL_PRIORITIES: Final = (4, 5)
"""The defaults of JMS and of REST, which nobody has chosen for a message."""
ADVISORY_TYPE = "Advisory"
"""The JMSType of messages that the broker itself publishes or replies with."""


class BaseDestination(RegionDestination):
    """The base class of queues and topics."""

    _audit: MessageAudit | None = None
    _is_audited: bool = False
    _has_checked_priority: bool = True
    _unstored: OrderedDict[MessageReference, Completion]
    """Messages that become visible only once they are stored, and those behind them."""
    _unwritable: MessageId | None = None
    """The message that was set aside last."""
    store: MessageStore | None
    # defaults of the class: an instance with more than 30 attributes takes 1.6 kB
    is_advisory: bool = False
    prepared_sends: int = 0
    running_commits: int = 0
    """The number of commits that have numbered messages which are not visible yet."""
    _last_commit: Completion = COMPLETED
    blocked_warning_time: float | None = None
    """The time of the last warning that a send waits."""
    needs_disk: bool = False
    """Whether messages need space in `store_usage`, or if non-persistent in `temp_usage`."""
    disposed: bool = False
    is_dead_letter_queue: bool = False
    is_trailed: bool = False
    FIXED: ClassVar[tuple[str, ...]]
    """The policy attributes that take effect only for new destinations."""

    def __init__(self, broker: RegionBroker, destination: Destination, policy: PolicyEntry) -> None:
        self.broker = broker
        self.destination = destination
        if destination.is_topic and destination.physical_name.startswith(ADVISORY_PREFIX):
            self.is_advisory = True
        self._follow(policy)
        self.statistics = DestinationStatistics()
        self.memory = MemoryUsage(destination, policy.memory_limit, broker.system_usage.memory)
        self.memory.mark = policy.cursor_memory_high_water_mark
        self.base = self
        self.watchers = []
        self.store_usage = broker.system_usage.store_of(destination)
        self.temp_usage = broker.system_usage.temp

    def _follow(self, policy: PolicyEntry) -> None:
        self.policy = policy
        self.dead_letter_strategy = policy.dead_letter_strategy
        self.advisories_include_body = policy.include_body_for_advisory
        trail = self.broker.trail
        if trail is not None and not self.is_advisory and trail.includes(self.destination):
            self.is_trailed = True
        self.reports_consumed = self.is_trailed or (
            policy.advisory_for_consumed and not self.is_advisory
        )
        """Whether each acknowledged message is reported to the filter chain or the trail."""
        self.reports_dispatched = self.is_trailed or (
            policy.advisory_for_dispatched and not self.is_advisory
        )
        self.reports_arrivals = self.is_trailed or (
            not self.is_advisory
            and (policy.advisory_for_delivery or policy.send_advisory_if_no_consumers)
        )
        """Whether each message that becomes visible is reported to either."""
        self._reports_full = not self.is_advisory and (
            policy.advisory_when_full or policy.advisory_for_fast_producers
        )
        self._controls_flow = policy.producer_flow_control and not self.is_advisory
        self._minimum_size = policy.minimum_message_size

    def change_policy(self, policy: PolicyEntry) -> frozenset[str]:
        """Apply another policy from now on; existing consumers keep their settings.

        Returns:
            The attributes that differ but take effect only for a new destination.
        """
        kept = {name: getattr(self.policy, name) for name in self.FIXED}
        self._follow(replace(policy, **kept))
        self.memory.mark = policy.cursor_memory_high_water_mark
        self.memory.change_limit(policy.memory_limit)
        return frozenset(name for name, value in kept.items() if getattr(policy, name) != value)

    def send(self, exchange: ProducerExchange, message: ActiveMQMessage) -> Completion:
        context, raw = exchange.context, message.raw
        # a short frame of OpenWire has no field that is too long
        if (raw is None or len(raw) > context.unchecked_size) and not context.is_broker:
            check_message(message, context.largest_message)
        reference = MessageReference(message, self, self._minimum_size)
        message_id = reference.message_id
        if not message_id.broker_sequence_id:
            message_id.broker_sequence_id = self.broker.next_sequence_id()
        if reference.expiration and reference.is_expired():
            self.on_expired(context, reference, None)
            return reference.dead_letter  # the sender's response waits until it is stored
        full: MemoryUsage | DiskUsage | None = None
        memory = self.memory
        total = memory.parent
        if (  # written out, since it is asked for each message
            memory.used >= memory.limit > 0 or (total is not None and total.used >= total.limit > 0)
        ) and (self._controls_flow or self._reports_full):
            self.broker.memory_relief.relieve(self.memory, self.memory_holders(), is_full=True)
            if self.memory.is_full:
                if self._reports_full:
                    self._report_full(exchange)
                full = self.memory if self._controls_flow else None
        if context.producer_flow_control:
            if full is None and self.needs_disk:
                full = self.full_disk(reference)
            if full is not None:
                return wait_for_space(self, exchange, reference, full)
        return self.accept(exchange, reference)

    def take_run(
        self, exchange: ProducerExchange, messages: list[ActiveMQMessage], *, is_stored: bool
    ) -> list[MessageReference]:
        """Number the first of these messages, as far as `send` would accept them at once.

        It ends before the first one that may have to wait, be refused, dropped or reported; with
        `is_stored`, also before a persistent one.
        """
        context = exchange.context
        if self.disposed or self._unstored or self.watchers:
            return []
        if self.reports_arrivals or self.reports_dispatched:  # to filters, which may raise
            return []
        # memory must not become short: which messages wait in the store is decided for each
        free = self.memory.free - self._minimum_size
        if free <= 0 or (self.needs_disk and self._is_disk_full()):
            return []
        now, size = _clock.time_ms(), 0
        audit = self._audit
        run: list[MessageReference] = []
        for message in messages:
            raw, message_id = message.raw, message.message_id
            if raw is None:  # of a client of another protocol
                length = len(message.content or b"") + len(message.marshalled_properties or b"")
                is_checked = needs_no_check(message, context.largest_message)
            else:
                length = len(raw)
                is_checked = length <= context.unchecked_size
            if (
                not is_checked
                or message_id is None
                or message_id.broker_sequence_id
                or 0 < message.expiration < now
                or (is_stored and message.persistent)
                or (message.priority not in USUAL_PRIORITIES and not self._has_checked_priority)
                or size + length >= free
                # found as well by `send`, which also makes the audit
                or (self._is_audited if audit is None else audit.is_duplicate(message_id))
            ):
                break
            message_id.broker_sequence_id = self.broker.next_sequence_id()
            message.broker_in_time, message.broker_out_time = now, 0
            reference = MessageReference(message, self, self._minimum_size)
            run.append(reference)
            size += reference.size
        return run

    def _is_disk_full(self) -> bool:
        mark = self.policy.store_usage_high_water_mark
        return self.temp_usage.full(mark) is not None or self.store_usage.full(mark) is not None

    def control_flow(self, *, enabled: bool) -> None:
        """Switch flow control on or off: senders wait while memory is full. Not for advisories."""
        self.policy = replace(self.policy, producer_flow_control=enabled)
        self._controls_flow = enabled and not self.is_advisory

    def full_usage(self, reference: MessageReference) -> MemoryUsage | DiskUsage | None:
        """Return the usage that has no space for the message; None if all have space."""
        if self._controls_flow and self.memory.is_full:
            return self.memory
        return self.full_disk(reference) if self.needs_disk else None

    def full_disk(self, reference: MessageReference) -> DiskUsage | None:
        """Return the store usage that has no space for a message; None if all have space."""
        disk = self.store_usage if reference.persistent else self.temp_usage
        return disk.full(self.policy.store_usage_high_water_mark)

    def is_memory_short(self, reference: MessageReference) -> bool:
        if not self.policy.use_cache and reference.position is not None:
            return True
        return self.memory.is_short and self.stays_short()

    def stays_short(self) -> bool:
        """Return whether memory is short even after stored messages have left it.

        Call it only while memory is short.
        """
        self.broker.memory_relief.relieve(self.memory, self.memory_holders())
        return self.memory.is_short

    def must_not_read(self) -> bool:
        """Return whether memory is short, and this destination must not use more of it."""
        return self.memory.is_short and self.stays_short() and self.memory.has_share

    def page_limit(self) -> int:
        """Return how many messages may be read at once: those for which there is memory."""
        store, room = self.store, self.memory.room
        if store is None or room is None or not store.message_count:
            return sys.maxsize
        return max(1, room // max(1, store.message_size // store.message_count))

    def read_stored(self, message_id: MessageId) -> ActiveMQMessage | None:
        stored = None if self.store is None else self.store.get_message(message_id)
        return None if stored is None else stored.message

    @abstractmethod
    def memory_holders(self) -> Iterable[Holder]:
        """Return what has the messages of this destination in memory."""

    def reference_to(
        self, message: ActiveMQMessage, position: Position | None = None
    ) -> MessageReference:
        reference = MessageReference(message, self, self._minimum_size)
        reference.position = position
        if position is not None:
            reference.persistent = True  # it is stored, whatever its delivery mode
        return reference

    @abstractmethod
    def stop(self) -> None:
        """Stop dispatching and all background tasks."""

    def recreate(self) -> RegionDestination:
        return self.broker.region_destination(self.destination)

    def committing(self, stored: Completion) -> None:
        """Delay new messages until the commit `stored` is done.

        Messages thus become visible in the order of their numbers.
        """
        if stored is self._last_commit:
            return
        self._last_commit = stored
        self.running_commits += 1
        stored.then(self._commit_done)

    def _commit_done(self, _stored: Completion) -> None:
        self.running_commits -= 1

    def report_lost(
        self, context: ConnectionContext, reference: MessageReference, stored: Completion
    ) -> None:
        """Report a message that could not be stored, unless its sender gets an error response.

        If the whole store has failed, the client notices that its connection is closed.
        (activemq-broker C5)
        """
        error = stored.error
        if error is None or reference.message.response_required:
            return
        failed = self.broker.store.state is StoreState.FAILED
        if context.is_broker and self.is_dead_letter_queue:
            logger.error("%s", unstored_dead_letter(reference, error, store_failed=failed))
        else:
            logger.error("%s: message %s is lost: %s", self, reference.message_id, error)
        if context.connection is not None and not failed:
            context.connection.service_exception(error)

    def log_duplicate(self, reference: MessageReference) -> None:
        """Log a message that is already stored: it is dropped, and the send succeeds."""
        logger.warning(
            "%s: message %s is already stored; the duplicate is dropped", self, reference.message_id
        )

    def on_expired(
        self,
        context: ConnectionContext,
        reference: MessageReference,
        subscription: Subscription | None,
    ) -> None:
        self.statistics.expired += 1
        self.broker.root.message_expired(context, reference, subscription)

    def on_poisoned(
        self,
        context: ConnectionContext,
        reference: MessageReference,
        subscription: Subscription,
        cause: Throwable | None,
    ) -> None:
        self.broker.root.send_to_dead_letter_queue(context, reference, subscription, cause)
        self.forget_duplicate(reference)

    def on_unwritable(
        self, reference: MessageReference, subscription: Subscription, error: LocalProtocolError
    ) -> None:
        self.broker.unwritable_count += 1
        # once a message: all subscribers of a topic may miss it
        level = logging.DEBUG if reference.message_id is self._unwritable else logging.WARNING
        self._unwritable = reference.message_id
        logger.log(
            level,
            "%s: message %s is set aside, as it cannot be sent to %s: %s",
            self,
            reference.message_id,
            subscription,
            error,
        )

    def forget_duplicate(self, reference: MessageReference) -> None:
        """Allow a message with this id again, if the destination detects duplicate ids."""
        if self._audit is not None:
            self._audit.forget(reference.message_id)

    def store_dead_lettered(
        self, context: OperationContext, reference: MessageReference, key: SubscriptionKey | None
    ) -> Completion:
        dead_letter = reference.dead_letter
        ordering = None if dead_letter is COMPLETED else self._dead_letter_ordering(key)
        if ordering is None or not reference.persistent:
            return self.store_acknowledgement(context, reference, key)
        return ordering.remove_after(
            dead_letter,
            context,
            reference,
            lambda context, reference: self.store_acknowledgement(context, reference, key),
        )

    @abstractmethod
    def _dead_letter_ordering(self, key: SubscriptionKey | None) -> DeadLetterOrdering | None:
        """Return the dead letters of a queue or of a durable subscription; None without a store."""

    def remove_subscription(
        self,
        context: ConnectionContext,
        subscription: Subscription,
        last_delivered_sequence_id: int,
    ) -> None:
        if self._has_subscription(subscription):
            self.statistics.consumers -= 1
            self._detach(subscription, last_delivered_sequence_id)

    @abstractmethod
    def _has_subscription(self, subscription: Subscription) -> bool: ...

    @abstractmethod
    def _detach(self, subscription: Subscription, last_delivered_sequence_id: int) -> None:
        """Detach a subscription; a durable one is deleted from the store."""

    def slow_consumer(self, subscription: Subscription) -> None:
        if self.policy.advisory_for_slow_consumers:
            self.broker.root.slow_consumer(subscription.context, self, subscription)
        if self.policy.slow_consumer_strategy is not None:
            self.broker.slow_consumers.became_slow(self.policy.slow_consumer_strategy, subscription)

    def report_consumed(self, context: ConnectionContext, reference: MessageReference) -> None:
        """Report an acknowledged message to trail and filters. Only if `reports_consumed`."""
        trail = self.broker.trail
        if trail is not None and self.is_trailed:
            trail.on_acknowledged(context, reference)
        if self.policy.advisory_for_consumed:
            self.broker.root.message_consumed(context, reference)

    def report_dispatched(self, reference: MessageReference, subscription: Subscription) -> None:
        trail = self.broker.trail
        if trail is not None and self.is_trailed:
            trail.on_dispatched(reference, subscription)
        if self.policy.advisory_for_dispatched:
            self.broker.root.message_dispatched(subscription.context, reference, subscription)

    def report_delivered(self, reference: MessageReference) -> None:
        """Report a newly visible message to the trail, and to filters if the policy says so."""
        trail = self.broker.trail
        if trail is not None and self.is_trailed:
            trail.on_sent(reference)
        if self.policy.advisory_for_delivery:
            self.broker.root.message_delivered(self.broker.context, reference)

    def report_no_consumer(self, reference: MessageReference) -> None:
        """Report a message that found no consumer to the filter chain if the policy requires it."""
        if self.policy.send_advisory_if_no_consumers and not reference.persistent:
            self.broker.root.message_without_consumers(self.broker.context, reference)

    def _report_full(self, exchange: ProducerExchange) -> None:
        """Report that memory is full on arrival of a message, whether or not it will wait."""
        policy, root, context = self.policy, self.broker.root, exchange.context
        if policy.advisory_when_full:
            root.destination_full(context, self, self.memory)
        if policy.advisory_for_fast_producers and exchange.info is not None:
            root.fast_producer(context, exchange.info, self)

    def notify_watchers(self) -> None:
        """Notify the watchers."""
        for watcher in tuple(self.watchers):
            watcher(self)

    def __str__(self) -> str:
        return self.destination.qualified_name

    @property
    def log_fields(self) -> dict[str, object]:
        """What JSON lines of the log about this destination tell of it."""
        return {"destination": str(self.destination)}


class ArrivalOrder:
    """Keeps the order of arrival while messages are being stored.

    While `messages` is not empty, every new message of the destination must be appended, even a
    message that is not stored; otherwise it would overtake those that wait.
    """

    def __init__(
        self,
        enqueue: Callable[[MessageReference], None],
        discard: Callable[[MessageReference, Exception], None],
    ) -> None:
        """Set the callbacks for each stored message, and for one that could not be stored."""
        self.messages: OrderedDict[MessageReference, Completion] = OrderedDict()
        """The waiting messages, oldest first, each with the completion of its storage."""
        self._enqueue = enqueue
        self._discard = discard

    def append(self, reference: MessageReference, stored: Completion) -> None:
        """Enqueue the message once it is first and `stored` is done (`COMPLETED`: no storage)."""
        self.messages[reference] = stored
        stored.then(self._advance)

    def _advance(self, _stored: Completion) -> None:
        messages = self.messages
        while messages:
            reference, stored = next(iter(messages.items()))
            if not stored.done:
                return
            messages.popitem(last=False)
            if stored.error is None:
                self._enqueue(reference)
            else:
                self._discard(reference, stored.error)
