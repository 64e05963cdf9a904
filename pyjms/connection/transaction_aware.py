"""A factory whose `create_session` returns a managed transaction's session. (spring-jms 3.3)"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from operator import attrgetter
from typing import Any

from pyjms.connection.delegating_factory import DelegatingConnection, WrappingConnectionFactory
from pyjms.core.closing import close_quietly
from pyjms.core.resources import BoundResource, active_transaction, bound
from pyjms.enums import AcknowledgeMode, SessionMode
from pyjms.errors import TransactionInProgressException
from pyjms.jms.api import Connection, ConnectionFactory, Session
from pyjms.jms.api.delegating import DelegatingSession

__all__ = ["TransactionAwareConnectionFactoryProxy"]

_target = attrgetter("target")


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

    def wrapped(self, connection: Connection) -> Connection:
        """Return the connection wrapped, so that its sessions may be those of transactions."""
        return _TransactionAwareConnection(connection, self)

    async def transactional_session(self) -> Session | None:
        """Return the session of the current task's transaction; None: there is no transaction.

        Raises:
            JMSException: a session to be synchronized with the transaction could not be opened.
        """
        target = self.target_connection_factory
        resource = bound(target)
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


def _refused(call: str) -> Callable[[object], Coroutine[Any, Any, None]]:
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

    commit = _refused("Commit")
    rollback = _refused("Rollback")

    async def close(self) -> None:
        """Leave the session open: it is needed for the transaction's end."""
