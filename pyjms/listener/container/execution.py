"""One message: call the listener, then commit, acknowledge, roll back or recover.

The table of spring-jms 1.7 and the rules for what a listener raises; both containers use it.
"""

from __future__ import annotations

import inspect
import logging
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

import anyio

from pyjms.core.resources import BoundResource, bind, bound
from pyjms.enums import AcknowledgeMode
from pyjms.errors import (
    ConfigurationException,
    IllegalStateException,
    JMSException,
    ListenerExecutionFailedException,
    MessageConversionException,
    TransactionInProgressException,
)
from pyjms.jms.api import Connection, MessageConsumer, Session
from pyjms.jms.message import Message
from pyjms.listener.container.failures import ACKNOWLEDGED_BY_THE_CLIENT, log_failure, note_cause
from pyjms.listener.container.resources import close_quietly
from pyjms.listener.workers import Worker, current_worker

if TYPE_CHECKING:
    from pyjms.listener.container.base import AbstractMessageListenerContainer

__all__ = ["Delivery", "ListenerExecution", "is_infrastructure_failure"]

logger = logging.getLogger(__name__)

_ACKNOWLEDGED_FOR_THE_LISTENER = (*ACKNOWLEDGED_BY_THE_CLIENT, AcknowledgeMode.TRANSACTED)

_SPRINGS_OWN = (
    ListenerExecutionFailedException,
    MessageConversionException,
    ConfigurationException,
)
"""In Spring these are no JMSExceptions: they say nothing about the connection."""


class NoListenerError(IllegalStateException):
    """A message came and no listener is set."""


class RejectedWhileStoppingError(Exception):
    """The message came when the container had been stopped; already logged and rolled back."""


class Delivery:
    """A received message, and whom to thank for it; `handled` when its listener has returned."""

    __slots__ = ("connection", "consumer", "handled", "message", "session", "worker")

    def __init__(
        self,
        message: Message,
        session: Session,
        connection: Connection,
        consumer: MessageConsumer,
        worker: Worker,
    ) -> None:
        self.message = message
        self.session = session
        self.connection = connection
        self.consumer = consumer
        self.worker = worker
        self.handled = False


class ListenerExecution:
    """Executes deliveries for one container."""

    def __init__(self, container: AbstractMessageListenerContainer) -> None:
        self._container = container

    async def execute(self, delivery: Delivery, *, expose: bool) -> None:
        """Call the listener and finish the delivery; `expose` binds the session meanwhile.

        Raises:
            Exception: what the listener, the commit or the acknowledgement raised.
        """
        resource = None
        factory = self._container._require_connection_factory()
        if expose and self._container.expose_listener_session and bound(factory) is None:
            resource = BoundResource(delivery.connection, delivery.session, transactional=False)
        if resource is None:
            await self._execute(delivery, None)
        else:
            with bind(factory, resource):
                await self._execute(delivery, resource)

    async def _execute(self, delivery: Delivery, resource: BoundResource | None) -> None:
        container = self._container
        if not container.is_running and not container.accept_messages_while_stopping:
            logger.warning(
                "Rejecting received message because of the listener container "
                "having been stopped in the meantime: %s",
                delivery.message.message_id,
            )
            await self.roll_back(delivery.session)
            raise RejectedWhileStoppingError
        try:
            await self._call_listener(delivery)
            if resource is not None and resource.rollback_only:
                raise ListenerExecutionFailedException(
                    "Transaction rolled back because it has been marked as rollback-only",
                    message=delivery.message,
                    hint="a transaction block inside the listener failed",
                )
        except Exception as error:
            note_cause(delivery.message, error)
            await self._roll_back_on_exception(delivery.session, error)
            raise
        except BaseException as error:  # cancelled: the broker shall deliver the message again
            with anyio.CancelScope(shield=True):
                await self._roll_back_on_exception(delivery.session, error)
            raise
        delivery.handled = True
        await self.commit(delivery.session, delivery.message)

    async def _call_listener(self, delivery: Delivery) -> None:
        call = self._container._call
        if call is None:
            raise NoListenerError(
                "No message listener specified", hint="set the property 'message_listener'"
            )
        message, session, worker = delivery.message, delivery.session, delivery.worker
        if session.acknowledge_mode not in _ACKNOWLEDGED_FOR_THE_LISTENER:
            acknowledger = message._acknowledger
            if acknowledger is not None:  # a `def` listener may call acknowledge() in its thread
                message._acknowledger = worker.on_loop(acknowledger)
        token = current_worker.set(worker)
        try:
            if call.wants_session and not self._container.expose_listener_session:
                await self._with_own_session(lambda own_session: call(message, own_session, worker))
            else:
                await call(message, session, worker)
        finally:
            current_worker.reset(token)

    async def _with_own_session(self, call: Callable[[Session], Awaitable[None]]) -> None:
        """A session-aware listener that must not see the receiving session gets a new one."""
        connection = session = None
        try:
            factory = self._container._require_connection_factory()
            connection = await factory.create_connection()
            session = await self._container._create_session(connection)
            await call(session)
            if session.transacted and self.locally_transacted(session):
                await _unless_in_progress(session.commit)
        finally:
            await close_quietly(session, connection)

    def locally_transacted(self, session: Session) -> bool:
        """Whether this container, and no external transaction, ends the session's transactions."""
        if not self._container.session_transacted:
            return False
        resource = bound(self._container._require_connection_factory())
        return resource is None or not resource.transactional or resource.session is not session

    async def commit(self, session: Session, message: Message | None) -> None:
        """Make the delivery of `message` final, as the session's mode wants it.

        None: nothing was received; a transacted session is committed all the same.
        """
        if session.transacted:
            if self.locally_transacted(session):
                await _unless_in_progress(session.commit)
        elif (
            message is not None
            and session.acknowledge_mode not in ACKNOWLEDGED_BY_THE_CLIENT
            and self._container.acknowledge_after_listener
        ):
            await message.acknowledge()

    async def roll_back(self, session: Session) -> None:
        """Give what was received back to the broker, as the session's mode wants it."""
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
            logger.error("Application exception overridden by rollback error", exc_info=error)
            raise

    async def handle_exception(self, error: Exception, delivery: Delivery | None = None) -> None:
        """Tell those who want to know that a delivery failed; None: a transaction's end did.

        Raises:
            Exception: the error handler's own.
        """
        container = self._container
        if isinstance(error, RejectedWhileStoppingError):
            return
        if is_infrastructure_failure(error):
            container._tell_exception_listener(error)
        if not container.is_active:
            logger.debug("Listener exception after container shutdown", exc_info=error)
        elif container.error_handler is None:
            log_failure(logger, container, error, delivery)
        else:
            answer = container.error_handler(error)
            if inspect.isawaitable(answer):
                await answer


def is_infrastructure_failure(error: BaseException) -> bool:
    """Whether an error of a listener puts the connection in doubt: a JMSException of JMS itself."""
    return (
        isinstance(error, JMSException)
        and not isinstance(error, _SPRINGS_OWN)
        and not isinstance(error, NoListenerError)
    )


async def _unless_in_progress(finish: Callable[[], Awaitable[None]]) -> None:
    try:
        await finish()
    except TransactionInProgressException as error:
        logger.debug("Left to the transaction that somebody else runs: %s", error)
