"""Execution of a delivery: call the listener, then commit, acknowledge, roll back or recover.

The end of a delivery depends on the session's mode and on the listener (spring-jms 1.7):

    session                      listener returns         listener raises
    ---------------------------  -----------------------  ------------------------------------
    locally transacted           session.commit           session.rollback
    in an external transaction   left to the manager      the transaction is rollback-only
    CLIENT, INDIVIDUAL           message.acknowledge      session.recover: delivered again
    AUTO, DUPS_OK                done on receipt          nothing: the message is consumed

A message that cannot be converted to the arguments, or whose listener raises
PoisonMessageException, is marked before the rollback or recover: the provider then makes it a dead
letter instead of redelivering it. In AUTO and DUPS_OK that works if the provider pushes messages
(SimpleMessageListenerContainer); a message that was polled is acknowledged before its listener is
called, as in Spring.

There are two kinds of errors. An error of the *handler* concerns one message: the message is rolled
back, the error reported (error handler, or one log line), and the consumer continues. A
JMSException of the provider itself may mean that the connection is lost: it is also reported to the
exception listener and raised again, so that the consumer starts recovery.
ListenerExecutionFailedException and similar exceptions are JMSExceptions here, but not in Spring;
they count as errors of the handler.

When a handler is cancelled (by a shutdown whose timeout has passed), its message is rolled back in
a shielded scope, so that the broker delivers it again.

One delivery of a message to the listener, and the report of its failure.

Each failed attempt is one log line, which names the last line of the handler's code. With
`log_tracebacks` the first attempt is logged with a traceback, without the frames of pyjms. The last
attempt is logged by the client, which says that the message becomes a dead letter, and why; this
module logs it at DEBUG. The body is never logged, though an application's exception may quote it. A
dead letter's cause ends with `cause:` and that exception, whereas Spring's containers leave
`cause:null`. (spring-jms 1.7.2, 11.2)

Retries: whether a failed delivery leads to a redelivery, after what delay, or to a dead letter.

Theory of operation
-------------------

Redelivery is the provider's task: a rollback causes it, the redelivery policy of the consumer
counts and delays it. This module sets the reason, `rollback_cause` of the provider's record:

    PoisonMessageException, Reject     no redelivery: the message becomes a dead letter
    Retry(delay)                       a redelivery after `delay` seconds
    anything else                      as the redelivery policy says

The listener's RetryPolicy, if there is one, decides which of these an exception becomes.

*A dead-letter destination per listener.* A policy with a `dead_letter` requires that the message is
sent there in the transaction that consumes it. The transaction that has just failed cannot be used:
what the handler sent in it must be rolled back. So the message is redelivered once more, without
delay, and then sent to the dead-letter destination instead of being passed to the handler. Such
messages are recognised by their ids (`_given_up`, bounded), or by their delivery count: the
consumer's policy allows one more redelivery than the RetryPolicy does. If that send fails as well,
for example because a permission is missing, the provider refuses the message, and the broker makes
it a dead letter.
"""

from __future__ import annotations

import inspect
import logging
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any, ClassVar, Final, Literal, Protocol, cast

import anyio

from pyjms.client.options import RedeliveryPolicy
from pyjms.enums import AcknowledgeMode
from pyjms.errors import (
    IllegalStateException,
    ListenerExecutionFailedException,
    PoisonMessageException,
    Retry,
    Skip,
    TransactionInProgressException,
)
from pyjms.jms.api import Connection, MessageConsumer, Session
from pyjms.jms.destination import parse_destination
from pyjms.jms.message import Message
from pyjms.listener.failures import (
    NoListenerError,
    RejectedWhileStoppingError,
    cause_of,
    is_infrastructure_failure,
    last_frame,
    poison_cause,
    users_traceback,
)
from pyjms.listener.life_cycle import LifeCycle
from pyjms.listener.message_listener import ListenerCall
from pyjms.listener.properties import ContainerProperties
from pyjms.listener.resources import ResourceFactory
from pyjms.runtime import clock as _clock
from pyjms.runtime.logging import error_text, get_logger, one_line, shortened
from pyjms.support.retry import RetryPolicy, delay_before, send_dead_letter
from pyjms.template.closing import close_quietly
from pyjms.template.interceptors import HandlerInvocation, SettlementInvocation
from pyjms.template.resources import BoundResource, bind, bound
from pyjms.template.workers import Worker, current_worker

__all__ = [
    "ACKNOWLEDGED_FOR_THE_LISTENER",
    "Delivery",
    "ListenerExecution",
    "Retries",
    "log_abandoned",
    "marked_as_rollback_only",
]

