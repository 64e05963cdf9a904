"""Connection factories that delegate to another factory. (spring-jms 3.3)"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from operator import attrgetter
from typing import Any, Final

from pyjms.enums import AcknowledgeMode, SessionMode
from pyjms.errors import TransactionInProgressException
from pyjms.jms.api import Connection, ConnectionFactory, ExceptionListener, Session, check_factory
from pyjms.jms.delegating import DelegatingSession
from pyjms.jms.domain import (
    Domain,
    DomainConnectionFactory,
    QueueConnection,
    TopicConnection,
    open_connection,
)
from pyjms.jms.metadata import ConnectionMetaData
from pyjms.runtime.forwarding import DelegatedAttribute, delegate
from pyjms.template.resources import (
    BoundResource,
    active_transaction,
    bound_resource,
    close_quietly,
)

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
        return self.wrap(await open_connection(target, domain, user_name, password))

    @abstractmethod
    def wrap(self, connection: Connection) -> Connection:
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

    def wrap(self, connection: Connection) -> Connection:
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
    set_client_id: Final = delegate(Connection.set_client_id, _target)
    create_connection_consumer: Final = delegate(Connection.create_connection_consumer, _target)
    create_durable_connection_consumer: Final = delegate(
        Connection.create_durable_connection_consumer, _target
    )
    create_session = delegate(Connection.create_session, _target)
    start = delegate(Connection.start, _target)
    stop = delegate(Connection.stop, _target)
    close = delegate(Connection.close, _target)


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


class UserCredentialsConnectionFactoryAdapter(DomainConnectionFactory):
    """Adds a user name and password to `create_connection()`.

    Credentials of the call take precedence over those of the current task, and these over the
    adapter's. Without any, the target uses its own credentials. Tasks of one loop may share it.
    Spring: UserCredentialsConnectionFactoryAdapter.

    Args:
        target: opens the connections.
        user_name: the user, if neither the call nor the task has one.
        password: that user's password.
    """

    def __init__(
        self,
        target: ConnectionFactory,
        *,
        user_name: str | None = None,
        password: str | None = None,
    ) -> None:
        check_factory(target, type(self).__name__)
        self.target = target
        self._own = (user_name, password)
        self._current: ContextVar[tuple[str | None, str | None] | None] = ContextVar(
            "pyjms_credentials", default=None
        )

    @contextmanager
    def credentials(self, user_name: str | None, password: str | None) -> Iterator[None]:
        """Use these credentials within the block, in this task and in tasks that it starts.

        Spring: setCredentialsForCurrentThread and removeCredentialsFromCurrentThread.
        """
        token = self._current.set((user_name, password))
        try:
            yield
        finally:
            self._current.reset(token)

    async def open_in(
        self, domain: Domain | None, user_name: str | None, password: str | None
    ) -> Connection:
        """Open a connection with the credentials that apply; see the class."""
        if user_name is None:
            user_name, password = self._current.get() or self._own
        if not user_name:
            return await open_connection(self.target, domain)
        return await open_connection(self.target, domain, user_name, password)


class TransactionAwareConnectionFactoryProxy(WrappingConnectionFactory):
    """Makes code that opens sessions take part in the current task's transaction.

    Spring: TransactionAwareConnectionFactoryProxy. It must be the outermost factory. Within a
    transaction of the target (of a JmsTransactionManager or a transacted listener container),
    `create_session` returns the transaction's session: `close` has no effect, `commit` and
    `rollback` raise TransactionInProgressException. Outside of a transaction the target's sessions
    are returned. Tasks of one loop may share it.

    Args:
        target_connection_factory: the factory of the transactions.
        synched_local_transaction_allowed: whether, if there is only a transaction of another
            factory, a session of the target is committed after it and rolled back with it.
    """

    def __init__(
        self,
        target_connection_factory: ConnectionFactory,
        *,
        synched_local_transaction_allowed: bool = False,
    ) -> None:
        super().__init__(target_connection_factory)
        self.synched_local_transaction_allowed = synched_local_transaction_allowed

    def wrap(self, connection: Connection) -> Connection:
        """Return the connection wrapped, so that its sessions may be those of transactions."""
        return _TransactionAwareConnection(connection, self)

    async def transactional_session(self) -> Session | None:
        """Return the session of the current task's transaction; None: there is no transaction.

        Raises:
            JMSException: a session to be synchronized with the transaction could not be opened.
        """
        target = self.target_connection_factory
        resource = bound_resource(target)
        if resource is not None and resource.is_transaction:
            return resource.session
        main = active_transaction() if self.synched_local_transaction_allowed else None
        if main is None:
            return None
        joined = main.joined.get(target)
        if joined is None:
            connection = await target.create_connection()
            try:
                await connection.start()
                session = await connection.create_session(transacted=True)
            except BaseException:
                await close_quietly(connection)
                raise
            joined = main.joined[target] = BoundResource(connection, session)
        return joined.session


class _TransactionAwareConnection(DelegatingConnection):
    """A connection of the target whose sessions may be those of transactions."""

    def __init__(self, target: Connection, factory: TransactionAwareConnectionFactoryProxy) -> None:
        super().__init__(target)
        self._factory = factory

    async def create_session(
        self, transacted: bool = False, acknowledge_mode: SessionMode = AcknowledgeMode.AUTO
    ) -> Session:
        """Return the session of the current task's transaction, or else create one."""
        session = await self._factory.transactional_session()
        if session is None:
            return await self.target.create_session(transacted, acknowledge_mode)
        return _ManagedSession(session)


def _refusal_of(call: str) -> Callable[[object], Coroutine[Any, Any, None]]:
    async def refuse(_session: object) -> None:
        """Refuse the call.

        Raises:
            TransactionInProgressException: always: the manager ends the transaction.
        """
        raise TransactionInProgressException(
            f"{call} call not allowed within a managed transaction",
            hint="the manager ends the transaction; to roll it back, call "
            "status.set_rollback_only()",
        )

    return refuse


class _ManagedSession(DelegatingSession):
    """The session of a transaction, which the transaction manager ends and closes."""

    def __init__(self, target: Session) -> None:
        self._session = target

    def _target(self) -> Session:
        return self._session

    commit = _refusal_of("Commit")
    rollback = _refusal_of("Rollback")

    async def close(self) -> None:
        """Leave the session open: it is needed for the transaction's end."""
