"""Local JMS transactions around blocks of code. (spring-jms 7)

    async with manager.transaction():
        await template.convert_and_send("orders", order)    # visible after the block

The session is bound to the manager's connection factory for the block's task
(`pyjms.core.resources`): templates and listener containers with the same factory use it.
Transactions follow the task, not the thread.
"""

from __future__ import annotations

from enum import Enum
from types import TracebackType
from typing import Final

import anyio

from pyjms import _clock
from pyjms.core.closing import close_quietly
from pyjms.core.resources import BoundResource, bind, bound
from pyjms.errors import (
    IllegalStateException,
    TransactionRolledBackException,
    UnsupportedOperationException,
)
from pyjms.jms.api import ConnectionFactory

__all__ = ["JmsTransactionManager", "Propagation", "TransactionScope", "TransactionStatus"]


class Propagation(Enum):
    """What to do about a transaction that runs already. Spring: TransactionDefinition."""

    REQUIRED = "required"
    REQUIRES_NEW = "requires_new"
    SUPPORTS = "supports"
    NOT_SUPPORTED = "not_supported"
    MANDATORY = "mandatory"
    NEVER = "never"
    NESTED = "nested"


class _Way(Enum):
    BEGIN = 1
    JOIN = 2
    WITHOUT = 3
    REFUSE = 4
    UNSUPPORTED = 5


# Where no transaction runs, and where one does.
_WAYS: Final[dict[Propagation, tuple[_Way, _Way]]] = {
    Propagation.REQUIRED: (_Way.BEGIN, _Way.JOIN),
    Propagation.REQUIRES_NEW: (_Way.BEGIN, _Way.BEGIN),
    Propagation.SUPPORTS: (_Way.WITHOUT, _Way.JOIN),
    Propagation.NOT_SUPPORTED: (_Way.WITHOUT, _Way.WITHOUT),
    Propagation.MANDATORY: (_Way.REFUSE, _Way.JOIN),
    Propagation.NEVER: (_Way.WITHOUT, _Way.REFUSE),
    Propagation.NESTED: (_Way.BEGIN, _Way.UNSUPPORTED),
}


class TransactionStatus:
    """What a block may ask of the transaction that it runs in."""

    def __init__(self, name: str | None, resource: BoundResource | None, *, new: bool) -> None:
        self.name = name
        self.is_new_transaction = new
        self.completed = False
        self._resource = resource
        self._rollback_only = False

    @property
    def has_transaction(self) -> bool:
        """Whether there is a transaction at all."""
        return self._resource is not None

    @property
    def rollback_only(self) -> bool:
        """Whether the transaction can only be rolled back."""
        joined = self._resource is not None and self._resource.rollback_only
        return self._rollback_only or joined

    def set_rollback_only(self) -> None:
        """Have the transaction rolled back at its end, without an error.

        In a block that joined an outer transaction, the outer one ends in an error then.
        """
        self._rollback_only = True
        if not self.is_new_transaction and self._resource is not None:
            self._resource.rollback_only = True


class JmsTransactionManager:
    """Runs blocks in transactions of one connection factory's sessions.

    Args:
        connection_factory: templates and containers join by having the same object.
        default_timeout: seconds that a transaction may take if it says nothing; None: any.
            JMS itself is not interrupted: the next receive of a template fails, and the
            transaction is rolled back.
    """

    def __init__(
        self, connection_factory: ConnectionFactory, *, default_timeout: float | None = None
    ) -> None:
        self.connection_factory = connection_factory
        self.default_timeout = default_timeout

    def transaction(
        self,
        name: str | None = None,
        timeout: float | None = None,
        *,
        propagation: Propagation = Propagation.REQUIRED,
    ) -> TransactionScope:
        """Return the block: `async with manager.transaction() as status:`.

        It commits at its end and rolls back when it raises (or is cancelled), or when
        `status.set_rollback_only()` was called. `name` is for messages, `timeout` seconds.

        Raises (on entering):
            IllegalStateException: MANDATORY without a transaction, NEVER with one.
            UnsupportedOperationException: NESTED in a transaction.
            JMSException: no session could be opened.

        Raises (on leaving):
            TransactionRolledBackException: an inner block had asked for a rollback, time was
                up, or the broker could not commit.
        """
        return TransactionScope(self, name, timeout, propagation)


class TransactionScope:
    """One block in a transaction; enter it once."""

    def __init__(
        self,
        manager: JmsTransactionManager,
        name: str | None,
        timeout: float | None,
        propagation: Propagation,
    ) -> None:
        self._manager = manager
        self._name = name
        self._timeout = manager.default_timeout if timeout is None else timeout
        self._propagation = propagation
        self._binding: bind | None = None
        self._resource: BoundResource | None = None
        self._status: TransactionStatus | None = None

    async def __aenter__(self) -> TransactionStatus:
        """Begin, join or step out of the transaction, as the propagation has it."""
        existing = bound(self._manager.connection_factory)
        if existing is not None and not _is_transaction(existing):
            existing = None
        way = _WAYS[self._propagation][existing is not None]
        if way is _Way.REFUSE:
            found = "an existing" if existing is not None else "no existing"
            raise IllegalStateException(
                f"There is {found} transaction, but propagation is {self._propagation.name}"
            )
        if way is _Way.UNSUPPORTED:
            raise UnsupportedOperationException(
                "JMS transactions cannot be nested", hint="use REQUIRES_NEW, or REQUIRED to join"
            )
        if way is _Way.BEGIN:
            self._resource = await self._begin()
            self._bind(self._resource)
        elif way is _Way.JOIN:
            self._resource = existing
        elif existing is not None:
            self._bind(None)  # suspended: the block must not see it
        self._status = TransactionStatus(self._name, self._resource, new=way is _Way.BEGIN)
        return self._status

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """End what was begun; mark what was joined."""
        status, resource = self._status, self._resource
        assert status is not None
        if self._binding is not None:
            self._binding.__exit__(kind, error, trace)
        status.completed = True
        if resource is None:
            return
        if not status.is_new_transaction:
            if error is not None:
                resource.rollback_only = True
            return
        try:
            await _end(resource, status, error)
        finally:
            await close_quietly(resource.session)
            await close_quietly(resource.connection)

    async def _begin(self) -> BoundResource:
        deadline = None if self._timeout is None else _clock.now() + self._timeout
        connection = await self._manager.connection_factory.create_connection()
        try:
            session = await connection.create_session(transacted=True)
        except BaseException:
            await close_quietly(connection)
            raise
        return BoundResource(connection, session, transactional=True, deadline=deadline)

    def _bind(self, resource: BoundResource | None) -> None:
        self._binding = bind(self._manager.connection_factory, resource)
        self._binding.__enter__()


async def _end(
    resource: BoundResource, status: TransactionStatus, error: BaseException | None
) -> None:
    """Commit, or roll back; say so where nobody else does."""
    if error is None and not status.rollback_only:
        await resource.session.commit()
        return
    with anyio.CancelScope(shield=True):
        await resource.session.rollback()
    if error is None and resource.rollback_only and not status._rollback_only:
        raise TransactionRolledBackException(
            "Transaction rolled back because it has been marked as rollback-only",
            hint="an inner block failed, or the transaction timed out",
        )


def _is_transaction(resource: BoundResource) -> bool:
    """Whether somebody will commit this session: a manager, or a transacted container."""
    return resource.transactional or resource.session.transacted
