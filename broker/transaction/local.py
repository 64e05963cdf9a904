"""A transaction: the work that waits for its end, and the end itself.

Sends and acknowledgements register a `Synchronization`; it runs after the store has
committed, in the order it came. A transaction ends once: while the store commits, its
answer decides, whatever else is asked meanwhile. (ActiveMQ X1-X5)
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
    "all_is_well",
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
    PREPARING = "being prepared"
    PREPARED = "prepared"
    COMMITTING = "being committed"
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
        self._end_in_hand: Completion | None = None

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

    @property
    def is_ending(self) -> bool:
        """Whether the store is at it, so that its answer decides how this ends."""
        return self.state in {TransactionState.PREPARING, TransactionState.COMMITTING}

    def prepare(self) -> int | Completion:
        """Do phase one; return XA_OK (0), or XA_RDONLY (3) where nothing was done.

        A Completion that ends well is XA_OK that comes later.

        Raises (or completes with):
            JMSException: this kind of transaction has no phases.
            TransactionRolledBackException, XAException: it was rolled back instead.
        """
        raise NotImplementedError

    def commit(self, one_phase: bool) -> Completion | None:
        """Make the work lasting and visible. While that is being done, the same answer again.

        Raises (or completes with):
            TransactionRolledBackException, XAException: it was rolled back instead.
        """
        raise NotImplementedError

    def rollback(self) -> Completion | None:
        """Undo the work, in the order it was done; the answer says when the store knows.

        Raises:
            JMSException: the store is preparing or committing it.
        """
        if self.state is TransactionState.FINISHED:
            return None
        if self.is_ending:
            raise self.busy_error("Rollback")
        self._finish()
        try:
            return self._store.rollback(self.xid)
        finally:
            self._after_rollback()

    def busy_error(self, step: str) -> JMSException:
        """Make the error that refuses a step because of the state."""
        return JMSException(
            f"{step} cannot be called now: transaction '{self.xid}' is {self.state.value}"
        )

    def rolled_back_error(self, text: str, code: int) -> JMSException:
        """Make the error that says that the commit ended in a rollback."""
        return TransactionRolledBackException(f"{text} xaErrorCode:{code}")

    def _before_commit(self) -> None:
        cause = self.rollback_only_cause
        if cause is not None:
            self._give_up()
            raise self.rolled_back_error(
                "COMMIT FAILED: Transaction marked rollback only", XA_RBROLLBACK
            ) from cause
        try:
            for synchronization in self._synchronizations:
                synchronization.before_commit()
        except Exception as error:
            logger.warning("COMMIT FAILED: %s", error)
            self._give_up()
            raise self.rolled_back_error(
                "COMMIT FAILED: Transaction rolled back", XA_RBOTHER
            ) from error

    def _store_commit(self, prepared: bool) -> Completion | None:
        self.state = TransactionState.COMMITTING
        return self._hand_over(
            lambda: self._store.commit(self.xid, prepared), self._committed, "COMMIT"
        )

    def _hand_over(
        self, step: Callable[[], Completion | None], well: Callable[[], None], what: str
    ) -> Completion | None:
        """Have the store do `step`; then `well`, or a rollback where the store fails."""
        try:
            stored = step()
        except Exception as error:
            raise self._store_failed(error, what) from error
        if all_is_well(stored):
            well()
            return None
        assert stored is not None
        if stored.done:
            raise self._store_failed(stored.error, what) from stored.error
        answer = self._end_in_hand = Completion()

        def when_stored(done: Completion) -> None:
            self._end_in_hand = None
            if done.error is None:
                well()
                answer.complete()
            else:
                failed = self._store_failed(done.error, what)
                failed.__cause__ = done.error
                answer.complete(failed)

        stored.then(when_stored)
        return answer

    def _committed(self) -> None:
        self._finish()
        work, self._synchronizations = self._synchronizations, []
        for synchronization in work:
            self._end(synchronization.after_commit)

    def _store_failed(self, error: Exception | None, what: str) -> JMSException:
        logger.warning("STORE %s FAILED: %s", what, error)
        self.state = TransactionState.IN_USE  # the store is no longer at it
        self._give_up()
        return self.rolled_back_error(f"STORE {what} FAILED: Transaction rolled back", XA_RBOTHER)

    def _give_up(self) -> None:
        """Roll back; that the store has trouble with it, too, does not hide why."""
        try:
            self.rollback()
        except Exception:
            logger.exception("Rolling back %s failed in the store", self.xid)

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

    def prepare(self) -> int | Completion:
        raise JMSException(
            "Prepare cannot be called now: a local transaction has one phase",
            hint="only XA transactions are prepared",
        )

    def commit(self, one_phase: bool) -> Completion | None:
        if self.state is TransactionState.COMMITTING:
            return self._end_in_hand
        self._before_commit()
        return self._store_commit(prepared=False)


def all_is_well(answer: Completion | None) -> bool:
    """Whether the store has done what it was asked, without an error."""
    return answer is None or (answer.done and answer.error is None)
