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

The registration of a connection with the broker: once, on first use, under one client id.

Creating a connection only opens the transport. ConnectionInfo is sent with the first session,
`start` or `set_client_id`, so that the application can set a client id after creation.

    state         request in flight   concurrent callers        after a failure
    -----------   -----------------   -----------------------   -------------------
    NEW           no                  the first one registers   NEW: next use retries
    IN_PROGRESS   yes                 wait for its outcome      NEW
    COMPLETE      no                  return at once

The registration runs in a separate task: if a caller is cancelled, the broker may already have the
command, and would refuse to register the connection again.

(JMS 1.1, section 4.3.2; activemq-edges N6; openwire-encoding 11)

Interruptions of a transport that reconnects: their effects on a connection and its objects.

Messages that the lost broker has dispatched and the application has not consumed will be dispatched
again, so they are dropped and no longer count as received. The effect on messages that were
delivered but not settled depends on the mode: see `AckLedger.interrupted`. (activemq-edges F2)
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping
from enum import Enum
from operator import attrgetter
from typing import Any, Final, Protocol

import anyio

from pyjms.client.browser import ActiveMQMessageConsumer
from pyjms.client.connection_consumers import ConsumingConnection
from pyjms.client.duplicates import ConnectionAudit
from pyjms.client.interfaces import ClientConnection, DispatchTarget, WindowedProducer
from pyjms.client.listener_turns import ListenerTurns
from pyjms.client.options import ClientOptions, RedeliveryPolicy
from pyjms.client.refusals import RefusalLog
from pyjms.client.session import ActiveMQSession
from pyjms.client.tasks import OwnedTasks
from pyjms.client.temporary_destinations import AdvisoryConsumer, TemporaryDestinations
from pyjms.enums import AcknowledgeMode
from pyjms.errors import (
    ConnectionClosedException,
    ConnectionFailedException,
    IllegalStateException,
    InvalidClientIDException,
    JMSException,
)
from pyjms.jms.api import ExceptionListener, MessageTransformer
from pyjms.jms.destination import Destination, Queue
from pyjms.jms.metadata import ConnectionMetaData
from pyjms.management import JMSConnectionStats
from pyjms.runtime.event_loop import BackgroundTask, spawn
from pyjms.runtime.fork import inherited_error, inherits
from pyjms.runtime.forwarding import DelegatedAttribute
from pyjms.runtime.logging import get_logger
from pyjms.transport.openwire import (
    InterruptionListener,
    InterruptionListeners,
    ReconnectingTransport,
    RequestTransport,
    from_throwable,
)
from pyjms.wire.openwire.commands import (
    BrokerId,
    BrokerInfo,
    Command,
    ConnectionControl,
    ConnectionId,
    ConnectionInfo,
    ConsumerControl,
    ConsumerId,
    LocalTransactionId,
    MessageDispatch,
    MessageId,
    ProducerAck,
    ProducerId,
    RemoveInfo,
    Response,
    SessionId,
    SessionInfo,
    ShutdownInfo,
)
from pyjms.wire.openwire.commands import ConnectionError as ConnectionErrorCommand

__all__ = ["ActiveMQConnection", "session_mode"]


class _State(Enum):
    NEW = "new"
    IN_PROGRESS = "in progress"
    COMPLETE = "complete"


