"""Local JMS transactions around blocks of code. (spring-jms 7)

    async with manager.transaction():
        await template.convert_and_send("orders", order)    # visible after the block

The session is bound to the manager's connection factory for the block's task
(`pyjms.template.resources`): templates and listener containers with the same factory use it.
Transactions follow the task, not the thread.

There are also managers for other resources, and chains of managers (spring-jms 4.1, 7.7, 7.9):

    manager = ResourceTransactionManager(begin, commit, rollback)      # a database, for instance
    async with manager.transaction():
        ...                                  # a template's transacted session commits after it

    both = ChainedTransactionManager(JmsTransactionManager(factory), manager)

These managers have coroutines; those of `pyjms.sync.transactions` block. Both can be the
`transaction_manager` of a listener container.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, ExitStack, asynccontextmanager
from enum import Enum
from typing import Any, Final, Generic, NamedTuple, Protocol, TypeVar, cast

import anyio

from pyjms.errors import (
    HeuristicCompletionException,
    IllegalStateException,
    TransactionRolledBackException,
    UnsupportedOperationException,
)
from pyjms.jms.api import ConnectionFactory, check_factory
from pyjms.runtime import clock as _clock
from pyjms.runtime.clock import check_seconds
from pyjms.template import resources
from pyjms.template.resources import BoundResource, bind, bound_resource, call, close_quietly
from pyjms.template.synchronization import Synchronizations


class Propagation(Enum):
    """How a block relates to a transaction that is already active. Spring: TransactionDefinition.

    ==============  ==========================  ===========================
    propagation     no transaction is active    a transaction is active
    ==============  ==========================  ===========================
    REQUIRED        begins one                  joins it
    REQUIRES_NEW    begins one                  suspends it, begins another
    SUPPORTS        runs without                joins it
    NOT_SUPPORTED   runs without                suspends it, runs without
    MANDATORY       IllegalStateException       joins it
    NEVER           runs without                IllegalStateException
    NESTED          begins one                  UnsupportedOperationException
    ==============  ==========================  ===========================
    """

    REQUIRED = "required"
    REQUIRES_NEW = "requires_new"
    SUPPORTS = "supports"
    NOT_SUPPORTED = "not_supported"
    MANDATORY = "mandatory"
    NEVER = "never"
    NESTED = "nested"


class _Action(Enum):
    BEGIN = 1
    JOIN = 2
    WITHOUT = 3
    REFUSE = 4
    UNSUPPORTED = 5


# The actions if no transaction is active, and if a transaction is active.
_ACTIONS: Final[dict[Propagation, tuple[_Action, _Action]]] = {
    Propagation.REQUIRED: (_Action.BEGIN, _Action.JOIN),
    Propagation.REQUIRES_NEW: (_Action.BEGIN, _Action.BEGIN),
    Propagation.SUPPORTS: (_Action.WITHOUT, _Action.JOIN),
    Propagation.NOT_SUPPORTED: (_Action.WITHOUT, _Action.WITHOUT),
    Propagation.MANDATORY: (_Action.REFUSE, _Action.JOIN),
    Propagation.NEVER: (_Action.WITHOUT, _Action.REFUSE),
    Propagation.NESTED: (_Action.BEGIN, _Action.UNSUPPORTED),
}


class TransactionStatus:
    """The status of a block's transaction. Spring: TransactionStatus."""

    def __init__(self, name: str | None, resource: BoundResource | None, *, new: bool) -> None:
        self.name = name
        self.is_new_transaction = new
        self.completed = False
        self._resource = resource
        self._rollback_only = False

    @property
    def has_transaction(self) -> bool:
        """Whether the block runs in a transaction."""
        return self._resource is not None

    @property
    def local_rollback_only(self) -> bool:
        """Whether `set_rollback_only` was called in this block."""
        return self._rollback_only

    @property
    def rollback_only(self) -> bool:
        """Whether the transaction can only be rolled back."""
        joined = self._resource is not None and self._resource.rollback_only
        return self._rollback_only or joined

    def set_rollback_only(self) -> None:
        """Mark the transaction as rollback-only: it is rolled back at its end, without an error.

        In a block that joined an outer transaction, leaving the outer block then raises
        TransactionRolledBackException.
        """
        self._rollback_only = True
        if not self.is_new_transaction and self._resource is not None:
            self._resource.rollback_only = True


