"""A shared connection whose sessions, producers and consumers are reused. (spring-jms 3.2)

A `CachedSession` is one use of a session, from `create_session` to `close`. Closing it closes its
handles on producers and consumers, rolls back an open transaction, closes durable subscribers and
returns the session to the cache. A session that cannot be cleaned up is closed.

A handle is one use of a connection, session or producer that is shared, cached or pooled. Closing
it returns what it refers to, which stays open for the next use.

The shared connection (spring-jms 3.1):

    SingleConnectionFactory --creates--> SharedConnection (one per caller, a handle)
              |                                |
              +-------- the sharing <----------+
                             |
                  the physical connection

The physical connection is opened when first needed, given up when it fails or is reset, and opened
again on the next use. Handles have no reference to it, so they survive its replacement. It is
started while one of them is.
"""

from __future__ import annotations

from abc import abstractmethod
from collections import deque
from collections.abc import Awaitable, Callable
from functools import partial
from operator import attrgetter
from typing import Any, Final, Generic, NamedTuple, Protocol, Self, TypeVar, Unpack

import anyio

from pyjms.enums import AcknowledgeMode, DeliveryMode, SessionMode
from pyjms.errors import (
    ConnectionClosedException,
    IllegalStateException,
    JMSException,
    RequestTimeoutException,
)
from pyjms.jms import api
from pyjms.jms.api import LocalTransactionEventListener, PullOptions, check_least, destination_first
from pyjms.jms.delegating import DelegatingConsumer, DelegatingSession
from pyjms.jms.destination import ADVISORY_PREFIX, Destination, Topic
from pyjms.jms.domain import (
    Domain,
    QueueConnection,
    QueueConnectionFactory,
    TopicConnection,
    TopicConnectionFactory,
    open_connection,
)
from pyjms.jms.message import BytesMessage, Message, TextMessage
from pyjms.jms.metadata import ConnectionMetaData
from pyjms.runtime import clock as _clock
from pyjms.runtime.event_loop import BackgroundTask, spawn
from pyjms.runtime.fork import inherits
from pyjms.runtime.forwarding import DelegatedAttribute, delegate
from pyjms.runtime.keywords import constructor_names_keywords
from pyjms.runtime.logging import get_logger
from pyjms.template.resources import quietly
from pyjms.transport.openwire.correlator import InterruptionListener, InterruptionListeners

logger: Final = get_logger(__name__)

_CALLBACK_TIMEOUT: Final = 15.0  # seconds; ActiveMQ's closeTimeout


class _Kept(Protocol):
    @property
    def session(self) -> api.Session: ...


_K = TypeVar("_K", bound=_Kept)


class SessionHandle(DelegatingSession, Generic[_K]):
    """Uses the session of `kept` until `close`, which cleans it up and returns it."""

    # asked for every message: plain attributes in the place of the properties
    transacted: bool = False
    acknowledge_mode: AcknowledgeMode = AcknowledgeMode.AUTO

    def __init__(self, kept: _K) -> None:
        self._kept: _K | None = kept
        self._listening = False
        self._observing = False
        self.transacted = kept.session.transacted
        self.acknowledge_mode = kept.session.acknowledge_mode

    def _use(self) -> _K:
        """Return the entry in use, for a call after which a cleanup may be needed."""
        if self._kept is None:
            raise IllegalStateException("The session is closed")
        return self._kept

    def _target(self) -> api.Session:
        if self._kept is None:
            raise IllegalStateException("The session is closed")
        return self._kept.session

    def create_text_message(self, text: str | None = None) -> TextMessage:
        if self._kept is None:  # written out, since it is called for each message
            raise IllegalStateException("The session is closed")
        return self._kept.session.create_text_message(text)

    def create_bytes_message(self, data: bytes | None = None) -> BytesMessage:
        return self._target().create_bytes_message(data)

    async def set_message_listener(self, listener: api.MessageListener | None) -> None:
        """Set the session's listener; `close` removes it."""
        await self._use().session.set_message_listener(listener)
        self._listening = listener is not None

    def set_local_transaction_event_listener(
        self, listener: LocalTransactionEventListener | None
    ) -> None:
        """Set the session's transaction listener; `close` removes it."""
        self._use().session.set_local_transaction_event_listener(listener)
        self._observing = listener is not None

    async def close(self) -> None:
        """Clean the session up and return it; close it if that fails.

        Raises:
            IllegalStateException: called by a completion listener, for which it would wait.
        """
        kept = self._kept
        if kept is None:
            return
        try:
            # setting up a timeout would cost more than closing a cached session
            if getattr(kept.session, "outstanding_sends", True):
                await _wait_for_completions(kept.session)
        except IllegalStateException:
            raise
        except BaseException as error:  # cancelled, or the broker does not respond
            await self._discard(self._take(), error)
            return
        kept = self._take()
        if kept is None:
            return  # another task has closed it
        try:
            await self._clean(kept)
        except BaseException as error:
            await self._discard(kept, error)
        else:
            await self._put_back(kept)

    def _take(self) -> _K | None:
        """Take over the entry in use; return None if another call has taken it."""
        kept, self._kept = self._kept, None
        return kept

    @abstractmethod
    async def _clean(self, kept: _K) -> None:
        """Close the objects that this use has left open; roll back."""

    @abstractmethod
    async def _put_back(self, kept: _K) -> None:
        """Return a clean session."""

    @abstractmethod
    async def _discard(self, kept: _K | None, error: BaseException) -> None:
        """Close a session that could not be cleaned up; raise `error` if the caller needs it."""


