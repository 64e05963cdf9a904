"""The consumer: messages come in by `dispatch`, a plain call, and go out by receive or listener.

A buffered message is received without a wait, a scope or a task. Nothing is lost by
cancelling `receive`: a message leaves the buffer only in the very step that returns it.
(JMS 4.5; ActiveMQ section 7, N8 to N10)
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from anyio.lowlevel import checkpoint

from pyjms import _clock
from pyjms._wakeup import Waiter
from pyjms.client.delivery.ack_ledger import HeldLedger, RangeLedger, choose_ledger
from pyjms.client.delivery.duplicates import MessageAudit, suppress_duplicate
from pyjms.client.delivery.prefetch import DispatchBuffer, FifoBuffer, PriorityBuffer, PullRequests
from pyjms.client.delivery.redelivery import Redeliverer, is_delayed_by_broker
from pyjms.client.messages import ReroutedSource, from_command
from pyjms.errors import IllegalStateException, JMSException
from pyjms.jms import api
from pyjms.jms.api import MessageListener
from pyjms.jms.destination import Destination
from pyjms.jms.message import Acknowledger, Message
from pyjms.wire.openwire.commands import ConsumerId, ConsumerInfo, MessageDispatch

if TYPE_CHECKING:
    from pyjms.client.options.policies import RedeliveryPolicy
    from pyjms.client.session.session import ActiveMQSession

__all__ = ["ActiveMQMessageConsumer"]

logger = logging.getLogger(__name__)

_YIELD_MASK = 0xFF  # every 256th receive lets other tasks run


class ActiveMQMessageConsumer(api.MessageConsumer):
    """Receives the messages of one destination. Made by a session."""

    is_closed = False

    def __init__(self, session: ActiveMQSession, info: ConsumerInfo) -> None:
        assert info.destination is not None
        options = session.connection.options
        self.info = info
        self.session = session
        self.redelivery_policy: RedeliveryPolicy = options.redelivery_policy_map.entry_for(
            info.destination
        )
        self.ledger = choose_ledger(session, info)
        self.last_delivered_sequence_id = -1
        self.is_queued = False
        """Whether the session's dispatcher has it in its queue."""
        self.failure: JMSException | None = None
        prioritized = options.message_priority_supported
        self._buffer: DispatchBuffer = PriorityBuffer() if prioritized else FifoBuffer()
        self._redeliverer = Redeliverer(self)
        self._pulls = PullRequests(info, session.connection.oneway)
        self._checks_expiry = options.consumer_expiry_check_enabled
        self._acks = session.acks
        self._acknowledger: Acknowledger = session.acks.acknowledger_for(self)
        self._listener: MessageListener | None = None
        self._waiters: list[Waiter] = []
        self._paused = False
        self._flowing = session.is_started
        self._received = 0

    @property
    def destination(self) -> Destination:
        assert self.info.destination is not None
        return self.info.destination

    @property
    def message_selector(self) -> str | None:
        self._check_open()
        return self.info.selector

    @property
    def message_listener(self) -> MessageListener | None:
        self._check_open()
        return self._listener

    @property
    def consumer_id(self) -> ConsumerId:
        """Its id on the wire."""
        assert self.info.consumer_id is not None
        return self.info.consumer_id

    @property
    def has_listener(self) -> bool:
        """Whether messages go to a listener of its own."""
        return self._listener is not None

    @property
    def has_unsettled(self) -> bool:
        """Whether messages were handed out that a commit or acknowledge is still to cover."""
        return isinstance(self.ledger, HeldLedger) and bool(self.ledger.delivered)

    @property
    def buffered(self) -> int:
        """How many messages wait here to be handed out."""
        return len(self._buffer)

    # --- what the application calls

    async def set_message_listener(self, listener: MessageListener | None) -> None:
        self._check_open()
        if self.info.prefetch_size == 0:
            raise JMSException(
                "Illegal prefetch size of zero. This setting is not supported for asynchronous"
                " consumers please set a value of at least 1"
            )
        self._listener = listener
        self.session.listeners_changed()
        self._wake()

    async def receive(self, timeout: float | None = None) -> Message | None:
        if self.is_closed or self.session.has_listener:
            self._refuse_receive()
        if self._buffer and self._flowing:
            self._received += 1
            if not self._received & _YIELD_MASK:
                await checkpoint()
            message = self._take()
            if message is not None:
                if self._acks.answers is not None:
                    await self._acks.wait()
                return message
        message = await self._wait(timeout)
        if message is not None:
            await self._acks.wait()
        return message

    async def close(self) -> None:
        if self.is_closed:
            return
        self.is_closed = True
        self.update_flow()
        self._wake_receiver()
        await self.session.dispatcher.wait_idle(self)
        self.session.members.consumer_closed(self)
        self.session.listeners_changed()

    # --- what the connection and the session call

    def dispatch(self, dispatch: MessageDispatch) -> None:
        """Take what the broker sent. A plain call; a closed consumer drops it."""
        command = dispatch.message
        if command is None:
            self._pulls.nothing_came()
            self._wake_receiver()
            return
        if self.is_closed:
            return
        audit = self.audit(dispatch)
        if audit is not None and audit.is_duplicate(command.message_id):
            suppress_duplicate(self, dispatch)
            return
        if not self.session.is_started:
            self.session.unstarted.message_came()
        self.take_in(dispatch)

    def take_in(self, dispatch: MessageDispatch) -> None:
        """Buffer a message, and tell who waits for it."""
        self._buffer.append(dispatch)
        if self.info.prefetch_size == 0:
            self._pulls.message_came()
        if self._listener is not None:
            self._wake()
        elif self._waiters:
            self._wake_receiver()

    async def deliver_one(self) -> bool:
        """Bring the next message to the listener; return whether another one waits."""
        listener = self._listener
        if listener is None or self.session.has_own_listener:
            return False
        dispatch = self._next()
        if dispatch is not None:
            await self.call(listener, dispatch)
        return self._flowing and bool(self._buffer)

    async def call(self, listener: MessageListener, dispatch: MessageDispatch) -> None:
        """Call `listener` with a message and settle it as the session's mode has it."""
        message = self._to_message(dispatch)
        self.ledger.before(dispatch)
        try:
            result = listener(message)
            if result is not None:
                await result
        except Exception as error:
            logger.exception("%s: the listener failed on %s", self.consumer_id, message.message_id)
            dispatch.rollback_cause = error
            if self.ledger.redelivers_on_error:
                self.roll_back()
                return
        self.ledger.after(dispatch)
        if self._acks.answers is not None:
            await self._acks.wait_or_report()

    def keep_acknowledging(self) -> None:
        """Start the timer of optimized acknowledgement, if there is to be one."""
        interval = self.session.connection.options.optimized_ack_scheduled_ack_interval
        if interval > 0 and isinstance(self.ledger, RangeLedger):
            self.session.tasks.spawn(self._acknowledge_regularly, self.ledger, interval)

    def next_dispatch(self) -> MessageDispatch | None:
        """Take the next message that may be handed out, for the session's own listener."""
        return self._next()

    def roll_back(self) -> None:
        """Have what was handed out redelivered, or dead-lettered when it came too often."""
        self._redeliverer.roll_back()

    def put_back(self, dispatches: list[MessageDispatch]) -> None:
        """Take messages again, before all others of theirs."""
        if not self.is_closed:
            self._buffer.put_back(dispatches)
            self._wake()

    def pause(self, paused: bool) -> None:
        """Hand out nothing while a redelivery waits for its time."""
        self._paused = paused
        self.update_flow()

    def update_flow(self) -> None:
        """Follow the session's start and stop."""
        self._flowing = self.session.is_started and not self._paused and not self.is_closed
        self._wake()

    def audit(self, dispatch: MessageDispatch) -> MessageAudit | None:
        """Return where the coming of `dispatch` is noted; None: nowhere."""
        audits = self.session.connection.audit
        if audits is None or self.info.browser or dispatch.destination is None:
            return None
        assert self.info.consumer_id is not None
        return audits.audit_for(dispatch.destination, self.info.consumer_id)

    def forget(self, dispatch: MessageDispatch) -> None:
        """Let `dispatch` come again, to this or another consumer of the connection."""
        audit = self.audit(dispatch)
        if audit is not None and dispatch.message is not None:
            audit.forget(dispatch.message.message_id)

    def dispose(self, failure: JMSException | None = None) -> None:
        """End it on this side: blocked receives return None, or raise `failure`."""
        self.failure = self.failure or failure
        self.is_closed = True
        self._redeliverer.close()
        if failure is None:
            self.ledger.flush()
        failed = [*self._redeliverer.waiting, *self.ledger.delivered]
        if failed:  # the broker counts a failed delivery of what it dispatched up to here
            self.last_delivered_sequence_id = max(map(_sequence_id, failed))
        for dispatch in [*self._buffer, *failed]:
            self.forget(dispatch)
        self._buffer.clear()
        self.update_flow()
        self._wake_receiver()

    # --- inside

    async def _acknowledge_regularly(self, ledger: RangeLedger, interval: float) -> None:
        while not self.is_closed:
            await _clock.sleep(interval)
            ledger.send_waiting()

    def _take(self) -> Message | None:
        """Hand out the next message for receive, settled as the mode has it."""
        dispatch = self._next()
        if dispatch is None:
            return None
        message = self._to_message(dispatch)
        self.ledger.before(dispatch)
        self.ledger.after(dispatch)
        return message

    def _next(self) -> MessageDispatch | None:
        buffer = self._buffer
        while self._flowing and buffer:
            dispatch = buffer.popleft()
            command = dispatch.message
            assert command is not None
            expiration = command.expiration
            if expiration and self._checks_expiry and expiration <= _clock.time_ms():
                self.ledger.expired(dispatch)
            elif dispatch.redelivery_counter and self._came_too_often(dispatch):
                self._redeliverer.refuse(dispatch)
            else:
                return dispatch
        return None

    def _came_too_often(self, dispatch: MessageDispatch) -> bool:
        """Whether a transacted consumer refuses it before delivery. (R5)"""
        policy = self.redelivery_policy
        return (
            self.session.transacted
            and policy.pre_dispatch_check
            and policy.is_exceeded(dispatch.redelivery_counter)
            and not is_delayed_by_broker(dispatch)
        )

    def _to_message(self, dispatch: MessageDispatch) -> Message:
        command = dispatch.message
        assert command is not None
        self.last_delivered_sequence_id = _sequence_id(dispatch)
        message = from_command(command, dispatch.redelivery_counter)
        if command.original_destination is not None:
            message._source = ReroutedSource(command)
        message.acknowledger = self._acknowledger
        message.provider_delivery = dispatch
        return message

    async def _wait(self, timeout: float | None) -> Message | None:
        if self.info.prefetch_size == 0 and not self._buffer:
            return await self._wait_for_pull(timeout)
        if timeout is not None and timeout <= 0:
            await checkpoint()
            return self._take()
        left = timeout
        deadline = None if timeout is None else _clock.now() + timeout
        while not self.is_closed and (left is None or left > 0):
            await self._until_woken(left)
            message = self._take()
            if message is not None:
                return message
            left = _seconds_left(deadline)
        self._raise_failure()
        return self._take()

    async def _wait_for_pull(self, timeout: float | None) -> Message | None:
        """Ask the broker for a message; it says when the time is over. (N9)"""
        pulls = self._pulls
        deadline = None if timeout is None else _clock.now() + timeout
        stale = pulls.unanswered > 0  # of a receive that was cancelled: its end may come first
        pulls.ask(timeout)
        while not self.is_closed:
            if not pulls.is_waiting:  # what came had expired, or was a duplicate
                pulls.ask(_seconds_left(deadline))
            own_clock = deadline is not None and (stale or bool(self._buffer))
            left = _seconds_left(deadline) if own_clock else None
            if left is None or left > 0:
                await self._until_woken(left)
            message = self._take()
            if message is not None or pulls.is_over or (own_clock and not _seconds_left(deadline)):
                return message
        self._raise_failure()
        return None

    async def _until_woken(self, seconds: float | None) -> None:
        waiter = Waiter()
        self._waiters.append(waiter)
        try:
            await _clock.wait(waiter, seconds)
        finally:
            if waiter in self._waiters:
                self._waiters.remove(waiter)

    def _wake(self) -> None:
        if self._flowing and self._buffer:
            if self._listener is not None:
                self.session.dispatcher.wake(self)
            self._wake_receiver()

    def _wake_receiver(self) -> None:
        waiters, self._waiters = self._waiters, []
        for waiter in waiters:
            waiter.wake()

    def _refuse_receive(self) -> None:
        self._check_open()
        raise IllegalStateException(
            "Cannot synchronously receive a message when a MessageListener is set",
            hint="use another session for receive()",
        )

    def _raise_failure(self) -> None:
        if self.failure is not None:
            raise self.session.connection.failed_error()

    def _check_open(self) -> None:
        self._raise_failure()
        if self.is_closed:
            raise IllegalStateException("The Consumer is closed")


def _sequence_id(dispatch: MessageDispatch) -> int:
    assert dispatch.message is not None
    message_id = dispatch.message.message_id
    return -1 if message_id is None else message_id.broker_sequence_id


def _seconds_left(deadline: float | None) -> float | None:
    return None if deadline is None else max(0.0, deadline - _clock.now())