class JmsTransactionManager:
    """Runs blocks in local transactions of a connection factory. Spring: JmsTransactionManager.

    Tasks of one loop may share it: a transaction belongs to the task that entered the block.

    Args:
        connection_factory: templates and containers with this factory object join.
        default_timeout: seconds that a transaction may take unless it has its own timeout;
            None: no limit. Calls in progress are not interrupted: the next receive of a
            template fails, and the transaction is rolled back.
        synchronization: whether TransactionSynchronizations can be registered with its
            transactions (`register_synchronization`). Off by default, as in Spring, so that it can
            be combined with the transaction manager of a database, which supports them.
    """

    def __init__(
        self,
        connection_factory: ConnectionFactory,
        *,
        default_timeout: float | None = None,
        synchronization: bool = False,
    ) -> None:
        if default_timeout is not None:
            check_seconds("default_timeout", default_timeout)
        check_factory(connection_factory, type(self).__name__)
        self.connection_factory = connection_factory
        self.default_timeout = default_timeout
        self.synchronization = synchronization

    def transaction(
        self,
        name: str | None = None,
        timeout: float | None = None,
        *,
        propagation: Propagation = Propagation.REQUIRED,
    ) -> TransactionScope:
        """Return a transactional block: `async with manager.transaction() as status:`.

        The transaction is committed at the end of the block, or rolled back if the block raises, is
        cancelled, or has called `status.set_rollback_only()`.

        Args:
            name: the value of `status.name`.
            timeout: seconds; None: the manager's default.
            propagation: how the block relates to an active transaction.

        Raises (on entering):
            IllegalStateException: MANDATORY without a transaction, NEVER with one.
            UnsupportedOperationException: NESTED in a transaction.
            JMSException: no session could be opened.

        Raises (on leaving):
            TransactionRolledBackException: an inner block requested a rollback, the transaction
                timed out, or the broker could not commit.
        """
        return TransactionScope(self, name, timeout, propagation)


class TransactionScope:
    """A transactional block, which can be entered once."""

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
        if self._timeout is not None:
            name = "default_timeout" if timeout is None else "timeout"
            check_seconds(name, self._timeout)
        self._propagation = propagation
        self._resource: BoundResource | None = None
        self._status: TransactionStatus | None = None
        self._synchronizations: Synchronizations
        self._stack = ExitStack()

    async def __aenter__(self) -> TransactionStatus:
        """Begin, join or suspend a transaction, according to the propagation."""
        existing = bound_resource(self._manager.connection_factory)
        if existing is not None and not existing.is_transaction:
            existing = None
        action = _ACTIONS[self._propagation][existing is not None]
        if action is _Action.REFUSE:
            found = "an existing" if existing is not None else "no existing"
            raise IllegalStateException(
                f"There is {found} transaction, but propagation is {self._propagation.name}"
            )
        if action is _Action.UNSUPPORTED:
            raise UnsupportedOperationException(
                "JMS transactions cannot be nested", hint="use REQUIRES_NEW, or REQUIRED to join"
            )
        if action is _Action.BEGIN:
            self._resource = await self._begin()
            self._bind(self._resource)
            self._synchronizations = Synchronizations()
            if self._manager.synchronization:
                self._stack.enter_context(resources.use_synchronizations(self._synchronizations))
        elif action is _Action.JOIN:
            self._resource = existing
        elif existing is not None:
            self._bind(None)  # suspended: invisible to the block
        self._status = TransactionStatus(self._name, self._resource, new=action is _Action.BEGIN)
        return self._status

    async def __aexit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        """End the transaction if this block began it; else mark it rollback-only on an error."""
        status, resource = self._status, self._resource
        assert status is not None
        status.completed = True
        if resource is None or not status.is_new_transaction:
            self._stack.close()
            if resource is not None and error is not None:
                resource.rollback_only = True
            return
        try:
            await self._end(resource, status, error)
        finally:
            self._stack.close()
            for ended in (resource, *resource.joined.values()):
                await close_quietly(ended.session, ended.connection)

    async def _end(
        self, resource: BoundResource, status: TransactionStatus, error: BaseException | None
    ) -> None:
        """End the transaction, and call the synchronizations around the end."""
        synchronizations = self._synchronizations
        if error is None and not status.rollback_only:
            try:
                await synchronizations.before_commit()
            except BaseException as raised:
                await self._end(resource, status, raised)
                raise
        commits = error is None and not status.rollback_only
        with anyio.CancelScope(shield=not commits):
            await synchronizations.before_completion()
        self._stack.close()  # later sends are not in the transaction
        committed = False
        try:
            await _end(resource, status, error)
            committed = commits
            if committed:
                await synchronizations.after_commit()
        finally:
            with anyio.CancelScope(shield=True):
                await synchronizations.after_completion(committed)

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
        self._stack.enter_context(bind(self._manager.connection_factory, resource))


