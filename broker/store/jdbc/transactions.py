"""The open transactions: their work waits in memory; that of prepared ones is in the tables, too.

A prepared message has a row with an XID and an id of its own, and gets the next id at the
commit, so that ids rise with the commits. (J8)
"""

from __future__ import annotations

from broker.api.completion import Completion
from broker.api.message import Position
from broker.store.api import RecoveredTransaction
from broker.store.jdbc.core import Core
from broker.store.jdbc.work import Addition, Work
from pyjms.errors import JMSException
from pyjms.jms.destination import Destination
from pyjms.wire.openwire.commands import MessageId, TransactionId, XATransactionId

__all__ = ["JDBCTransactionStore"]


class _Transaction:
    def __init__(self, *, recovered: bool = False) -> None:
        self.works: list[Work] = []
        self.prepared = recovered
        self.recovered = recovered


class JDBCTransactionStore:
    """ActiveMQ: JdbcMemoryTransactionStore."""

    def __init__(self) -> None:
        self._open: dict[TransactionId, _Transaction] = {}
        self._recovered: list[RecoveredTransaction] = []
        self._positions: dict[tuple[Destination, MessageId], Position] = {}
        self._core: Core

    def begin(self, core: Core) -> None:
        """Begin with nothing."""
        self._core = core
        self._open.clear()
        self._recovered.clear()
        self._positions.clear()

    def add(self, xid: TransactionId, work: Work) -> None:
        """Have work done at the commit."""
        transaction = self._open.get(xid)
        if transaction is None:
            transaction = self._open[xid] = _Transaction()
        transaction.works.append(work)

    def recover(self, transaction: RecoveredTransaction, works: list[Work]) -> None:
        """Take a prepared transaction that the tables had."""
        kept = self._open[transaction.xid] = _Transaction(recovered=True)
        kept.works = works
        self._recovered.append(transaction)

    def prepare(self, xid: TransactionId) -> Completion | None:
        transaction = self._open.get(xid)
        if transaction is None:
            return None
        if not isinstance(xid, XATransactionId):
            raise JMSException("A local transaction cannot be prepared")
        transaction.prepared = True
        operations = [op for work in transaction.works for op in work.prepare(xid)]
        size = sum(work.size for work in transaction.works)
        return self._core.submit(operations, lambda _: None, size)

    def commit(self, xid: TransactionId, prepared: bool) -> Completion | None:
        transaction = self._open.pop(xid, None)
        if transaction is None:
            return None
        works = transaction.works
        operations = [op for work in works for op in work.commit()]
        if transaction.recovered:
            self._note_positions(works)

        def done(error: Exception | None) -> None:
            for work in works:
                work.done(error)
            if error is not None and transaction.prepared:
                self._open.setdefault(xid, transaction)  # its rows are there still

        if not operations:
            done(None)
        return self._core.submit(operations, done, sum(work.size for work in works))

    def rollback(self, xid: TransactionId) -> Completion | None:
        transaction = self._open.pop(xid, None)
        if transaction is None or not transaction.prepared:
            return None
        operations = [op for work in transaction.works for op in work.rollback()]

        def done(error: Exception | None) -> None:
            if error is not None:
                self._open.setdefault(xid, transaction)

        return self._core.submit(operations, done)

    def recovered(self) -> list[RecoveredTransaction]:
        return [found for found in self._recovered if found.xid in self._open]

    def position_of(self, destination: Destination, message_id: MessageId) -> Position | None:
        return self._positions.pop((destination, message_id), None)

    def _note_positions(self, works: list[Work]) -> None:
        additions = [work for work in works if isinstance(work, Addition)]
        for work in additions:  # the commit may have been tried before
            self._positions.pop((work.store.destination, work.message_id), None)
        for work in additions:
            if work.position is not None:
                self._positions[work.store.destination, work.message_id] = work.position
