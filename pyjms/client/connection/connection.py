"""The connection: ids, sessions, and the table that says who gets which command of the broker.

The broker learns of it on first use, not when it is made. Everything belongs to the loop
that made it. (JMS 4.3; ActiveMQ N6, N7, N11, N12; ENCODING sections 11 and 15)
"""

from __future__ import annotations

import itertools
import logging
from collections.abc import Callable
from typing import Any

import anyio

from pyjms.client.connection.handshake import Announcement
from pyjms.client.connection.temporary_destinations import AdvisoryConsumer, TemporaryDestinations
from pyjms.client.delivery.consumer import ActiveMQMessageConsumer
from pyjms.client.delivery.duplicates import ConnectionAudit
from pyjms.client.options.client_options import ClientOptions
from pyjms.client.options.policies import RedeliveryPolicy
from pyjms.client.producer import ActiveMQMessageProducer
from pyjms.client.session.session import ActiveMQSession
from pyjms.client.tasks import OwnedTasks
from pyjms.enums import AcknowledgeMode
from pyjms.errors import (
    ConnectionClosedException,
    ConnectionFailedException,
    JMSException,
)
from pyjms.jms import api
from pyjms.jms.api import ExceptionListener
from pyjms.jms.destination import Destination
from pyjms.jms.metadata import ConnectionMetaData
from pyjms.transport.openwire import RequestTransport, from_throwable
from pyjms.wire.openwire.commands import (
    BrokerInfo,
    Command,
    ConnectionControl,
    ConnectionId,
    ConsumerControl,
    ConsumerId,
    LocalTransactionId,
    MessageDispatch,
    ProducerAck,
    ProducerId,
    Response,
    SessionId,
    SessionInfo,
)
from pyjms.wire.openwire.commands import ConnectionError as ConnectionErrorCommand

__all__ = ["ActiveMQConnection"]

logger = logging.getLogger(__name__)


