"""A transaction: the work that waits for its end, and the end itself.

Sends and acknowledgements register a `Synchronization`; it runs after the store has
committed, in the order it came. A transaction ends once: while the store commits, its
answer decides, whatever else is asked meanwhile. Sends that wait for room belong to it: a
commit waits for them, and if one fails, it does. (ActiveMQ X1-X5)
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from enum import Enum
from typing import TYPE_CHECKING

from broker.completion import Completion
from broker.store.api import TransactionStore
from pyjms.errors import JMSException, TransactionRolledBackException
from pyjms.wire.openwire.commands import TransactionId

if TYPE_CHECKING:
    from broker.context import ProducerExchange
    from broker.transaction.waiting import Awaited

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
        """Check, before anything is stored; an error makes the commit a rollback.

        What this sends in the transaction has its own called, too.
        """

    def after_commit(self) -> None:
        """Make the work visible: the store has it."""

    def after_rollback(self) -> None:
        """Undo the work: it never happened."""


class TransactionState(Enum):
    """Where a transaction is in its life."""

    IN_USE = "in use"
    PREPARE_WAITS = "waiting for space, to be prepared"
    COMMIT_WAITS = "waiting for space, to be committed"
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
        self.sender: ProducerExchange | None = None
        """Who sent last in it, set by the transaction filter."""
        self._synchronizations: list[Synchronization] = []
        self._awaited: dict[Awaited, None] = {}
        self._awaited_step: Callable[[], int | Completion | None] | None = None
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

    def awaits(self, awaited: Awaited) -> None:
        """Have the end wait for `awaited`, which says `came_in` or `failed` once."""
        self._awaited[awaited] = None

    def came_in(self, awaited: Awaited) -> None:
        """Say that `awaited` is part of the work now; an end that waited for it alone goes on."""
        self._awaited.pop(awaited, None)
        if not self._awaited and self.is_waiting:
            self._go_on()

    def failed(self, awaited: Awaited, cause: BaseException) -> None:
        """Say that `awaited` will never come in: an end that waits for it fails with `cause`.

        Before its end was asked for, the transaction does without: the sender hears of it.
        """
        self._awaited.pop(awaited, None)
        if self.is_waiting:
            self.set_rollback_only(cause)

    @property
    def has_work(self) -> bool:
        """Whether anything was sent or acknowledged."""
        return bool(self._synchronizations)

    @property
    def is_prepared(self) -> bool:
        """Whether phase one of a two-phase commit is done."""
        return self.state is TransactionState.PREPARED

    @property
    def is_waiting(self) -> bool:
        """Whether it shall end, once all that it awaits has come in."""
        return self.state in {TransactionState.PREPARE_WAITS, TransactionState.COMMIT_WAITS}

    @property
    def is_rollback_only(self) -> bool:
        """Whether a commit would fail, because a oneway command in it did (C5)."""
        return self.rollback_only_cause is not None

    def set_rollback_only(self, cause: BaseException) -> None:
        """Make the commit a rollback that names `cause`, now if it waits; the first cause stays."""
        if self.rollback_only_cause is None:
            self.rollback_only_cause = cause
        if self.is_waiting:
            self._go_on()

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

    def rollback(self, cause: BaseException | None = None) -> Completion | None:
        """Undo the work, in the order it was done; the answer says when the store knows.

        A commit that waits for room ends with an error that names `cause`.

        Raises:
            JMSException: the store is preparing or committing it.
        """
        if self.state is TransactionState.FINISHED:
            return None
        if self.is_ending:
            raise self.busy_error("Rollback")
        answer, self._end_in_hand = self._end_in_hand, None
        self._finish()
        self._drop_awaited()
        try:
            return self._store.rollback(self.xid)
        finally:
            self._after_rollback()
            if answer is not None:
                error = self.rolled_back_error(
                    "COMMIT FAILED: Transaction rolled back while waiting for space", XA_RBROLLBACK
                )
                error.__cause__ = cause
                answer.complete(error)

    def busy_error(self, step: str) -> JMSException:
        """Make the error that refuses a step because of the state."""
        return JMSException(
            f"{step} cannot be called now: transaction '{self.xid}' is {self.state.value}"
        )

    def rolled_back_error(self, text: str, code: int) -> JMSException:
        """Make the error that says that the commit ended in a rollback."""
        return TransactionRolledBackException(f"{text} xaErrorCode:{code}")

    def _when_all_is_in(
        self, state: TransactionState, step: Callable[[], int | Completion | None]
    ) -> Completion:
        """Do `step` once all that is awaited has come in; answer with its end. (M2)"""
        logger.warning(
            "Transaction %s is %s; not in yet: %d, holding what they have until its end: %d",
            self.xid,
            state.value,
            len(self._awaited),
            len(self._synchronizations),
        )
        self.state = state
        self._awaited_step = step
        self._end_in_hand = Completion()
        return self._end_in_hand

    def _go_on(self) -> None:
        """Do the step that waited."""
        answer, step = self._end_in_hand, self._awaited_step
        assert answer is not None
        assert step is not None
        self._end_in_hand = self._awaited_step = None
        self.state = TransactionState.IN_USE
        try:
            ended = step()
        except Exception as error:
            answer.complete(error)
            return
        if isinstance(ended, Completion):
            ended.then(lambda done: answer.complete(done.error))
        else:
            answer.complete()

    def _drop_awaited(self) -> None:
        awaited, self._awaited = self._awaited, {}
        for one in awaited:
            self._end(one.dropped)

    @property
    def _must_wait(self) -> bool:
        return bool(self._awaited) and not self.is_rollback_only

    def _commit_all(self) -> Completion | None:
        self._before_commit()
        return self._store_commit(prepared=False)

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
        if self.state in {TransactionState.COMMITTING, TransactionState.COMMIT_WAITS}:
            return self._end_in_hand
        if self._must_wait:
            return self._when_all_is_in(TransactionState.COMMIT_WAITS, self._commit_all)
        return self._commit_all()


def all_is_well(answer: Completion | None) -> bool:
    """Whether the store has done what it was asked, without an error."""
    return answer is None or (answer.done and answer.error is None)
