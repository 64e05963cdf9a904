"""The message consumer: dispatches arrive by a plain call and leave by receive() or a listener.

The package's docstring describes the way of a message, the invariants and the life cycle. (JMS
1.1, section 4.5; activemq-broker X7; activemq-edges N8 to N10)
"""

from __future__ import annotations

from anyio.lowlevel import checkpoint

from pyjms import _clock
from pyjms._logger import get_logger
from pyjms.client.delivery.deferred_ledgers import (
    DeferredAckLedger,
    IndividualAckLedger,
    choose_ledger,
)
from pyjms.client.delivery.prefetch import (
    DispatchBuffer,
    FifoBuffer,
    PriorityBuffer,
    PullRequests,
    Receivers,
    deadline_after,
    seconds_left,
    sequence_id,
)
from pyjms.client.delivery.redelivery import Redeliverer, is_poison
from pyjms.client.duplicates import DuplicateVerdict, MessageAudit, judge_duplicate
from pyjms.client.interfaces import ClientSession
from pyjms.client.messages import CommandSource, ReroutedSource, from_command
from pyjms.client.options import RedeliveryPolicy
from pyjms.errors import IllegalStateException, JMSException
from pyjms.jms import api
from pyjms.jms.api import MessageListener
from pyjms.jms.destination import Destination
from pyjms.jms.message import Acknowledger, Message
from pyjms.wire.openwire.commands import (
    ConsumerId,
    ConsumerInfo,
    MessageDispatch,
    Throwable,
)

__all__ = ["ActiveMQMessageConsumer"]

logger = get_logger(__name__)

_YIELD_MASK = 0xFF  # every 256th receive lets other tasks run


