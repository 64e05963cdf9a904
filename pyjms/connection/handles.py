"""Handles on sessions, producers and connections that are shared, cached or pooled.

A handle is one use of what it refers to, which stays open for the next use: closing the handle
returns it. Compiled in the compiled wheel, as every send of a template takes new handles.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar

from pyjms.connection.interruptions import SharedInterruptions, TransportListening
from pyjms.enums import AcknowledgeMode, DeliveryMode, SessionMode
from pyjms.errors import ConnectionClosedException, IllegalStateException, RequestTimeoutException
from pyjms.jms import api
from pyjms.jms.api import LocalTransactionEventListener, destination_first
from pyjms.jms.delegating import DelegatingSession
from pyjms.jms.destination import Destination, Topic
from pyjms.jms.domain import QueueConnection, TopicConnection
from pyjms.jms.message import BytesMessage, Message, TextMessage
from pyjms.jms.metadata import ConnectionMetaData
from pyjms.runtime import clock as _clock

if TYPE_CHECKING:
    from pyjms.connection.caching import Sharing, SingleConnectionFactory

_CALLBACK_TIMEOUT: Final = 15.0  # seconds; ActiveMQ's closeTimeout

_K = TypeVar("_K")


class SessionHandle(DelegatingSession, Generic[_K]):
    """Uses the session of `kept`, until `close` cleans it up and returns `kept`."""

    # asked for every message: plain attributes in the place of the properties
    transacted: bool = False
    acknowledge_mode: AcknowledgeMode = AcknowledgeMode.AUTO

    def __init__(self, kept: _K, session: api.Session) -> None:
        self._kept: _K | None = kept
        self._session = session
        self._listening = False
        self._observing = False
        self.transacted = session.transacted
        self.acknowledge_mode = session.acknowledge_mode

    def _use(self) -> _K:
        """Return the entry in use, for a call after which a cleanup may be needed."""
        if self._kept is None:
            raise IllegalStateException("The session is closed")
        return self._kept

    def _target(self) -> api.Session:
        if self._kept is None:
            raise IllegalStateException("The session is closed")
        return self._session

    def create_text_message(self, text: str | None = None) -> TextMessage:
        if self._kept is None:  # written out, since it is called for each message
            raise IllegalStateException("The session is closed")
        return self._session.create_text_message(text)

    def create_bytes_message(self, data: bytes | None = None) -> BytesMessage:
        return self._target().create_bytes_message(data)

    async def set_message_listener(self, listener: api.MessageListener | None) -> None:
        """Set the session's listener; `close` removes it."""
        self._use()
        await self._session.set_message_listener(listener)
        self._listening = listener is not None

    def set_local_transaction_event_listener(
        self, listener: LocalTransactionEventListener | None
    ) -> None:
        """Set the session's transaction listener; `close` removes it."""
        self._use()
        self._session.set_local_transaction_event_listener(listener)
        self._observing = listener is not None

    async def close(self) -> None:
        """Clean the session up and return it; close it if that fails.

        Raises:
            IllegalStateException: called by a completion listener, for which it would wait.
        """
        if self._kept is None:
            return
        failed: list[BaseException] = []  # handled after `except`: see with_cleanup
        try:
            # setting up a timeout would cost more than closing a cached session
            if getattr(self._session, "outstanding_sends", True):
                await _wait_for_completions(self._session)
        except IllegalStateException:
            raise
        except BaseException as error:  # cancelled, or the broker does not respond
            failed.append(error)
        kept = self._take()
        if kept is not None and not failed:  # otherwise another task has closed it
            try:
                await self._clean(kept)
            except BaseException as error:
                failed.append(error)
        if failed:
            await self._discard(kept, failed.pop())
        elif kept is not None:
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
        priority: Any,
        time_to_live: Any,
    ) -> None:
        self.target: Any = target
        self._forget = forget
        self._closed = False
        # Any, also when compiled: what an application sets is checked by the target's `send`
        self.delivery_mode: Any = delivery_mode
        self.priority: Any = priority
        self.time_to_live: Any = time_to_live

    @property
    def stats(self) -> Any:
        """The target's statistics, an extension of ActiveMQ."""
        return self.target.stats

    @property
    def transformer(self) -> Any:
        """The target's message transformer, an extension of ActiveMQ."""
        return self.target.transformer

    @property
    def send_timeout(self) -> float | None:
        """The target's timeout of sends, an extension of ActiveMQ."""
        timeout: float | None = self.target.send_timeout
        return timeout

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


OpenSession = Callable[[api.Connection, bool, SessionMode], Awaitable[api.Session]]
"""Called with a connection, and with the arguments of its `create_session`."""


class SharedConnection(ConnectionHandle):
    """A handle on the shared connection, equal to all other handles of its factory.

    Calls are made on the current physical connection, which is opened if there is none.
    """

    def __init__(
        self,
        factory: SingleConnectionFactory,
        sharing: Sharing,
        open_session: OpenSession,
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
        self,
        destination: Destination,
        selector: str | None,
        server_session_pool: api.ServerSessionPool,
        max_messages: int,
        *,
        no_local: bool = False,
    ) -> api.ConnectionConsumer:
        """Create it on the shared connection, where it exists until the consumer is closed."""
        connection = await self._shared_connection()
        return await connection.create_connection_consumer(
            destination, selector, server_session_pool, max_messages, no_local=no_local
        )

    async def create_durable_connection_consumer(
        self,
        topic: Topic,
        name: str,
        selector: str | None,
        server_session_pool: api.ServerSessionPool,
        max_messages: int,
        *,
        no_local: bool = False,
    ) -> api.ConnectionConsumer:
        """Create it on the shared connection, where it exists until the consumer is closed."""
        connection = await self._shared_connection()
        return await connection.create_durable_connection_consumer(
            topic, name, selector, server_session_pool, max_messages, no_local=no_local
        )

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
