"""The connection: its sessions, and the routing of the broker's commands to their recipients.

State. `is_started` follows start() and stop(); the rest is one life cycle:

    state      entered by                     a call raises                  the broker
    --------   ----------------------------   ----------------------------   ------------------
    OPEN       creation                                                      knows it after the
                                                                             registration
    FAILED     the transport failed           ConnectionFailedException      sees it disconnect
    INHERITED  a fork, in the child process   IllegalStateException          serves the parent
    CLOSED     close(), from any state        ConnectionClosedException      was told, if it
                                                                             was OPEN

On failure every session is disposed at once, so that no receive or send waits for ever; close()
later awaits the tasks of the sessions.

Registration. Creating a connection only opens the transport. ConnectionInfo is sent with the first
session, `start` or `set_client_id`, so that the application can set a client id after creation.
Concurrent callers wait for its outcome; after a failure the next use tries again. It runs in a
separate task: if a caller is cancelled, the broker may already have the command, and would refuse
to register the connection again. (JMS 1.1, section 4.3.2; activemq-edges N6)

Interruptions of a transport that reconnects. Messages that the lost broker has dispatched and the
application has not consumed will be dispatched again, so they are dropped and no longer count as
received. The effect on messages that were delivered but not settled depends on the mode: see
`AckLedger.on_interruption`. (activemq-edges F2)

Everything belongs to the loop on which it was created; no method may be called from another
thread. (JMS 1.1, section 4.3; activemq-edges N7, N11, N12; openwire-encoding 11 and 15)

Temporary destinations. Only the connection that created a temporary destination may consume from
it. Every connection may send to it while it exists. With `watch_topic_advisories`, a connection
knows which temporary destinations exist: it consumes the broker's advisories on their creation and
removal, so that sending to a deleted one fails at once and no message is lost silently. The
consumer of the advisories is `<connection>:-1:1` and acknowledges in one range at 75 % of its
prefetch.

(JMS 1.1, section 4.4.3; activemq-broker D13; openwire-encoding 9 and 17)
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from functools import partial
from typing import Any, ClassVar, Final, TypeVar

import anyio

from pyjms.client.consumer import ActiveMQMessageConsumer, ConnectionAudit
from pyjms.client.dispatcher import ListenerTurns, OwnedTasks
from pyjms.client.options import ClientOptions
from pyjms.client.policies import RedeliveryPolicy
from pyjms.client.producer import ActiveMQMessageProducer
from pyjms.client.rollback import RefusalLog
from pyjms.client.session import ActiveMQSession
from pyjms.enums import AcknowledgeMode
from pyjms.errors import (
    ConnectionClosedException,
    ConnectionFailedException,
    IllegalStateException,
    InvalidClientIDException,
    InvalidDestinationException,
    JMSException,
    JMSSecurityException,
    RequestTimeoutException,
)
from pyjms.jms import api
from pyjms.jms.api import ConsumerDetails
from pyjms.jms.destination import ADVISORY_PREFIX, Destination, Queue, Topic
from pyjms.jms.domain import QueueConnection, TopicConnection
from pyjms.jms.metadata import ConnectionMetaData
from pyjms.management import JMSConnectionStats
from pyjms.runtime import clock as _clock
from pyjms.runtime.event_loop import BackgroundTask, spawn, with_cleanup
from pyjms.runtime.fork import Inheritance, inherited_error, inherits
from pyjms.runtime.logging import get_logger
from pyjms.transport.openwire.correlator import (
    InterruptionListener,
    InterruptionListeners,
    ReconnectingTransport,
    RequestTransport,
    from_throwable,
)
from pyjms.wire.openwire import commands

logger: Final = get_logger(__name__)

_ADD, _REMOVE = 0, 1

_ADVISORY_TOPICS: Final = f"{ADVISORY_PREFIX}TempQueue,{ADVISORY_PREFIX}TempTopic"
_PREFETCH = 1000
_ACK_SHARE = 0.75
_IMPLICIT_SESSION = -1

_T = TypeVar("_T", bound=Destination)


class TemporaryDestinations:
    """The existing temporary destinations known to one connection; consumes the advisories."""

    def __init__(self, connection: ActiveMQConnection) -> None:
        self._connection = connection
        self._numbers = itertools.count(1)
        self._existing: set[Destination] = set()
        self.consumer_id: commands.ConsumerId = commands.ConsumerId(
            connection.connection_id.value, _IMPLICIT_SESSION, 1
        )
        self._unacknowledged = 0
        self.are_watched: bool = False
        """Whether advisories report all destinations: then an unknown one does not exist."""

    async def create(self, kind: type[_T]) -> _T:
        """Create a temporary destination of this connection."""
        connection = self._connection
        destination = kind(f"{connection.connection_id.value}:{next(self._numbers)}")
        await connection.request(
            commands.DestinationInfo(connection.connection_id, destination, _ADD)
        )
        self._existing.add(destination)
        return destination

    async def delete(self, destination: Destination) -> None:
        """Delete a temporary destination of this connection.

        Raises:
            JMSException: a consumer of this connection still consumes from it.
            InvalidDestinationException: another connection created it.
        """
        self._check_own(destination, "delete")
        connection = self._connection
        if connection.has_consumer_of(destination):
            raise JMSException(
                f"A consumer is consuming from the temporary destination {destination}",
                hint="close the consumer first",
            )
        self._existing.discard(destination)
        await connection.request(
            commands.DestinationInfo(connection.connection_id, destination, _REMOVE)
        )

    def check_sendable(self, destination: Destination) -> None:
        """Refuse to send to a temporary destination that no longer exists.

        Raises:
            InvalidDestinationException: it was deleted, or its connection was closed.
        """
        if self.are_watched and destination not in self._existing:
            raise InvalidDestinationException(
                f"Cannot publish to a deleted Destination: {destination}",
                hint="it was deleted, or the connection that created it is closed",
            )

    def check_consumable(self, destination: Destination) -> None:
        """Refuse to consume from a temporary destination of another connection, or a deleted one.

        Raises:
            InvalidDestinationException: it was created by another connection, or is deleted.
        """
        if destination.is_temporary:
            self._check_own(destination, "use")
            if self.are_watched and destination not in self._existing:
                raise InvalidDestinationException(
                    f"Cannot use a Temporary destination that has been deleted: {destination}",
                    hint="create another one with the session",
                )

    def _check_own(self, destination: Destination, verb: str) -> None:
        if not destination.physical_name.startswith(f"{self._connection.connection_id.value}:"):
            raise InvalidDestinationException(
                f"Cannot {verb} a Temporary destination from another Connection: {destination}",
                hint="use the connection that created it; other connections may only send to it",
            )

    async def watch(self) -> None:
        """Consume the advisories."""
        self._connection.consumers[self.consumer_id] = self
        await self._connection.request(
            commands.ConsumerInfo(
                consumer_id=self.consumer_id,
                destination=Topic(_ADVISORY_TOPICS),
                prefetch_size=_PREFETCH,
                no_local=True,
                dispatch_async=True,
            )
        )
        self.are_watched = True

    def on_interruption(self) -> None:
        """Discard pending acknowledgements of the lost broker's messages."""
        self._unacknowledged = 0

    def dispatch(self, dispatch: commands.MessageDispatch) -> None:
        """Accept an advisory: record the creation or removal that it reports."""
        message = dispatch.message
        if message is None:
            return
        info = message.data_structure
        if isinstance(info, commands.DestinationInfo):
            destination = info.destination
            if destination is not None and destination.is_temporary:
                if info.operation_type == _ADD:
                    self._existing.add(destination)
                else:
                    self._existing.discard(destination)
        self._unacknowledged += 1
        if self._unacknowledged >= _ACK_SHARE * _PREFETCH:
            self._connection.oneway(
                commands.MessageAck(
                    dispatch.destination,
                    None,
                    self.consumer_id,
                    commands.AckType.STANDARD,
                    None,
                    message.message_id,
                    self._unacknowledged,
                )
            )
            self._unacknowledged = 0