async def _wait_for_completions(session: api.Session) -> None:
    """Wait until the completion listeners of a session that is closing have returned.

    Raises:
        RequestTimeoutException: they have not after 15 seconds; a lost broker may never respond.
        IllegalStateException: called by a completion listener.
    """
    with _clock.timeout(_CALLBACK_TIMEOUT):
        await session.wait_for_completions()
        return
    raise RequestTimeoutException(
        f"Asynchronous sends have not completed in {_CALLBACK_TIMEOUT:g} seconds"
    )


Forget = Callable[[api.Closeable], None]
"""Called with a handle that is closed."""


class ProducerHandle(api.MessageProducer):
    """Sends through `target` with the handle's quality of service; `close` calls `forget`."""

    def __init__(
        self,
        target: api.MessageProducer,
        forget: Forget,
        delivery_mode: DeliveryMode,
        priority: int,
        time_to_live: float,
    ) -> None:
        self.target = target
        self._forget = forget
        self._closed = False
        self.delivery_mode: DeliveryMode = delivery_mode
        self.priority: int = priority
        self.time_to_live: float = time_to_live

    # extensions of ActiveMQ, if the target has them
    stats: DelegatedAttribute[Any] = DelegatedAttribute(attrgetter("target"), read_only=True)
    transformer: DelegatedAttribute[Any] = DelegatedAttribute(attrgetter("target"), read_only=True)
    send_timeout: DelegatedAttribute[float | None] = DelegatedAttribute(
        attrgetter("target"), read_only=True
    )

    async def send(
        self,
        message: Message | Destination,
        to_send: Message | None = None,
        callback: api.AsyncCallback | None = None,
        *,
        destination: Destination | None = None,
        delivery_mode: DeliveryMode | None = None,
        priority: int | None = None,
        time_to_live: float | None = None,
        delivery_delay: float | None = None,
        completion_listener: api.CompletionListener | None = None,
    ) -> None:
        """Send through the target, by default with the settings of this handle."""
        if self._closed:
            raise IllegalStateException("The producer is closed")
        if to_send is not None or not isinstance(message, Message):
            message, destination = destination_first(message, to_send, destination)
        only_of_activemq: dict[str, Any] = {} if callback is None else {"callback": callback}
        await self.target.send(
            message,
            destination=self._admit(destination, delivery_delay, completion_listener),
            delivery_mode=self.delivery_mode if delivery_mode is None else delivery_mode,
            priority=self.priority if priority is None else priority,
            time_to_live=self.time_to_live if time_to_live is None else time_to_live,
            # a JMS 1.1 pool refuses even 0
            delivery_delay=(self.delivery_delay if delivery_delay is None else delivery_delay)
            or None,
            completion_listener=completion_listener,
            **only_of_activemq,
        )

    @abstractmethod
    def _admit(
        self,
        destination: Destination | None,
        delivery_delay: float | None,
        completion_listener: api.CompletionListener | None,
        /,
    ) -> Destination | None:
        """Check a send; return the destination to pass to the target."""

    async def close(self) -> None:
        """Close the handle, not the target. Idempotent."""
        if not self._closed:
            self._closed = True
            self._forget(self)


class SharedInterruptions(InterruptionListeners):
    """The transport listeners of all handles on one connection, or on those that replace it."""

    def watch(self, connection: api.Connection) -> None:
        """Listen to the interruptions of `connection`, if it reports any."""
        add = getattr(connection, "add_transport_listener", None)  # JMS has no such method
        if add is not None:
            add(self)


