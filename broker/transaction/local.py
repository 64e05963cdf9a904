"""A transaction: the work that waits for its end, and the end itself.

Sends and acknowledgements register a `Synchronization`; it runs after the store has
committed, in the order it came. A transaction ends once. (ActiveMQ X1-X5)
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from enum import Enum

from broker.completion import Completion
from broker.store.api import TransactionStore
from pyjms.errors import JMSException, TransactionRolledBackException
from pyjms.wire.openwire.commands import TransactionId

__all__ = [
    "XA_RBOTHER",
    "XA_RBROLLBACK",
    "LocalTransaction",
    "Synchronization",
    "Transaction",
    "TransactionState",
]

logger = logging.getLogger(__name__)

XA_RBROLLBACK = 100
XA_RBOTHER = 104


class Synchronization:
    """One piece of work in a transaction; override what matters. No call may wait."""

    def before_commit(self) -> None:
        """Check, before anything is stored; an error makes the commit a rollback."""

    def after_commit(self) -> None:
        """Make the work visible: the store has it."""

    def after_rollback(self) -> None:
        """Undo the work: it never happened."""


class TransactionState(Enum):
    """Where a transaction is in its life."""

    IN_USE = "in use"
    PREPARED = "prepared"
    FINISHED = "finished"


class Transaction:
    """What local and XA transactions share. `on_finished` takes it out of its owner's table."""

    def __init__(
        self,
        xid: TransactionId,
        store: TransactionStore,
        on_finished: Callable[[Transaction], None],
    ) -> None:
        self.xid = xid
        self.state = TransactionState.IN_USE
        self.rollback_only_cause: BaseException | None = None
        self._store = store
        self._on_finished = on_finished
        self._synchronizations: list[Synchronization] = []

    def add(self, synchronization: Synchronization) -> None:
        """Have `synchronization` called at the end of this transaction, in order of adding."""
        self._synchronizations.append(synchronization)

    def remove(self, synchronization: Synchronization) -> None:
        """Take a synchronization back that was added.

        Raises:
            ValueError: it is not there.

        """
        self._synchronizations.remove(synchronization)

    @property
    def has_work(self) -> bool:
        """Whether anything was sent or acknowledged."""
        return bool(self._synchronizations)

    @property
    def is_prepared(self) -> bool:
        """Whether phase one of a two-phase commit is done."""
        return self.state is TransactionState.PREPARED

    @property
    def is_rollback_only(self) -> bool:
        """Whether a commit would fail, because a oneway command in it did (C5)."""
        return self.rollback_only_cause is not None

    def set_rollback_only(self, cause: BaseException) -> None:
        """Make every later commit a rollback that names `cause`; the first cause stays."""
        if self.rollback_only_cause is None:
            self.rollback_only_cause = cause

    def prepare(self) -> int:
        """Do phase one; return XA_OK (0), or XA_RDONLY (3) where nothing was done.

        Raises:
            JMSException: this kind of transaction has no phases.

        """
        raise NotImplementedError

    def commit(self, one_phase: bool) -> Completion | None:
        """Make the work lasting and visible.

        Raises (or completes with):
            TransactionRolledBackException, XAException: it was rolled back instead.
        """
        raise NotImplementedError

    def rollback(self) -> None:
        """Undo the work, in the order it was done."""
        if self.state is TransactionState.FINISHED:
            return
        self._finish()
        self._store.rollback(self.xid)
        self._after_rollback()

    def rolled_back_error(self, text: str, code: int) -> JMSException:
        """Make the error that says that the commit ended in a rollback."""
        return TransactionRolledBackException(f"{text} xaErrorCode:{code}")

    def _before_commit(self) -> None:
        cause = self.rollback_only_cause
        if cause is not None:
            self.rollback()
            raise self.rolled_back_error(
                "COMMIT FAILED: Transaction marked rollback only", XA_RBROLLBACK
            ) from cause
        try:
            for synchronization in self._synchronizations:
                synchronization.before_commit()
        except Exception as error:
            logger.warning("COMMIT FAILED: %s", error)
            self.rollback()
            raise self.rolled_back_error(
                "COMMIT FAILED: Transaction rolled back", XA_RBOTHER
            ) from error

    def _store_commit(self, prepared: bool) -> Completion | None:
        try:
            stored = self._store.commit(self.xid, prepared)
        except Exception as error:
            raise self._commit_failed(error) from error
        if stored is None or (stored.done and stored.error is None):
            self._committed()
            return None
        if stored.done:
            raise self._commit_failed(stored.error) from stored.error
        answer = Completion()

        def when_stored(done: Completion) -> None:
            if done.error is None:
                self._committed()
                answer.complete()
            else:
                failed = self._commit_failed(done.error)
                failed.__cause__ = done.error
                answer.complete(failed)

        stored.then(when_stored)
        return answer

    def _committed(self) -> None:
        self._finish()
        work, self._synchronizations = self._synchronizations, []
        for synchronization in work:
            self._end(synchronization.after_commit)

    def _commit_failed(self, error: Exception | None) -> JMSException:
        logger.warning("STORE COMMIT FAILED: %s", error)
        self.rollback()
        return self.rolled_back_error("STORE COMMIT FAILED: Transaction rolled back", XA_RBOTHER)

    def _finish(self) -> None:
        self.state = TransactionState.FINISHED
        self._on_finished(self)

    def _after_rollback(self) -> None:
        work, self._synchronizations = self._synchronizations, []
        for synchronization in work:
            self._end(synchronization.after_rollback)

    def _end(self, step: Callable[[], None]) -> None:
        """Do one step of the end; it is decided, so a failure must not keep the others from it."""
        try:
            step()
        except Exception:
            logger.exception("Transaction %s: ending a piece of its work failed", self.xid)


class LocalTransaction(Transaction):
    """A transaction of one connection: begun, then committed or rolled back in one step."""

    def prepare(self) -> int:
        raise JMSException(
            "Prepare cannot be called now: a local transaction has one phase",
            hint="only XA transactions are prepared",
        )

    def commit(self, one_phase: bool) -> Completion | None:
        self._before_commit()
        return self._store_commit(prepared=False)
