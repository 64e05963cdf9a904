"""Connection factories that delegate to another factory. (spring-jms 3.3)"""

from __future__ import annotations

from abc import abstractmethod
from operator import attrgetter
from typing import Any, Final

from pyjms._forwarding import DelegatedAttribute, delegated
from pyjms.jms.api import Connection, ConnectionFactory, ExceptionListener, check_factory
from pyjms.jms.domain import (
    DomainConnectionFactory,
    QueueConnection,
    TopicConnection,
    open_connection,
)
from pyjms.jms.domain.connections import Domain
from pyjms.jms.metadata import ConnectionMetaData

__all__ = ["DelegatingConnection", "DelegatingConnectionFactory", "WrappingConnectionFactory"]

_target = attrgetter("target")


class WrappingConnectionFactory(DomainConnectionFactory):
    """Opens the connections of another factory, and wraps each of them."""

    def __init__(self, target_connection_factory: ConnectionFactory) -> None:
        check_factory(target_connection_factory, type(self).__name__)
        self.target_connection_factory = target_connection_factory

    @property
    def shares_connection(self) -> bool:
        """Whether the target's connections are handles on one shared connection."""
        return self.target_connection_factory.shares_connection

    async def open_in(
        self, domain: Domain | None, user_name: str | None, password: str | None
    ) -> Connection:
        """Open a connection of the target, with these credentials if they are given."""
        target = self.target_connection_factory
        return self.wrapped(await open_connection(target, domain, user_name, password))

    @abstractmethod
    def wrapped(self, connection: Connection) -> Connection:
        """Return a connection of the target, or a wrapper around it."""


class DelegatingConnectionFactory(WrappingConnectionFactory):
    """Delegates all calls to another factory. Spring: DelegatingConnectionFactory.

    A base class for factories that change part of the behaviour; templates and transactions treat
    it like its target. Tasks of one loop may share it.

    Args:
        target_connection_factory: opens the connections.
        should_stop_connections: whether started connections are stopped before they are closed,
            for targets that share or pool their connections.
    """

    def __init__(
        self, target_connection_factory: ConnectionFactory, *, should_stop_connections: bool = False
    ) -> None:
        super().__init__(target_connection_factory)
        self.should_stop_connections = should_stop_connections

    def wrapped(self, connection: Connection) -> Connection:
        """Return the connection; with `should_stop_connections` it is stopped before closing."""
        return _StoppedBeforeClose(connection) if self.should_stop_connections else connection


class DelegatingConnection(QueueConnection, TopicConnection):
    """Delegates all calls to another connection; override methods as needed."""

    def __init__(self, target: Connection) -> None:
        self.target = target

    client_id: Final = DelegatedAttribute[str | None](_target, read_only=True)
    metadata: Final = DelegatedAttribute[ConnectionMetaData](_target, read_only=True)
    exception_listener = DelegatedAttribute[ExceptionListener | None](_target, read_only=False)
    transformer: DelegatedAttribute[Any] = DelegatedAttribute(
        _target, read_only=False
    )  # extensions of ActiveMQ
    set_client_id: Final = delegated(Connection.set_client_id, _target)
    create_connection_consumer: Final = delegated(Connection.create_connection_consumer, _target)
    create_durable_connection_consumer: Final = delegated(
        Connection.create_durable_connection_consumer, _target
    )
    create_session = delegated(Connection.create_session, _target)
    start = delegated(Connection.start, _target)
    stop = delegated(Connection.stop, _target)
    close = delegated(Connection.close, _target)


class _StoppedBeforeClose(DelegatingConnection):
    """A connection that is stopped before it is closed, if it is started."""

    def __init__(self, target: Connection) -> None:
        super().__init__(target)
        self._is_started = False

    async def start(self) -> None:
        await self.target.start()
        self._is_started = True

    async def stop(self) -> None:
        self._is_started = False
        await self.target.stop()

    async def close(self) -> None:
        """Stop the connection if it is started, and close it."""
        try:
            if self._is_started:
                await self.stop()
        finally:
            await self.target.close()