ACKNOWLEDGED_BY_THE_CLIENT = (AcknowledgeMode.AUTO, AcknowledgeMode.DUPS_OK)
"""Modes in which a message is consumed once the listener has it, even if the listener fails."""

ACKNOWLEDGED_FOR_THE_LISTENER = (*ACKNOWLEDGED_BY_THE_CLIENT, AcknowledgeMode.TRANSACTED)
"""Modes in which a listener need not acknowledge messages itself."""

_LONGEST_TEXT: Final = 500


@dataclass(slots=True, eq=False, repr=False)
class Delivery:
    """A received message with the session and consumer that received it.

    `handled` is true once the listener has returned, `is_poison` if the message must not be
    redelivered, `is_given_up` if it is redelivered once more and then sent to the listener's
    dead-letter destination.
    `received_at` is in seconds of `_clock.now()`.
    """

    is_accepted: ClassVar[bool] = False
    """Whether it is handled even if the container has been stopped in the meantime."""

    message: Message
    session: Session
    connection: Connection
    consumer: MessageConsumer
    worker: Worker
    handled: bool = field(default=False, init=False)
    received_at: float = field(default_factory=_clock.now, init=False)
    is_poison: bool = field(default=False, init=False)
    is_given_up: bool = field(default=False, init=False)

    @property
    def subject(self) -> str:
        """The message, described for a log line."""
        return f"message {self.message.message_id}"

    def let_worker_acknowledge(self, message: Message) -> None:
        """Allow a `def` listener to call `message.acknowledge()` in its thread."""
        acknowledger = message.acknowledger
        if acknowledger is not None:
            message.acknowledger = self.worker.on_loop(acknowledger)


def log_abandoned(
    logger: logging.Logger, properties: ContainerProperties, delivery: Delivery
) -> None:
    """Log that a shutdown no longer waits for the handler of a message."""
    message, session = delivery.message, delivery.session
    is_final = not session.transacted and session.acknowledge_mode in ACKNOWLEDGED_BY_THE_CLIENT
    seconds = _clock.now() - delivery.received_at
    logger.warning(
        "Shutdown does not wait any longer for the handler of listener %s, which has run for "
        "%.1f s: %s on %s %s",
        properties.bean_name or properties.destination_description,
        seconds,
        delivery.subject,
        message.destination or properties.destination_description,
        "counts as acknowledged" if is_final else "will be delivered again",
        extra={
            "listener_id": properties.bean_name,
            "destination": properties.destination_description,
            "message_id": message.message_id,
            "seconds": seconds,
        },
    )


def log_failure(
    logger: logging.Logger,
    properties: ContainerProperties,
    error: Exception,
    delivery: Delivery | None,
) -> None:
    """Log a failed delivery if no error handler is set.

    `delivery` is None at the end of an external transaction.
    """
    reason = cause_of(error)
    message = None if delivery is None else delivery.message
    reported_later = delivery is not None and _becomes_dead_letter(properties, delivery)
    is_first = message is None or message.delivery_count <= 1
    has_traceback = is_first and properties.log_tracebacks and not isinstance(reason, Retry)
    logger.log(
        logging.DEBUG if reported_later else logging.WARNING,
        "Listener %s failed%s: %s%s",
        properties.bean_name or properties.destination_description,
        ", at the end of its transaction" if delivery is None else _where(properties, delivery),
        _one_line(reason),
        "" if isinstance(reason, Retry) else last_frame(reason),
        exc_info=users_traceback(reason) if has_traceback else None,
        extra={
            "listener_id": properties.bean_name,
            "destination": properties.destination_description,
            "message_id": None if message is None else message.message_id,
            "correlation_id": None if message is None else message.correlation_id,
        },
    )


def log_overridden(
    logger: logging.Logger, properties: ContainerProperties, error: BaseException
) -> None:
    """Log a listener's error if the rollback has failed too; that error has its own line."""
    reason = cause_of(error)
    logger.error(
        "Application exception overridden by rollback error: %s%s",
        _one_line(reason),
        last_frame(reason),
        exc_info=users_traceback(reason) if properties.log_tracebacks else None,
        extra={
            "listener_id": properties.bean_name,
            "destination": properties.destination_description,
        },
    )


def _where(properties: ContainerProperties, delivery: Delivery) -> str:
    message = delivery.message
    destination = message.destination or properties.destination_description
    text = f" on {destination}, {delivery.subject}, {_attempt(properties, delivery)}"
    if not delivery.handled:
        return text
    step = "commit" if delivery.session.transacted else "acknowledgement"
    return f"{text}: the handler had returned, its {step} failed"