class ConnectionHandshake:
    """Registers one connection with the broker, and unregisters it."""

    def __init__(
        self,
        connection: ClientConnection,
        temporaries: TemporaryDestinations,
        generate_client_id: Callable[[], str],
        credentials: tuple[str | None, str | None],
        check_open: Callable[[], None],
        spawn: Callable[..., object],
    ) -> None:
        self._connection = connection
        self._temporaries = temporaries
        self._generate_client_id = generate_client_id
        self._credentials = credentials
        self._check_open = check_open
        self._spawn = spawn
        self.registered_client_id = connection.options.client_id
        """The client id; None until it is set, or generated on first use."""
        self.has_own_client_id: bool = self.registered_client_id is not None
        """Whether the application set the client id, as durable subscriptions require."""
        self._state = _State.NEW
        self._outcome = anyio.Event()
        self._advisories: AdvisoryConsumer | None = None

    async def set_client_id(self, client_id: str) -> None:
        """Register under a client id set by the application.

        Raises:
            IllegalStateException: a client id was set before, or the connection was used.
            InvalidClientIDException: it is empty, or in use by another connection.
        """
        if self.has_own_client_id:
            raise IllegalStateException(
                "The clientID has already been set",
                hint=f"it is {self.registered_client_id!r}; open another connection for another "
                "client id",
            )
        if self._state is _State.COMPLETE:
            raise IllegalStateException(
                "Setting clientID on a used Connection is not allowed",
                hint="set it before everything else, or give it to the factory",
            )
        if not isinstance(client_id, str) or not client_id.strip():
            raise InvalidClientIDException(
                f"Invalid client id: {client_id!r}", hint="it must be a string that is not empty"
            )
        self.registered_client_id = client_id
        self.has_own_client_id = True
        await self.ensure()

    async def ensure(self) -> None:
        """Register the connection if it is not registered; concurrent callers wait for that.

        Cancelling ends the wait; the registration continues.

        Raises:
            JMSException: the broker refused the registration; the next use tries again.
        """
        while self._state is not _State.COMPLETE:
            if self._state is _State.IN_PROGRESS:
                await self._outcome.wait()
                self._check_open()
                continue
            self._state = _State.IN_PROGRESS
            self._outcome = anyio.Event()
            failures: list[JMSException] = []
            self._spawn(self._run, failures)
            await self._outcome.wait()
            if failures:
                raise failures[0]
            self._check_open()

    async def _run(self, failures: list[JMSException]) -> None:
        """Register the connection; append a failure to `failures`."""
        try:
            await self._register()
            self._state = _State.COMPLETE
        except JMSException as error:
            failures.append(error)
        finally:
            if self._state is not _State.COMPLETE:
                self._state = _State.NEW
            self._outcome.set()

    async def unregister(self, last_delivered_sequence_id: int) -> None:
        """Remove the connection; waits for the response at most `close_timeout` seconds."""
        connection = self._connection
        if self._state is not _State.COMPLETE:
            return
        if self._advisories is not None:
            connection.oneway(RemoveInfo(self._advisories.consumer_id))
        await connection.request(
            RemoveInfo(connection.connection_id, last_delivered_sequence_id),
            connection.options.close_timeout,
        )
        connection.oneway(ShutdownInfo())

    async def _register(self) -> None:
        connection = self._connection
        if self.registered_client_id is None:
            self.registered_client_id = self._generate_client_id()
        user_name, password = self._credentials
        await connection.request(
            ConnectionInfo(
                connection.connection_id,
                self.registered_client_id,
                password,
                user_name,
                manageable=True,
                client_master=True,
                fault_tolerant=isinstance(connection.transport, ReconnectingTransport),
            ),
            connection.options.connect_response_timeout,
        )
        if connection.options.watch_topic_advisories:
            self._advisories = AdvisoryConsumer(connection, self._temporaries)
            connection.add_consumer(self._advisories)
            await connection.request(self._advisories.info)
            self._temporaries.are_watched = True


# --- Commands from a broker other than messages and responses. (openwire-encoding 15)


class _Connection(Protocol):
    """The part of a connection that these commands affect."""

    consumers: dict[ConsumerId, DispatchTarget]
    producers: dict[ProducerId, WindowedProducer]
    optimizes_acks: bool


