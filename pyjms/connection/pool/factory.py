"""The pooling connection factories. (spring-jms 9 and 10)"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import ClassVar, Final, Self, Unpack

import anyio

from pyjms import _clock
from pyjms._fork import inherits
from pyjms._ids import IdGenerator
from pyjms._logger import get_logger
from pyjms._wakeup import BackgroundTask, end_tasks, spawn
from pyjms.connection.pool.connection import Credentials, PhysicalConnection, PooledConnection
from pyjms.connection.pool.options import PoolKeywords, PoolOptions
from pyjms.connection.pool.statistics import PoolStats
from pyjms.errors import ConnectionFailedException, IllegalStateException, JMSException
from pyjms.jms.api import Connection, ConnectionFactory, check_factory
from pyjms.jms.domain import QueueConnectionFactory, TopicConnectionFactory
from pyjms.transport.uri import TransportURI

__all__ = ["JmsPoolConnectionFactory", "PooledConnectionFactory"]

logger: Final = get_logger(__name__)


class _ConnectionPool:
    """The open connections of one pair of user name and password."""

    def __init__(self) -> None:
        self.connections: list[PhysicalConnection] = []
        self.opening = anyio.Lock()
        self._turns = itertools.count()

    def next_in_turn(self) -> PhysicalConnection:
        """Return the next connection, in round-robin order."""
        return self.connections[next(self._turns) % len(self.connections)]


class PooledConnectionFactory(QueueConnectionFactory, TopicConnectionFactory):
    """Shares a number of connections among all callers, and pools their sessions.

    ActiveMQ: PooledConnectionFactory of activemq-pool. `create_connection` opens connections up to
    `max_connections` for each pair of user name and password, then returns handles on the open ones
    in round-robin order. Closing a handle closes the objects created through it; the connection
    stays open until it is idle or open for too long, fails, or `clear` or `stop` is called. As in
    ActiveMQ's pool, which supports JMS 1.1, a handle that was stopped is unusable, and JMS 2.0
    calls are refused. Tasks of one loop may share the factory.

    Args:
        target_connection_factory: opens the connections.
        options: the options of `PoolOptions`; times are seconds.

    Raises:
        TypeError: a keyword is not an option, or a time not a number.
        ValueError: an option is out of range.
    """

    _IS_JMS_11: ClassVar = True

    def __init__(
        self, target_connection_factory: ConnectionFactory, **options: Unpack[PoolKeywords]
    ) -> None:
        check_factory(target_connection_factory, type(self).__name__)
        self.target_connection_factory = target_connection_factory
        self.options: PoolOptions = PoolOptions(**options)
        self.options.check()
        self.stats: PoolStats = PoolStats(_names.generate(), _broker_of(target_connection_factory))
        """The statistics of the pool, always enabled."""
        self._is_stopped = False
        self.forked()
        inherits(self)

    def forked(self) -> None:
        """Start without connections, also in a forked child process, which opens its own."""
        self._pools: dict[Credentials, _ConnectionPool] = {}
        self._closing: set[BackgroundTask] = set()
        self._checker: BackgroundTask | None = None
        self.stats.reset()

    @property
    def is_running(self) -> bool:
        """Whether there is an open connection."""
        return next(self._all(), None) is not None

    @property
    def num_connections(self) -> int:
        """The number of open connections. ActiveMQ: getNumConnections."""
        return sum(1 for _ in self._all())

    async def create_connection(
        self, user_name: str | None = None, password: str | None = None
    ) -> Connection:
        """Return a handle on a pooled connection; open one if there are fewer than allowed.

        Raises:
            IllegalStateException: the pool is stopped.
            ConnectionFailedException: the connection was not open in `connection_timeout` seconds.
            JMSException: the connection could not be opened.
        """
        self._check_running()
        self.options.check()
        self._check_regularly()
        physical = await self._take(user_name, password)
        return PooledConnection(physical, self._give_back)

    async def start(self) -> None:
        """Allow the use of the pool, and open a connection; a failure to open is only logged.

        With `create_connection_on_startup` off, no connection is opened.
        """
        self._is_stopped = False
        self._check_regularly()
        if self.options.create_connection_on_startup:
            try:
                connection = await self.create_connection()
            except JMSException as error:
                logger.warning(
                    "Create pooled connection during start failed. This exception will be "
                    "ignored: %s",
                    error,
                )
            else:
                await connection.close()

    async def stop(self) -> None:
        """Close all connections, used or not; `create_connection` raises until `start`."""
        self._is_stopped = True
        await end_tasks(self._checker)
        self._checker = None
        await self.clear()

    async def clear(self) -> None:
        """Close all connections, used or not; the next use opens others."""
        try:
            for pool in list(self._pools.values()):
                async with pool.opening:  # wait for a connection that is being opened
                    connections, pool.connections = pool.connections, []
                for physical in connections:
                    await physical.close()
        finally:
            with anyio.CancelScope(shield=True):
                for task in list(self._closing):
                    await task.wait()

    async def destroy(self) -> None:
        """Close all connections like `stop`; all factories that keep connections have `destroy`."""
        await self.stop()

    async def expire_connections(self) -> None:
        """Close the unused connections that have been idle or open too long, or have failed."""
        for pool in list(self._pools.values()):
            due = [physical for physical in pool.connections if physical.is_due()]
            for physical in due:
                pool.connections.remove(physical)
                if not physical.has_failed:
                    self.stats.expired_connections.increment()
            for physical in due:
                await physical.close()

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *error: object) -> None:
        with anyio.CancelScope(shield=True):
            await self.stop()

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {self.target_connection_factory!r}>"

    def _all(self) -> Iterator[PhysicalConnection]:
        return (physical for pool in self._pools.values() for physical in pool.connections)

    async def _take(self, user_name: str | None, password: str | None) -> PhysicalConnection:
        """Take an open connection, or open one if there are fewer than allowed."""
        await self.expire_connections()
        pool = self._pools.setdefault((user_name, password), _ConnectionPool())
        with _clock.timeout(self.options.connection_timeout):
            async with pool.opening:
                self._check_running()
                if len(pool.connections) < self.options.max_connections:
                    physical = await self._open(user_name, password)
                    pool.connections.append(physical)
                else:
                    physical = pool.next_in_turn()
                physical.take()
                return physical
        raise ConnectionFailedException(
            f"No pooled connection was open in {self.options.connection_timeout:g} seconds",
            hint="the pool's option connection_timeout sets this time",
        )

    def _check_running(self) -> None:
        if self._is_stopped:
            raise IllegalStateException(
                "The connection pool is stopped", hint="start() allows its use again"
            )

    async def _open(self, user_name: str | None, password: str | None) -> PhysicalConnection:
        target = self.target_connection_factory
        if user_name is None and password is None:
            connection = await target.create_connection()
        else:
            connection = await target.create_connection(user_name, password)
        return PhysicalConnection(
            connection, self.options, self.stats, self._failed, is_jms_11=self._IS_JMS_11
        )

    async def _give_back(self, physical: PhysicalConnection) -> None:
        physical.give_back()
        await self.expire_connections()

    def _failed(self, physical: PhysicalConnection, error: JMSException) -> None:
        """Close a connection that has reported an exception, if the options say so."""
        self.stats.failed_connections.increment()
        if not self.options.reconnect_on_exception:
            return
        for pool in self._pools.values():
            if physical in pool.connections:
                logger.info("Closing a pooled connection after an exception: %s", error)
                pool.connections.remove(physical)
                physical.end()
                task = spawn(physical.close, name="close a failed pooled connection")
                self._closing = {t for t in self._closing if not t.done} | {task}

    def _check_regularly(self) -> None:
        """Start the background check, unless it runs or is off."""
        if self.options.time_between_expiration_check > 0 and self._checker is None:
            self._checker = spawn(self._check_periodically, name="pyjms pool expiration check")

    async def _check_periodically(self) -> None:
        while True:
            await _clock.sleep(self.options.time_between_expiration_check)
            await self.expire_connections()


class JmsPoolConnectionFactory(PooledConnectionFactory):
    """The pool of Spring Boot: a PooledConnectionFactory for JMS 2.0.

    pooled-jms: JmsPoolConnectionFactory. Stopping a connection has no effect, as others use the
    connection, and JMS 2.0 calls are passed on. Takes the arguments of PooledConnectionFactory.
    """

    _IS_JMS_11: ClassVar = False


_names = IdGenerator("pool:")


def _broker_of(factory: ConnectionFactory) -> str:
    uri = getattr(factory, "uri", None)
    return str(uri.without_options()) if isinstance(uri, TransportURI) else type(factory).__name__
