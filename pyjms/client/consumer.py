"""The message consumer: the broker's dispatches enter it, receive() or a listener gets them.

The package's docstring describes the path of a message, the invariants and the life cycle. (JMS
1.1, section 4.5; activemq-broker X7; activemq-edges N8 to N10)

Announcements of messages that can be received at once: ActiveMQ's MessageAvailableListener.

Each message that arrives is announced once, by the session's listener dispatcher, so that the
listener may receive it and never runs at the same time as another listener. Messages that have been
received in the meantime are not announced. Buffered messages are announced again when delivery
starts or resumes, and after a rollback.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from threading import get_ident
from typing import ClassVar, Final, Protocol

from anyio.lowlevel import checkpoint

from pyjms.client import blobs
from pyjms.client.acknowledgement import AckLedger, LedgerChoice, choose_ledger
from pyjms.client.duplicates import DuplicateVerdict, judge_duplicate, own_queue
from pyjms.client.interfaces import ClientSession
from pyjms.client.messages import CommandSource, ReroutedSource, from_command
from pyjms.client.options import RedeliveryPolicy
from pyjms.client.prefetch import (
    DispatchBuffer,
    FifoBuffer,
    PriorityBuffer,
    PullRequests,
    Receivers,
    deadline_after,
    seconds_left,
    sequence_id,
)
from pyjms.client.redelivery import Redeliverer, is_poison
from pyjms.client.transformers import transformed
from pyjms.errors import IllegalStateException, JMSException
from pyjms.jms import api
from pyjms.jms.api import MessageAvailableListener, MessageConsumer, MessageListener
from pyjms.jms.blob import BlobMessage
from pyjms.jms.destination import Destination
from pyjms.jms.message import Acknowledger, Message
from pyjms.management import JMSConsumerStats
from pyjms.runtime import clock as _clock
from pyjms.runtime.logging import get_logger
from pyjms.wire.message_audit import MessageAudit
from pyjms.wire.openwire.commands import ConsumerId, ConsumerInfo, MessageDispatch, Throwable

__all__ = ["ActiveMQMessageConsumer"]

# --- The waits of `receive` for a message that has not arrived yet.


class _Consumer(Protocol):
    """The consumer as used by a waiting `receive`."""

    info: ConsumerInfo
    is_closed: bool
    receivers: Receivers
    pulls: PullRequests

    @property
    def buffered(self) -> int: ...
    def receive_buffered(self) -> Message | None:
        """Deliver the next buffered message; None if there is none."""

    def raise_failure(self) -> None:
        """Raise the connection's failure, if it has ended the consumer."""


def listener_is_set() -> IllegalStateException:
    """Return the error of a receive in a session with a listener. (activemq-edges N8)"""
    return IllegalStateException(
        "Cannot synchronously receive a message when a MessageListener is set",
        hint="use another session for receive()",
    )


async def wait_for_message(consumer: _Consumer, timeout: float | None) -> Message | None:
    """Return the next message; None after `timeout` seconds or if the consumer is closed."""
    deadline = deadline_after(timeout)
    if consumer.info.prefetch_size == 0 and not consumer.buffered:
        return await _wait_for_pull(consumer, timeout)
    if timeout is not None and timeout <= 0:
        await checkpoint()
        return consumer.receive_buffered()
    left = timeout
    while not consumer.is_closed and (left is None or left > 0):
        await consumer.receivers.wait(left)
        message = consumer.receive_buffered()
        if message is not None:
            return message
        left = seconds_left(deadline)
    consumer.raise_failure()
    return consumer.receive_buffered()


async def _wait_for_pull(consumer: _Consumer, timeout: float | None) -> Message | None:
    """Pull a message; the broker signals the timeout. (activemq-edges N9)"""
    pulls = consumer.pulls
    deadline = deadline_after(timeout)
    is_stale = pulls.begin(timeout)
    while not (consumer.is_closed or pulls.timed_out):
        if not pulls.is_pending:  # the pulled message had expired or was a duplicate
            pulls.request(seconds_left(deadline))
        own_clock = deadline is not None and (is_stale or bool(consumer.buffered))
        left = seconds_left(deadline) if own_clock else None
        if left is None or left > 0:
            await consumer.receivers.wait(left)
        message = consumer.receive_buffered()
        if message is not None or pulls.timed_out or (own_clock and not seconds_left(deadline)):
            return message
    consumer.raise_failure()
    return None


logger: Final = get_logger(__name__)


class _AvailabilityConsumer(Protocol):
    """The consumer as used by its announcements."""

    session: ClientSession
    info: ConsumerInfo
    consumer_id: ConsumerId

    @property
    def available(self) -> int:
        """The number of messages that can be received without waiting."""


