"""One delivery: call the listener, then commit, acknowledge, roll back or recover.

The end of a delivery depends on the session's mode and on the listener (spring-jms 1.7):

    session                      listener returns         listener raises
    ---------------------------  -----------------------  ------------------------------------
    locally transacted           session.commit           session.rollback
    in an external transaction   left to the manager      the transaction is rollback-only
    CLIENT, INDIVIDUAL           message.acknowledge      session.recover: delivered again
    AUTO, DUPS_OK                done on receipt          nothing: the message is consumed

In AUTO and DUPS_OK a dead letter needs a provider that pushes messages
(SimpleMessageListenerContainer); a message that was polled is acknowledged before its listener is
called, as in Spring.

There are two kinds of errors. An error of the *handler* concerns one message: the message is rolled
back, the error reported (error handler, or one log line), and the consumer continues. A
JMSException of the provider itself may mean that the connection is lost: it is also reported to the
exception listener and raised again, so that the consumer starts recovery.
ListenerExecutionFailedException and similar exceptions are JMSExceptions here, but not in Spring;
they count as errors of the handler.

When a handler is cancelled (by a shutdown whose timeout has passed), its message is rolled back in
a shielded scope, so that the broker delivers it again. That is no failed attempt: `Interrupted`.

*Retries.* Redelivery is the provider's task: a rollback causes it, the redelivery policy of the
consumer counts and delays it. `Retries` sets the reason, `rollback_cause` of the provider's record,
before the rollback:

    PoisonMessageException, Reject     no redelivery: the message becomes a dead letter
    Retry(delay)                       a redelivery after `delay` seconds
    anything else                      as the redelivery policy says

A message that cannot be converted to the arguments counts as poison. The listener's RetryPolicy, if
there is one, decides which of these an exception becomes.

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

import logging
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Literal, NoReturn, TypeVar

import anyio

from pyjms.client.policies import RedeliveryPolicy
from pyjms.client.rollback import Interrupted
from pyjms.enums import AcknowledgeMode
from pyjms.errors import (
    DestinationDoesNotExistException,
    IllegalStateException,
    InvalidDestinationException,
    JMSSecurityException,
    ListenerExecutionFailedException,
    PoisonMessageException,
    Retry,
    Skip,
    TransactionInProgressException,
)
from pyjms.jms.api import Closeable, Connection, MessageConsumer, Session
from pyjms.jms.destination import DEFAULT_DEAD_LETTER_QUEUE, parse_destination
from pyjms.jms.message import Message
from pyjms.listener.error_handling import (
    NoListenerError,
    RejectedWhileStoppingError,
    becomes_dead_letter,
    cause_of,
    log_overridden,
    poison_cause,
)
from pyjms.listener.message_listener import ListenerCall
from pyjms.listener.properties import ContainerProperties
from pyjms.listener.resources import ContainerResources
from pyjms.runtime import clock as _clock
from pyjms.runtime.event_loop import with_cleanup
from pyjms.runtime.logging import (
    error_text,
    get_logger,
    last_frame,
    log_fields,
    one_line,
    span_fields,
)
from pyjms.support.retry import RetryPolicy, send_dead_letter
from pyjms.template.interceptors import (
    HandlerInvocation,
    InterceptorChain,
    SettlementInterceptor,
    SettlementInvocation,
)
from pyjms.template.resources import BoundResource, bind, bound_resource, close_all_quietly
from pyjms.template.workers import Worker, current_worker

if TYPE_CHECKING:
    from pyjms.listener.batches import Batch
    from pyjms.listener.container import LifeCycle

logger: Final = get_logger(__name__)

V = TypeVar("V")

_ACKNOWLEDGED_BY_THE_CLIENT = (AcknowledgeMode.AUTO, AcknowledgeMode.DUPS_OK)
"""Modes in which a message is consumed once the listener has it, even if the listener fails."""

_ACKNOWLEDGED_FOR_THE_LISTENER = (*_ACKNOWLEDGED_BY_THE_CLIENT, AcknowledgeMode.TRANSACTED)
"""Modes in which a listener need not acknowledge messages itself."""

_NO_REQUESTER: Final = (
    DestinationDoesNotExistException,
    InvalidDestinationException,
    JMSSecurityException,
)
"""Errors of a send that show that no error can be sent to the requester, now or later."""

_LOG_LEVEL_PERIOD: Final = 1.0
"""Seconds after which a changed log level is noticed: asking for each message costs a call."""

_MOST_GIVEN_UP: Final = 1000
"""The number of messages that are remembered until their last redelivery. A message that has been
forgotten is passed to the handler again."""


class Delivery:
    """A received message with the session and consumer that received it.

    Of a batch, `message` is the last one, which decides about the redelivery of all. `handled` is
    true once the listener has returned, `is_poison` if the message must not be redelivered,
    `is_given_up` if it is redelivered once more and then sent to the listener's dead-letter
    destination. `is_local` is true if the container itself ends the session's transaction, not an
    external manager. `received_at` is in seconds of the clock. `dead_letters` counts its messages
    that become dead letters.
    """

    __slots__ = (
        "batch", "connection", "consumer", "dead_letters", "handled", "is_given_up", "is_local",
        "is_poison", "message", "received_at", "session", "worker",
    )  # fmt: skip

    def __init__(
        self,
        message: Message,
        session: Session,
        connection: Connection,
        consumer: MessageConsumer,
        worker: Worker,
        batch: Batch[Message] | None = None,
    ) -> None:
        self.message: Message = message
        self.session: Session = session
        self.connection: Connection = connection
        self.consumer: MessageConsumer = consumer
        self.worker: Worker = worker
        self.batch: Batch[Message] | None = batch
        self.handled: bool = False
        self.received_at: float = _clock.now()
        self.is_poison: bool = False
        self.is_given_up: bool = False
        self.is_local: bool = False
        self.dead_letters: int = 0

    @property
    def messages(self) -> Sequence[Message]:
        """The message, or all messages of the batch."""
        return (self.message,) if self.batch is None else self.batch.received

    @property
    def subject(self) -> str:
        """The message or the batch, described for a log line."""
        if self.batch is None:
            return f"message {self.message.message_id}"
        received = self.batch.received
        first, last = received[0].message_id, received[-1].message_id
        return f"batch of {len(received)} messages from {first} to {last}"

    @property
    def is_acknowledged(self) -> bool:
        """Whether it is consumed even if the listener fails."""
        session = self.session
        return not session.transacted and session.acknowledge_mode in _ACKNOWLEDGED_BY_THE_CLIENT

    def log_fields(self, properties: ContainerProperties) -> dict[str, object]:
        """Return the attributes of log records about this delivery."""
        context = self.worker.call_context
        ids = {} if context is None else context.run(span_fields)
        return {
            **properties.log_extra,
            "message_id": self.message.message_id,
            "correlation_id": self.message.correlation_id,
            **ids,
        }

    def let_worker_acknowledge(self) -> None:
        """Allow a `def` listener to call `message.acknowledge()` in its thread."""
        for message in self.messages:
            acknowledger = message.acknowledger
            if acknowledger is not None:
                message.acknowledger = self.worker.on_loop(acknowledger)


class ListenerExecution:
    """Executes the deliveries of one container."""

    def __init__(
        self, properties: ContainerProperties, life_cycle: LifeCycle, resources: ContainerResources
    ) -> None:
        self._properties = properties
        self._life_cycle = life_cycle
        self._resources = resources
        self._timeout = properties.call_timeout
        self.retries: Retries = Retries(properties)
        self._logs_each = False
        self._looked_at = float("-inf")

    @property
    def is_accepting(self) -> bool:
        """Whether a message that arrives now is handled."""
        return self._life_cycle.running or self._properties.accept_messages_while_stopping

    async def execute(self, delivery: Delivery, *, expose: bool) -> None:
        """Call the listener and finish the delivery; `expose` binds the session during the call."""
        properties = self._properties
        factory = properties.connection_factory
        assert factory is not None
        bound = bound_resource(factory)
        delivery.is_local = properties.session_transacted and (
            bound is None or _is_free(delivery.session, bound)
        )
        if bound is None and expose and properties.expose_listener_session:
            resource = BoundResource(delivery.connection, delivery.session)
            with bind(factory, resource):
                await self._execute(delivery, resource)
        else:
            await self._execute(delivery, None)

    async def _execute(self, delivery: Delivery, resource: BoundResource | None) -> None:
        delivery.worker.call_context = None
        # a batch that a stop has completed is handled; a single message is returned
        if delivery.batch is None and not self.is_accepting:
            logger.warning(
                "Rejecting received message because of the listener container "
                "having been stopped in the meantime: %s",
                delivery.message.message_id,
            )
            note_interruption(delivery)
            await self._roll_back(delivery)
            raise RejectedWhileStoppingError
        failure: BaseException | None = None  # handled after `except`: see with_cleanup
        try:
            reason = None
            if delivery.batch is None:  # the messages of a batch were asked about one by one
                reason = self.retries.reason_to_give_up(delivery.message, delivery.consumer)
            if reason is None:
                await self._call_listener(delivery)
            else:
                await self.retries.give_up(delivery, reason)
            if resource is not None and resource.rollback_only:
                raise marked_as_rollback_only(delivery)
        except BaseException as error:
            failure = error
        if failure is not None:  # without a rollback the next commit would consume the messages
            await with_cleanup(
                partial(self._fail, delivery, failure),
                partial(self._roll_back_on_exception, delivery, failure),
            )
        delivery.handled = True
        await self._settle(delivery)
        if not self._looked_at <= delivery.received_at < self._looked_at + _LOG_LEVEL_PERIOD:
            self._looked_at = delivery.received_at
            self._logs_each = logger.isEnabledFor(logging.DEBUG)
        if self._logs_each:
            self._log_handled(delivery)

    async def _fail(self, delivery: Delivery, error: BaseException) -> NoReturn:
        """Say in the provider's records why the listener failed, and raise its error."""
        try:
            raise error
        except Exception as failure:
            for message in delivery.messages:
                self.retries.record(delivery, failure, message)
            refused = becomes_dead_letter(self._properties, delivery)
            delivery.dead_letters = len(delivery.messages) if refused else 0
            if refused or delivery.is_given_up:
                self.retries.warn_of_requester(delivery)
            raise
        except anyio.get_cancelled_exc_class():  # the broker must deliver the message again
            note_interruption(delivery)
            raise

    def _log_handled(self, delivery: Delivery) -> None:
        seconds = _clock.now() - delivery.received_at
        logger.debug(
            "Listener %s handled %s in %.1f ms",
            self._properties.log_name,
            delivery.subject,
            seconds * 1000,
            extra={**delivery.log_fields(self._properties), "seconds": seconds},
        )

    async def _call_listener(self, delivery: Delivery) -> None:
        properties = self._properties
        listener, batch = properties.listener_call, delivery.batch
        if listener is None:
            raise NoListenerError(
                "No message listener specified", hint="set the property 'message_listener'"
            )
        if delivery.session.acknowledge_mode not in _ACKNOWLEDGED_FOR_THE_LISTENER:
            delivery.let_worker_acknowledge()
        chain = properties.interceptor_chain
        token = current_worker.set(delivery.worker)
        try:
            if chain is None:
                await self._call(listener, delivery)
            else:
                invocation = HandlerInvocation(
                    listener.listener,
                    properties.bean_name,
                    delivery.message,
                    delivery.session,
                    () if batch is None else batch.received,
                )
                await chain.around_handler(invocation, partial(self._call, listener, delivery))
        except Skip as skipped:
            logger.debug(
                "Listener %s skips %s: %s", properties.bean_name, delivery.subject, skipped
            )
            return
        finally:
            current_worker.reset(token)
        if batch is not None and batch.rejections:
            from pyjms.listener.batches import send_rejected  # noqa: PLC0415 - few have batches

            await send_rejected(delivery, batch, properties)
            delivery.dead_letters = len(batch.rejections)

    async def _call(self, listener: ListenerCall, delivery: Delivery) -> None:
        argument = delivery.message if delivery.batch is None else delivery.batch
        if not listener.wants_session or self._properties.expose_listener_session:
            if self._timeout.seconds is None:
                await listener(argument, delivery.session, delivery.worker)
            else:
                await listener.within(self._timeout, argument, delivery.session)
            return
        # the listener must not see the receiving session
        opened: list[Closeable] = []
        await with_cleanup(
            partial(self._call_with_own_session, listener, delivery, argument, opened),
            partial(close_all_quietly, opened),
        )

    async def _call_with_own_session(
        self,
        listener: ListenerCall,
        delivery: Delivery,
        argument: Message | Batch[Message],
        opened: list[Closeable],
    ) -> None:
        connection = await self._properties.require_connection_factory().create_connection()
        opened.append(connection)
        session = await self._resources.create_session(connection)
        opened.append(session)
        if self._timeout.seconds is None:
            await listener(argument, session, delivery.worker)
        else:
            await listener.within(self._timeout, argument, session)
        if session.transacted and self.locally_transacted(session):
            await _unless_in_progress(session.commit)

    def locally_transacted(self, session: Session) -> bool:
        """Return whether this container ends the session's transactions, not an external one."""
        factory = self._properties.require_connection_factory()
        bound = bound_resource(factory)
        return self._properties.session_transacted and (bound is None or _is_free(session, bound))

    async def end_empty_receive(self, session: Session) -> None:
        """Commit a transacted session that has received nothing."""
        if session.transacted and self.locally_transacted(session):
            await _unless_in_progress(session.commit)

    async def _settle(self, delivery: Delivery) -> None:
        """Commit or acknowledge, as the session's mode requires."""
        properties, session = self._properties, delivery.session
        kind: Literal["commit", "ack"]
        finish: Callable[[], Awaitable[None]]
        if session.transacted:
            if not delivery.is_local:
                return
            if properties.settlement_chain is None:
                try:
                    await session.commit()
                except TransactionInProgressException as error:
                    _log_in_progress(error)
                return
            kind, finish = "commit", partial(_unless_in_progress, session.commit)
        elif (
            properties.acknowledge_after_listener
            and session.acknowledge_mode not in _ACKNOWLEDGED_BY_THE_CLIENT
        ):
            kind, finish = "ack", delivery.message.acknowledge
        else:
            return
        if properties.settlement_chain is None:
            await finish()
        else:
            await self._finish_observed(properties.settlement_chain, kind, delivery, finish)

    async def _finish_observed(
        self,
        chain: InterceptorChain[SettlementInterceptor],
        kind: Literal["commit", "ack", "rollback"],
        delivery: Delivery,
        finish: Callable[[], Awaitable[None]],
    ) -> None:
        invocation = SettlementInvocation(
            kind,
            self._properties.bean_name,
            delivery.message,
            delivery.dead_letters,
            delivery.worker.call_context,
        )
        await chain.around_operation(invocation, finish)

    async def _roll_back(self, delivery: Delivery) -> None:
        """Roll back or recover the received messages, as the session's mode requires."""
        session, properties = delivery.session, self._properties
        finish: Callable[[], Awaitable[None]]
        if session.transacted:
            if not delivery.is_local:
                return
            finish = partial(_unless_in_progress, session.rollback)
        elif session.acknowledge_mode not in _ACKNOWLEDGED_BY_THE_CLIENT:
            finish = session.recover
        else:
            return
        token = log_fields.set(delivery.log_fields(properties))
        try:
            if properties.settlement_chain is None:
                await finish()
            else:
                chain = properties.settlement_chain
                await self._finish_observed(chain, "rollback", delivery, finish)
        finally:
            log_fields.reset(token)

    async def _roll_back_on_exception(self, delivery: Delivery, error: BaseException) -> None:
        is_cancelled = not isinstance(error, Exception)
        try:
            with anyio.CancelScope(shield=is_cancelled):
                await self._roll_back(delivery)
        except IllegalStateException as second:
            logger.debug("Could not roll back because the session is already closed: %s", second)
        except Exception:
            log_overridden(self._properties, error)
            raise


