"""Transactions that touch several stores: prepared everywhere, decided once, then committed.

The stores know each transaction as an XA one. One that touched a single store is committed
there in one phase. (persistence K26)
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol, cast

from broker.api.completion import Completion, all_of
from broker.api.context import ConnectionContext
from broker.api.message import Position
from broker.store.api import RecoveredTransaction, TransactionStore
from broker.store.multi.decision_log import DecisionLog, as_xa
from pyjms.jms.destination import Destination
from pyjms.wire.openwire.commands import MessageId, TransactionId, XATransactionId

if TYPE_CHECKING:
    from broker.api.transaction import Transaction

__all__ = ["MultiTransactionStore"]


class _Branch:
    """What a store sees of a transaction: its XA name."""

    __slots__ = ("xid",)

    def __init__(self, xid: XATransactionId) -> None:
        self.xid = xid


class _Open:
    """A transaction and the stores that it has touched."""

    __slots__ = ("context", "stores", "xid")

    def __init__(self, xid: XATransactionId) -> None:
        self.xid = xid
        self.stores: dict[TransactionStore, None] = {}
        self.context = ConnectionContext()
        self.context.transaction = cast("Transaction", _Branch(xid))


class StoreFinder(Protocol):
    """Gives the transaction store of a destination's store."""

    def __call__(self, destination: Destination) -> TransactionStore | None: ...


class MultiTransactionStore:
    """The one transaction store of several stores. ActiveMQ: MultiKahaDBTransactionStore."""

    def __init__(self, outcomes: DecisionLog, find: StoreFinder) -> None:
        self._outcomes = outcomes
        self._find = find
        self._open: dict[TransactionId, _Open] = {}
        self._recovered: dict[TransactionId, RecoveredTransaction] = {}

    def enlist(self, context: ConnectionContext, store: TransactionStore) -> ConnectionContext:
        """Return the context for a call to a store; in a transaction it takes part from now on."""
        transaction = context.transaction
        if transaction is None:
            return context
        opened = self._open.get(transaction.xid)
        if opened is None:
            opened = self._open[transaction.xid] = _Open(as_xa(transaction.xid))
        opened.stores[store] = None
        opened.context.wants_answer = context.wants_answer
        return opened.context

    def prepare(self, xid: TransactionId) -> Completion | None:
        """Prepare it in all its stores."""
        opened = self._open.get(xid)
        if opened is None:
            return None
        return all_of([store.prepare(opened.xid) for store in opened.stores])

    def commit(self, xid: TransactionId, prepared: bool) -> Completion | None:
        """Commit it in all its stores, or in none; messages have their places when it is done."""
        opened = self._take(xid)
        if opened is None:
            return None
        if prepared or len(opened.stores) == 1:
            return all_of([store.commit(opened.xid, prepared) for store in opened.stores])
        answer = Completion()
        ready = all_of([store.prepare(opened.xid) for store in opened.stores])
        _next(ready, answer, lambda: self._decide(opened, answer), lambda: self._undo(opened))
        return answer

    def rollback(self, xid: TransactionId) -> Completion | None:
        """Forget it in all its stores."""
        opened = self._take(xid)
        return None if opened is None else self._undo(opened)

    def recovered(self) -> list[RecoveredTransaction]:
        """Return the prepared transactions of all stores, those of several put together."""
        return list(self._recovered.values())

    def position_of(self, destination: Destination, message_id: MessageId) -> Position | None:
        """Ask the destination's store."""
        store = self._find(destination)
        return None if store is None else store.position_of(destination, message_id)

    def adopt(self, parts: list[tuple[TransactionStore, RecoveredTransaction]]) -> None:
        """Take over what the stores found prepared at their start."""
        for store, part in parts:
            whole = self._recovered.setdefault(part.xid, RecoveredTransaction(part.xid, [], []))
            whole.added.extend(part.added)
            whole.removed.extend(part.removed)
            self._open.setdefault(part.xid, _Open(part.xid)).stores[store] = None

    def _take(self, xid: TransactionId) -> _Open | None:
        self._recovered.pop(xid, None)
        return self._open.pop(xid, None)

    def _decide(self, opened: _Open, answer: Completion) -> None:
        """All have prepared: from the decision on there is no way back."""
        decided = self._outcomes.decide(opened.xid)
        _next(decided, answer, lambda: self._carry_out(opened, answer), lambda: None)

    def _carry_out(self, opened: _Open, answer: Completion) -> None:
        done = all_of([store.commit(opened.xid, True) for store in opened.stores])

        def finish() -> None:
            self._outcomes.mark_completed(opened.xid)
            answer.complete()

        # a store that fails now commits it at its next start
        _next(done, answer, finish, lambda: None)

    def _undo(self, opened: _Open) -> Completion | None:
        return all_of([store.rollback(opened.xid) for store in opened.stores])


def _next(
    step: Completion | None,
    answer: Completion,
    well: Callable[[], object],
    failed: Callable[[], object],
) -> None:
    """Go on after `step`; an error, also one that going on raises, is the answer."""

    def when_done(done: Completion | None) -> None:
        error = None if done is None else done.error
        try:
            if error is None:
                well()
                return
            failed()
        except Exception as raised:
            error = error or raised
        answer.complete(error)

    if step is None:
        when_done(None)
    else:
        step.then(when_done)
