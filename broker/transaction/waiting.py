"""What the end of a transaction may have to wait for: its sends without room, and its turn.

A session's ends come in the order in which it asked for them. Those of other sessions may
go ahead: they may be what makes room.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from broker.transaction.local import Transaction, TransactionState

if TYPE_CHECKING:
    from broker.completion import Completion
    from broker.context import ConnectionContext

__all__ = ["Awaited", "end_in_turn", "note_waiting"]


class Awaited(Protocol):
    """Something that has to come in before its transaction can end."""

    def dropped(self) -> None:
        """Hear that the transaction was rolled back, so that nobody waits any more."""


class _Turn:
    """The end of a transaction before this one."""

    __slots__ = ()

    def dropped(self) -> None:
        """Do nothing: the one before has an end of its own."""


def end_in_turn(context: ConnectionContext, transaction: Transaction) -> None:
    """Have `transaction` end behind those of its session that were asked to and wait. (X2)"""
    session = _session(transaction)
    if session is None or transaction.state is not TransactionState.IN_USE:
        return
    for former, answer in context.waiting_ends.items():
        if _session(former) == session:
            _wait_behind(answer, transaction)


def _wait_behind(former: Completion, transaction: Transaction) -> None:
    turn = _Turn()
    transaction.awaits(turn)
    former.then(lambda _: transaction.came_in(turn))


def _session(transaction: Transaction) -> tuple[str | None, int] | None:
    """Return the session whose producers send in the transaction, None if there is none."""
    info = None if transaction.sender is None else transaction.sender.info
    if info is None or info.producer_id is None:
        return None
    return info.producer_id.connection_id, info.producer_id.session_id


def note_waiting(context: ConnectionContext, transaction: Transaction, answer: Completion) -> None:
    """Remember that the connection waits for the end of `transaction`, until `answer` is done."""
    waiting = context.waiting_ends

    def done(_answer: Completion) -> None:
        del waiting[transaction]

    if transaction not in waiting:
        waiting[transaction] = answer
        answer.then(done)
