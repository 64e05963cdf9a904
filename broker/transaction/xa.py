"""XA transactions: two phases, any number of branches, and XA's error codes in the texts.

Clients read the code from the end of an error's text, `... xaErrorCode:-4`. (ActiveMQ X5, X6;
ENCODING section 13)
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import Final

from broker.completion import Completion
from broker.store.api import TransactionStore
from broker.transaction.local import Synchronization, Transaction, TransactionState
from pyjms.errors import JMSException, XAException
from pyjms.wire.openwire.commands import ConnectionId, XATransactionId

__all__ = [
    "XAER_NOTA",
    "XAER_PROTO",
    "XAER_RMFAIL",
    "XA_OK",
    "XA_RDONLY",
    "XATransaction",
    "xa_exception",
]

logger = logging.getLogger(__name__)

XA_OK = 0
XA_RDONLY = 3
XAER_NOTA = -4
XAER_PROTO = -6
XAER_RMFAIL = -7

_VOTING: Final = (TransactionState.PREPARING, TransactionState.PREPARE_WAITS)


def xa_exception(text: str, code: int) -> XAException:
    """Make the error for an XA call, with `code` where clients look for it."""
    return XAException(f"{text} xaErrorCode:{code}", xa_error_code=code)


class XATransaction(Transaction):
    """A branch of a distributed transaction.

    It belongs to the connection that began it until it is prepared; then to whoever
    commits or rolls it back.
    """

    def __init__(
        self,
        xid: XATransactionId,
        store: TransactionStore,
        on_finished: Callable[[Transaction], None],
        connection_id: ConnectionId | None,
    ) -> None:
        super().__init__(xid, store, on_finished)
        self.connection_id = connection_id
        self._was_prepared = False

    @classmethod
    def recovered(
        cls,
        xid: XATransactionId,
        store: TransactionStore,
        on_finished: Callable[[Transaction], None],
        work: Sequence[Synchronization],
    ) -> XATransaction:
        """Make a transaction that was prepared before the broker's start, with its work."""
        made = cls(xid, store, on_finished, None)
        for synchronization in work:
            made.add(synchronization)
        made._prepared()
        return made

    def rolled_back_error(self, text: str, code: int) -> JMSException:
        return xa_exception(text, code)

    def busy_error(self, step: str) -> JMSException:
        return xa_exception(super().busy_error(step).reason, XAER_PROTO)

    def prepare(self) -> int | Completion:
        if self._end_in_hand is not None and self.state in _VOTING:
            return self._end_in_hand
        if self.state is not TransactionState.IN_USE:
            raise xa_exception("Prepare cannot be called now", XAER_PROTO)
        if self._must_wait:
            return self._when_all_is_in(TransactionState.PREPARE_WAITS, self._prepare_all)
        if not self.has_work and not self.is_rollback_only:
            self._finish()
            return XA_RDONLY
        return self._prepare_all()

    def _prepare_all(self) -> int | Completion:
        self._before_commit()
        self.state = TransactionState.PREPARING
        answer = self._hand_over(lambda: self._store.prepare(self.xid), self._prepared, "PREPARE")
        return XA_OK if answer is None else answer

    def commit(self, one_phase: bool) -> Completion | None:
        if self.state in {TransactionState.COMMITTING, TransactionState.COMMIT_WAITS}:
            return self._end_in_hand
        if self.state is TransactionState.PREPARED:
            return self._store_commit(prepared=True)
        if self.state in _VOTING:
            raise self.busy_error("Commit")
        if not one_phase:
            raise xa_exception(
                "Cannot do 2 phase commit if the transaction has not been prepared", XAER_PROTO
            )
        if self._must_wait:
            return self._when_all_is_in(TransactionState.COMMIT_WAITS, self._commit_all)
        return self._commit_all()

    def _store_failed(self, error: Exception | None, what: str) -> JMSException:
        if not self._was_prepared:
            return super()._store_failed(error, what)
        logger.warning("STORE %s FAILED: %s; %s stays prepared", what, error, self.xid)
        self.state = TransactionState.PREPARED  # others of its branches may be committed by now
        return xa_exception(f"STORE {what} FAILED: Transaction stays prepared", XAER_RMFAIL)

    def _prepared(self) -> None:
        self.state = TransactionState.PREPARED
        self._was_prepared = True