class TransportListening:
    """A handle on a shared connection, with transport listeners of its own."""

    _interruptions: SharedInterruptions
    _transport_listeners: list[InterruptionListener]

    def add_transport_listener(self, listener: InterruptionListener) -> None:
        """Register a listener that is called when a failover transport loses or finds a broker.

        The calls are made on the event loop and must not block; they end when this handle is
        closed. ActiveMQ: addTransportListener.
        """
        self._interruptions.add(listener)
        self._transport_listeners.append(listener)

    def remove_transport_listener(self, listener: InterruptionListener) -> None:
        """Stop calling `listener`. ActiveMQ: removeTransportListener."""
        if listener in self._transport_listeners:
            self._transport_listeners.remove(listener)
            self._interruptions.remove(listener)


class ConnectionHandle(TransportListening, QueueConnection, TopicConnection):
    """A handle on a connection that has others, with listeners of its own until it is closed."""

    def __init__(
        self, exception_listeners: list[api.ExceptionListener], interruptions: SharedInterruptions
    ) -> None:
        """Add its listeners to those of all handles."""
        self._interruptions = interruptions
        self._transport_listeners = []
        self._exception_listeners = exception_listeners
        self._listener: api.ExceptionListener | None = None
        self._is_closed = False

    @abstractmethod
    def _provider(self) -> api.Connection | None:
        """Return the connection, if there is one; raise if the handle cannot be used."""

    @abstractmethod
    def _check_listener(self) -> None:
        """Raise if the handle cannot have an exception listener."""

    @property
    def exception_listener(self) -> api.ExceptionListener | None:
        """The exception listener of this handle, in addition to those of other handles."""
        return self._listener

    @exception_listener.setter
    def exception_listener(self, listener: api.ExceptionListener | None) -> None:
        self._check_listener()
        self._drop_exception_listener()
        self._listener = listener
        if listener is not None:
            self._exception_listeners.append(listener)

    @property
    def transformer(self) -> api.MessageTransformer | None:
        """The message transformer of the connection, which its target factory sets."""
        return getattr(self._provider(), "transformer", None)

    @property
    def stats(self) -> Any:
        """The connection's statistics; None unless `jms.statsEnabled` is set."""
        return getattr(self._provider(), "stats", None)

    def _drop_exception_listener(self) -> None:
        if self._listener is not None:
            self._exception_listeners.remove(self._listener)
            self._listener = None

    def _drop_listeners(self) -> None:
        """Stop calling the listeners of this handle: it is closed."""
        if self._listener is not None:
            self._drop_exception_listener()
        while self._transport_listeners:
            self._interruptions.remove(self._transport_listeners.pop())