class Announcements:
    """The announcements of one consumer's messages to one listener."""

    is_queued = False

    def __init__(
        self,
        state: _AvailabilityConsumer,
        consumer: MessageConsumer,
        listener: MessageAvailableListener,
    ) -> None:
        """Keep `listener`, which is called with `consumer`; `state` is the consumer's buffer.

        Raises:
            IllegalStateException: the session has a message listener, so `receive` is refused.
            JMSException: there is no prefetch, so messages arrive only during a `receive`.
        """
        if state.session.has_listener:
            raise IllegalStateException(
                "Cannot announce messages when a MessageListener is set",
                hint="set_message_listener(None) first, or use another session",
            )
        if state.info.prefetch_size == 0:
            raise JMSException(
                "Messages cannot be announced with a prefetch size of zero: they arrive only during"
                " a receive()",
                hint="set a prefetch of at least 1",
            )
        self.listener = listener
        self.listener_name: str = f"the message available listener of consumer {state.consumer_id}"
        self._state = state
        self._consumer = consumer
        self._due = 0

    def announce(self) -> None:
        """Announce a message that arrived."""
        if self._state.available:
            self._due += 1
            self._state.session.dispatcher.wake(self)

    def announce_all(self) -> None:
        """Announce every buffered message."""
        self._due = self._state.available
        self._state.session.dispatcher.wake(self)

    async def end(self) -> None:
        """Stop announcing, and wait until the listener is not running."""
        self._due = 0
        await self._state.session.dispatcher.wait_idle(self)

    async def deliver_one(self) -> bool:
        """Make one announcement if its message is still buffered; return whether more are due."""
        self._due = min(self._due, self._state.available)
        if not self._due:
            return False
        self._due -= 1
        try:
            result = self.listener(self._consumer)
            if result is not None:
                await result
        except Exception:
            logger.exception("%s: the message available listener failed", self._state.consumer_id)
        return self._due > 0


def check_message_listener(
    info: ConsumerInfo, listener: MessageListener | None, announcements: Announcements | None
) -> None:
    """Refuse a message listener that would not be called, or that conflicts with announcements.

    Raises:
        JMSException: there is no prefetch.
        IllegalStateException: a message available listener is set.
    """
    if info.prefetch_size == 0:
        raise JMSException(
            "Illegal prefetch size of zero. This setting is not supported for asynchronous"
            " consumers please set a value of at least 1"
        )
    if listener is not None and announcements is not None:
        raise IllegalStateException(
            "Cannot set a MessageListener when a message available listener is set",
            hint="set_message_available_listener(None) first",
        )


# --- The handling of duplicates: messages that the consumer's connection has received before.


class _DuplicateDeliveriesConsumer(Protocol):
    """The consumer as used by this module."""

    consumer_id: ConsumerId
    session: ClientSession

    @property
    def ledger(self) -> AckLedger: ...


def is_delivered_again(consumer: _DuplicateDeliveriesConsumer, dispatch: MessageDispatch) -> bool:
    """Apply the verdict of `pyjms.client.duplicates`; return whether the duplicate is delivered."""
    assert dispatch.message is not None
    if consumer.ledger.takes_copy(dispatch):
        return False
    message_id = dispatch.message.message_id
    consumer_id = consumer.consumer_id
    holders = consumer.session.connection.consumers_holding(message_id)
    verdict = judge_duplicate(consumer_id, holders)
    if verdict is DuplicateVerdict.ACKNOWLEDGED:
        consumer.ledger.acknowledge_again(dispatch)
        return False
    if verdict is DuplicateVerdict.DELIVERED:
        logger.warning(
            "%s delivers the duplicate %s: a transaction on %s may still roll back",
            consumer_id,
            message_id,
            holders[0],
        )
        return True
    logger.warning(
        "%s suppresses a duplicate delivery on its connection, poison acking: %s",
        consumer_id,
        message_id,
    )
    reason = f"Suppressing duplicate delivery on connection, consumer {consumer_id}"
    consumer.ledger.acknowledge_poison([dispatch], Throwable("java.lang.Throwable", reason))
    return False


_YIELD_MASK = 0xFF  # every 256th receive lets other tasks run


