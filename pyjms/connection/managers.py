"""Transaction managers for other resources, and chains of managers. (spring-jms 4.1, 7.7, 7.9)

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
from typing import Any, Generic, NamedTuple, Protocol, TypeVar, cast

import anyio

from pyjms.errors import HeuristicCompletionException, TransactionRolledBackException
from pyjms.template import resources
from pyjms.template.closing import call
from pyjms.template.synchronization import Synchronizations

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


class _Status(Protocol):
    def set_rollback_only(self) -> None: ...

    @property
    def rollback_only(self) -> bool: ...


class _Manager(Protocol):
    def transaction(
        self, name: str | None = None, timeout: float | None = None
    ) -> AbstractAsyncContextManager[Any]: ...


class ChainedStatus:
    """The transactions of a chain."""

    def __init__(self) -> None:
        self.statuses: list[_Status] = []

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

    def __init__(self, *managers: _Manager) -> None:
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