@constructor_names_keywords
class SingleConnectionFactory(QueueConnectionFactory, TopicConnectionFactory):
    """Shares one connection among all callers. Spring: SingleConnectionFactory.

    The connection is opened when it is first needed. `create_connection` returns handles on it,
    equal to each other; closing a handle does not close the connection. The connection is started
    while at least one handle is. `destroy()`, or leaving `async with factory:`, closes it; the
    next use opens another one. Tasks of one loop may share the factory.

    Args:
        target_connection_factory: opens the connection.
        client_id: set on the connection when it is opened.
        exception_listener: called with the exceptions that the connection reports.
        reconnect_on_exception: close the connection when it reports an exception, so that the
            next use opens another one. Only then may handles have exception listeners.
    """

    def __init__(
        self,
        target_connection_factory: api.ConnectionFactory,
        *,
        client_id: str | None = None,
        exception_listener: api.ExceptionListener | None = None,
        reconnect_on_exception: bool = False,
    ) -> None:
        api.check_factory(target_connection_factory, type(self).__name__)
        self.target_connection_factory = target_connection_factory
        self.client_id = client_id
        self.exception_listener = exception_listener
        self.reconnect_on_exception = reconnect_on_exception
        self._domain: Domain | None = None
        self._sharing = _Sharing(self._open, self._close_physically)

    @property
    def shares_connection(self) -> bool:
        """True."""
        return True

    @property
    def is_running(self) -> bool:
        """Whether there is an open connection."""
        return self._sharing.connection is not None

    async def create_connection(
        self, user_name: str | None = None, password: str | None = None
    ) -> api.Connection:
        """Return a handle on the shared connection; opens it if there is none.

        Raises:
            IllegalStateException: credentials are given, but the connection is shared.
            JMSException: the connection could not be opened.
        """
        if user_name is not None or password is not None:
            raise IllegalStateException(
                f"{type(self).__name__} does not support custom username and password",
                hint="set them on the target factory",
            )
        await self._sharing.current()
        return SharedConnection(self, self._sharing, self._open_session)

    async def open_in(
        self, domain: Domain | None, user_name: str | None, password: str | None
    ) -> api.Connection:
        """Return a handle on the shared connection, like `create_connection`.

        From then on the factory opens its connection with the target's method for `domain`. Handles
        for both domains may be mixed.
        """
        self._domain = domain
        return await super().open_in(domain, user_name, password)

    async def start(self) -> None:
        """Open the connection now; a failure is only logged, because the first use tries again."""
        try:
            await self._sharing.current()
        except JMSException as error:
            logger.info("Could not connect eagerly: %s", error)

    async def stop(self) -> None:
        """Close the connection; the next use opens another one."""
        await self.reset_connection()

    async def reset_connection(self) -> None:
        """Close the connection, stopped first if it is started; the next use opens another one."""
        await self._sharing.reset()

    async def destroy(self) -> None:
        """Close the connection, and wait until connections given up earlier are closed."""
        await self.reset_connection()
        await self._sharing.wait_closed()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *error: object) -> None:
        with anyio.CancelScope(shield=True):
            await self.destroy()

    async def _open(self, start: bool) -> api.Connection:
        connection = await open_connection(self.target_connection_factory, self._domain)
        try:
            if self.client_id is not None:
                await connection.set_client_id(self.client_id)
            if self.reconnect_on_exception or self.exception_listener is not None:
                connection.exception_listener = partial(self._on_exception, connection)
            if start:
                await connection.start()
        except BaseException:
            await quietly(connection.close, "close a connection that could not be prepared")
            raise
        return connection

    async def _open_session(
        self, connection: api.Connection, transacted: bool, acknowledge_mode: SessionMode
    ) -> api.Session:
        """Create a session on the physical connection; a caching factory may reuse one."""
        return await connection.create_session(transacted, acknowledge_mode)

    async def _close_physically(self, connection: api.Connection, started: bool) -> None:
        async def close() -> None:
            try:
                if started:
                    await connection.stop()
            finally:
                await connection.close()

        await quietly(close, "close the shared connection")

    def _on_exception(self, connection: api.Connection, error: JMSException) -> None:
        """Handle an exception that `connection` reports; called on its loop."""
        if self.reconnect_on_exception and self._sharing.give_up_soon(connection):
            logger.info(
                "Encountered a JMSException - resetting the underlying JMS Connection: %s", error
            )
        for listener in [self.exception_listener, *self._sharing.exception_listeners]:
            if listener is not None:
                listener(error)


class _Sharing:
    """The physical connection behind the handles of one factory: opened when needed, replaced."""

    def __init__(
        self,
        open_connection: Callable[[bool], Awaitable[api.Connection]],
        close_connection: Callable[[api.Connection, bool], Awaitable[None]],
    ) -> None:
        """Keep the functions that open and close it; both are told whether it is started."""
        self._open_connection = open_connection
        self._close_connection = close_connection
        self.exception_listeners: list[api.ExceptionListener] = []
        """The exception listeners of the handles."""
        self.interruptions: SharedInterruptions = SharedInterruptions()
        self.on_fork()
        self._inheritance = inherits(self)

    def on_fork(self) -> None:
        """Start without a connection, also in a forked child process, which opens its own."""
        self._opening = anyio.Lock()
        self._started_handles = 0
        self._is_started = False
        self._closing: set[BackgroundTask] = set()
        self.connection: api.Connection | None = None
        """The physical connection; None before the first use, and after a failure or reset."""

    async def current(self) -> api.Connection:
        """Return the physical connection; open it if there is none."""
        connection = self.connection
        if connection is None:
            async with self._opening:
                connection = self.connection
                if connection is None:
                    connection = await self._open_connection(self._started_handles > 0)
                    self.interruptions.watch(connection)
                    self._is_started = self._started_handles > 0
                    self.connection = connection
                    logger.debug("Established the shared connection %r", connection)
        return connection

    async def start_handle(self) -> None:
        """Add one started handle; start the connection if it is the first."""
        connection = await self.current()
        if not self._is_started:
            await connection.start()
            self._is_started = True
        self._started_handles += 1

    async def stop_handle(self) -> None:
        """Remove one started handle; stop the connection if it was the last."""
        self._started_handles -= 1
        connection = self.connection
        if self._started_handles == 0 and connection is not None and self._is_started:
            self._is_started = False
            await connection.stop()

    async def reset(self) -> None:
        """Close the connection; the next use opens another one."""
        async with self._opening:
            connection, started = self._give_up()
        if connection is not None:
            await self._close_connection(connection, started)

    def give_up_soon(self, connection: api.Connection) -> bool:
        """Close `connection` in the background if it is the current one; return whether it was."""
        if connection is not self.connection:
            return False
        _, started = self._give_up()
        task = spawn(self._close_connection, connection, started, name="close a failed connection")
        self._closing = {t for t in self._closing if not t.done} | {task}
        return True

    async def wait_closed(self) -> None:
        """Wait until the connections that were given up have been closed."""
        for task in list(self._closing):
            await task.wait()

    def _give_up(self) -> tuple[api.Connection | None, bool]:
        connection, started = self.connection, self._is_started
        self.connection, self._is_started = None, False
        return connection, started


