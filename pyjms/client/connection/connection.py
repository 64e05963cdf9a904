"""The connection: its sessions, and the routing of the broker's commands to their recipients.

State. `is_started` follows start() and stop(); the rest is one life cycle:

    state      entered by                     a call raises                  the broker
    --------   ----------------------------   ----------------------------   ------------------
    OPEN       creation                                                      knows it after the
                                                                             handshake
    FAILED     the transport failed           ConnectionFailedException      sees it disconnect
    INHERITED  a fork, in the child process   IllegalStateException          serves the parent
    CLOSED     close(), from any state        ConnectionClosedException      was told, if it
                                                                             was OPEN

On failure every session is disposed at once, so that no receive or send waits for ever; close()
later awaits the tasks of the sessions.

Everything belongs to the loop on which it was created; no method may be called from another
thread. (JMS 1.1, section 4.3; activemq-edges N6, N7, N11, N12; openwire-encoding 11 and 15)
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from enum import Enum
from operator import attrgetter
from typing import Final

import anyio

from pyjms._fork import inherited_error, inherits
from pyjms._forwarding import DelegatedAttribute
from pyjms._logger import get_logger
from pyjms._wakeup import BackgroundTask, spawn
from pyjms.client.connection.acknowledge_modes import session_mode
from pyjms.client.connection.broker_commands import BrokerCommands
from pyjms.client.connection.connection_consumers import ConsumingConnection
from pyjms.client.connection.handshake import ConnectionHandshake
from pyjms.client.connection.interruptions import Interruptions
from pyjms.client.connection.temporary_destinations import TemporaryDestinations
from pyjms.client.delivery import ActiveMQMessageConsumer
from pyjms.client.duplicates import ConnectionAudit
from pyjms.client.interfaces import DispatchTarget, WindowedProducer
from pyjms.client.listener_turns import ListenerTurns
from pyjms.client.options import ClientOptions, RedeliveryPolicy
from pyjms.client.refusals import RefusalLog
from pyjms.client.session import ActiveMQSession
from pyjms.client.tasks import OwnedTasks
from pyjms.enums import AcknowledgeMode
from pyjms.errors import ConnectionClosedException, ConnectionFailedException, JMSException
from pyjms.jms.api import ExceptionListener, MessageTransformer
from pyjms.jms.destination import Destination, Queue
from pyjms.jms.metadata import ConnectionMetaData
from pyjms.management.jms_stats import JMSConnectionStats
from pyjms.transport.openwire import (
    InterruptionListener,
    ReconnectingTransport,
    RequestTransport,
)
from pyjms.wire.openwire.commands import (
    Command,
    ConnectionId,
    ConsumerId,
    LocalTransactionId,
    MessageDispatch,
    MessageId,
    ProducerId,
    Response,
    SessionId,
    SessionInfo,
)

__all__ = ["ActiveMQConnection"]

logger: Final = get_logger(__name__)


class _State(Enum):
    OPEN = "open"
    FAILED = "failed"
    INHERITED = "inherited"
    CLOSED = "closed"


class ActiveMQConnection(ConsumingConnection):
    """A connection over a started transport, created by `ConnectionFactory.create_connection`."""

    _session_class: type[ActiveMQSession] = ActiveMQSession

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
        self.oneway: Final = transport.oneway
        self.send_now: Final = transport.flush
        self.options = options
        self.connection_id: ConnectionId = ConnectionId(connection_id)
        self.exception_listener: ExceptionListener | None = None
        self.transformer: MessageTransformer | None = None
        """The message transformer of new sessions."""
        self.audit: ConnectionAudit | None = (
            ConnectionAudit(options.audit_depth, options.audit_maximum_producer_number)
            if options.check_for_duplicates
            else None
        )
        self.optimizes_acks: bool = options.optimize_acknowledge
        """Turned off for good if the broker shares its store: then acks must not be deferred."""
        self.stats: JMSConnectionStats | None = (
            JMSConnectionStats(connection_id) if options.stats_enabled else None
        )
        """The statistics of the connection; None if `stats_enabled` is off."""
        self.is_started: bool = False
        self.failure: Exception | None = None
        temporaries = TemporaryDestinations(self, self._has_consumer_of)
        self.create_temporary: Final = temporaries.create
        self.delete_temporary: Final = temporaries.delete
        self.check_sendable: Final = temporaries.check_sendable
        self.check_consumable: Final = temporaries.check_consumable
        self._tasks = OwnedTasks(self.connection_id, self.fail)
        self._handshake = ConnectionHandshake(
            self,
            temporaries,
            generate_client_id,
            (user_name, password),
            self.check_open,
            self._tasks.spawn,
        )
        self._state = _State.OPEN
        self._is_inherited = False
        self.consumers: dict[ConsumerId, DispatchTarget] = {}
        self.producers: dict[ProducerId, WindowedProducer] = {}
        self._sessions: list[ActiveMQSession] = []
        self._failed_sessions: list[ActiveMQSession] = []
        self._session_numbers = itertools.count(1)
        self._transaction_numbers = itertools.count(1)
        self.refusals: RefusalLog = RefusalLog()
        self.listener_turns: ListenerTurns = ListenerTurns()
        self._closer: BackgroundTask | None = None
        self._warned: set[str] = set()
        report = self._report_if_open
        self.broker_commands: BrokerCommands = BrokerCommands(self, report, self._tasks.spawn)
        self._handlers = self.broker_commands.handlers
        self.shared_subscriptions: dict[str, set[Queue]] = {}
        self._interruptions = Interruptions(self)
        transport.listener = self
        if isinstance(transport, ReconnectingTransport):
            transport.interruptions = self._interruptions
        inherits(self)

    # --- for the application

    @property
    def client_id(self) -> str | None:
        self.check_open()
        return self._handshake.registered_client_id

    async def set_client_id(self, client_id: str) -> None:
        self.check_open()
        await self._handshake.set_client_id(client_id)

    @property
    def metadata(self) -> ConnectionMetaData:
        self.check_open()
        return ConnectionMetaData()

    @property
    def redelivery_policy(self) -> RedeliveryPolicy:
        """The factory's default policy: a change affects all connections of the factory."""
        return self.options.redelivery_policy_map.default_entry

    async def create_session(
        self,
        transacted: bool = False,
        acknowledge_mode: AcknowledgeMode | int = AcknowledgeMode.AUTO,
    ) -> ActiveMQSession:
        self.check_open()
        mode = session_mode(transacted, acknowledge_mode)
        await self._handshake.ensure()
        session_id = SessionId(self.connection_id.value, next(self._session_numbers))
        session = self._session_class(self, session_id, mode, self._session_closed)
        self._sessions.append(session)
        self.oneway(SessionInfo(session_id))
        return session

    async def start(self) -> None:
        self.check_open()
        await self._handshake.ensure()
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
        sessions = [*self._sessions, *self._failed_sessions]
        for session in sessions:
            session.completions.check("close()")
        if self._state in {_State.CLOSED, _State.INHERITED}:
            self._state = _State.CLOSED  # an inherited connection is closed by the parent process
            return
        self._state = _State.CLOSED
        self.is_started = False
        try:
            last = await self._dispose(sessions)
            if self.failure is None:
                await self._handshake.unregister(last)
        except JMSException as error:
            logger.debug("Closing %s without the broker: %s", self.connection_id, error)
        finally:
            with anyio.CancelScope(shield=True):
                await self._end(sessions)

    def add_transport_listener(self, listener: InterruptionListener) -> None:
        """Register a listener that is called when a failover transport disconnects or reconnects.

        The calls are made on the event loop and must not block. ActiveMQ: addTransportListener.
        """
        self._interruptions.add(listener)

    def remove_transport_listener(self, listener: InterruptionListener) -> None:
        """Remove `listener`. ActiveMQ: removeTransportListener."""
        self._interruptions.remove(listener)

    # --- for sessions, consumers and producers: see ClientConnection

    async def request(self, command: Command, timeout: float | None = None) -> Response:
        return await self.transport.request(command, timeout)

    def oneway_if_open(self, command: Command) -> None:
        try:
            self.oneway(command)
        except ConnectionFailedException as error:
            logger.debug("%s not sent: %s", type(command).__name__, error)

    def next_transaction_id(self) -> LocalTransactionId:
        return LocalTransactionId(next(self._transaction_numbers), self.connection_id)

    registered_client_id: Final = DelegatedAttribute[str | None](
        attrgetter("_handshake"), read_only=True
    )
    has_own_client_id: Final = DelegatedAttribute[bool](attrgetter("_handshake"), read_only=True)

    def add_consumer(self, consumer: DispatchTarget) -> None:
        self.consumers[consumer.consumer_id] = consumer

    def remove_consumer(self, consumer_id: ConsumerId) -> None:
        self.consumers.pop(consumer_id, None)
        if self.audit is not None:
            self.audit.remove(consumer_id)

    def add_producer(self, producer: WindowedProducer) -> None:
        self.producers[producer.producer_id] = producer

    def remove_producer(self, producer_id: ProducerId) -> None:
        self.producers.pop(producer_id, None)

    def consumers_holding(self, message_id: MessageId | None) -> list[ConsumerId]:
        return [
            consumer.consumer_id
            for consumer in self.consumers.values()
            if isinstance(consumer, ActiveMQMessageConsumer)
            and consumer.session.transacted
            and consumer.ledger.holds(message_id)
        ]

    def report(self, error: JMSException) -> None:
        listener = self.exception_listener
        if listener is None:
            logger.warning("Connection %s: %s", self.connection_id, error)
            return
        try:
            listener(error)
        except Exception:
            logger.exception("The exception listener of %s failed", self.connection_id)

    def warn_once(self, text: str) -> None:
        if text not in self._warned:
            self._warned.add(text)
            logger.warning("Connection %s: %s", self.connection_id, text)

    def failed_error(self) -> JMSException:
        failure = self.failure
        if self._is_inherited:
            return inherited_error("This JMS connection")
        error = ConnectionFailedException(f"The JMS connection has failed: {failure}")
        error.linked_exception = error.__cause__ = failure
        return error

    def check_open(self) -> None:
        """Refuse calls on a connection that is closed or has failed.

        Raises:
            ConnectionClosedException: it is closed.
            ConnectionFailedException: the transport has failed.
            IllegalStateException: it was opened before this process was forked.
        """
        if self._state is _State.CLOSED:
            raise ConnectionClosedException
        if self._state is not _State.OPEN:
            raise self.failed_error()

    def forked(self) -> None:
        """Refuse every use in a child process: the connection belongs to the parent process."""
        if self._state is _State.CLOSED:
            return
        self._state = _State.INHERITED
        self._is_inherited = True
        failure = self.failed_error()
        for session in self._sessions:
            session.is_closed = True
            session.failure = failure
            session.resources.mark_failed(failure)

    # --- for the transport

    def on_command(self, command: Command) -> None:
        """Route a command of the broker to its recipient."""
        if type(command) is MessageDispatch:
            consumer = self.consumers.get(command.consumer_id)  # type: ignore[arg-type]
            if consumer is not None:
                consumer.dispatch(command)
            return
        handler = self._handlers.get(type(command))
        if handler is not None:
            handler(command)

    def fail(self, error: JMSException) -> None:
        if self._state is _State.OPEN:
            self.on_exception(error)
            self._closer = spawn(self.transport.stop, name=f"pyjms close {self.connection_id}")

    def on_exception(self, error: Exception) -> None:
        """Fail the connection and everything created on it: the transport has failed."""
        if self._state is not _State.OPEN:
            return
        self._state = _State.FAILED
        self.failure = error
        failure = self.failed_error()
        self._failed_sessions, self._sessions = self._sessions, []
        for session in self._failed_sessions:
            session.dispose(failure)
        if isinstance(error, JMSException):
            self.report(error)
        else:
            self.report(failure)

    # --- internals

    def _report_if_open(self, error: JMSException) -> None:
        if self._state is not _State.CLOSED:
            self.report(error)

    def _has_consumer_of(self, destination: Destination) -> bool:
        return any(session.resources.consumes(destination) for session in self._sessions)

    def _session_closed(self, session: ActiveMQSession) -> None:
        if session in self._sessions:
            self._sessions.remove(session)

    async def _dispose(self, sessions: list[ActiveMQSession]) -> int:
        """Dispose sessions after their listeners have returned; return the last sequence id."""
        for session in sessions:
            session.is_closed = True
            session.is_started = False
        for session in sessions:
            await session.finish()
            await session.shared.close()
        delivered = [session.dispose(session.failure) for session in sessions]
        return max([-1, *delivered])

    async def _end(self, sessions: list[ActiveMQSession]) -> None:
        self._tasks.cancel()
        for session in sessions:
            session.dispose(session.failure)
            await session.end_tasks()
        await self.transport.stop()
        if self._closer is not None:
            await self._closer.wait()
        await self._tasks.wait()
        self._sessions.clear()
        self._failed_sessions.clear()
        self.consumers.clear()
        if self.stats is not None:
            self.stats.closed()