class ActiveMQMessageConsumer(api.MessageConsumer):
    """Receives the messages of one destination. Created by a session.

    For one task at a time, except `close`, which any task on the loop may call.
    """

    is_closed = False

    def __init__(self, session: ClientSession, info: ConsumerInfo) -> None:
        assert info.destination is not None
        assert info.consumer_id is not None
        options = session.connection.options
        self.info = info
        self.consumer_id: ConsumerId = info.consumer_id
        self.session = session
        self.redelivery_policy: RedeliveryPolicy = options.redelivery_policy_map.entry_for(
            info.destination
        )
        self.ledger = choose_ledger(session, info)
        self.last_delivered_sequence_id = -1
        self.is_queued = False
        self.failure: JMSException | None = None
        prioritized = options.message_priority_supported
        self._buffer: DispatchBuffer = PriorityBuffer() if prioritized else FifoBuffer()
        self._redeliverer = Redeliverer(self)
        self.pulls = PullRequests(info, session.connection.oneway)
        self._checks_expiry = options.consumer_expiry_check_enabled
        self._acks = session.acks
        ledger = self.ledger
        self._acknowledger: Acknowledger = session.acks.acknowledger_for(
            ledger.acknowledge_one if isinstance(ledger, IndividualAckLedger) else None
        )
        self._listener: MessageListener | None = None
        self.receivers = Receivers()
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
    def has_listener(self) -> bool:
        """Whether a listener is set on this consumer."""
        return self._listener is not None

    @property
    def has_unsettled(self) -> bool:
        """Whether delivered messages await a commit or an acknowledge()."""
        return isinstance(self.ledger, DeferredAckLedger) and bool(self.ledger.delivered)

    @property
    def buffered(self) -> int:
        """How many messages were dispatched to this consumer and not delivered yet."""
        return len(self._buffer)

    # --- for the application

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
            message = self.receive_buffered()
            if message is not None:
                if self._acks.waits_for_responses:
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
        self.receivers.wake()
        await self.session.dispatcher.wait_idle(self)
        self.session.consumer_closed(self.consumer_id)

    # --- for the connection and the session

    def dispatch(self, dispatch: MessageDispatch) -> None:
        """Accept a dispatch of the broker. A plain call; a closed consumer drops it."""
        command = dispatch.message
        if command is None:
            self.pulls.on_timeout()
            self.receivers.wake()
            return
        if self.is_closed:
            return
        audit = self._audit_for(dispatch)
        if audit is not None and audit.is_duplicate(command.message_id):
            self._handle_duplicate(dispatch)
            return
        if not self.session.is_started:
            self.session.message_before_start()
        self._enqueue(dispatch)

    def interrupted(self) -> None:
        """Drop what the lost broker has dispatched: the next one dispatches it again."""
        dropped = [*self._buffer, *self._redeliverer.pop_waiting()]
        self._buffer.clear()
        dropped += self.ledger.interrupted()
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

    async def call_listener(self, listener: MessageListener, dispatch: MessageDispatch) -> None:
        """Call `listener` with a message and settle it according to the session's mode."""
        message = self._to_message(dispatch)
        self.ledger.before_delivery(dispatch)
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
        # a container reports its listener's errors itself, and raises nothing
        if self.ledger.redelivers_on_error and is_poison(dispatch.rollback_cause):
            self.roll_back()
            return
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
                self.ledger.acknowledge_expired(dispatch)
            elif dispatch.redelivery_counter and self._redeliverer.is_exceeded(dispatch):
                self._redeliverer.refuse(dispatch)
            else:
                return dispatch
        return None

    def receive_buffered(self) -> Message | None:
        """Deliver the next buffered message to receive(); None if there is none."""
        dispatch = self.next_dispatch()
        if dispatch is None:
            return None
        message = self._to_message(dispatch)
        self.ledger.before_delivery(dispatch)
        self.ledger.after_delivery(dispatch)
        return message

    def roll_back(self) -> None:
        """Redeliver what was delivered and not settled, or refuse it."""
        self._redeliverer.roll_back()

    def requeue(self, dispatches: list[MessageDispatch]) -> None:
        """Put messages back to the front of the buffer."""
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
        """Expect `dispatch` again, at this or another consumer of the connection."""
        audit = self._audit_for(dispatch)
        if audit is not None and dispatch.message is not None:
            audit.forget(dispatch.message.message_id)

    def dispose(self, failure: JMSException | None = None) -> None:
        """Close it without the broker: blocked receives return None, or raise `failure`."""
        self.failure = self.failure or failure
        self.is_closed = True
        self._redeliverer.close()
        self.ledger.close()
        if failure is None:
            self.ledger.flush()
        failed = [*self._redeliverer.waiting, *self.ledger.delivered]
        if failed:  # the broker counts a failed delivery of what it dispatched up to here
            self.last_delivered_sequence_id = max(map(sequence_id, failed))
        for dispatch in [*self._buffer, *failed]:
            self.forget(dispatch)
        self._buffer.clear()
        self.update_flow()
        self.receivers.wake()

    def raise_failure(self) -> None:
        """Raise the connection's failure, if that is why the consumer ended."""
        if self.failure is not None:
            raise self.session.connection.failed_error()

    async def _wait(self, timeout: float | None) -> Message | None:
        deadline = deadline_after(timeout)
        if self.info.prefetch_size == 0 and not self._buffer:
            return await self._wait_for_pull(timeout)
        if timeout is not None and timeout <= 0:
            await checkpoint()
            return self.receive_buffered()
        left = timeout
        while not self.is_closed and (left is None or left > 0):
            await self.receivers.wait(left)
            message = self.receive_buffered()
            if message is not None:
                return message
            left = seconds_left(deadline)
        self.raise_failure()
        return self.receive_buffered()

    async def _wait_for_pull(self, timeout: float | None) -> Message | None:
        """Pull a message; the broker signals the timeout. (activemq-edges N9)"""
        pulls = self.pulls
        deadline = deadline_after(timeout)
        is_stale = pulls.begin(timeout)
        while not (self.is_closed or pulls.timed_out):
            if not pulls.is_pending:  # the message had expired, or was a duplicate
                pulls.request(seconds_left(deadline))
            own_clock = deadline is not None and (is_stale or bool(self._buffer))
            left = seconds_left(deadline) if own_clock else None
            if left is None or left > 0:
                await self.receivers.wait(left)
            message = self.receive_buffered()
            if message is not None or pulls.timed_out or (own_clock and not seconds_left(deadline)):
                return message
        self.raise_failure()
        return None

    # --- internals

    def _handle_duplicate(self, dispatch: MessageDispatch) -> None:
        """Act on a duplicate by the verdict of `pyjms.client.duplicates`."""
        assert dispatch.message is not None
        message_id = dispatch.message.message_id
        holders = self.session.connection.consumers_holding(message_id)
        verdict = judge_duplicate(self.consumer_id, holders)
        if verdict is DuplicateVerdict.ACKNOWLEDGED:
            self.ledger.acknowledge_again(dispatch)
        elif verdict is DuplicateVerdict.DELIVERED:
            logger.warning(
                "%s delivers the duplicate %s: a transaction on %s may still roll back",
                self.consumer_id,
                message_id,
                holders[0],
            )
            self._enqueue(dispatch)
        else:
            logger.warning(
                "%s suppresses a duplicate delivery on its connection, poison acking: %s",
                self.consumer_id,
                message_id,
            )
            reason = f"Suppressing duplicate delivery on connection, consumer {self.consumer_id}"
            self.ledger.acknowledge_poison([dispatch], Throwable("java.lang.Throwable", reason))

    def _enqueue(self, dispatch: MessageDispatch) -> None:
        self._buffer.append(dispatch)
        if self.info.prefetch_size == 0:
            self.pulls.on_message()
        if self._listener is not None:
            self._wake()
        elif self.receivers.waiting:
            self.receivers.wake()

    def _audit_for(self, dispatch: MessageDispatch) -> MessageAudit | None:
        """Return the audit that applies to `dispatch`; None: it is not audited."""
        audits = self.session.connection.audit
        if audits is None or self.info.browser or dispatch.destination is None:
            return None
        return audits.audit_for(dispatch.destination, self.consumer_id)

    def _to_message(self, dispatch: MessageDispatch) -> Message:
        command = dispatch.message
        assert command is not None
        self.last_delivered_sequence_id = sequence_id(dispatch)
        source = CommandSource if command.original_destination is None else ReroutedSource
        return from_command(
            command, dispatch.redelivery_counter, source(command), self._acknowledger, dispatch
        )

    def _wake(self) -> None:
        if self._flowing and self._buffer:
            if self._listener is not None:
                self.session.dispatcher.wake(self)
            self.receivers.wake()

    def _refuse_receive(self) -> None:
        self._check_open()
        raise IllegalStateException(
            "Cannot synchronously receive a message when a MessageListener is set",
            hint="use another session for receive()",
        )

    def _check_open(self) -> None:
        self.raise_failure()
        if self.is_closed:
            raise IllegalStateException("The Consumer is closed")