async def _end(
    resource: BoundResource, status: TransactionStatus, error: BaseException | None
) -> None:
    """Commit or roll back; raise if an outer block did not expect the rollback."""
    if error is None and not status.rollback_only:
        await resource.session.commit()
        for joined in resource.joined.values():
            await joined.session.commit()
        return
    with anyio.CancelScope(shield=True):
        await resource.session.rollback()
        for joined in resource.joined.values():
            await joined.session.rollback()
    if error is None and resource.rollback_only and not status.local_rollback_only:
        raise TransactionRolledBackException(
            "Transaction rolled back because it has been marked as rollback-only",
            hint="an inner block failed, or the transaction timed out",
        )


T = TypeVar("T")


class ResourceTransactionStatus(Generic[T]):
    """The transaction of a ResourceTransactionManager within its block."""

    def __init__(self, name: str | None, resource: T) -> None:
        self.name = name
        self.resource = resource
        """The result of `begin`."""
        self.rollback_only: bool = False
        self.joined_block_failed: bool = False
        """Whether a joined block has raised and so caused the rollback."""

    def set_rollback_only(self) -> None:
        """Mark the transaction as rollback-only: it is rolled back at its end, without an error."""
        self.rollback_only = True
        self.joined_block_failed = False


class _Ending(NamedTuple, Generic[T]):
    status: ResourceTransactionStatus[T]
    synchronizations: Synchronizations
    block: ExitStack


class ResourceTransactionManager(Generic[T]):
    """Runs blocks in transactions of any resource, with synchronizations.

    Spring: AbstractPlatformTransactionManager. A block within a block of the same manager joins its
    transaction. Templates with `session_transacted` commit right after the transaction, other
    templates send at once. Tasks of one loop may share it.

    Args:
        begin: a function or coroutine function that begins a transaction and returns it. Functions
            are called on the loop, so use a coroutine function if it takes long.
        commit: called with the transaction.
        rollback: called with the transaction.
    """

    def __init__(
        self,
        begin: Callable[[], Awaitable[T] | T],
        commit: Callable[[T], object],
        rollback: Callable[[T], object],
    ) -> None:
        self._begin = begin
        self._commit = commit
        self._rollback = rollback

    @asynccontextmanager
    async def transaction(
        self, name: str | None = None, timeout: float | None = None
    ) -> AsyncIterator[ResourceTransactionStatus[T]]:
        """Commit at the end of the block, or roll back if it raises or is rollback-only.

        `timeout` is not used: the resource has its own timeout.

        Raises:
            TransactionRolledBackException: a joined block has raised, and this block has not.
            SynchedLocalTransactionFailedException: a template's session could not be committed
                after the transaction was committed.
            Exception: raised by `begin`, `commit` or `rollback`.
        """
        del timeout
        outer = cast("ResourceTransactionStatus[T] | None", resources.status_of(self))
        if outer is not None:
            try:
                yield outer
            except BaseException:
                outer.joined_block_failed |= not outer.rollback_only
                outer.rollback_only = True
                raise
            return
        status = ResourceTransactionStatus(name, await call(self._begin))
        with ExitStack() as block:  # left before the end: later sends are not in the transaction
            block.enter_context(resources.use_status(self, status))
            transaction = _Ending(
                status,
                block.enter_context(resources.use_synchronizations(Synchronizations())),
                block,
            )
            try:
                yield status
            except BaseException:
                with anyio.CancelScope(shield=True):
                    await self._roll_back(transaction)
                raise
            await self._end(transaction)

    async def _end(self, transaction: _Ending[T]) -> None:
        status, synchronizations, block = transaction
        try:
            if not status.rollback_only:
                await synchronizations.before_commit()
        except BaseException:
            with anyio.CancelScope(shield=True):
                await self._roll_back(transaction)
            raise
        if status.rollback_only:
            await self._roll_back(transaction)
            if status.joined_block_failed:
                raise TransactionRolledBackException(
                    "Transaction rolled back because it has been marked as rollback-only",
                    hint="an inner block failed",
                )
            return
        await synchronizations.before_completion()
        block.close()
        committed = False
        try:
            await call(self._commit, status.resource)
            committed = True
            await synchronizations.after_commit()
        finally:
            with anyio.CancelScope(shield=True):
                await synchronizations.after_completion(committed)

    async def _roll_back(self, transaction: _Ending[T]) -> None:
        status, synchronizations, block = transaction
        await synchronizations.before_completion()
        block.close()
        try:
            await call(self._rollback, status.resource)
        finally:
            await synchronizations.after_completion(committed=False)


