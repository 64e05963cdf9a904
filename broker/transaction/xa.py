"""XA transactions: two phases, any number of branches, and XA's error codes in the texts.

Clients read the code from the end of an error's text, `... xaErrorCode:-4`. (ActiveMQ X5, X6;
ENCODING section 13)
"""

from __future__ import annotations

from collections.abc import Callable

from broker.completion import Completion
from broker.store.api import TransactionStore
from broker.transaction.local import Transaction, TransactionState
from pyjms.errors import JMSException, XAException
from pyjms.wire.openwire.commands import ConnectionId, XATransactionId

__all__ = ["XAER_NOTA", "XAER_PROTO", "XA_OK", "XA_RDONLY", "XATransaction", "xa_exception"]

XA_OK = 0
XA_RDONLY = 3
XAER_NOTA = -4
XAER_PROTO = -6


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

    def rolled_back_error(self, text: str, code: int) -> JMSException:
        return xa_exception(text, code)

    def prepare(self) -> int:
        if self.state is not TransactionState.IN_USE:
            raise xa_exception("Prepare cannot be called now", XAER_PROTO)
        if not self.has_work and not self.is_rollback_only:
            self._finish()
            return XA_RDONLY
        self._before_commit()
        self.state = TransactionState.PREPARED
        self._store.prepare(self.xid)
        return XA_OK

    def commit(self, one_phase: bool) -> Completion | None:
        if self.state is TransactionState.PREPARED:
            return self._store_commit(prepared=True)
        if not one_phase:
            raise xa_exception(
                "Cannot do 2 phase commit if the transaction has not been prepared", XAER_PROTO
            )
        self._before_commit()
        return self._store_commit(prepared=False)
