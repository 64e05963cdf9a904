"""Open transactions: their work is kept in memory, and once prepared also in the tables.

A prepared message has a row with an XID and a provisional id. It gets the next id at the commit,
so that ids increase in commit order. (activemq-persistence J8)
"""

from __future__ import annotations

from pyjms.errors import JMSException
from pyjms.jms.destination import Destination
from pyjms.wire.openwire.commands import MessageId, TransactionId, XATransactionId
from pyjms_broker.api.completion import COMPLETED, Completion
from pyjms_broker.api.message import Position
from pyjms_broker.store.api import RecoveredTransaction
from pyjms_broker.store.jdbc.stores.context import StoreContext
from pyjms_broker.store.jdbc.stores.work import Addition, Work

__all__ = ["JDBCTransactionStore"]


class _Transaction:
    def __init__(self, *, recovered: bool = False) -> None:
        self.works: list[Work] = []
        self.prepared = recovered
        self.recovered = recovered


class JDBCTransactionStore:
    """The transactions of one adapter. (ActiveMQ: JdbcMemoryTransactionStore)"""

    def __init__(self) -> None:
        self._open: dict[TransactionId, _Transaction] = {}
        self._recovered: list[RecoveredTransaction] = []
        self._positions: dict[tuple[Destination, MessageId], Position] = {}
        self._context: StoreContext

    def open(self, context: StoreContext) -> None:
        """Start without transactions."""
        self._context = context
        self._open.clear()
        self._recovered.clear()
        self._positions.clear()

    def add(self, xid: TransactionId, work: Work) -> None:
        """Keep a piece of work until the transaction ends."""
        transaction = self._open.get(xid)
        if transaction is None:
            transaction = self._open[xid] = _Transaction()
        transaction.works.append(work)

    def recover(self, transaction: RecoveredTransaction, works: list[Work]) -> None:
        """Add a prepared transaction that was found in the tables."""
        kept = self._open[transaction.xid] = _Transaction(recovered=True)
        kept.works = works
        self._recovered.append(transaction)

    def prepare(self, xid: TransactionId) -> Completion:
        transaction = self._open.get(xid)
        if transaction is None:
            return COMPLETED
        if not isinstance(xid, XATransactionId):
            raise JMSException(f"The local transaction {xid} cannot be prepared: only XA ones can")
        transaction.prepared = True
        operations = [op for work in transaction.works for op in work.prepare(xid)]
        size = sum(work.size for work in transaction.works)
        return self._context.submit(operations, lambda _: None, size)

    def commit(self, xid: TransactionId, prepared: bool) -> Completion:
        transaction = self._open.pop(xid, None)
        if transaction is None:
            return COMPLETED
        works = transaction.works
        operations = [op for work in works for op in work.commit()]
        if transaction.recovered:
            self._set_positions(works)

        def completed(error: Exception | None) -> None:
            for work in works:
                work.completed(error)
            if error is not None and transaction.prepared:
                self._open.setdefault(xid, transaction)  # its rows are still in the tables

        if not operations:
            completed(None)
        return self._context.submit(operations, completed, sum(work.size for work in works))

    def rollback(self, xid: TransactionId) -> Completion:
        transaction = self._open.pop(xid, None)
        if transaction is None or not transaction.prepared:
            return COMPLETED
        operations = [op for work in transaction.works for op in work.rollback()]

        def completed(error: Exception | None) -> None:
            if error is not None:
                self._open.setdefault(xid, transaction)

        return self._context.submit(operations, completed)

    def recovered(self) -> list[RecoveredTransaction]:
        return [found for found in self._recovered if found.xid in self._open]

    def position_of(self, destination: Destination, message_id: MessageId) -> Position | None:
        return self._positions.pop((destination, message_id), None)

    def _set_positions(self, works: list[Work]) -> None:
        additions = [work for work in works if isinstance(work, Addition)]
        for work in additions:  # the commit may have been tried before
            self._positions.pop((work.destination, work.message_id), None)
        for work in additions:
            if work.position is not None:
                self._positions[work.destination, work.message_id] = work.position
