"""The ends of a session's unit of work: commit, rollback, recover, and waiting for sends."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from pyjms._wakeup import BackgroundTask, spawn
from pyjms.client.session.completions import SendCompletions
from pyjms.client.session.creations import LocalCreations
from pyjms.client.session.one_user import SessionUse
from pyjms.client.session.resources import SessionResources
from pyjms.client.session.synchronizations import after_rollback
from pyjms.client.session.transaction import LocalTransaction, NoTransaction, SessionTransaction
from pyjms.enums import AcknowledgeMode
from pyjms.errors import IllegalStateException
from pyjms.jms.transaction.synchronization import LocalTransactionEventListener, Synchronization

__all__ = ["UnitOfWork"]


class UnitOfWork(LocalCreations):
    """The part of a session that ends its units of work."""

    resources: SessionResources
    transaction: SessionTransaction
    completions: SendCompletions
    use: SessionUse
    _abandoned: BackgroundTask | None = None

    async def commit(self) -> None:
        await self._end("commit()", self.transaction.commit)

    async def rollback(self) -> None:
        await self._end("rollback()", self.transaction.rollback)

    async def _end(self, call: str, end: Callable[[], Awaitable[None]]) -> None:
        self.check_open()
        self.completions.check(call)
        with self.use.end(call, self.resources):
            if self.completions.outstanding:
                await self._finish_sends(call)
            await end()

    async def recover(self) -> None:
        self.check_open()
        if self.transacted:
            raise IllegalStateException(
                "This session is transacted", hint="rollback() redelivers its messages"
            )
        self.use.check("recover()")
        self.use.check_receives("recover()", self.resources)
        self.resources.roll_back()

    @property
    def has_outstanding_sends(self) -> bool:
        """Whether completion listeners are pending, so that `wait_for_completions` would wait."""
        return self.completions.is_busy

    async def wait_for_completions(self) -> None:
        await self._finish_sends("wait_for_completions()")

    def add_synchronization(self, synchronization: Synchronization) -> None:
        self.check_open()
        self.transaction.add_synchronization(synchronization)

    def abandon_transaction(self) -> None:
        """Call the synchronizations of a transaction that the broker rolls back on its own."""
        left = self.transaction.abandon()
        if left:
            self._abandoned = spawn(after_rollback, left, name="pyjms rollback of a lost session")

    async def wait_abandoned(self) -> None:
        """Wait until the synchronizations of an abandoned transaction have been called."""
        if self._abandoned is not None:
            await self._abandoned.wait()

    def set_local_transaction_event_listener(
        self, listener: LocalTransactionEventListener | None
    ) -> None:
        self.check_open()
        self.transaction.set_listener(listener)

    def new_transaction(self, mode: AcknowledgeMode) -> SessionTransaction:
        """Return a new transaction object for this session's mode."""
        if mode == AcknowledgeMode.TRANSACTED:
            return LocalTransaction(self.connection, self.resources)
        return NoTransaction()

    async def _finish_sends(self, call: str) -> None:
        self.completions.check(call)
        await self.completions.wait()