def _attempt(properties: ContainerProperties, delivery: Delivery) -> str:
    count = delivery.message.delivery_count
    if _is_acknowledged(delivery):
        return f"attempt {count}, which is the last: the message counts as acknowledged"
    most = _attempts(properties, delivery)
    return f"attempt {count}" if most is None else f"attempt {count} of {most}"


def _attempts(properties: ContainerProperties, delivery: Delivery) -> int | None:
    """Return the maximum number of deliveries of a message; None: it is not known."""
    policy = getattr(delivery.consumer, "redelivery_policy", None)
    redeliveries = getattr(policy, "maximum_redeliveries", -1)
    if redeliveries < 0:
        return None
    return redeliveries + 1 if properties.dead_letter is None else redeliveries


def _is_acknowledged(delivery: Delivery) -> bool:
    session = delivery.session
    return not session.transacted and session.acknowledge_mode in ACKNOWLEDGED_BY_THE_CLIENT


def _becomes_dead_letter(properties: ContainerProperties, delivery: Delivery) -> bool:
    """Return whether the message becomes a dead letter now, which is logged separately."""
    if _is_acknowledged(delivery) or delivery.handled:
        return False
    if delivery.is_given_up:
        return True
    most = _attempts(properties, delivery)
    if delivery.is_poison:
        return hasattr(delivery.consumer, "redelivery_policy")
    return most is not None and delivery.message.delivery_count >= most


def _one_line(error: BaseException) -> str:
    text = shortened(one_line(error_text(error)), _LONGEST_TEXT)
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


logger: Final = get_logger(__name__)

_MOST_GIVEN_UP: Final = 1000
"""The number of messages that are remembered until their last redelivery. A message that has been
forgotten is passed to the handler again."""


class _RecordsCause(Protocol):
    """A provider's record of a delivery, with the reason for a dead letter."""

    rollback_cause: BaseException | None


class Retries:
    """Decides how the failed deliveries of one container continue."""

    def __init__(self, properties: ContainerProperties) -> None:
        self._properties = properties
        self._given_up: OrderedDict[str, BaseException] = OrderedDict()

    def record(self, delivery: Delivery, error: Exception, message: Message) -> None:
        """Set why `message` of `delivery` failed and how it continues in the provider's record."""
        record = message.provider_delivery
        policy = self._properties.retry
        refuses = self._properties.unreadable_messages == "dead_letter"
        poison = poison_cause(error, refuses_unreadable=refuses)
        cause: BaseException = poison or cause_of(error)
        if policy is not None:
            cause = self._by_policy(policy, delivery, message, cause)
        if hasattr(record, "rollback_cause"):
            delivery.is_poison = isinstance(cause, PoisonMessageException)
            cast(_RecordsCause, record).rollback_cause = cause

    def reason_to_give_up(self, message: Message, consumer: object) -> BaseException | None:
        """Return why a message is sent to the dead-letter destination; None: it is handled."""
        policy = self._properties.retry
        if policy is None or policy.dead_letter is None:
            return None
        reason = self._given_up.get(message.message_id or "")
        most = _maximum(policy, consumer)
        if reason is None and most >= 0 and message.delivery_count > most + 1:
            deliveries = message.delivery_count - 1
            reason = PoisonMessageException(f"was delivered {deliveries} times before")
        return reason

    async def give_up(self, delivery: Delivery, reason: BaseException) -> None:
        """Send the message to the dead-letter destination, in its session's transaction.

        Raises:
            JMSException: the broker does not accept it.
        """
        message, name = delivery.message, self._properties.dead_letter
        assert name is not None
        await send_dead_letter(delivery.session, parse_destination(name), message, reason)
        self._given_up.pop(message.message_id or "", None)
        logger.warning(
            "Listener %s sends message %s of %s to %s after attempt %d: %s: %s",
            self._properties.bean_name or self._properties.destination_description,
            message.message_id,
            message.destination or self._properties.destination_description,
            name,
            message.delivery_count - 1,
            type(reason).__name__,
            one_line(str(reason)),
            extra={
                "listener_id": self._properties.bean_name,
                "destination": self._properties.destination_description,
                "message_id": message.message_id,
            },
        )

    def _by_policy(
        self, policy: RetryPolicy, delivery: Delivery, message: Message, cause: BaseException
    ) -> BaseException:
        is_poison = isinstance(cause, PoisonMessageException)
        if not is_poison and not isinstance(cause, Retry) and not policy.retries(cause):
            is_poison = True
            cause = _caused(PoisonMessageException(str(cause)), cause)
        most = _maximum(policy, delivery.consumer)
        is_last = most >= 0 and message.delivery_count > most
        if policy.dead_letter is not None and (is_poison or is_last):
            self._remember(message, cause.__cause__ or cause if is_poison else cause)
            delivery.is_given_up = True
            return _caused(Retry(delay=0.0), cause)
        if is_poison or (isinstance(cause, Retry) and cause.delay is not None):
            return cause
        own = getattr(delivery.consumer, "redelivery_policy", None)
        if not isinstance(own, RedeliveryPolicy):
            return cause
        return _caused(Retry(delay=delay_before(own, message.delivery_count)), cause)

    def _remember(self, message: Message, reason: BaseException) -> None:
        self._given_up[message.message_id or ""] = reason
        if len(self._given_up) > _MOST_GIVEN_UP:
            self._given_up.popitem(last=False)


