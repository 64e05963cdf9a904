"""The order in which the transactions of a session end. (activemq-broker X2)

They end in the order in which the session requested their ends, even if an earlier one waits for
blocked sends. Transactions of other sessions may overtake, because their acknowledgements may free
memory.
"""

from __future__ import annotations

from pyjms_broker.api.completion import Completion
from pyjms_broker.api.context import ConnectionContext
from pyjms_broker.api.transaction import Transaction, TransactionState

__all__ = ["order_behind_earlier_ends", "record_waiting_end"]


class _EarlierEnd:
    """An earlier transaction's end, as pending work of a later transaction."""

    __slots__ = ()

    def transaction_rolled_back(self) -> None:
        """Do nothing: the earlier transaction ends independently."""


def order_behind_earlier_ends(context: ConnectionContext, transaction: Transaction) -> None:
    """Make the end of `transaction` wait for earlier ends of the same session that wait."""
    session = _session(transaction)
    if session is None or transaction.state is not TransactionState.IN_USE:
        return
    for earlier, result in context.waiting_ends.items():
        if _session(earlier) == session:
            _wait_for(result, transaction)


def _wait_for(earlier: Completion, transaction: Transaction) -> None:
    work = _EarlierEnd()
    transaction.add_pending(work)
    earlier.then(lambda _: transaction.pending_finished(work))


def _session(transaction: Transaction) -> tuple[str | None, int] | None:
    """Return the session whose producers send in the transaction; None if there is none."""
    info = transaction.producer
    if info is None or info.producer_id is None:
        return None
    return info.producer_id.connection_id, info.producer_id.session_id


def record_waiting_end(
    context: ConnectionContext, transaction: Transaction, result: Completion
) -> None:
    """Record, until `result` is done, that an end requested on this connection waits."""
    waiting = context.waiting_ends

    def remove(_result: Completion) -> None:
        del waiting[transaction]

    if transaction not in waiting:
        waiting[transaction] = result
        result.then(remove)