def _is_free(session: Session, bound: BoundResource) -> bool:
    """Return whether a session is not that of the external transaction that is bound."""
    return not bound.transactional or bound.session is not session


def marked_as_rollback_only(delivery: Delivery) -> ListenerExecutionFailedException:
    """Return the exception of a delivery that is rolled back although its listener returned."""
    return ListenerExecutionFailedException(
        "Transaction rolled back because it has been marked as rollback-only",
        message=delivery.message,
        hint="a transaction block inside the listener failed",
    )


def note_interruption(delivery: Delivery) -> None:
    """Say in the provider's record of a message that its listener did not fail."""
    for message in delivery.messages:
        record: Any = message.provider_delivery
        if hasattr(record, "rollback_cause"):
            record.rollback_cause = Interrupted()


async def _unless_in_progress(finish: Callable[[], Awaitable[None]]) -> None:
    try:
        await finish()
    except TransactionInProgressException as error:
        _log_in_progress(error)


def _log_in_progress(error: TransactionInProgressException) -> None:
    logger.debug("Left to the external transaction in progress: %s", error)


class Retries:
    """Decides how the failed deliveries of one container continue."""

    def __init__(self, properties: ContainerProperties) -> None:
        self._properties = properties
        self._given_up: OrderedDict[str, BaseException] = OrderedDict()
        self._alone: OrderedDict[str, None] = OrderedDict()
        """Ids of messages of failed batches whose next delivery is a batch of their own."""
        self._has_warned = False

    def record(self, delivery: Delivery, error: Exception, message: Message) -> None:
        """Set why `message` of `delivery` failed and how it continues in the provider's record."""
        record: Any = message.provider_delivery
        policy = self._properties.retry
        refuses = self._properties.unreadable_messages == "dead_letter"
        poison = poison_cause(error, refuses_unreadable=refuses)
        cause: BaseException = poison or cause_of(error)
        if self._is_split(delivery, cause):
            _remember(self._alone, message, None)
            cause = _with_cause(Retry(delay=0.0), cause)
        elif self._properties.errors == "reply":
            cause = self._by_reply(delivery, message, cause)
        elif policy is not None:
            cause = self._by_policy(policy, delivery, message, cause)
        if hasattr(record, "rollback_cause"):
            delivery.is_poison = isinstance(cause, PoisonMessageException)
            record.rollback_cause = cause

    def warn_of_requester(self, delivery: Delivery) -> None:
        """Say, once, that the requester of a message that is given up waits in vain."""
        properties = self._properties
        if delivery.message.reply_to is None or properties.errors == "reply" or self._has_warned:
            return
        self._has_warned = True
        logger.warning(
            "Listener %s gives up a request whose requester waits for a reply, until its timeout. "
            'With errors="reply" on the listener it is told the error',
            properties.log_name,
            extra=delivery.log_fields(properties),
        )

    def _by_reply(
        self, delivery: Delivery, message: Message, cause: BaseException
    ) -> BaseException:
        """Return how a failed request continues: by its last delivery, which sends the error.

        A message without a requester, and one whose handler asks for another attempt, have no more
        attempts than the policy allows.
        """
        most = self._maximum(delivery.consumer)
        is_last = most >= 0 and message.delivery_count > most
        is_final = is_last or not isinstance(cause, Retry)
        if is_final and message.reply_to is not None:
            is_poison = isinstance(cause, PoisonMessageException)
            _remember(self._given_up, message, cause.__cause__ or cause if is_poison else cause)
            delivery.is_given_up = True
            return _with_cause(Retry(delay=0.0), cause)
        policy = self._properties.retry
        if is_last and self._properties.dead_letter is None:
            return _with_cause(PoisonMessageException(error_text(cause)), cause)
        return cause if policy is None else self._by_policy(policy, delivery, message, cause)

    def _is_split(self, delivery: Delivery, cause: BaseException) -> bool:
        """Return whether a batch that may not be tried again is, message by message."""
        batch, policy = delivery.batch, self._properties.retry
        if batch is None or len(batch.received) < 2 or self._properties.batch_fallback == "none":
            return False
        is_final = isinstance(cause, PoisonMessageException) or (
            policy is not None and not isinstance(cause, Retry) and not policy.retries(cause)
        )
        return is_final and self._maximum(delivery.consumer) != 0

    def is_alone(self, message: Message, consumer: MessageConsumer) -> bool:
        """Return whether a message is a batch of its own, because a batch with it has failed.

        So is each message before its last redelivery. Without redeliveries there is no such one.
        """
        if self._properties.batch_fallback == "none":
            return False
        if message.message_id in self._alone:
            return True
        most = self._maximum(consumer)
        return most > 0 and message.delivery_count > most

    def reason_to_give_up(
        self, message: Message, consumer: MessageConsumer
    ) -> BaseException | None:
        """Return why a message is sent to the dead-letter destination; None: it is handled."""
        policy = self._properties.retry
        if not self._given_up and policy is None:
            return None
        reason = self._given_up.get(message.message_id or "")
        if reason is not None or policy is None or policy.dead_letter is None:
            return reason
        most = self._maximum(consumer)
        if most >= 0 and message.delivery_count > most + 1:
            deliveries = message.delivery_count - 1
            reason = PoisonMessageException(f"was delivered {deliveries} times before")
        return reason

    async def give_up(self, delivery: Delivery, reason: BaseException) -> None:
        """Send the message to the dead-letter destination, or its error to the requester.

        Both in its session's transaction. A message whose requester can never be told, because the
        destination is gone or not allowed, becomes a dead letter.
        """
        properties, message = self._properties, delivery.message
        name = properties.dead_letter or DEFAULT_DEAD_LETTER_QUEUE
        if message.reply_to is not None and properties.errors == "reply":
            try:
                await properties.reply_sender.send_error(reason, message, delivery.session)
            except _NO_REQUESTER as error:
                logger.debug("The error cannot be sent to %s: %s", message.reply_to, error)
            else:
                self._given_up.pop(message.message_id or "", None)
                return
        await send_dead_letter(delivery.session, parse_destination(name), message, reason)
        delivery.dead_letters = 1
        self._given_up.pop(message.message_id or "", None)
        logger.warning(
            "Listener %s sends message %s of %s to %s after attempt %d: %s: %s%s",
            properties.log_name,
            message.message_id,
            message.destination or properties.destination_description,
            name,
            message.delivery_count - 1,
            type(reason).__name__,
            one_line(error_text(reason)),
            last_frame(reason),
            extra=delivery.log_fields(properties),
        )

    def _maximum(self, consumer: MessageConsumer) -> int:
        """Return the maximum number of redeliveries to the handler; -1: no limit."""
        own = getattr(consumer, "redelivery_policy", None)
        if not isinstance(own, RedeliveryPolicy):
            policy = self._properties.retry
            return -1 if policy is None or policy.maximum is None else policy.maximum
        most = own.maximum_redeliveries
        return most if most < 0 or not self._properties.has_last_delivery else most - 1

    def _by_policy(
        self, policy: RetryPolicy, delivery: Delivery, message: Message, cause: BaseException
    ) -> BaseException:
        is_poison = isinstance(cause, PoisonMessageException)
        if not is_poison and not isinstance(cause, Retry) and not policy.retries(cause):
            is_poison = True
            cause = _with_cause(PoisonMessageException(error_text(cause)), cause)
        most = self._maximum(delivery.consumer)
        is_last = most >= 0 and message.delivery_count > most
        if policy.dead_letter is not None and (is_poison or is_last):
            reason = cause.__cause__ or cause if is_poison else cause
            _remember(self._given_up, message, reason)
            delivery.is_given_up = True
            return _with_cause(Retry(delay=0.0), cause)
        if is_poison or (isinstance(cause, Retry) and cause.delay is not None):
            return cause
        own = getattr(delivery.consumer, "redelivery_policy", None)
        if not isinstance(own, RedeliveryPolicy):
            return cause
        return _with_cause(Retry(delay=own.delay_before(message.delivery_count)), cause)


def _remember(known: OrderedDict[str, V], message: Message, value: V) -> None:
    known[message.message_id or ""] = value
    if len(known) > _MOST_GIVEN_UP:
        known.popitem(last=False)


def _with_cause(error: Exception, cause: BaseException) -> Exception:
    error.__cause__ = cause
    return error


def log_abandoned(properties: ContainerProperties, delivery: Delivery) -> None:
    """Log that a shutdown no longer waits for the handler of a message."""
    message = delivery.message
    seconds = _clock.now() - delivery.received_at
    logger.warning(
        "Shutdown does not wait any longer for the handler of listener %s, which has run for "
        "%.1f s: %s on %s %s",
        properties.log_name,
        seconds,
        delivery.subject,
        message.destination or properties.destination_description,
        "counts as acknowledged" if delivery.is_acknowledged else "will be delivered again",
        extra={
            **delivery.log_fields(properties),
            "seconds": seconds,
        },
    )
