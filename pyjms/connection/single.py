"""One connection for everybody. (spring-jms 3.1)"""

from __future__ import annotations

import logging
from types import TracebackType
from typing import Self

import anyio

from pyjms._wakeup import BackgroundTask, spawn
from pyjms.connection.shared import SharedConnection
from pyjms.core.closing import quietly
from pyjms.enums import AcknowledgeMode
from pyjms.errors import IllegalStateException, JMSException
from pyjms.jms.api import Connection, ConnectionFactory, ExceptionListener, Session

__all__ = ["SingleConnectionFactory"]

logger = logging.getLogger(__name__)


class SingleConnectionFactory(ConnectionFactory):
    """Hands out one connection, made when it is first asked for; closing it closes nothing.

    What is handed out is equal to everything else the factory hands out. Starting and
    stopping are counted: the connection runs while one of its users wants it to. `destroy()`
    (or leaving `async with factory:`) closes it for good; the next use makes a new one.

    Args:
        target_connection_factory: makes the connection.
        client_id: set on it when it is made.
        exception_listener: hears of its trouble.
        reconnect_on_exception: give the connection up when it reports an exception; the
            next use makes a new one. Only then may users set exception listeners.
    """

    def __init__(
        self,
        target_connection_factory: ConnectionFactory,
        *,
        client_id: str | None = None,
        exception_listener: ExceptionListener | None = None,
        reconnect_on_exception: bool = False,
    ) -> None:
        self.target_connection_factory = target_connection_factory
        self.client_id = client_id
        self.exception_listener = exception_listener
        self.reconnect_on_exception = reconnect_on_exception
        self._connection: Connection | None = None
        self._opening = anyio.Lock()
        self._started_count = 0
        self._started = False
        self._listeners: list[ExceptionListener] = []
        self._closing: set[BackgroundTask] = set()

    @property
    def is_running(self) -> bool:
        """Whether there is a connection."""
        return self._connection is not None

    async def create_connection(
        self, user_name: str | None = None, password: str | None = None
    ) -> Connection:
        """Return the shared connection.

        Raises:
            IllegalStateException: credentials are given: there is one connection for all.
        """
        if user_name is not None or password is not None:
            raise IllegalStateException(
                f"{type(self).__name__} does not support custom username and password",
                hint="set them on the target factory",
            )
        await self._current()
        return SharedConnection(self)

    async def start(self) -> None:
        """Connect now; a failure is only logged, the first use tries again."""
        try:
            await self._current()
        except JMSException as error:
            logger.info("Could not connect eagerly: %s", error)

    async def stop(self) -> None:
        """Close the connection; the next use makes a new one."""
        await self.reset_connection()

    async def reset_connection(self) -> None:
        """Close the connection (stopped first if it runs); the next use makes a new one."""
        async with self._opening:
            connection, started = self._give_up()
        if connection is not None:
            await self._close_physically(connection, started)

    async def destroy(self) -> None:
        """Close the connection and wait until everything given up earlier is closed, too."""
        await self.reset_connection()
        for task in list(self._closing):
            await task.wait()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        with anyio.CancelScope(shield=True):
            await self.destroy()

    async def _current(self) -> Connection:
        """Return the physical connection, made if need be."""
        connection = self._connection
        if connection is None:
            async with self._opening:
                connection = self._connection
                if connection is None:
                    connection = await self._open()
        return connection

    async def _open(self) -> Connection:
        connection = await self.target_connection_factory.create_connection()
        try:
            if self.client_id is not None:
                await connection.set_client_id(self.client_id)
            if self.reconnect_on_exception or self.exception_listener is not None:
                connection.exception_listener = _Reporter(self, connection)
            if self._started_count > 0:
                await connection.start()
        except BaseException:
            await quietly(connection.close, "close a connection that could not be prepared")
            raise
        self._started = self._started_count > 0
        self._connection = connection
        logger.debug("Established the shared connection %r", connection)
        return connection

    async def _open_session(
        self, connection: Connection, transacted: bool, acknowledge_mode: AcknowledgeMode | int
    ) -> Session:
        """Make a session of the physical connection; caching factories do more."""
        return await connection.create_session(transacted, acknowledge_mode)

    async def _start_one(self) -> None:
        """One more user wants the connection to run."""
        connection = await self._current()
        if not self._started:
            await connection.start()
            self._started = True
        self._started_count += 1

    async def _stop_one(self) -> None:
        """One user fewer does."""
        self._started_count -= 1
        connection = self._connection
        if self._started_count == 0 and connection is not None and self._started:
            self._started = False
            await connection.stop()

    def _give_up(self) -> tuple[Connection | None, bool]:
        """Forget the connection; the caller closes it."""
        connection, started = self._connection, self._started
        self._connection, self._started = None, False
        return connection, started

    async def _close_physically(self, connection: Connection, started: bool) -> None:
        async def close() -> None:
            try:
                if started:
                    await connection.stop()
            finally:
                await connection.close()

        await quietly(close, "close the shared connection")

    def _report(self, connection: Connection, error: JMSException) -> None:
        """Hear an exception of `connection`; called on its loop."""
        if self.reconnect_on_exception and connection is self._connection:
            logger.info(
                "Encountered a JMSException - resetting the underlying JMS Connection: %s", error
            )
            _, started = self._give_up()
            task = spawn(
                self._close_physically, connection, started, name="close a failed connection"
            )
            self._closing = {t for t in self._closing if not t.done} | {task}
        for listener in [self.exception_listener, *self._listeners]:
            if listener is not None:
                listener(error)


class _Reporter:
    """The physical connection's exception listener; it knows whose it is."""

    def __init__(self, factory: SingleConnectionFactory, connection: Connection) -> None:
        self._factory = factory
        self._connection = connection

    def __call__(self, error: JMSException) -> None:
        self._factory._report(self._connection, error)
