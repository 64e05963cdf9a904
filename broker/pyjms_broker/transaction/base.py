"""The transaction base class and local transactions.

Theory of operation
===================

A transaction collects `Synchronization`s, which carry out the effects of its sends and
acknowledgements when it ends; until then nothing is visible. The store collects the same work by
transaction id. A commit has three steps: `before_commit` of every synchronization (an error turns
the commit into a rollback), then the store's commit, then `after_commit` in the order of
registration. A rollback is first made in the store; then `after_rollback` is called in that order.

The states and their transitions (`TransactionState`):

    state           event                                   next state
    --------------  --------------------------------------  ---------------------------------
    IN_USE          commit, nothing pending                 COMMITTING
    IN_USE          commit, a send waits for space          COMMIT_WAITS
    IN_USE          prepare, nothing pending                PREPARING (without work: FINISHED)
    IN_USE          prepare, a send waits for space         PREPARE_WAITS
    COMMIT_WAITS    last pending work finished              COMMITTING
    PREPARE_WAITS   last pending work finished              PREPARING
    *_WAITS         pending work failed, then none is left  FINISHED, rolled back
    PREPARING       the store has recorded it               PREPARED
    PREPARED        commit                                  COMMITTING
    COMMITTING      the store has recorded it               FINISHED
    PREPARING       the store failed                        FINISHED, rolled back
    COMMITTING      the store failed                        FINISHED, rolled back; PREPARED again
                                                            for an XA branch that was prepared
    any but -ING    rollback                                FINISHED, rolled back

While the store prepares or commits, its result decides, and every other request is refused with
`busy_error`: the journal may already have the record, so a rollback could undo in memory what a
restart would recover as committed. A repeated commit returns the Completion of the first one.

Sends that wait for space are `PendingWork`: a commit waits for them, because a client that sends
asynchronously cannot learn otherwise whether they were accepted. If such a send fails before the
end is requested, the sender gets the error and the transaction stays open. If it fails while the
end waits, the end fails. The end of a transaction also waits for earlier requested ends of the same
session (`pyjms_broker.transaction.end_order`).

If a synchronization fails after the outcome is decided, the error is logged and the others are
still called. (ActiveMQ Transaction, LocalTransaction; activemq-broker X1 to X5, M2)
"""

from __future__ import annotations

from collections.abc import Callable

from pyjms import _clock
from pyjms._logger import get_logger
from pyjms.errors import JMSException, TransactionRolledBackException, XAException
from pyjms.wire.openwire.commands import ProducerInfo, TransactionId
from pyjms_broker.api.completion import COMPLETED, Completion, checked
from pyjms_broker.api.transaction import PendingWork, Synchronization, Transaction, TransactionState
from pyjms_broker.store.api import TransactionStore

__all__ = ["XA_RBOTHER", "XA_RBROLLBACK", "BaseTransaction", "LocalTransaction"]

logger = get_logger(__name__)

XA_RBROLLBACK = XAException.XA_RBROLLBACK
XA_RBOTHER = XAException.XA_RBOTHER