class SharedConnection(ConnectionHandle):
    """A handle on the shared connection, equal to all other handles of its factory.

    Calls are made on the current physical connection, which is opened if there is none.
    """

    def __init__(
        self,
        factory: SingleConnectionFactory,
        sharing: _Sharing,
        open_session: Callable[[api.Connection, bool, SessionMode], Awaitable[api.Session]],
    ) -> None:
        super().__init__(sharing.exception_listeners, sharing.interruptions)
        self.factory = factory
        self._sharing = sharing
        self._open_session = open_session
        self._started = False

    def __eq__(self, other: object) -> bool:
        return isinstance(other, SharedConnection) and self.factory is other.factory

    def __hash__(self) -> int:
        return hash(self.factory)

    def __repr__(self) -> str:
        return f"<shared {self._sharing.connection!r}>"

    def _provider(self) -> api.Connection | None:
        return self._sharing.connection

    @property
    def client_id(self) -> str | None:
        """The connection's client id; the factory's if there is no connection."""
        connection = self._sharing.connection
        return self.factory.client_id if connection is None else connection.client_id

    async def set_client_id(self, client_id: str) -> None:
        """Accept the client id that the connection already has."""
        self._check_open()
        if client_id != self.client_id:
            raise IllegalStateException(
                "set_client_id is not supported on a shared connection",
                hint="set the property 'client_id' on the factory",
            )

    def _check_listener(self) -> None:
        """Refuse exception listeners if the factory's `reconnect_on_exception` is off."""
        self._check_open()
        if not self.factory.reconnect_on_exception:
            raise IllegalStateException(
                "exception_listener is not supported on a shared connection",
                hint="set the property 'exception_listener' on the factory, or turn on its "
                "'reconnect_on_exception', which allows any number of listeners",
            )

    @property
    def metadata(self) -> ConnectionMetaData:
        """The connection's metadata; the provider's defaults if there is no connection."""
        connection = self._sharing.connection
        return ConnectionMetaData() if connection is None else connection.metadata

    async def create_session(
        self, transacted: bool = False, acknowledge_mode: SessionMode = AcknowledgeMode.AUTO
    ) -> api.Session:
        """Create a session, or reuse a cached one."""
        connection = self._sharing.connection
        if connection is None or self._is_closed:
            connection = await self._shared_connection()
        return await self._open_session(connection, transacted, acknowledge_mode)

    async def create_connection_consumer(
        self, *arguments: Any, **options: Any
    ) -> api.ConnectionConsumer:
        """Create it on the shared connection, where it exists until the consumer is closed."""
        connection = await self._shared_connection()
        return await connection.create_connection_consumer(*arguments, **options)

    async def create_durable_connection_consumer(
        self, *arguments: Any, **options: Any
    ) -> api.ConnectionConsumer:
        """Create it on the shared connection, where it exists until the consumer is closed."""
        connection = await self._shared_connection()
        return await connection.create_durable_connection_consumer(*arguments, **options)

    async def start(self) -> None:
        """Keep the connection started until this handle is stopped or closed."""
        self._check_open()
        if not self._started:
            await self._sharing.start_handle()
            self._started = True

    async def stop(self) -> None:
        """Stop this handle; the connection stays started while another handle is started."""
        self._check_open()
        await self._stop_own()

    async def close(self) -> None:
        """Undo this handle's start and exception listener; the connection stays open."""
        if not self._is_closed:
            self._is_closed = True
            self._drop_listeners()
            if self._started:
                await self._stop_own()

    async def _stop_own(self) -> None:
        if self._started:
            self._started = False
            await self._sharing.stop_handle()

    async def _shared_connection(self) -> api.Connection:
        """Return the connection, which is opened if need be."""
        self._check_open()
        return await self._sharing.current()

    def _check_open(self) -> None:
        if self._is_closed:
            raise ConnectionClosedException


