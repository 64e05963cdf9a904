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
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, Literal

import anyio

from pyjms._logger import get_logger
from pyjms.core.closing import close_quietly
from pyjms.core.resources import BoundResource, bind, bound
from pyjms.core.workers import current_worker
from pyjms.errors import (
    IllegalStateException,
    ListenerExecutionFailedException,
    Skip,
    TransactionInProgressException,
)
from pyjms.jms.api import MessageConsumer, Session
from pyjms.jms.message import Message
from pyjms.listener.container.delivery import (
    ACKNOWLEDGED_BY_THE_CLIENT,
    ACKNOWLEDGED_FOR_THE_LISTENER,
    Delivery,
    log_failure,
    log_overridden,
)
from pyjms.listener.container.failures import (
    NoListenerError,
    RejectedWhileStoppingError,
    is_infrastructure_failure,
)
from pyjms.listener.container.properties import ContainerProperties
from pyjms.listener.container.resources import ResourceFactory
from pyjms.listener.container.state import LifeCycle
from pyjms.listener.handler.interceptors import HandlerInvocation, SettlementInvocation
from pyjms.listener.handler.message_listener import ListenerCall
from pyjms.listener.retries import Retries

__all__ = ["ListenerExecution", "marked_as_rollback_only"]

logger: Final = get_logger(__name__)


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