class BaseTransaction(Transaction):
    """The base class of local and XA transactions."""

    def __init__(
        self,
        xid: TransactionId,
        store: TransactionStore,
        on_finished: Callable[[Transaction], None],
    ) -> None:
        """Begin; `on_finished` removes the transaction from its owner's table."""
        self.xid = xid
        self.state = TransactionState.IN_USE
        self.began = _clock.now()
        self.producer: ProducerInfo | None = None
        self._rollback_only_cause: BaseException | None = None
        self._store = store
        self._on_finished = on_finished
        self._synchronizations: list[Synchronization] = []
        self._pending: dict[PendingWork, None] = {}
        self._delayed_step: Callable[[], int | Completion] | None = None
        self._result: Completion = COMPLETED
        """The Completion of the requested end; `COMPLETED` if there is no unfinished one."""

    # work
    def add(self, synchronization: Synchronization) -> None:
        self._synchronizations.append(synchronization)

    def remove(self, synchronization: Synchronization) -> None:
        """Remove a synchronization that was added.

        Raises:
            ValueError: it was not added.
        """
        self._synchronizations.remove(synchronization)

    def add_pending(self, work: PendingWork) -> None:
        self._pending[work] = None

    def pending_finished(self, work: PendingWork) -> None:
        self._pending.pop(work, None)
        if not self._pending and self.is_waiting:
            self._resume_end()

    def pending_failed(self, work: PendingWork, cause: BaseException) -> None:
        self._pending.pop(work, None)
        if self.is_waiting:
            self.set_rollback_only(cause)

    @property
    def has_work(self) -> bool:
        """Whether anything was sent or acknowledged."""
        return bool(self._synchronizations)

    @property
    def is_rollback_only(self) -> bool:
        """Whether a commit would fail because a one-way command of the transaction has failed."""
        return self._rollback_only_cause is not None

    def set_rollback_only(self, cause: BaseException) -> None:
        """Turn the commit into a rollback caused by `cause`, at once if the commit is waiting.

        The first cause is kept.
        """
        if self._rollback_only_cause is None:
            self._rollback_only_cause = cause
        if self.is_waiting:
            self._resume_end()

    # the end
    def rollback(self, cause: BaseException | None = None) -> Completion:
        if self.state is TransactionState.FINISHED:
            return COMPLETED
        if self.is_ending:
            raise self.busy_error("Rollback")
        result, self._result = self._result, COMPLETED
        self._finish()
        self._cancel_pending()
        try:
            return checked(self._store.rollback(self.xid), self._store, "rollback")
        finally:
            self._run_after_rollback()
            if result is not COMPLETED:
                error = self.rolled_back_error(
                    "COMMIT FAILED: Transaction rolled back while waiting for space", XA_RBROLLBACK
                )
                error.__cause__ = cause
                result.complete(error)

    def busy_error(self, step: str) -> JMSException:
        return JMSException(
            f"{step} cannot be called now: transaction '{self.xid}' is {self.state.value}"
        )

    def rolled_back_error(self, text: str, code: int) -> JMSException:
        """Return the error of a commit that ended in a rollback."""
        return TransactionRolledBackException(f"{text} xaErrorCode:{code}")

    @property
    def _must_wait(self) -> bool:
        return bool(self._pending) and not self.is_rollback_only

    def _run_when_admitted(
        self, state: TransactionState, step: Callable[[], int | Completion]
    ) -> Completion:
        """Run `step` once all pending work is finished; return the completion of the end.

        (activemq-broker M2)
        """
        logger.warning(
            "Transaction %s is %s: %d sends are not admitted yet; its %d operations "
            "use memory until it ends",
            self.xid,
            state.value,
            len(self._pending),
            len(self._synchronizations),
        )
        self.state = state
        self._delayed_step = step
        self._result = Completion()
        return self._result

    def _resume_end(self) -> None:
        """Run the step that was waiting for pending work."""
        result, step = self._result, self._delayed_step
        assert step is not None
        self._result, self._delayed_step = COMPLETED, None
        self.state = TransactionState.IN_USE
        try:
            ended = step()
        except Exception as error:
            result.complete(error)
            return
        if isinstance(ended, Completion):
            ended.then(lambda done: result.complete(done.error))
        else:
            result.complete()

    def _cancel_pending(self) -> None:
        pending, self._pending = self._pending, {}
        for work in pending:
            self._run_logged(work.transaction_rolled_back)

    def _commit_now(self) -> Completion:
        self._run_before_commit()
        return self._commit_in_store(prepared=False)

    def _run_before_commit(self) -> None:
        cause = self._rollback_only_cause
        if cause is not None:
            self._roll_back_quietly()
            raise self.rolled_back_error(
                "COMMIT FAILED: Transaction marked rollback only", XA_RBROLLBACK
            ) from cause
        try:
            for synchronization in self._synchronizations:
                synchronization.before_commit()
        except Exception as error:
            logger.warning("COMMIT FAILED: %s", error)
            self._roll_back_quietly()
            raise self.rolled_back_error(
                "COMMIT FAILED: Transaction rolled back", XA_RBOTHER
            ) from error

    def _commit_in_store(self, prepared: bool) -> Completion:
        self.state = TransactionState.COMMITTING
        return self._run_in_store(
            lambda: checked(self._store.commit(self.xid, prepared), self._store, "commit"),
            self._committed,
            "COMMIT",
        )

    def _run_in_store(
        self, step: Callable[[], Completion], on_success: Callable[[], None], name: str
    ) -> Completion:
        """Run the store's `step`, then `on_success`, or a rollback if the store failed."""
        try:
            stored = step()
        except Exception as error:
            raise self._store_failed(error, name) from error
        if stored.done:
            if stored.error is not None:
                raise self._store_failed(stored.error, name) from stored.error
            on_success()
            return COMPLETED
        result = self._result = Completion()

        def when_stored(done: Completion) -> None:
            self._result = COMPLETED
            if done.error is None:
                on_success()
                result.complete()
            else:
                failed = self._store_failed(done.error, name)
                failed.__cause__ = done.error
                result.complete(failed)

        stored.then(when_stored)
        if self.state is TransactionState.COMMITTING:
            for synchronization in self._synchronizations:
                synchronization.committing(stored)  # its callbacks are called after `when_stored`
        return result

    def _committed(self) -> None:
        self._finish()
        synchronizations, self._synchronizations = self._synchronizations, []
        for synchronization in synchronizations:
            self._run_logged(synchronization.after_commit)

    def _store_failed(self, error: Exception | None, name: str) -> JMSException:
        logger.warning("STORE %s FAILED: %s", name, error)
        self.state = TransactionState.IN_USE  # the store no longer processes it
        self._roll_back_quietly()
        return self.rolled_back_error(f"STORE {name} FAILED: Transaction rolled back", XA_RBOTHER)

    def _roll_back_quietly(self) -> None:
        """Roll back, logging a failure so that it does not hide the first error."""
        try:
            self.rollback()
        except Exception:
            logger.exception("Rolling back %s failed in the store", self.xid)

    def _finish(self) -> None:
        self.state = TransactionState.FINISHED
        self._on_finished(self)

    def _run_after_rollback(self) -> None:
        synchronizations, self._synchronizations = self._synchronizations, []
        for synchronization in synchronizations:
            self._run_logged(synchronization.after_rollback)

    def _run_logged(self, step: Callable[[], None]) -> None:
        """Run one step of the end, logging an error: the other steps must still run."""
        try:
            step()
        except Exception:
            logger.exception("Transaction %s: one of its synchronizations failed", self.xid)


class LocalTransaction(BaseTransaction):
    """A transaction of one connection: begun, then committed or rolled back in one step."""

    def prepare(self) -> int | Completion:
        raise JMSException(
            "Prepare cannot be called now: a local transaction has one phase",
            hint="only XA transactions are prepared",
        )

    def commit(self, one_phase: bool) -> Completion:
        if self.state in {TransactionState.COMMITTING, TransactionState.COMMIT_WAITS}:
            return self._result
        if self._must_wait:
            return self._run_when_admitted(TransactionState.COMMIT_WAITS, self._commit_now)
        return self._commit_now()