_OPEN, _FAILED, _INHERITED, _CLOSED = "open", "failed", "inherited", "closed"


class ActiveMQConnection(QueueConnection, TopicConnection):
    """A connection over a started transport, created by `ConnectionFactory.create_connection`."""

    _session_class: ClassVar[type[ActiveMQSession]] = ActiveMQSession

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
        self.hold: Final = transport.hold
        self.request: Final = transport.request
        self.queue: Final = transport.queue
        self.send_now: Final = self.queue.flush
        self.options = options
        self.connection_id: commands.ConnectionId = commands.ConnectionId(connection_id)
        self.exception_listener: api.ExceptionListener | None = None
        self.transformer: api.MessageTransformer | None = None
        """The message transformer of new sessions."""
        self.audit: ConnectionAudit | None = (
            ConnectionAudit(options.audit_depth, options.audit_maximum_producer_number)
            if options.check_for_duplicates
            else None
        )
        """The duplicate audit; None if `check_for_duplicates` is off."""
        self.optimizes_acks: bool = options.optimize_acknowledge
        """Turned off for good if the broker shares its store: then acks must not be deferred."""
        self.stats: JMSConnectionStats | None = (
            JMSConnectionStats(connection_id) if options.stats_enabled else None
        )
        """The statistics of the connection; None if `stats_enabled` is off."""
        self.listener_turns: ListenerTurns | None = (
            None if options.always_session_async else ListenerTurns()
        )
        """The turns of its listeners; None: those of different sessions run at the same time."""
        self.is_started: bool = False
        self._state = _OPEN
        self._is_inherited = False
        self.failure: Exception | None = None
        """Why the connection failed; None: it has not."""
        self.refusals: RefusalLog = RefusalLog()
        """The log of messages that its consumers refuse."""
        self.broker_id: commands.BrokerId | None = None
        """The id of the present broker; None before BrokerInfo has been received."""

        self.registered_client_id: str | None = options.client_id
        """The client id; None until it is set, or generated on first use."""
        self.has_own_client_id: bool = options.client_id is not None
        """Whether the application set the client id, as durable subscriptions require."""
        self._generate_client_id = generate_client_id
        self._credentials = (user_name, password)
        self._is_registered = False
        self._losses = 0
        self._registration: anyio.Event | None = None  # set when the one in progress has ended

        self._sessions: list[ActiveMQSession] = []
        self._failed_sessions: list[ActiveMQSession] = []
        self._session_numbers = itertools.count(1)
        self.transaction_numbers: Final = itertools.count(1)
        self.consumers: dict[
            commands.ConsumerId, ActiveMQMessageConsumer | TemporaryDestinations
        ] = {}
        self._last_dispatch: tuple[
            commands.ConsumerId | None, ActiveMQMessageConsumer | TemporaryDestinations | None
        ] = (None, None)
        self.producers: dict[commands.ProducerId, ActiveMQMessageProducer] = {}
        self.temporaries: TemporaryDestinations = TemporaryDestinations(self)
        self.shared_subscriptions: dict[str, set[Queue]] = {}
        """The queues of the shared durable subscriptions used here, by their names."""
        self.distribution: ActiveMQSession | None = None
        """The session of connection consumers; None: there are none."""
        self._tasks = OwnedTasks(self.connection_id, self.fail)
        self._closer: BackgroundTask | None = None
        self._warned: set[str] = set()
        self._handlers: dict[type[commands.Command], Callable[[Any], None]] = {
            commands.ProducerAck: self._on_producer_ack,
            commands.ConnectionError: self._on_connection_error,
            commands.ConsumerControl: self._on_consumer_control,
            commands.ConnectionControl: self._on_connection_control,
            commands.BrokerInfo: self._on_broker_info,
        }
        self._interruptions = InterruptionListeners()
        transport.listener = self
        if isinstance(transport, ReconnectingTransport):
            transport.interruptions = self
        self.inheritance: Inheritance | None = inherits(self)

    # For the application.

    @property
    def client_id(self) -> str | None:
        self.check_open()
        return self.registered_client_id

    async def set_client_id(self, client_id: str) -> None:
        self.check_open()
        if self.has_own_client_id:
            raise IllegalStateException(
                "The clientID has already been set",
                hint=f"it is {self.registered_client_id!r}; open another connection for another "
                "client id",
            )
        if self._is_registered:
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
        await self._register()

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
        mode = _session_mode(transacted, acknowledge_mode)
        if not self._is_registered:
            await self._register()
        session_id = commands.SessionId(self.connection_id.value, next(self._session_numbers))
        session = self._session_class(self, session_id, mode)
        self._sessions.append(session)
        self.oneway(commands.SessionInfo(session_id))
        return session

    async def start(self) -> None:
        self.check_open()
        await self._register()
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
        if self._state in {_CLOSED, _INHERITED}:
            self._state = _CLOSED  # an inherited connection is closed by the parent process
            return
        self._state = _CLOSED
        self.inheritance = None
        self.is_started = False
        await with_cleanup(partial(self._end_with_broker, sessions), partial(self._end, sessions))

    def add_transport_listener(self, listener: InterruptionListener) -> None:
        """Register a listener that is called when a failover transport disconnects or reconnects.

        The calls are made on the event loop and must not block. ActiveMQ: addTransportListener.
        """
        self._interruptions.add(listener)

    def remove_transport_listener(self, listener: InterruptionListener) -> None:
        """Remove `listener`. ActiveMQ: removeTransportListener."""
        self._interruptions.remove(listener)

    async def _distribute(
        self, pool: api.ServerSessionPool, max_messages: int, consumer: ConsumerDetails
    ) -> api.ConnectionConsumer:
        from pyjms.client.connection_consumers import open_connection_consumer  # noqa: PLC0415

        return await open_connection_consumer(self, pool, max_messages, consumer)

    # The registration with the broker.

    async def _register(self) -> None:
        """Register the connection if it is not registered; concurrent callers wait for that.

        Cancelling ends the wait; the registration continues.

        Raises:
            JMSException: the broker refused the registration; the next use tries again.
        """
        while not self._is_registered:
            failures: list[JMSException] = []
            outcome = self._registration
            if outcome is None:
                outcome = self._registration = anyio.Event()
                self._tasks.spawn(self._run_registration, outcome, failures)
            await outcome.wait()
            if failures:
                raise failures[0]
            self.check_open()

    async def _run_registration(self, outcome: anyio.Event, failures: list[JMSException]) -> None:
        """Register the connection; append a failure to `failures`."""
        try:
            await self._announce_in_time()
            self._is_registered = True
        except JMSException as error:
            failures.append(error)
        finally:
            self._registration = None
            outcome.set()

    async def _announce_in_time(self) -> None:
        """Announce the connection within `connect_response_timeout`.

        Time without a broker does not count: a transport that reconnects has limits of its own.
        """
        seconds = self.options.connect_response_timeout
        losses = None
        while losses != self._losses:
            losses = self._losses
            with _clock.timeout(seconds) as scope:
                await self._announce()
            if not scope.cancelled_caught:
                return
            if isinstance(self.transport, ReconnectingTransport) and self.transport.congested:
                await self.transport.drain()
                losses = None
        what = self.transport.describe_arrivals()
        raise RequestTimeoutException(
            f"The broker at {self.transport.remote_address} did not answer the start of the "
            f"connection within {seconds:g} s{f': {what}' if what else ''}",
            hint="the broker may hang or be busy; jms.connectResponseTimeout (ms) sets the limit",
        )

    async def _announce(self) -> None:
        if self.registered_client_id is None:
            self.registered_client_id = self._generate_client_id()
        user_name, password = self._credentials
        info = commands.ConnectionInfo(
            self.connection_id,
            self.registered_client_id,
            password,
            user_name,
            manageable=True,
            client_master=True,
            fault_tolerant=isinstance(self.transport, ReconnectingTransport),
        )
        try:
            await self.request(info)
        except JMSSecurityException as error:
            if user_name is None and not error.hint:
                error.hint = "no user is set: activemq.user, --user, or the factory's user_name"
            raise
        if self.options.watch_topic_advisories:
            await self.temporaries.watch()

    async def _unregister(self, last_delivered_sequence_id: int) -> None:
        """Remove the connection; waits for the response at most `close_timeout` seconds."""
        if not self._is_registered:
            return
        if self.temporaries.are_watched:
            self.oneway(commands.RemoveInfo(self.temporaries.consumer_id))
        await self.request(
            commands.RemoveInfo(self.connection_id, last_delivered_sequence_id),
            self.options.close_timeout,
        )
        self.oneway(commands.ShutdownInfo())

    # For sessions, consumers and producers.

    def oneway_if_open(self, command: commands.Command) -> None:
        """Queue `command` unless the transport has failed."""
        try:
            self.oneway(command)
        except ConnectionFailedException as error:
            logger.debug("%s not sent: %s", type(command).__name__, error)

    def remove_session(self, session: ActiveMQSession) -> None:
        """Forget a session that is closed."""
        if session in self._sessions:
            self._sessions.remove(session)

    def remove_consumer(self, consumer_id: commands.ConsumerId) -> None:
        """Stop routing dispatches to a consumer, and drop its duplicate audit."""
        self.consumers.pop(consumer_id, None)
        self._last_dispatch = (None, None)
        if self.audit is not None:
            self.audit.remove(consumer_id)

    def has_consumer_of(self, destination: Destination) -> bool:
        """Return whether a consumer of this connection consumes from `destination`."""
        return any(
            consumer.destination == destination
            for session in self._sessions
            for consumer in session.consumers
        )

    def consumers_holding(self, message_id: commands.MessageId | None) -> list[commands.ConsumerId]:
        """Return the consumers whose open transactions have received this message."""
        return [
            consumer.consumer_id
            for consumer in self.consumers.values()
            if isinstance(consumer, ActiveMQMessageConsumer)
            and consumer.session.transacted
            and consumer.ledger.holds(message_id)
        ]

    def report(self, error: JMSException) -> None:
        """Pass an error that no caller would see to the exception listener, or log it."""
        listener = self.exception_listener
        if listener is None:
            logger.warning("Connection %s: %s", self.connection_id, error)
            return
        try:
            listener(error)
        except Exception:
            logger.exception("The exception listener of %s failed", self.connection_id)

    def warn_once(self, text: str) -> None:
        """Log a warning, unless this connection has logged it before."""
        if text not in self._warned:
            self._warned.add(text)
            logger.warning("Connection %s: %s", self.connection_id, text)

    def failed_error(self) -> JMSException:
        """Return a new exception with the reason why the connection has failed."""
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
        if self._state == _CLOSED:
            raise ConnectionClosedException
        if self._state != _OPEN:
            raise self.failed_error()

    def on_fork(self) -> None:
        """Refuse every use in a child process: the connection belongs to the parent process."""
        if self._state == _CLOSED:
            return
        self._state = _INHERITED
        self._is_inherited = True
        failure = self.failed_error()
        for session in self._sessions:
            session.mark_failed(failure)

    # For the transport.

    def on_command(self, command: commands.Command) -> None:
        """Route a command of the broker to its recipient; commands of other kinds are ignored."""
        if type(command) is commands.MessageDispatch:
            # successive dispatches usually have the same id, an object that the wire format reuses
            consumer_id, consumer = self._last_dispatch
            if consumer is None or command.consumer_id is not consumer_id:
                consumer = self.consumers.get(command.consumer_id)  # type: ignore[arg-type]
                self._last_dispatch = (command.consumer_id, consumer)
            if consumer is not None:
                consumer.dispatch(command)
            return
        handler = self._handlers.get(type(command))
        if handler is not None:
            handler(command)

    def _on_producer_ack(self, ack: commands.ProducerAck) -> None:
        producer = self.producers.get(ack.producer_id)  # type: ignore[arg-type]
        if producer is not None:
            producer.on_producer_ack(ack.size)

    def _on_connection_error(self, command: commands.ConnectionError) -> None:
        if self._state != _CLOSED:
            self.report(from_throwable(command.exception))

    def _on_consumer_control(self, control: commands.ConsumerControl) -> None:
        consumer = self.consumers.get(control.consumer_id)  # type: ignore[arg-type]
        if not isinstance(consumer, ActiveMQMessageConsumer):
            return
        if control.close:
            # The broker removes the consumer within a second. If the application still has its
            # messages, it ends later: then a RemoveInfo would be an error, also after a failover.
            consumer.is_removed_by_broker = bool(consumer.ledger.unsettled)
            self._tasks.spawn(consumer.close)
        else:
            consumer.info.prefetch_size = control.prefetch
            consumer.wake_receivers()  # without a prefetch they must pull

    def _on_connection_control(self, control: commands.ConnectionControl) -> None:
        if control.fault_tolerant:
            self.optimizes_acks = False

    def _on_broker_info(self, info: commands.BrokerInfo) -> None:
        self.broker_id = info.broker_id
        if info.fault_tolerant_configuration:
            self.optimizes_acks = False

    def transport_interrupted(self, error: Exception) -> None:
        """Drop the messages that will be dispatched again; then call the listeners."""
        self._losses += 1
        for consumer in list(self.consumers.values()):
            consumer.on_interruption()
        for producer in list(self.producers.values()):
            producer.on_interruption()
        self._interruptions.transport_interrupted(error)

    def transport_resumed(self) -> None:
        """Call the listeners: the transport has found a broker."""
        self._interruptions.transport_resumed()

    def fail(self, error: JMSException) -> None:
        """Fail the connection and close its transport, after an error that it cannot survive."""
        if self._state == _OPEN:
            self.on_exception(error)
            self._closer = spawn(self.transport.stop, name=f"pyjms close {self.connection_id}")

    def on_exception(self, error: Exception) -> None:
        """Fail the connection and everything created on it: the transport has failed."""
        if self._state != _OPEN:
            return
        self._state = _FAILED
        self.failure = error
        failure = self.failed_error()
        self._failed_sessions, self._sessions = self._sessions, []
        for session in self._failed_sessions:
            session.dispose(failure)
        self.report(error if isinstance(error, JMSException) else failure)

    # The end.

    async def _dispose(self, sessions: list[ActiveMQSession]) -> int:
        """Dispose sessions after their listeners have returned; return the last sequence id."""
        for session in sessions:
            session.is_closed = True
            session.is_started = False
        for session in sessions:
            await session.finish()
            await session.end_shared_subscriptions()
        delivered = [session.dispose(session.failure) for session in sessions]
        return max([-1, *delivered])

    async def _end_with_broker(self, sessions: list[ActiveMQSession]) -> None:
        try:
            last = await self._dispose(sessions)
            if self.failure is None:
                await self._unregister(last)
        except JMSException as error:
            logger.debug("Closing %s without the broker: %s", self.connection_id, error)

    async def _end(self, sessions: list[ActiveMQSession]) -> None:
        self._tasks.cancel()
        with anyio.CancelScope(shield=True):
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
        self._last_dispatch = (None, None)
        if self.stats is not None:
            self.stats.close()


def _session_mode(transacted: object, value: AcknowledgeMode | int) -> AcknowledgeMode:
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