class KeptProducer:
    """A producer that stays open, and the settings with which each of its handles begins."""

    __slots__ = (
        "delivery_delay", "delivery_mode", "disable_message_id", "disable_message_timestamp",
        "priority", "target", "time_to_live",
    )  # fmt: skip

    def __init__(self, target: api.MessageProducer) -> None:
        self.target: api.MessageProducer = target
        self.delivery_mode: DeliveryMode = target.delivery_mode
        self.priority: int = target.priority
        self.time_to_live: float = target.time_to_live
        self.delivery_delay: float = target.delivery_delay
        self.disable_message_id: bool = target.disable_message_id
        self.disable_message_timestamp: bool = target.disable_message_timestamp


class CachedProducer(ProducerHandle):
    """A producer with separate settings, which stays open."""

    def __init__(self, kept: KeptProducer, entry: SessionEntry, forget: Forget) -> None:
        super().__init__(kept.target, forget, kept.delivery_mode, kept.priority, kept.time_to_live)
        self._entry = entry
        self.delivery_delay: float = kept.delivery_delay
        self.disable_message_id: bool = kept.disable_message_id
        self.disable_message_timestamp: bool = kept.disable_message_timestamp

    @property
    def destination(self) -> Destination | None:
        return self.target.destination

    def _admit(
        self, destination: Destination | None, *_: float | api.CompletionListener | None
    ) -> Destination | None:
        self._entry.uncommitted = True
        target = self.target  # another handle may have sent with other hints
        target.disable_message_id = self.disable_message_id
        target.disable_message_timestamp = self.disable_message_timestamp
        return destination


class CachedConsumer(DelegatingConsumer):
    """A consumer that stays open; `close` removes a listener set through this handle."""

    def __init__(
        self,
        target: api.MessageConsumer,
        entry: SessionEntry,
        forget: Forget,
        discard: Callable[[], Awaitable[None]] | None = None,
    ) -> None:
        """Receive from `target`; `discard` closes the target if a receive was interrupted."""
        super().__init__(target)
        self._entry = entry
        self._forget = forget
        self._discard = discard
        self._closed = False
        self._listening = False
        self._is_announcing = False
        self._receiving = False

    @property
    def is_closed(self) -> bool:
        """Whether this handle or its target is closed."""
        return self._closed or self._target.is_closed

    async def set_message_listener(self, listener: api.MessageListener | None) -> None:
        """Set the listener, until this handle is closed."""
        await super().set_message_listener(listener)
        self._listening = listener is not None

    async def set_message_available_listener(
        self, listener: api.MessageAvailableListener | None
    ) -> None:
        """Set the listener, until this handle is closed."""
        await super().set_message_available_listener(listener)
        self._is_announcing = listener is not None

    async def receive(self, timeout: float | None = None) -> Message | None:
        """Wait for the next message and return it, or None when `timeout` seconds pass."""
        consumer = self._consumer()
        self._entry.uncommitted = True
        return await self._receive(consumer.receive(timeout))

    async def receive_checked(
        self, check: Callable[[Message], object], timeout: float | None = None
    ) -> Message | None:
        """Receive like `receive`; a message for which `check` raises stays in the target."""
        consumer = self._consumer()
        self._entry.uncommitted = True
        return await self._receive(consumer.receive_checked(check, timeout))

    async def _receive(self, receiving: Awaitable[Message | None]) -> Message | None:
        self._receiving = True
        message = await receiving
        self._receiving = False
        return message

    async def close(self) -> None:
        """Remove the listener; the target stays open and keeps its prefetched messages.

        A pull consumer is closed if a receive was interrupted: its message may still arrive.
        """
        if not self._closed:
            self._closed = True
            self._forget(self)
            if self._receiving and self._discard is not None:
                await self._discard()
                return
            if self._listening:
                await self._target.set_message_listener(None)
            if self._is_announcing:
                await self._target.set_message_available_listener(None)

    def _consumer(self) -> api.MessageConsumer:
        if self._closed:
            raise IllegalStateException("The consumer is closed")
        return self._target


class _ConsumerKey(NamedTuple):
    destination: Destination
    selector: str | None
    no_local: bool
    subscription: str | None
    pulls: bool = False


class SessionEntry:
    """A physical session, with its cached producers and consumers."""

    __slots__ = ("connection", "consumers", "mode", "producers", "session", "uncommitted")

    def __init__(self, session: api.Session, connection: api.Connection, mode: SessionMode) -> None:
        self.session: api.Session = session
        self.connection: api.Connection = connection
        self.mode: SessionMode = mode
        self.producers: dict[tuple[int, str] | None, KeptProducer] = {}
        """By the identity of the destination; None: the producer without a destination."""
        self.consumers: dict[_ConsumerKey, api.MessageConsumer] = {}
        self.uncommitted: bool = False

    async def close_consumers(self, condition: Callable[[_ConsumerKey], bool]) -> None:
        """Close the cached consumers for which `condition` is true."""
        for key in [key for key in self.consumers if condition(key)]:
            await self.consumers.pop(key).close()

    async def close(self) -> None:
        """Close the session and its cached producers and consumers.

        The session is closed before its producers: it waits once for all asynchronous sends.
        """
        producers = [kept.target for kept in self.producers.values()]
        for kept in (*self.consumers.values(), self.session, *producers):
            await kept.close()
        self.producers.clear()
        self.consumers.clear()