class ActiveMQMessageConsumer(api.MessageConsumer):
    """Receives the messages of one destination. Created by a session.

    For one task at a time, except `close`, which any task on the loop may call.
    """

    is_closed: property | bool = False
    on_closed: Callable[[], Awaitable[None]] | None = None  # awaited at the end of `close`
    choose_ledger: ClassVar[LedgerChoice] = staticmethod(choose_ledger)
    stats: JMSConsumerStats | None = None
    """The statistics of its receives; None if `stats_enabled` is off."""

    def __init__(self, session: ClientSession, info: ConsumerInfo) -> None:
        assert info.destination is not None
        assert info.consumer_id is not None
        options = session.connection.options
        self.info = info
        self.consumer_id: ConsumerId = info.consumer_id
        self.session = session
        policies = options.redelivery_policy_map
        self.redelivery_policy: RedeliveryPolicy = policies.entry_for(info.destination)
        self.ledger: Final = self.choose_ledger(session, info)
        self.last_delivered_sequence_id: int = -1
        self._own_queue = own_queue(info.destination)
        self.is_queued = False
        self.is_removed_by_broker = False
        """Whether the broker removes the consumer by itself, so that no RemoveInfo is sent."""
        self.failure: JMSException | None = None
        prioritized = options.message_priority_supported
        self._buffer: DispatchBuffer = PriorityBuffer() if prioritized else FifoBuffer()
        self.redeliverer: Redeliverer = Redeliverer(self)
        self.pulls: PullRequests = PullRequests(info, session.connection.oneway)
        self._checks_expiry = options.consumer_expiry_check_enabled
        self._acks = session.acks
        self._use = session.use
        self._acknowledger: Acknowledger = session.acks.acknowledger_for(
            self.ledger.acknowledger_of_one
        )
        self.transformer: api.MessageTransformer | None = session.transformer
        """Replaces the messages that are delivered; None: no transformer."""
        self._listener: api.MessageListener | None = None
        self._announcements: Announcements | None = None
        self.receivers: Receivers = Receivers()
        self._paused = False
        self._flowing = session.is_started
        self._received = 0
        self._check: Callable[[Message], object] | None = None

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
    def listener_name(self) -> str:
        """The description of the listener in messages about failures."""
        return f"the listener of consumer {self.consumer_id}"

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

    # --- for the application

    async def set_message_listener(self, listener: api.MessageListener | None) -> None:
        self._check_open()
        check_message_listener(self.info, listener, self._announcements)
        self._listener = listener
        self.session.listeners_changed()
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
        announcements = None if listener is None else Announcements(self, self, listener)
        previous, self._announcements = self._announcements, announcements
        if previous is not None:
            await previous.end()
        self._wake()

    async def receive(self, timeout: float | None = None) -> Message | None:
        if self.is_closed or self.session.has_listener:
            self._check_open()
            raise listener_is_set()
        use = self._use
        if use.thread != get_ident() or use.ending is not None:
            use.check("receive()")
        if self._buffer and self._flowing:
            self._received += 1
            if not self._received & _YIELD_MASK:
                await checkpoint()
            message = self.receive_buffered()
            if message is not None:
                if self._acks.waits_for_responses:
                    await self._acks.wait()
                return message
        message = await wait_for_message(self, timeout)
        if message is not None:
            await self._acks.wait()
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
        if self.is_closed:
            return
        self.is_closed = True
        self.update_flow()
        self.receivers.wake()
        await self.session.dispatcher.wait_idle(self)
        if self._announcements is not None:
            await self._announcements.end()
        self.session.consumer_closed(self.consumer_id)
        if self.on_closed is not None:
            await self.on_closed()

    # --- for the connection and the session

    def dispatch(self, dispatch: MessageDispatch) -> None:
        """Accept a dispatch from the broker. Synchronous; a closed consumer drops it."""
        command = dispatch.message
        if command is None:
            self.pulls.on_timeout()
            self.receivers.wake()
            return
        if self.is_closed:
            return
        audit = self._audit_for(dispatch)
        is_duplicate = audit is not None and audit.is_duplicate(command.message_id)
        if is_duplicate and not is_delivered_again(self, dispatch):
            return
        if not self.session.is_started:
            self.session.message_before_start()
        self._enqueue(dispatch)

    def interrupted(self) -> None:
        """Drop the lost broker's messages: the next broker dispatches them again."""
        dropped = [*self._buffer, *self.redeliverer.pop_waiting(), *self.ledger.interrupted()]
        self._buffer.clear()
        for dispatch in dropped:
            self.forget(dispatch)

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
        message = self._to_message(dispatch)
        self.ledger.before_delivery(dispatch)
        try:
            if self.transformer is not None:
                message = transformed(self.transformer, self.session, self, message)
            result = listener(message)
            if result is not None:
                await result
        except Exception as error:
            logger.exception("%s: the listener failed on %s", self.consumer_id, message.message_id)
            dispatch.rollback_cause = error
            if self.ledger.redelivers_on_error:
                self.roll_back()
                return
        # a listener container reports the errors of its listener itself and raises nothing
        if self.ledger.redelivers_on_error and is_poison(dispatch.rollback_cause):
            self.roll_back()
            return
        self.ledger.has_more = self._flowing and bool(self._buffer)
        self.ledger.after_delivery(dispatch)
        if self._acks.waits_for_responses:
            await self._acks.wait_or_report()

    def next_dispatch(self) -> MessageDispatch | None:
        """Remove and return the next message that may be delivered; None if there is none."""
        buffer = self._buffer
        while self._flowing and buffer:
            dispatch = buffer.popleft()
            command = dispatch.message
            assert command is not None
            expiration = command.expiration
            if expiration and self._checks_expiry and expiration <= _clock.time_ms():
                self._refuse_expired(dispatch)
            elif dispatch.redelivery_counter and self.redeliverer.is_exceeded(dispatch):
                self.redeliverer.refuse(dispatch)
            else:
                return dispatch
        return None

    def _refuse_expired(self, dispatch: MessageDispatch) -> None:
        self.ledger.acknowledge_expired(dispatch)

    def receive_buffered(self) -> Message | None:
        """Deliver the next buffered message to receive(); None if there is none."""
        dispatch = self.next_dispatch()
        if dispatch is None:
            return None
        message = self._to_message(dispatch)
        if self._check is not None or self.transformer is not None:
            try:
                if self.transformer is not None:
                    message = transformed(self.transformer, self.session, self, message)
                if self._check is not None:
                    self._check(message)
            except BaseException:
                self._buffer.requeue([dispatch])
                raise
        self.ledger.before_delivery(dispatch)
        self.ledger.after_delivery(dispatch)
        return message

    def roll_back(self) -> None:
        """Redeliver the delivered messages that are not settled, or refuse them."""
        self.redeliverer.roll_back()

    def requeue(self, dispatches: list[MessageDispatch]) -> None:
        """Return messages to the front of the buffer."""
        if not self.is_closed:
            self._buffer.requeue(dispatches)
            self._wake()

    def pause(self, paused: bool) -> None:
        """Stop delivery while a redelivery is delayed, or resume it."""
        self._paused = paused
        self.update_flow()

    def update_flow(self) -> None:
        """Start or stop delivery after a change of the session or of this consumer."""
        self._flowing = self.session.is_started and not self._paused and not self.is_closed
        self._wake()

    def forget(self, dispatch: MessageDispatch) -> None:
        """Remove `dispatch` from the duplicate audit, so that it may be dispatched again."""
        audit = self._audit_for(dispatch)
        if audit is not None and dispatch.message is not None:
            audit.forget(dispatch.message.message_id)

    def dispose(self, failure: JMSException | None = None) -> None:
        """Close it without telling the broker; waiting receives return None or raise `failure`."""
        self.failure = self.failure or failure
        self.is_closed = True
        self.redeliverer.close()
        self.ledger.close()
        if failure is None:
            self.ledger.flush()
        failed = [*self.redeliverer.waiting, *self.ledger.delivered]
        if failed:  # the broker counts a failed delivery of each message up to this one
            self.last_delivered_sequence_id = max(map(sequence_id, failed))
        for dispatch in [*self._buffer, *failed]:
            self.forget(dispatch)
        self._buffer.clear()
        self.update_flow()
        self.receivers.wake()

    def raise_failure(self) -> None:
        """Raise the connection's failure, if it has ended the consumer."""
        if self.failure is not None:
            raise self.session.connection.failed_error()

    # --- internals

    def _enqueue(self, dispatch: MessageDispatch) -> None:
        self._buffer.append(dispatch)
        if self.info.prefetch_size == 0:
            self.pulls.on_message()
        if self._listener is not None:
            if not self.is_queued:
                self._wake()
            return
        if self.receivers.waiting:
            self.receivers.wake()
        if self._announcements is not None:
            self._announcements.announce()

    def _audit_for(self, dispatch: MessageDispatch) -> MessageAudit | None:
        """Return the duplicate audit that applies to `dispatch`, or None."""
        audits = self.session.connection.audit
        if audits is None or self.info.browser or dispatch.destination is None:
            return None
        return audits.audit_for(self._own_queue or dispatch.destination, self.consumer_id)

    def _to_message(self, dispatch: MessageDispatch) -> Message:
        command = dispatch.message
        assert command is not None
        self.last_delivered_sequence_id = sequence_id(dispatch)
        source = CommandSource if command.original_destination is None else ReroutedSource
        message = from_command(
            command, dispatch.redelivery_counter, source(command), self._acknowledger, dispatch
        )
        if type(message) is BlobMessage:
            policy = self.session.connection.options.blob_transfer_policy
            message.transfer = blobs.PolicyTransfer(policy)
        return message

    def _wake(self) -> None:
        if self._flowing and self._buffer:
            if self._listener is not None:
                self.session.dispatcher.wake(self)
            elif self._announcements is not None:
                self._announcements.announce_all()
            self.receivers.wake()

    def _check_open(self) -> None:
        self.raise_failure()
        if self.is_closed:
            raise IllegalStateException("The Consumer is closed")
