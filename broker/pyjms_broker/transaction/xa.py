"""XA transactions: two-phase commit, branches, and XA error codes in error messages.

Clients read the code from the end of the error message, `... xaErrorCode:-4`. A prepared branch
stays prepared if the store fails to commit it: other branches of its global transaction may
already be committed, so only the transaction manager may decide.
(activemq-broker X5, X6; openwire-encoding 13)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from pyjms._logger import get_logger
from pyjms.errors import JMSException, XAException
from pyjms.wire.openwire.commands import ConnectionId, XATransactionId
from pyjms_broker.api.completion import COMPLETED, Completion, checked
from pyjms_broker.api.transaction import Synchronization, Transaction, TransactionState
from pyjms_broker.store.api import TransactionStore
from pyjms_broker.transaction.base import BaseTransaction

__all__ = [
    "XAER_NOTA",
    "XAER_PROTO",
    "XAER_RMFAIL",
    "XA_OK",
    "XA_RDONLY",
    "XATransaction",
    "xa_exception",
]

logger = get_logger(__name__)

XA_OK = 0
XA_RDONLY = XAException.XA_RDONLY
XAER_NOTA = XAException.XAER_NOTA
XAER_PROTO = XAException.XAER_PROTO
XAER_RMFAIL = XAException.XAER_RMFAIL

_VOTING: Final = (TransactionState.PREPARING, TransactionState.PREPARE_WAITS)


def xa_exception(text: str, code: int) -> XAException:
    """Return the error of an XA call, with `code` at the end of its message."""
    return XAException(f"{text} xaErrorCode:{code}", xa_error_code=code)


class XATransaction(BaseTransaction):
    """A branch of a distributed transaction.

    Until it is prepared it belongs to the connection that began it; afterwards any connection
    may commit it or roll it back.
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
        """Return a transaction that was prepared before the broker started, with its work."""
        transaction = cls(xid, store, on_finished, None)
        for synchronization in work:
            transaction.add(synchronization)
        transaction._prepared()
        return transaction

    def rolled_back_error(self, text: str, code: int) -> JMSException:
        return xa_exception(text, code)

    def busy_error(self, step: str) -> JMSException:
        return xa_exception(super().busy_error(step).reason, XAER_PROTO)

    def prepare(self) -> int | Completion:
        if self._result is not COMPLETED and self.state in _VOTING:
            return self._result
        if self.state is not TransactionState.IN_USE:
            raise xa_exception("Prepare cannot be called now", XAER_PROTO)
        if self._must_wait:
            return self._run_when_admitted(TransactionState.PREPARE_WAITS, self._prepare_now)
        if not self.has_work and not self.is_rollback_only:
            self._finish()
            return XA_RDONLY
        return self._prepare_now()

    def _prepare_now(self) -> int | Completion:
        self._run_before_commit()
        self.state = TransactionState.PREPARING
        result = self._run_in_store(
            lambda: checked(self._store.prepare(self.xid), self._store, "prepare"),
            self._prepared,
            "PREPARE",
        )
        return XA_OK if result is COMPLETED else result

    def commit(self, one_phase: bool) -> Completion:
        if self.state in {TransactionState.COMMITTING, TransactionState.COMMIT_WAITS}:
            return self._result
        if self.state is TransactionState.PREPARED:
            return self._commit_in_store(prepared=True)
        if self.state in _VOTING:
            raise self.busy_error("Commit")
        if not one_phase:
            raise xa_exception(
                "Cannot do 2 phase commit if the transaction has not been prepared", XAER_PROTO
            )
        if self._must_wait:
            return self._run_when_admitted(TransactionState.COMMIT_WAITS, self._commit_now)
        return self._commit_now()

    def _store_failed(self, error: Exception | None, name: str) -> JMSException:
        if not self._was_prepared:
            return super()._store_failed(error, name)
        logger.warning("STORE %s FAILED: %s; %s stays prepared", name, error, self.xid)
        self.state = TransactionState.PREPARED  # other branches may already be committed
        return xa_exception(f"STORE {name} FAILED: Transaction stays prepared", XAER_RMFAIL)

    def _prepared(self) -> None:
        self.state = TransactionState.PREPARED
        self._was_prepared = True
