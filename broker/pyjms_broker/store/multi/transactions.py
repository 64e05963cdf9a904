"""Transactions across several stores, with a two-phase commit.

Theory of operation
-------------------

Each store has its own transaction store. The multi store is the coordinator: it enlists a store in
a transaction at the first operation on one of its destinations. In the stores, the transaction has
an XA id (`as_xa`), because only XA transactions can be prepared.

    commit, one store          one phase: that store commits
    commit, several stores     1. all stores prepare
                               2. the decision to commit is appended to the decision log, synced
                               3. all stores commit
                               4. the log records, lazily, that the decision is carried out
    prepare, commit by an XA   the stores prepare and commit; the transaction manager decides,
    transaction manager        so no decision is logged

The transaction is committed once its decision is durable. An earlier failure, as of a prepare,
rolls it back in all stores. A later failure is repaired at the next start. A prepared transaction
whose decision is in the log is committed in every store that still has it prepared; a local one
without a decision is rolled back; the others wait for their transaction manager.
(activemq-persistence K26; ActiveMQ MultiKahaDBTransactionStore)

The log of decisions is a journal: a prepare record says that a transaction is prepared in all
stores and will be committed; a commit record says that it is committed in all stores. ActiveMQ's
`txStore` has the same records. (activemq-persistence K26)
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Final

from anyio import to_thread

from pyjms.errors import ResourceAllocationException
from pyjms.jms.destination import Destination
from pyjms.runtime.logging import get_logger
from pyjms.wire.kahadb.codec import encode_command
from pyjms.wire.kahadb.commands import KahaCommitCommand, KahaPrepareCommand
from pyjms.wire.kahadb.frames import from_transaction_info, to_transaction_info
from pyjms.wire.kahadb.journal import Location
from pyjms.wire.openwire.commands import MessageId, TransactionId, XATransactionId
from pyjms_broker.api.completion import COMPLETED, Completion, all_of, wait_for
from pyjms_broker.api.message import Position
from pyjms_broker.store.api import RecoveredTransaction, TransactionStore
from pyjms_broker.store.journal.disk import Disk
from pyjms_broker.store.journal.journal import Journal, StateListener
from pyjms_broker.store.journal.settings import JournalSettings
from pyjms_broker.store.kahadb.adapter import KahaDBPersistenceAdapter
from pyjms_broker.store.kahadb.settings import PurgeRecoveredXATransactionStrategy

LOCAL_FORMAT_ID: Final = 61616
"""The XA format id under which stores know local transactions (ActiveMQ's localXaFormatId)."""


def as_xa(xid: TransactionId) -> XATransactionId:
    """Return the XA id of `xid` in the stores, since only XA transactions can be prepared."""
    if isinstance(xid, XATransactionId):
        return xid
    connection = getattr(xid, "connection_id", None)
    name = "" if connection is None or connection.value is None else connection.value
    number = getattr(xid, "value", 0)
    return XATransactionId(LOCAL_FORMAT_ID, name.encode(), str(number).encode())


class DecisionLog:
    """The decisions that are not carried out in all stores yet. Use it on the loop."""

    def __init__(
        self, directory: Path, settings: JournalSettings, disk: Disk, on_state: StateListener
    ) -> None:
        self.journal = Journal(directory, settings, disk, on_state)
        self.decided: dict[XATransactionId, Location] = {}
        """Locations of the decisions, by transactions that a store may still have prepared."""

    async def open(self) -> None:
        """Open the log and read the decisions.

        Raises:
            ResourceAllocationException: it cannot be read.
        """
        await self.journal.open()
        try:
            await to_thread.run_sync(self._read)
        except OSError as e:
            raise ResourceAllocationException(
                f"Cannot read the decisions in {self.journal.directory}: {e}"
            ) from e

    def _read(self) -> None:
        for record in self.journal.records_from(None):
            command = record.command()
            if isinstance(command, KahaPrepareCommand):
                self.decided[_xid(command)] = record.location
            elif isinstance(command, KahaCommitCommand):
                self.decided.pop(_xid(command), None)

    def decide(self, xid: XATransactionId) -> Completion:
        """Log the decision to commit `xid`; completed when it is durable."""
        waiter = Completion()
        payload = encode_command(KahaPrepareCommand(to_transaction_info(xid)))
        self.decided[xid] = self.journal.append(payload, waiter, sync=True)
        return waiter

    def mark_completed(self, xid: XATransactionId) -> None:
        """Record, lazily, that `xid` is committed in all stores."""
        if self.decided.pop(xid, None) is not None:
            payload = encode_command(KahaCommitCommand(to_transaction_info(xid)))
            self.journal.append(payload, lazy=True)

    async def clean_up(self) -> None:
        """Delete the segments before the first decision that is not carried out.

        The stores must have synced their commits.

        Raises:
            JMSException: the journal has failed.
        """
        first = min(self.decided.values(), default=self.journal.written).file_id
        for file_id in self.journal.segments():
            if file_id < min(first, self.journal.written.file_id):
                await self.journal.delete(file_id)


def _xid(command: KahaPrepareCommand | KahaCommitCommand) -> XATransactionId:
    return as_xa(from_transaction_info(command.transaction_info))


logger = get_logger(__name__)


class _OpenTransaction:
    """A transaction and the stores enlisted in it."""

    __slots__ = ("stores", "xid")

    def __init__(self, xid: XATransactionId) -> None:
        self.xid = xid
        self.stores: dict[TransactionStore, None] = {}


class MultiTransactionStore:
    """The transaction store of several stores. ActiveMQ: MultiKahaDBTransactionStore."""

    def __init__(
        self, decisions: DecisionLog, find: Callable[[Destination], TransactionStore | None]
    ) -> None:
        """Coordinate the stores; `find` returns the transaction store of a destination."""
        self._decisions = decisions
        self._find = find
        self._open: dict[TransactionId, _OpenTransaction] = {}
        self._recovered: dict[TransactionId, RecoveredTransaction] = {}

    def enlist(self, xid: TransactionId, store: TransactionStore) -> TransactionId:
        """Enlist a store in a transaction; return the id that the transaction has there."""
        opened = self._open.get(xid)
        if opened is None:
            opened = self._open[xid] = _OpenTransaction(as_xa(xid))
        opened.stores[store] = None
        return opened.xid

    def prepare(self, xid: TransactionId) -> Completion:
        """Prepare it in all its stores."""
        opened = self._open.get(xid)
        if opened is None:
            return COMPLETED
        return all_of([store.prepare(opened.xid) for store in opened.stores])

    def commit(self, xid: TransactionId, prepared: bool) -> Completion:
        """Commit it in all its stores or in none; positions are set on completion."""
        opened = self._pop(xid)
        if opened is None:
            return COMPLETED
        if prepared or len(opened.stores) == 1:
            return all_of([store.commit(opened.xid, prepared) for store in opened.stores])
        result = Completion()
        ready = all_of([store.prepare(opened.xid) for store in opened.stores])
        _continue(ready, result, lambda: self._decide(opened, result), lambda: self._undo(opened))
        return result

    def rollback(self, xid: TransactionId) -> Completion:
        """Roll it back in all its stores."""
        opened = self._pop(xid)
        return COMPLETED if opened is None else self._undo(opened)

    def recovered(self) -> list[RecoveredTransaction]:
        """Return the prepared transactions of all stores, with their branches merged."""
        return list(self._recovered.values())

    def position_of(self, destination: Destination, message_id: MessageId) -> Position | None:
        """Return the position from the destination's store."""
        store = self._find(destination)
        return None if store is None else store.position_of(destination, message_id)

    def adopt(self, parts: list[tuple[TransactionStore, RecoveredTransaction]]) -> None:
        """Take over the transactions that the stores found prepared at their start."""
        for store, part in parts:
            whole = self._recovered.setdefault(part.xid, RecoveredTransaction(part.xid, [], []))
            whole.added.extend(part.added)
            whole.removed.extend(part.removed)
            self._open.setdefault(part.xid, _OpenTransaction(part.xid)).stores[store] = None

    def _pop(self, xid: TransactionId) -> _OpenTransaction | None:
        self._recovered.pop(xid, None)
        return self._open.pop(xid, None)

    def _decide(self, opened: _OpenTransaction, result: Completion) -> None:
        """Decide to commit, after all stores have prepared."""
        decided = self._decisions.decide(opened.xid)
        _continue(decided, result, lambda: self._carry_out(opened, result), lambda: None)

    def _carry_out(self, opened: _OpenTransaction, result: Completion) -> None:
        done = all_of([store.commit(opened.xid, True) for store in opened.stores])

        def finish() -> None:
            self._decisions.mark_completed(opened.xid)
            result.complete()

        # a store that fails now will commit it at its next start
        _continue(done, result, finish, lambda: None)

    def _undo(self, opened: _OpenTransaction) -> Completion:
        return all_of([store.rollback(opened.xid) for store in opened.stores])


def _continue(
    step: Completion,
    result: Completion,
    succeeded: Callable[[], object],
    failed: Callable[[], object],
) -> None:
    """Continue after `step`; an error, also one raised in the continuation, completes `result`."""

    def when_done(done: Completion) -> None:
        error = done.error
        try:
            if error is None:
                succeeded()
                return
            failed()
        except Exception as raised:
            error = error or raised
        result.complete(error)

    step.then(when_done)


async def recover_transactions(
    adapters: Iterable[tuple[KahaDBPersistenceAdapter, PurgeRecoveredXATransactionStrategy]],
    decisions: DecisionLog,
    transactions: MultiTransactionStore,
) -> None:
    """Commit the decided transactions and pass the others to the transaction store.

    Raises:
        JMSException: a store has failed.
    """
    waiting: list[tuple[TransactionStore, RecoveredTransaction]] = []
    results: list[Completion] = []
    for adapter, strategy in adapters:
        store = adapter.transaction_store()
        for found in store.recovered():
            if found.xid in decisions.decided:
                logger.info("Committing %s in %s, as decided", found.xid, adapter.directory)
                results.append(adapter.commit_recovered(found))
            elif found.xid.format_id == LOCAL_FORMAT_ID:
                logger.info("Rolling back %s in %s", found.xid, adapter.directory)
                results.append(store.rollback(found.xid))
            elif strategy is PurgeRecoveredXATransactionStrategy.NEVER:
                waiting.append((store, found))
            else:
                logger.warning("Prepared transaction %s: %s", found.xid, strategy.value)
                commit = strategy is PurgeRecoveredXATransactionStrategy.COMMIT
                results.append(
                    adapter.commit_recovered(found) if commit else store.rollback(found.xid)
                )
    await wait_for(all_of(results))
    for xid in list(decisions.decided):
        decisions.mark_completed(xid)
    transactions.adopt(waiting)
