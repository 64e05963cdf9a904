"""One physical connection shared by all callers. (spring-jms 3.1)

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

from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, Final, Self

import anyio

from pyjms.connection.handles import ConnectionHandle, SharedInterruptions
from pyjms.enums import AcknowledgeMode, SessionMode
from pyjms.errors import ConnectionClosedException, IllegalStateException, JMSException
from pyjms.jms.api import (
    Connection,
    ConnectionConsumer,
    ConnectionFactory,
    ExceptionListener,
    Session,
    check_factory,
)
from pyjms.jms.domain import (
    Domain,
    QueueConnectionFactory,
    TopicConnectionFactory,
    open_connection,
)
from pyjms.jms.metadata import ConnectionMetaData
from pyjms.runtime.event_loop import BackgroundTask, spawn
from pyjms.runtime.fork import inherits
from pyjms.runtime.logging import get_logger
from pyjms.template.closing import quietly

logger: Final = get_logger(__name__)


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
        target_connection_factory: ConnectionFactory,
        *,
        client_id: str | None = None,
        exception_listener: ExceptionListener | None = None,
        reconnect_on_exception: bool = False,
    ) -> None:
        check_factory(target_connection_factory, type(self).__name__)
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
    ) -> Connection:
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
    ) -> Connection:
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

    async def _open(self, start: bool) -> Connection:
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
        self, connection: Connection, transacted: bool, acknowledge_mode: SessionMode
    ) -> Session:
        """Create a session on the physical connection; a caching factory may reuse one."""
        return await connection.create_session(transacted, acknowledge_mode)

    async def _close_physically(self, connection: Connection, started: bool) -> None:
        async def close() -> None:
            try:
                if started:
                    await connection.stop()
            finally:
                await connection.close()

        await quietly(close, "close the shared connection")

    def _on_exception(self, connection: Connection, error: JMSException) -> None:
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
        open_connection: Callable[[bool], Awaitable[Connection]],
        close_connection: Callable[[Connection, bool], Awaitable[None]],
    ) -> None:
        """Keep the functions that open and close it; both are told whether it is started."""
        self._open_connection = open_connection
        self._close_connection = close_connection
        self.exception_listeners: list[ExceptionListener] = []
        """The exception listeners of the handles."""
        self.interruptions: SharedInterruptions = SharedInterruptions()
        self.on_fork()
        inherits(self)

    def on_fork(self) -> None:
        """Start without a connection, also in a forked child process, which opens its own."""
        self._opening = anyio.Lock()
        self._started_handles = 0
        self._is_started = False
        self._closing: set[BackgroundTask] = set()
        self.connection: Connection | None = None
        """The physical connection; None before the first use, and after a failure or reset."""

    async def current(self) -> Connection:
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

    def give_up_soon(self, connection: Connection) -> bool:
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

    def _give_up(self) -> tuple[Connection | None, bool]:
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
        open_session: Callable[[Connection, bool, SessionMode], Awaitable[Session]],
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

    def _provider(self) -> Connection | None:
        return self._sharing.connection

    @property
    def client_id(self) -> str | None:
        """The connection's client id; the factory's if there is no connection."""
        connection = self._sharing.connection
        return self.factory.client_id if connection is None else connection.client_id

    async def set_client_id(self, client_id: str) -> None:
        """Accept the client id that the connection already has.

        Raises:
            IllegalStateException: it is a different client id.
        """
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
    ) -> Session:
        """Create a session, or reuse a cached one."""
        connection = await self._shared_connection()
        return await self._open_session(connection, transacted, acknowledge_mode)

    async def create_connection_consumer(
        self, *arguments: Any, **options: Any
    ) -> ConnectionConsumer:
        """Create it on the shared connection, where it exists until the consumer is closed."""
        connection = await self._shared_connection()
        return await connection.create_connection_consumer(*arguments, **options)

    async def create_durable_connection_consumer(
        self, *arguments: Any, **options: Any
    ) -> ConnectionConsumer:
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
            await self._stop_own()

    async def _stop_own(self) -> None:
        if self._started:
            self._started = False
            await self._sharing.stop_handle()

    async def _shared_connection(self) -> Connection:
        """Return the connection, which is opened if need be."""
        self._check_open()
        return await self._sharing.current()

    def _check_open(self) -> None:
        if self._is_closed:
            raise ConnectionClosedException
