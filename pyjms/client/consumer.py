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

from collections.abc import Awaitable, Callable
from inspect import isawaitable
from threading import get_ident
from typing import TYPE_CHECKING, ClassVar, Final

from anyio.lowlevel import checkpoint

from pyjms.client.buffers import DispatchBuffer, FifoBuffer, MeasuredBuffer, PriorityBuffer
from pyjms.client.dispatcher import ListenerTarget
from pyjms.client.ledgers import AckLedger, choose_ledger
from pyjms.client.messages import CommandSource, ReroutedSource, from_command, transform_received
from pyjms.client.policies import RedeliveryPolicy
from pyjms.client.rollback import Redeliverer
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
    ConsumerId,
    ConsumerInfo,
    MessageDispatch,
    MessagePull,
    Throwable,
)

if TYPE_CHECKING:
    from pyjms.client.connection import ActiveMQConnection
    from pyjms.client.session import ActiveMQSession

logger: Final = get_logger(__name__)


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

    def __init__(self, session: ActiveMQSession, info: ConsumerInfo) -> None:
        assert info.destination is not None
        assert info.consumer_id is not None
        options = session.connection.options
        self.takes_turns = True
        self.on_closed: Callable[[], Awaitable[None]] | None = None
        """Awaited at the end of `close`."""
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
        if timeout is not None:
            check_seconds("timeout", timeout, least=None, otherwise=FOR_EVER)
            timeout = float(timeout)
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
        """Return the next message; None after `timeout` seconds or if the consumer is closed."""
        deadline = None if timeout is None else _clock.now() + timeout
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
        failed = [*self.redeliverer.waiting, *self.ledger.unsettled]
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