class PlatformTransactionStatus(Protocol):
    """The transaction in progress."""

    @property
    def rollback_only(self) -> bool:
        """Whether the transaction will be rolled back at its end."""

    def set_rollback_only(self) -> None:
        """Have the transaction rolled back at its end, without an error."""


class PlatformTransactionManager(Protocol):
    """Runs blocks in transactions (Spring: PlatformTransactionManager, PROPAGATION_REQUIRED).

    A manager of JMS sessions, such as `JmsTransactionManager`, also has `connection_factory`, the
    factory whose sessions it binds. With any other manager, the container synchronises its own
    session with the transaction.
    """

    def transaction(
        self, name: str | None = None, timeout: float | None = None
    ) -> AbstractAsyncContextManager[PlatformTransactionStatus]:
        """Begin a transaction; commit when the block ends, or roll back.

        It is rolled back if the block raised, or if it is rollback-only. An error of the block is
        raised again after the rollback. `timeout`: seconds, None: no limit.
        """


class ChainedStatus:
    """The transactions of a chain."""

    def __init__(self) -> None:
        self.statuses: list[PlatformTransactionStatus] = []

    @property
    def rollback_only(self) -> bool:
        """Whether one of the transactions can only be rolled back."""
        return any(status.rollback_only for status in self.statuses)

    def set_rollback_only(self) -> None:
        """Mark all transactions as rollback-only."""
        for status in self.statuses:
            if not status.rollback_only:  # otherwise its manager knows the cause, and may raise
                status.set_rollback_only()


class ChainedTransactionManager:
    """Combines managers: begins transactions in their order, commits in reverse order.

    Best effort, in one phase: if a commit fails, earlier commits stay, and the remaining
    transactions are rolled back. So put the manager whose commit is most likely to fail last.
    Spring: ChainedTransactionManager. For atomic transactions use XA.
    """

    def __init__(self, *managers: PlatformTransactionManager) -> None:
        if not managers:
            raise ValueError("A chain needs one manager or more")
        self._managers = managers

    def transaction(self, name: str | None = None, timeout: float | None = None) -> _ChainedScope:
        """Return a block that runs in a transaction of each manager.

        Raises (on leaving):
            HeuristicCompletionException: a commit failed (its cause) after others had succeeded.
            Exception: the first commit failed, and all others were rolled back.
        """
        return _ChainedScope([each.transaction(name, timeout) for each in self._managers])


class _ChainedScope:
    def __init__(self, scopes: list[AbstractAsyncContextManager[Any]]) -> None:
        self._scopes = scopes
        self._entered: list[AbstractAsyncContextManager[Any]] = []
        self._status = ChainedStatus()

    async def __aenter__(self) -> ChainedStatus:
        try:
            for scope in self._scopes:
                self._status.statuses.append(await scope.__aenter__())
                self._entered.append(scope)
        except BaseException as error:
            await self._leave(error)
            raise
        return self._status

    async def __aexit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if error is None and self._status.rollback_only:
            self._status.set_rollback_only()  # if one is rollback-only, all are
        failed = await self._leave(error)
        if failed is not None and failed is not error:
            raise failed

    async def _leave(self, error: BaseException | None) -> BaseException | None:
        """Leave the blocks in reverse order; return the first error."""
        committed, failure = 0, error
        for scope in reversed(self._entered):
            try:
                if failure is None:
                    await scope.__aexit__(None, None, None)
                    committed += 1
                else:
                    await scope.__aexit__(type(failure), failure, failure.__traceback__)
            except BaseException as raised:
                if failure is None:
                    failure = self._mixed_outcome(raised, committed) if committed else raised
        return failure

    def _mixed_outcome(self, error: BaseException, committed: int) -> BaseException:
        if isinstance(error, TransactionRolledBackException) and self._status.rollback_only:
            return error
        mixed = HeuristicCompletionException(
            f"{committed} of {len(self._entered)} transactions were committed before a commit "
            f"failed: {error}",
            hint="the others are rolled back; put the manager that is most likely to fail last",
        )
        mixed.__cause__ = error
        return mixed