def _session_of(self: CachedSession) -> api.Session:
    return self._use().session


class CachedSession(SessionHandle[SessionEntry]):
    """One use of a cached session; after `close` every call raises IllegalStateException."""

    def __init__(
        self,
        entry: SessionEntry,
        release: Callable[[SessionEntry], Awaitable[None]],
        *,
        cache_producers: bool,
        cache_consumers: bool,
    ) -> None:
        """Use the session of `entry`, which is passed to `release` on close."""
        super().__init__(entry)
        self._release = release
        self._cache_producers = cache_producers
        self._cache_consumers = cache_consumers
        self._handles: set[api.Closeable] = set()

    def __repr__(self) -> str:
        return f"<cached {self._kept.session!r}>" if self._kept else "<closed cached session>"

    async def create_producer(self, destination: Destination | None = None) -> api.MessageProducer:
        """Reuse the producer of this destination, or create one."""
        entry = self._use()
        if not self._cache_producers or (destination is not None and destination.is_temporary):
            return await entry.session.create_producer(destination)
        key = None if destination is None else destination.identity
        kept = entry.producers.get(key)
        if kept is None:
            kept = KeptProducer(await entry.session.create_producer(destination))
            entry.producers[key] = kept
            self._use()  # another task may have closed this handle, and have returned the session
        handle = CachedProducer(kept, entry, self._handles.discard)
        self._handles.add(handle)
        return handle

    async def create_consumer(
        self, destination: Destination, selector: str | None = None, *, no_local: bool = False
    ) -> api.MessageConsumer:
        """Reuse the consumer with these arguments, or create one."""
        create = self._use().session.create_consumer
        return await self._consumer(
            _ConsumerKey(destination, selector or None, no_local, None),
            lambda: create(destination, selector, no_local=no_local),
        )

    async def create_pull_consumer(
        self, destination: Destination, selector: str | None = None, **options: Unpack[PullOptions]
    ) -> api.MessageConsumer:
        """Reuse the pull consumer with these arguments, or create one."""
        create = self._use().session.create_pull_consumer
        no_local = options.get("no_local", False)
        return await self._consumer(
            _ConsumerKey(destination, selector or None, no_local, None, pulls=True),
            lambda: create(destination, selector, **options),
        )

    async def create_durable_subscriber(
        self, topic: Topic, name: str, selector: str | None = None, *, no_local: bool = False
    ) -> api.MessageConsumer:
        """Reuse the subscriber of this session or create one; closing the session closes it."""
        create = self._use().session.create_durable_subscriber
        return await self._consumer(
            _ConsumerKey(topic, selector or None, no_local, name),
            lambda: create(topic, name, selector, no_local=no_local),
        )

    # never cached
    create_shared_consumer = delegate(api.Session.create_shared_consumer, _session_of)
    create_shared_durable_consumer = delegate(
        api.Session.create_shared_durable_consumer, _session_of
    )
    create_browser = delegate(api.Session.create_browser, _session_of)
    add_synchronization = delegate(api.Session.add_synchronization, _session_of)

    async def commit(self) -> None:
        """Commit; afterwards there is nothing to roll back."""
        await self._target().commit()
        kept = self._kept
        if kept is not None:  # not closed meanwhile
            kept.uncommitted = False

    async def rollback(self) -> None:
        """Roll back; afterwards there is nothing more to roll back.

        Pull consumers are closed, so that their messages return to the broker: in the cache they
        would wait for a receive that may never come.
        """
        await self._target().rollback()
        kept = self._kept
        if kept is not None:  # not closed meanwhile
            kept.uncommitted = False
            await kept.close_consumers(lambda key: key.pulls)

    async def _put_back(self, kept: SessionEntry) -> None:
        await self._release(kept)

    async def _discard(self, kept: SessionEntry | None, error: BaseException) -> None:
        if kept is not None:
            with anyio.CancelScope(shield=True):
                await kept.close()
        raise error

    async def _clean(self, kept: SessionEntry) -> None:
        for handle in list(self._handles):
            await handle.close()
        if self._listening:
            await kept.session.set_message_listener(None)
        rolls_back = kept.uncommitted and kept.mode == AcknowledgeMode.TRANSACTED
        if rolls_back:
            await kept.session.rollback()
        kept.uncommitted = False
        if self._observing:
            kept.session.set_local_transaction_event_listener(None)
        if kept.consumers:
            await kept.close_consumers(
                lambda key: key.subscription is not None or (rolls_back and key.pulls)
            )

    async def _consumer(
        self, key: _ConsumerKey, create: Callable[[], Awaitable[api.MessageConsumer]]
    ) -> api.MessageConsumer:
        """Return a handle on the consumer cached under `key`; create one if there is none."""
        # a new consumer of advisories is told what is there, a cached one is not
        is_advisory = key.destination.physical_name.startswith(ADVISORY_PREFIX)
        if not self._cache_consumers or key.destination.is_temporary or is_advisory:
            return await create()
        entry = self._use()
        target = entry.consumers.get(key)
        if target is None:
            target = entry.consumers[key] = await create()
            self._use()  # as above

        async def discard() -> None:
            await entry.close_consumers(lambda kept: kept == key)

        handle = CachedConsumer(
            target, entry, self._handles.discard, discard if key.pulls else None
        )
        self._handles.add(handle)
        return handle

    def _use(self) -> SessionEntry:
        """Return the entry, and record that there may be work to roll back."""
        if self._kept is None:
            raise IllegalStateException("The session is closed")
        self._kept.uncommitted = True
        return self._kept