def _maximum(policy: RetryPolicy, consumer: object) -> int:
    """Return the maximum number of redeliveries to the handler; -1: no limit."""
    own = getattr(consumer, "redelivery_policy", None)
    if not isinstance(own, RedeliveryPolicy):
        return -1 if policy.maximum is None else policy.maximum
    most = own.maximum_redeliveries
    return most if most < 0 or policy.dead_letter is None else most - 1


def _caused(error: Exception, cause: BaseException) -> Exception:
    error.__cause__ = cause
    return error


@dataclass(eq=False, repr=False)
class ListenerExecution:
    """Executes deliveries for one container."""

    _properties: ContainerProperties
    _life_cycle: LifeCycle
    _resources: ResourceFactory
    _retries: Retries

    @property
    def is_accepting(self) -> bool:
        """Whether a message that arrives now is handled."""
        return self._life_cycle.running or self._properties.accept_messages_while_stopping

    async def execute(self, delivery: Delivery, *, expose: bool) -> None:
        """Call the listener and finish the delivery; `expose` binds the session during the call.

        Raises:
            Exception: what the listener, the commit or the acknowledgement raised.
        """
        resource = None
        factory = self._properties.require_connection_factory()
        if expose and self._properties.expose_listener_session and bound(factory) is None:
            resource = BoundResource(delivery.connection, delivery.session, transactional=False)
        if resource is None:
            await self._execute(delivery, None)
        else:
            with bind(factory, resource):
                await self._execute(delivery, resource)

    async def _execute(self, delivery: Delivery, resource: BoundResource | None) -> None:
        if not self._life_cycle.running and not (self.is_accepting or delivery.is_accepted):
            logger.warning(
                "Rejecting received message because of the listener container "
                "having been stopped in the meantime: %s",
                delivery.message.message_id,
            )
            await self.roll_back(delivery.session)
            raise RejectedWhileStoppingError
        try:
            await self._handle(delivery)
            if resource is not None and resource.rollback_only:
                raise marked_as_rollback_only(delivery)
        except Exception as error:
            self._record(delivery, error)
            await self._roll_back_on_exception(delivery.session, error)
            raise
        except BaseException as error:  # cancelled: the broker must deliver the message again
            with anyio.CancelScope(shield=True):
                await self._roll_back_on_exception(delivery.session, error)
            raise
        delivery.handled = True
        await self.commit(delivery.session, delivery.message)

    async def _handle(self, delivery: Delivery) -> None:
        """Call the listener, or send the message to the dead-letter destination."""
        if self._properties.dead_letter is not None:
            reason = self.reason_to_give_up(delivery.message, delivery.consumer)
            if reason is not None:
                await self._retries.give_up(delivery, reason)
                return
        try:
            await self._call_listener(delivery)
        except Skip as skipped:
            logger.debug(
                "Listener %s skips %s: %s",
                self._properties.bean_name,
                delivery.subject,
                skipped,
            )

    def reason_to_give_up(
        self, message: Message, consumer: MessageConsumer
    ) -> BaseException | None:
        """Return why a message is sent to the dead-letter destination; None: it is handled."""
        return self._retries.reason_to_give_up(message, consumer)

    async def _call_listener(self, delivery: Delivery) -> None:
        call = self._properties.listener_call
        if call is None:
            raise NoListenerError(
                "No message listener specified", hint="set the property 'message_listener'"
            )
        if delivery.session.acknowledge_mode not in ACKNOWLEDGED_FOR_THE_LISTENER:
            delivery.let_worker_acknowledge(delivery.message)
        chain = self._properties.interceptor_chain
        token = current_worker.set(delivery.worker)
        try:
            if chain is not None:
                await chain.around_handler(
                    self._invocation(call, delivery),
                    lambda: self._call(call, delivery),
                )
            else:
                await self._call(call, delivery)
        finally:
            current_worker.reset(token)

    def _invocation(self, call: ListenerCall, delivery: Delivery) -> HandlerInvocation:
        name = self._properties.bean_name
        return HandlerInvocation(call.listener, name, delivery.message, delivery.session)

    def _argument(self, delivery: Delivery) -> Any:
        """Return the argument of the listener."""
        return delivery.message

    async def _call(self, call: ListenerCall, delivery: Delivery) -> None:
        argument = self._argument(delivery)
        session, worker = delivery.session, delivery.worker
        if call.wants_session and not self._properties.expose_listener_session:
            await self._with_own_session(lambda own_session: call(argument, own_session, worker))
        else:
            await call(argument, session, worker)

    def _record(self, delivery: Delivery, error: Exception) -> None:
        """Store the reason of a failure in the provider's record of the delivery."""
        self._retries.record(delivery, error, delivery.message)

    async def _with_own_session(self, call: Callable[[Session], Awaitable[None]]) -> None:
        """Call a listener with a separate session, as it must not see the receiving session."""
        connection = session = None
        try:
            factory = self._properties.require_connection_factory()
            connection = await factory.create_connection()
            session = await self._resources.create_session(connection)
            await call(session)
            if session.transacted and self.locally_transacted(session):
                await _unless_in_progress(session.commit)
        finally:
            await close_quietly(session, connection)

    def locally_transacted(self, session: Session) -> bool:
        """Return whether this container ends the session's transactions, not an external one."""
        if not self._properties.session_transacted:
            return False
        resource = bound(self._properties.require_connection_factory())
        return resource is None or not resource.transactional or resource.session is not session

    async def commit(self, session: Session, message: Message | None) -> None:
        """Settle the delivery of `message`, as the session's mode requires.

        None: no message was received; a transacted session is committed nevertheless.
        """
        chain = self._properties.settlement_chain
        if session.transacted:
            if not self.locally_transacted(session):
                return
            if chain is None or message is None:
                await _unless_in_progress(session.commit)
            else:
                finish = partial(_unless_in_progress, session.commit)
                await chain.around_operation(self._settlement("commit", message), finish)
        elif (
            message is not None
            and session.acknowledge_mode not in ACKNOWLEDGED_BY_THE_CLIENT
            and self._properties.acknowledge_after_listener
        ):
            if chain is None:
                await message.acknowledge()
            else:
                await chain.around_operation(self._settlement("ack", message), message.acknowledge)

    def _settlement(
        self, operation: Literal["commit", "ack"], message: Message
    ) -> SettlementInvocation:
        return SettlementInvocation(operation, self._properties.bean_name, message)

    async def roll_back(self, session: Session) -> None:
        """Roll back or recover the received messages, as the session's mode requires."""
        if session.transacted:
            if self.locally_transacted(session):
                await _unless_in_progress(session.rollback)
        elif session.acknowledge_mode not in ACKNOWLEDGED_BY_THE_CLIENT:
            await session.recover()

    async def _roll_back_on_exception(self, session: Session, error: BaseException) -> None:
        try:
            await self.roll_back(session)
        except IllegalStateException as second:
            logger.debug("Could not roll back because the session is already closed: %s", second)
        except Exception:
            log_overridden(logger, self._properties, error)
            raise

    async def handle_exception(self, error: Exception, delivery: Delivery | None = None) -> None:
        """Report a failed delivery; None: the end of a transaction failed.

        Raises:
            Exception: the error handler's own.
        """
        properties = self._properties
        if isinstance(error, RejectedWhileStoppingError):
            return
        if is_infrastructure_failure(error):
            properties.invoke_exception_listener(error)
        if not self._life_cycle.active:
            logger.debug("Listener exception after container shutdown", exc_info=error)
        elif properties.error_handler is None:
            log_failure(logger, properties, error, delivery)
        else:
            result = properties.error_handler(error)
            if inspect.isawaitable(result):
                await result


def marked_as_rollback_only(delivery: Delivery) -> ListenerExecutionFailedException:
    """Return the exception of a delivery that is rolled back although its listener returned."""
    return ListenerExecutionFailedException(
        "Transaction rolled back because it has been marked as rollback-only",
        message=delivery.message,
        hint="a transaction block inside the listener failed",
    )


async def _unless_in_progress(finish: Callable[[], Awaitable[None]]) -> None:
    try:
        await finish()
    except TransactionInProgressException as error:
        logger.debug("Left to the external transaction in progress: %s", error)