class ActiveMQConnection(api.Connection):
    """A connection over a started transport. `ConnectionFactory.create_connection` makes it."""

    def __init__(
        self,
        transport: RequestTransport,
        options: ClientOptions,
        connection_id: str,
        generate_client_id: Callable[[], str],
        user_name: str | None = None,
        password: str | None = None,
    ) -> None:
        self.transport = transport
        self.oneway = transport.oneway
        self.send_now = transport.flush
        self.options = options
        self.connection_id = ConnectionId(connection_id)
        self.exception_listener: ExceptionListener | None = None
        self.temporaries = TemporaryDestinations(self)
        self.consumers: dict[ConsumerId, ActiveMQMessageConsumer | AdvisoryConsumer] = {}
        self.producers: dict[ProducerId, ActiveMQMessageProducer] = {}
        self.audit = (
            ConnectionAudit(options.audit_depth, options.audit_maximum_producer_number)
            if options.check_for_duplicates
            else None
        )
        self.optimizes_acks = options.optimize_acknowledge
        """Off for good once the broker shares its store: then acknowledgements must not wait."""
        self.is_started = False
        self.failure: Exception | None = None
        self._announcement = Announcement(self, generate_client_id, user_name, password)
        self._is_closed = False
        self._sessions: list[ActiveMQSession] = []
        self._failed_sessions: list[ActiveMQSession] = []
        self._session_numbers = itertools.count(1)
        self._transaction_numbers = itertools.count(1)
        self._tasks = OwnedTasks(self.connection_id)
        transport.listener = self

    # --- what the application calls

    @property
    def client_id(self) -> str | None:
        """The client id; None until somebody sets it or the first use generates one."""
        self.check_open()
        return self._announcement.client_id

    async def set_client_id(self, client_id: str) -> None:
        """Set the client id and announce the connection under it.

        Raises:
            IllegalStateException: it has one already, or was used.
            InvalidClientIDException: it is empty, or another connection has it.
        """
        self.check_open()
        await self._announcement.set_client_id(client_id)

    @property
    def metadata(self) -> ConnectionMetaData:
        self.check_open()
        return ConnectionMetaData()

    @property
    def redelivery_policy(self) -> RedeliveryPolicy:
        """The default policy; it is the factory's, so a change is seen by all its connections."""
        return self.options.redelivery_policy_map.default_entry

    async def create_session(
        self,
        transacted: bool = False,
        acknowledge_mode: AcknowledgeMode | int = AcknowledgeMode.AUTO,
    ) -> ActiveMQSession:
        """Make a session; `transacted` ones have no other mode.

        Raises:
            JMSException: the mode is none of AUTO, CLIENT, DUPS_OK and INDIVIDUAL.
        """
        self.check_open()
        mode = AcknowledgeMode.TRANSACTED if transacted else _mode(acknowledge_mode)
        await self._announcement.make()
        session_id = SessionId(self.connection_id.value, next(self._session_numbers))
        session = ActiveMQSession(self, session_id, mode)
        self._sessions.append(session)
        self.oneway(SessionInfo(session_id))
        return session

    async def start(self) -> None:
        self.check_open()
        await self._announcement.make()
        self.check_open()
        self.is_started = True
        for session in self._sessions:
            session.start()

    async def stop(self) -> None:
        self.check_open()
        self.is_started = False
        for session in self._sessions:
            session.is_started = False
        for session in list(self._sessions):
            await session.stop()

    async def close(self) -> None:
        """Close it and all it made; waits for running listeners, unless one is the caller.

        Waits for the broker at most as long as the factory's `close_timeout`. When cancelled
        meanwhile, running listeners are cancelled too and the broker is not waited for.
        """
        if self._is_closed:
            return
        self._is_closed = True
        self.is_started = False
        sessions = [*self._sessions, *self._failed_sessions]
        try:
            last = await self._dispose(sessions)
            if self.failure is None:
                await self._announcement.withdraw(last)
        except JMSException as error:
            logger.debug("Closing %s without the broker: %s", self.connection_id, error)
        finally:
            with anyio.CancelScope(shield=True):
                await self._end(sessions)

    # --- what sessions call

    async def request(self, command: Command, timeout: float | None = None) -> Response:
        """Send `command` and wait for the answer."""
        return await self.transport.request(command, timeout)

    def oneway_if_open(self, command: Command) -> None:
        """Send `command` unless the transport is gone, which the broker notices by itself."""
        try:
            self.oneway(command)
        except ConnectionFailedException as error:
            logger.debug("%s not sent: %s", type(command).__name__, error)

    def next_transaction_id(self) -> LocalTransactionId:
        """Return the id of a new local transaction."""
        return LocalTransactionId(next(self._transaction_numbers), self.connection_id)

    @property
    def announced_client_id(self) -> str | None:
        """The client id that the broker knows."""
        return self._announcement.client_id

    @property
    def has_own_client_id(self) -> bool:
        """Whether the user gave the client id, so that durable subscriptions are his."""
        return self._announcement.has_own_client_id

    @property
    def open_consumers(self) -> list[ActiveMQMessageConsumer]:
        """The consumers of all sessions."""
        return [c for c in self.consumers.values() if isinstance(c, ActiveMQMessageConsumer)]

    def has_consumer_of(self, destination: Destination) -> bool:
        """Whether a session consumes from `destination`."""
        return any(session.members.consumers_of(destination) for session in self._sessions)

    def consumer_closed(self, consumer_id: ConsumerId) -> None:
        """Forget a consumer."""
        self.consumers.pop(consumer_id, None)
        if self.audit is not None:
            self.audit.remove(consumer_id)

    def session_closed(self, session: ActiveMQSession) -> None:
        """Forget a session."""
        if session in self._sessions:
            self._sessions.remove(session)

    def report(self, error: JMSException) -> None:
        """Tell the exception listener, or the log, what nobody else would see."""
        listener = self.exception_listener
        if listener is None:
            logger.warning("Connection %s: %s", self.connection_id, error)
            return
        try:
            listener(error)
        except Exception:
            logger.exception("The exception listener failed")

    def failed_error(self) -> ConnectionFailedException:
        """Return a new error that says why the connection is dead."""
        failure = self.failure
        error = ConnectionFailedException(f"The JMS connection has failed: {failure}")
        error.linked_exception = error.__cause__ = failure
        return error

    # --- what the transport calls

    def on_command(self, command: Command) -> None:
        """Take a command of the broker."""
        if type(command) is MessageDispatch:
            consumer = self.consumers.get(command.consumer_id)  # type: ignore[arg-type]
            if consumer is not None:
                consumer.dispatch(command)
            return
        handler = _HANDLERS.get(type(command))
        if handler is not None:
            handler(self, command)

    def on_exception(self, error: Exception) -> None:
        """Learn that the transport is dead: everything of this connection ends."""
        if self._is_closed or self.failure is not None:
            return
        self.failure = error
        failure = self.failed_error()
        self._failed_sessions, self._sessions = self._sessions, []
        for session in self._failed_sessions:
            session.dispose(failure)
        if isinstance(error, JMSException):
            self.report(error)
        else:
            self.report(failure)

    def _on_producer_ack(self, ack: ProducerAck) -> None:
        producer = self.producers.get(ack.producer_id)  # type: ignore[arg-type]
        if producer is not None and producer.window is not None:
            producer.window.decrease(ack.size)

    def _on_connection_error(self, command: ConnectionErrorCommand) -> None:
        if not self._is_closed:
            self.report(from_throwable(command.exception))

    def _on_consumer_control(self, control: ConsumerControl) -> None:
        consumer = self.consumers.get(control.consumer_id)  # type: ignore[arg-type]
        if not isinstance(consumer, ActiveMQMessageConsumer):
            return
        if control.close:
            self._tasks.spawn(consumer.close)
        else:
            consumer.info.prefetch_size = control.prefetch

    def _on_connection_control(self, control: ConnectionControl) -> None:
        self._store_is_shared(control.fault_tolerant)

    def _on_broker_info(self, info: BrokerInfo) -> None:
        self._store_is_shared(info.fault_tolerant_configuration)

    def _store_is_shared(self, shared: bool) -> None:
        if shared:
            self.optimizes_acks = False

    # --- inside

    async def _dispose(self, sessions: list[ActiveMQSession]) -> int:
        """End the sessions here, after their listeners; return the last number handed out."""
        for session in sessions:
            session.is_closed = True
            session.is_started = False
        for session in sessions:
            await session.stop()
        delivered = [session.dispose(session.failure) for session in sessions]
        return max([-1, *delivered])

    async def _end(self, sessions: list[ActiveMQSession]) -> None:
        self._tasks.cancel()
        for session in sessions:
            session.dispose(session.failure)
            await session.end_tasks()
        await self.transport.stop()
        await self._tasks.wait()
        self._sessions.clear()
        self._failed_sessions.clear()
        self.consumers.clear()

    def check_open(self) -> None:
        """Refuse calls on a connection that is closed or dead.

        Raises:
            ConnectionClosedException: it is closed.
            ConnectionFailedException: the transport has failed.
        """
        if self._is_closed:
            raise ConnectionClosedException
        if self.failure is not None:
            raise self.failed_error()


_HANDLERS: dict[type[Command], Callable[[ActiveMQConnection, Any], None]] = {
    ProducerAck: ActiveMQConnection._on_producer_ack,
    ConnectionErrorCommand: ActiveMQConnection._on_connection_error,
    ConsumerControl: ActiveMQConnection._on_consumer_control,
    ConnectionControl: ActiveMQConnection._on_connection_control,
    BrokerInfo: ActiveMQConnection._on_broker_info,
}
"""What the broker says besides messages, and who takes it; the rest means nothing to a client."""


def _mode(value: AcknowledgeMode | int) -> AcknowledgeMode:
    if value == AcknowledgeMode.TRANSACTED:
        raise JMSException(
            "acknowledgeMode SESSION_TRANSACTED cannot be used for an non-transacted Session",
            hint="create_session(transacted=True)",
        )
    try:
        return AcknowledgeMode(value)
    except ValueError:
        raise JMSException(
            f"invalid acknowledgeMode: {value}. Valid values are AUTO (1), CLIENT (2),"
            " DUPS_OK (3) and INDIVIDUAL (4)"
        ) from None