@constructor_names_keywords
class CachingConnectionFactory(SingleConnectionFactory):
    """A SingleConnectionFactory that also caches sessions. Spring: CachingConnectionFactory.

    Up to `session_cache_size` idle sessions are kept for each acknowledge mode (transacted counts
    as one), with their producers and consumers. More are created on demand, and closed when they
    are returned to a full cache. Tasks of one loop may share the factory.

    A cached consumer keeps prefetching messages even if none are received, so consumers are not
    cached by default, as in Spring Boot. The consumers of a template have no prefetch. Do not use a
    caching factory for listener containers that scale.

    Args:
        target_connection_factory: opens the connection.
        session_cache_size: idle sessions to keep for each acknowledge mode; at least 1.
        cache_producers: whether sessions keep their producers.
        cache_consumers: whether sessions keep their consumers. The default of Spring's class is
            true, Spring Boot's is false.
        client_id: set on the connection when it is opened.
        exception_listener: called with the exceptions that the connection reports.
        reconnect_on_exception: open a new connection after the connection reported an exception.

    Raises:
        ValueError: `session_cache_size` is below 1.
    """

    def __init__(
        self,
        target_connection_factory: api.ConnectionFactory,
        *,
        session_cache_size: int = 1,
        cache_producers: bool = True,
        cache_consumers: bool = False,
        client_id: str | None = None,
        exception_listener: api.ExceptionListener | None = None,
        reconnect_on_exception: bool = True,
    ) -> None:
        super().__init__(
            target_connection_factory,
            client_id=client_id,
            exception_listener=exception_listener,
            reconnect_on_exception=reconnect_on_exception,
        )
        check_least("session_cache_size", session_cache_size, 1)
        self.session_cache_size = session_cache_size
        self.cache_producers = cache_producers
        self.cache_consumers = cache_consumers
        self._idle: dict[SessionMode, deque[SessionEntry]] = {}

    async def _open_session(
        self, connection: api.Connection, transacted: bool, acknowledge_mode: SessionMode
    ) -> api.Session:
        mode = AcknowledgeMode.TRANSACTED if transacted else acknowledge_mode
        idle = self._idle.setdefault(mode, deque())
        while idle:
            entry = idle.popleft()
            if entry.connection is connection:
                return self._handle(entry)
        session = await connection.create_session(transacted, acknowledge_mode)
        return self._handle(SessionEntry(session, connection, mode))

    def _handle(self, entry: SessionEntry) -> CachedSession:
        return CachedSession(
            entry,
            self._release,
            cache_producers=self.cache_producers,
            cache_consumers=self.cache_consumers,
        )

    async def _release(self, entry: SessionEntry) -> None:
        """Keep an idle session; close it if the cache is full or the connection was replaced."""
        idle = self._idle.setdefault(entry.mode, deque())
        if entry.connection is self._sharing.connection and len(idle) < self.session_cache_size:
            idle.append(entry)
        else:
            await entry.close()

    async def _close_physically(self, connection: api.Connection, started: bool) -> None:
        for idle in self._idle.values():
            for entry in [e for e in idle if e.connection is connection]:
                idle.remove(entry)
                await quietly(entry.close, "close a cached session")
        await super()._close_physically(connection, started)