class BrokerCommands:
    """Handles these commands for one connection."""

    def __init__(
        self,
        connection: _Connection,
        report: Callable[[JMSException], None],
        spawn: Callable[..., object],
    ) -> None:
        self._connection = connection
        self._report = report
        self._spawn = spawn
        self.handlers: Mapping[type[Command], Callable[[Any], None]] = {
            ProducerAck: self._on_producer_ack,
            ConnectionErrorCommand: self._on_connection_error,
            ConsumerControl: self._on_consumer_control,
            ConnectionControl: self._on_connection_control,
            BrokerInfo: self._on_broker_info,
        }
        """The handlers by command type; other commands are ignored."""
        self.broker_id: BrokerId | None = None
        """The id of the present broker; None before BrokerInfo has been received."""

    def _on_producer_ack(self, ack: ProducerAck) -> None:
        producer = self._connection.producers.get(ack.producer_id)  # type: ignore[arg-type]
        if producer is not None:
            producer.on_producer_ack(ack.size)

    def _on_connection_error(self, command: ConnectionErrorCommand) -> None:
        self._report(from_throwable(command.exception))

    def _on_consumer_control(self, control: ConsumerControl) -> None:
        consumer = self._connection.consumers.get(control.consumer_id)  # type: ignore[arg-type]
        if not isinstance(consumer, ActiveMQMessageConsumer):
            return
        if control.close:
            # The broker removes the consumer within a second. If the application still has its
            # messages, it ends later: then a RemoveInfo would be an error, also after a failover.
            consumer.is_removed_by_broker = bool(consumer.ledger.delivered)
            self._spawn(consumer.close)
        else:
            consumer.info.prefetch_size = control.prefetch

    def _on_connection_control(self, control: ConnectionControl) -> None:
        self._on_fault_tolerance(control.fault_tolerant)

    def _on_broker_info(self, info: BrokerInfo) -> None:
        self.broker_id = info.broker_id
        self._on_fault_tolerance(info.fault_tolerant_configuration)

    def _on_fault_tolerance(self, shares_store: bool) -> None:
        if shares_store:
            self._connection.optimizes_acks = False


class _InterruptionsConnection(Protocol):
    """The part of a connection that interruptions affect."""

    consumers: dict[ConsumerId, DispatchTarget]
    producers: dict[ProducerId, WindowedProducer]


class Interruptions(InterruptionListeners):
    """The interruptions of one connection, and the application's listeners to them."""

    def __init__(self, connection: _InterruptionsConnection) -> None:
        super().__init__()
        self._connection = connection

    def transport_interrupted(self, error: Exception) -> None:
        """Drop the messages that will be dispatched again; then call the listeners."""
        for consumer in list(self._connection.consumers.values()):
            consumer.interrupted()
        for producer in list(self._connection.producers.values()):
            producer.interrupted()
        super().transport_interrupted(error)


# --- Validation of the acknowledge modes of new sessions.


def session_mode(transacted: bool, value: AcknowledgeMode | int) -> AcknowledgeMode:
    """Return the mode of a new session.

    Raises:
        JMSException: the session is not transacted, and `value` is not a mode for such sessions.
    """
    if transacted:
        return AcknowledgeMode.TRANSACTED
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


logger: Final = get_logger(__name__)


class _ConnectionState(Enum):
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
        self._state = _ConnectionState.OPEN
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
        if self._state in {_ConnectionState.CLOSED, _ConnectionState.INHERITED}:
            self._state = (
                _ConnectionState.CLOSED
            )  # an inherited connection is closed by the parent process
            return
        self._state = _ConnectionState.CLOSED
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
        if self._state is _ConnectionState.CLOSED:
            raise ConnectionClosedException
        if self._state is not _ConnectionState.OPEN:
            raise self.failed_error()

    def on_fork(self) -> None:
        """Refuse every use in a child process: the connection belongs to the parent process."""
        if self._state is _ConnectionState.CLOSED:
            return
        self._state = _ConnectionState.INHERITED
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
        if self._state is _ConnectionState.OPEN:
            self.on_exception(error)
            self._closer = spawn(self.transport.stop, name=f"pyjms close {self.connection_id}")

    def on_exception(self, error: Exception) -> None:
        """Fail the connection and everything created on it: the transport has failed."""
        if self._state is not _ConnectionState.OPEN:
            return
        self._state = _ConnectionState.FAILED
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
        if self._state is not _ConnectionState.CLOSED:
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
