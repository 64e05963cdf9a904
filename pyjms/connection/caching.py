"""Connection factories that share one connection, and cache its sessions.

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

from collections.abc import Awaitable, Callable
from functools import partial
from typing import Final, Self

import anyio

from pyjms.connection.handles import OpenSession, SharedConnection
from pyjms.connection.interruptions import SharedInterruptions
from pyjms.connection.session_cache import SessionCache
from pyjms.enums import SessionMode
from pyjms.errors import IllegalStateException, JMSException
from pyjms.jms import api
from pyjms.jms.api import check_least
from pyjms.jms.domain import Domain, QueueConnectionFactory, TopicConnectionFactory, open_connection
from pyjms.runtime.event_loop import BackgroundTask, spawn
from pyjms.runtime.fork import inherits
from pyjms.runtime.keywords import constructor_names_keywords
from pyjms.runtime.logging import get_logger
from pyjms.template.resources import quietly

logger: Final = get_logger(__name__)


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
        self._sharing = Sharing(self._open, self._close_physically)
        self._open_session: OpenSession = _create_session

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
        if self._sharing.connection is None:
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


async def _create_session(
    connection: api.Connection, transacted: bool, acknowledge_mode: SessionMode
) -> api.Session:
    return await connection.create_session(transacted, acknowledge_mode)


class Sharing:
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
        self._cache = SessionCache(self, self._sharing)
        self._open_session = self._cache.open_session

    async def _close_physically(self, connection: api.Connection, started: bool) -> None:
        await self._cache.close_sessions(connection)
        await super()._close_physically(connection, started)
