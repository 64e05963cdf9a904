"""Local and XA transactions, and the broker filter that begins and ends them.

Local transactions are stored in the context of their connection, XA transactions in the filter.
When a connection is lost, its open transactions are rolled back, except for prepared XA branches
and those that the store is preparing or committing. XA branches that were prepared before the
broker started are recovered and can be ended like any other.

Theory of operation
===================

A transaction collects `Synchronization`s, which carry out the effects of its sends and
acknowledgements when it ends; until then nothing is visible. The store collects the same work by
transaction id. A commit has three steps: `before_commit` of every synchronization (an error turns
the commit into a rollback), then the store's commit, then `after_commit` in the order of
registration. A rollback is first made in the store; then `after_rollback` is called in that order.

The states and their transitions (`TransactionState`):

    state           event                                   next state
    --------------  --------------------------------------  ---------------------------------
    IN_USE          commit, nothing pending                 COMMITTING
    IN_USE          commit, a send waits for space          COMMIT_WAITS
    IN_USE          prepare, nothing pending                PREPARING (without work: FINISHED)
    IN_USE          prepare, a send waits for space         PREPARE_WAITS
    COMMIT_WAITS    last pending work finished              COMMITTING
    PREPARE_WAITS   last pending work finished              PREPARING
    *_WAITS         pending work failed, then none is left  FINISHED, rolled back
    PREPARING       the store has recorded it               PREPARED
    PREPARED        commit                                  COMMITTING
    COMMITTING      the store has recorded it               FINISHED
    PREPARING       the store failed                        FINISHED, rolled back
    COMMITTING      the store failed                        FINISHED, rolled back; PREPARED again
                                                            for an XA branch that was prepared
    any but -ING    rollback                                FINISHED, rolled back

While the store prepares or commits, its result decides, and every other request is refused with
`busy_error`: the journal may already have the record, so a rollback could undo in memory what a
restart would recover as committed. A repeated commit returns the Completion of the first one.

Sends that wait for space are `PendingWork`: a commit waits for them, because a client that sends
asynchronously cannot learn otherwise whether they were accepted. If such a send fails before the
end is requested, the sender gets the error and the transaction stays open. If it fails while the
end waits, the end fails.

The transactions of a session end in the order in which the session requested their ends, even if an
earlier one waits for blocked sends. Transactions of other sessions may overtake, because their
acknowledgements may free memory. (activemq-broker X2)

If a synchronization fails after the outcome is decided, the error is logged and the others are
still called.

XA clients read the error code from the end of the message, `... xaErrorCode:-4`. A prepared branch
stays prepared if the store fails to commit it: other branches of its global transaction may
already be committed, so only the transaction manager may decide.

(ActiveMQ Transaction, LocalTransaction; activemq-broker B3, X1 to X6, M2; openwire-encoding 13)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import ClassVar, Final

from pyjms.errors import JMSException, TransactionRolledBackException, XAException
from pyjms.jms.destination import Destination
from pyjms.runtime import clock as _clock
from pyjms.runtime.logging import get_logger
from pyjms.wire.openwire.commands import (
    ActiveMQMessage,
    ConnectionId,
    ConnectionInfo,
    MessageAck,
    ProducerInfo,
    TransactionId,
    XATransactionId,
)
from pyjms_broker.api.access import Right
from pyjms_broker.api.broker import Broker, BrokerFilter
from pyjms_broker.api.completion import COMPLETED, Completion, completion_of
from pyjms_broker.api.context import ConnectionContext, ConsumerExchange, ProducerExchange
from pyjms_broker.api.transaction import PendingWork, Synchronization, Transaction, TransactionState
from pyjms_broker.store.api import RecoveredTransaction, TransactionStore

logger = get_logger(__name__)

XA_RBROLLBACK = XAException.XA_RBROLLBACK
XA_RBOTHER = XAException.XA_RBOTHER


class BaseTransaction(Transaction):
    """The base class of local and XA transactions."""

    def __init__(
        self,
        xid: TransactionId,
        store: TransactionStore,
        on_finished: Callable[[Transaction], None],
    ) -> None:
        """Begin; `on_finished` removes the transaction from its owner's table."""
        self.xid = xid
        self.state = TransactionState.IN_USE
        self.began = _clock.now()
        self.producer: ProducerInfo | None = None
        self._rollback_only_cause: BaseException | None = None
        self._store = store
        self._on_finished = on_finished
        self._synchronizations: list[Synchronization] = []
        self.latest: Synchronization | None = None
        self._pending: dict[PendingWork, None] = {}
        self._delayed_step: Callable[[], int | Completion] | None = None
        self._result: Completion = COMPLETED
        """The Completion of the requested end; `COMPLETED` if there is no unfinished one."""

    # work
    def add(self, synchronization: Synchronization) -> None:
        self._synchronizations.append(synchronization)
        self.latest = synchronization

    def remove(self, synchronization: Synchronization) -> None:
        """Remove a synchronization that was added."""
        self._synchronizations.remove(synchronization)
        self.latest = None

    def add_pending(self, work: PendingWork) -> None:
        self._pending[work] = None

    def pending_finished(self, work: PendingWork) -> None:
        self._pending.pop(work, None)
        if not self._pending and self.is_waiting:
            self._resume_end()

    def pending_failed(self, work: PendingWork, cause: BaseException) -> None:
        self._pending.pop(work, None)
        if self.is_waiting:
            self.set_rollback_only(cause)

    @property
    def has_work(self) -> bool:
        """Whether anything was sent or acknowledged."""
        return bool(self._synchronizations)

    @property
    def is_rollback_only(self) -> bool:
        """Whether a commit would fail because a one-way command of the transaction has failed."""
        return self._rollback_only_cause is not None

    def set_rollback_only(self, cause: BaseException) -> None:
        """Turn the commit into a rollback caused by `cause`, at once if the commit is waiting.

        The first cause is kept.
        """
        if self._rollback_only_cause is None:
            self._rollback_only_cause = cause
        if self.is_waiting:
            self._resume_end()

    # the end
    def rollback(self, cause: BaseException | None = None) -> Completion:
        if self.state is TransactionState.FINISHED:
            return COMPLETED
        if self.is_ending:
            raise self.busy_error("Rollback")
        result, self._result = self._result, COMPLETED
        self._finish()
        self._cancel_pending()
        try:
            return completion_of(self._store.rollback(self.xid), self._store, "rollback")
        finally:
            self._run_after_rollback()
            if result is not COMPLETED:
                error = self.rolled_back_error(
                    "COMMIT FAILED: Transaction rolled back while waiting for space", XA_RBROLLBACK
                )
                error.__cause__ = cause
                result.complete(error)

    def busy_error(self, step: str) -> JMSException:
        return JMSException(
            f"{step} cannot be called now: transaction '{self.xid}' is {self.state.value}"
        )

    def rolled_back_error(self, text: str, code: int) -> JMSException:
        """Return the error of a commit that ended in a rollback."""
        return TransactionRolledBackException(f"{text} xaErrorCode:{code}")

    @property
    def _must_wait(self) -> bool:
        return bool(self._pending) and not self.is_rollback_only

    def _run_when_admitted(
        self, state: TransactionState, step: Callable[[], int | Completion]
    ) -> Completion:
        """Run `step` once all pending work is finished; return the completion of the end."""
        logger.warning(
            "Transaction %s is %s: %d sends are not admitted yet; its %d operations "
            "use memory until it ends",
            self.xid,
            state.value,
            len(self._pending),
            len(self._synchronizations),
        )
        self.state = state
        self._delayed_step = step
        self._result = Completion()
        return self._result

    def _resume_end(self) -> None:
        """Run the step that was waiting for pending work."""
        result, step = self._result, self._delayed_step
        assert step is not None
        self._result, self._delayed_step = COMPLETED, None
        self.state = TransactionState.IN_USE
        try:
            ended = step()
        except Exception as error:
            result.complete(error)
            return
        if isinstance(ended, Completion):
            ended.then(lambda done: result.complete(done.error))
        else:
            result.complete()

    def _cancel_pending(self) -> None:
        pending, self._pending = self._pending, {}
        for work in pending:
            self._run_logged(work.transaction_rolled_back)

    def _commit_now(self) -> Completion:
        self._run_before_commit()
        return self._commit_in_store(prepared=False)

    def _run_before_commit(self) -> None:
        cause = self._rollback_only_cause
        if cause is not None:
            self._roll_back_quietly()
            raise self.rolled_back_error(
                "COMMIT FAILED: Transaction marked rollback only", XA_RBROLLBACK
            ) from cause
        try:
            for synchronization in self._synchronizations:
                synchronization.before_commit()
        except Exception as error:
            logger.warning("COMMIT FAILED: %s", error)
            self._roll_back_quietly()
            raise self.rolled_back_error(
                "COMMIT FAILED: Transaction rolled back", XA_RBOTHER
            ) from error

    def _commit_in_store(self, prepared: bool) -> Completion:
        self.state = TransactionState.COMMITTING
        return self._run_in_store(
            lambda: completion_of(self._store.commit(self.xid, prepared), self._store, "commit"),
            self._on_committed,
            "COMMIT",
        )

    def _run_in_store(
        self, step: Callable[[], Completion], on_success: Callable[[], None], name: str
    ) -> Completion:
        """Run the store's `step`, then `on_success`, or a rollback if the store failed."""
        try:
            stored = step()
        except Exception as error:
            raise self._store_failed(error, name) from error
        if stored.done:
            if stored.error is not None:
                raise self._store_failed(stored.error, name) from stored.error
            on_success()
            return COMPLETED
        result = self._result = Completion()

        def when_stored(done: Completion) -> None:
            self._result = COMPLETED
            if done.error is None:
                on_success()
                result.complete()
            else:
                failed = self._store_failed(done.error, name)
                failed.__cause__ = done.error
                result.complete(failed)

        stored.then(when_stored)
        if self.state is TransactionState.COMMITTING:
            for synchronization in self._synchronizations:
                synchronization.committing(stored)  # its callbacks are called after `when_stored`
        return result

    def _on_committed(self) -> None:
        self._finish()
        synchronizations, self._synchronizations = self._synchronizations, []
        for synchronization in synchronizations:
            self._run_logged(synchronization.after_commit)

    def _store_failed(self, error: Exception | None, name: str) -> JMSException:
        logger.warning("STORE %s FAILED: %s", name, error)
        self.state = TransactionState.IN_USE  # the store no longer processes it
        self._roll_back_quietly()
        return self.rolled_back_error(f"STORE {name} FAILED: Transaction rolled back", XA_RBOTHER)

    def _roll_back_quietly(self) -> None:
        """Roll back, logging a failure so that it does not hide the first error."""
        try:
            self.rollback()
        except Exception:
            logger.exception("Rolling back %s failed in the store", self.xid)

    def _finish(self) -> None:
        self.state = TransactionState.FINISHED
        self._on_finished(self)

    def _run_after_rollback(self) -> None:
        synchronizations, self._synchronizations = self._synchronizations, []
        for synchronization in synchronizations:
            self._run_logged(synchronization.after_rollback)

    def _run_logged(self, step: Callable[[], None]) -> None:
        """Run one step of the end, logging an error: the other steps must still run."""
        try:
            step()
        except Exception:
            logger.exception("Transaction %s: one of its synchronizations failed", self.xid)


class LocalTransaction(BaseTransaction):
    """A transaction of one connection: begun, then committed or rolled back in one step."""

    def prepare(self) -> int | Completion:
        raise JMSException(
            "Prepare cannot be called now: a local transaction has one phase",
            hint="only XA transactions are prepared",
        )

    def commit(self, one_phase: bool) -> Completion:
        if self.state in {TransactionState.COMMITTING, TransactionState.COMMIT_WAITS}:
            return self._result
        if self._must_wait:
            return self._run_when_admitted(TransactionState.COMMIT_WAITS, self._commit_now)
        return self._commit_now()


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
    may commit it or roll it back. With rights, only those of the same user, and of users with
    rights on all of its `work`. (activemq-edges SE34)
    """

    def __init__(
        self,
        xid: XATransactionId,
        store: TransactionStore,
        on_finished: Callable[[Transaction], None],
        connection_id: ConnectionId | None,
        owner: str | None = None,
    ) -> None:
        super().__init__(xid, store, on_finished)
        self.connection_id = connection_id
        self.owner = owner
        """The user who began it; None: unknown, as it was recovered, or there are no users."""
        self.work: dict[tuple[Right, Destination], None] = {}
        """Where its messages were sent and acknowledged, with the right that this needed."""
        self._was_prepared = False

    @classmethod
    def recover(
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
        transaction._on_prepared()
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
            lambda: completion_of(self._store.prepare(self.xid), self._store, "prepare"),
            self._on_prepared,
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

    def _on_prepared(self) -> None:
        self.state = TransactionState.PREPARED
        self._was_prepared = True


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


def _check_owner(context: ConnectionContext, branch: XATransaction) -> None:
    """Check that a client may use a branch."""
    if context.access is not None and not context.may_use(branch.owner, branch.work):
        context.access.refuse("use the transaction", str(branch.xid))


RecoveredWork = Callable[[RecoveredTransaction], Sequence[Synchronization]]
"""Returns the work of a transaction that was prepared before the broker started."""


class TransactionBroker(BrokerFilter):
    """Looks up the transaction of each command, and ends transactions."""

    passes_plain: ClassVar[bool] = True

    def __init__(
        self,
        next_broker: Broker,
        store: TransactionStore,
        recovered_work: RecoveredWork | None = None,
    ) -> None:
        """Create the filter; `recovered_work` returns the work of a recovered transaction."""
        super().__init__(next_broker)
        self._store = store
        self._recovered_work = recovered_work
        self._xa: dict[XATransactionId, XATransaction] = {}

    async def start(self) -> None:
        """Start the next broker, then recover the store's prepared transactions."""
        await self.next.start()
        for recovered in self._store.recovered_transactions():
            work = () if self._recovered_work is None else self._recovered_work(recovered)
            branch = self._xa[recovered.xid] = XATransaction.recover(
                recovered.xid, self._store, self._forget_xa, work
            )
            branch.work |= {(Right.WRITE, added[0]): None for added in recovered.added}
            branch.work |= {(Right.READ, removed[0]): None for removed in recovered.removed}
            logger.warning(
                "Recovered the prepared transaction %s: %d messages sent, %d acknowledged; "
                "it stays prepared until it is committed or rolled back",
                recovered.xid,
                len(recovered.added),
                len(recovered.removed),
            )

    def transaction(self, context: ConnectionContext, xid: TransactionId) -> Transaction:
        """Return the open transaction that `xid` names."""
        found: Transaction | None
        if isinstance(xid, XATransactionId):
            found = self._xa.get(xid)
            if found is None:
                raise xa_exception(f"Transaction '{xid}' has not been started.", XAER_NOTA)
            _check_owner(context, found)
            return found
        found = context.transactions.get(xid)
        if found is None:
            raise JMSException(f"Transaction '{xid}' has not been started.")
        return found

    def _open(self, context: ConnectionContext, xid: TransactionId) -> Transaction:
        """Return the open transaction that `xid` names."""
        found = self.transaction(context, xid)
        if found.state is not TransactionState.IN_USE:
            raise found.busy_error("Work")
        return found

    def send(self, exchange: ProducerExchange, message: ActiveMQMessage) -> Completion:
        xid = message.transaction_id
        if xid is None:
            return self.next.send(exchange, message)
        transaction = self._open(exchange.context, xid)
        transaction.producer = exchange.info
        if isinstance(transaction, XATransaction) and message.destination is not None:
            transaction.work[Right.WRITE, message.destination] = None
        return self.next.send(exchange.within(transaction), message)

    def acknowledge(self, exchange: ConsumerExchange, ack: MessageAck) -> Completion:
        xid = ack.transaction_id
        if xid is None:
            return self.next.acknowledge(exchange, ack)
        transaction = self._open(exchange.context, xid)
        if isinstance(transaction, XATransaction) and exchange.subscription is not None:
            transaction.work[Right.READ, exchange.subscription.requested] = None
        return self.next.acknowledge(
            ConsumerExchange(exchange.context, exchange.subscription, transaction), ack
        )

    def begin_transaction(self, context: ConnectionContext, xid: TransactionId) -> None:
        if isinstance(xid, XATransactionId):
            if xid in self._xa:
                _check_owner(context, self._xa[xid])
            else:
                self._xa[xid] = XATransaction(
                    xid, self._store, self._forget_xa, context.connection_id, context.user
                )
            return
        if xid in context.transactions:
            raise JMSException(f"Transaction '{xid}' has already been started.")

        def forget_local(transaction: Transaction) -> None:
            context.transactions.pop(transaction.xid, None)

        context.transactions[xid] = LocalTransaction(xid, self._store, forget_local)

    def prepare_transaction(
        self, context: ConnectionContext, xid: TransactionId
    ) -> int | Completion:
        transaction = self.transaction(context, xid)
        if context.waiting_ends:
            order_behind_earlier_ends(context, transaction)
        result = transaction.prepare()
        if isinstance(result, Completion) and transaction.is_waiting:
            record_waiting_end(context, transaction, result)
        return result

    def commit_transaction(
        self, context: ConnectionContext, xid: TransactionId, one_phase: bool
    ) -> Completion:
        transaction = self.transaction(context, xid)
        if context.waiting_ends:
            order_behind_earlier_ends(context, transaction)
        result = transaction.commit(one_phase)
        if result is not COMPLETED and transaction.is_waiting:
            record_waiting_end(context, transaction, result)
        return result

    def rollback_transaction(self, context: ConnectionContext, xid: TransactionId) -> Completion:
        return self.transaction(context, xid).rollback()

    def forget_transaction(self, context: ConnectionContext, xid: TransactionId) -> Completion:
        return self.transaction(context, xid).rollback()

    def set_rollback_only(
        self, context: ConnectionContext, xid: TransactionId, cause: Exception
    ) -> None:
        if not isinstance(xid, XATransactionId):
            local = context.transactions.get(xid)
            if local is not None:
                local.set_rollback_only(cause)
        elif xid in self._xa and context.may_use(self._xa[xid].owner, self._xa[xid].work):
            self._xa[xid].set_rollback_only(cause)

    def prepared_transactions(self, context: ConnectionContext) -> list[XATransactionId]:
        return [
            xid
            for xid, branch in self._xa.items()
            if branch.is_prepared and context.may_use(branch.owner, branch.work)
        ]

    def remove_connection(
        self, context: ConnectionContext, info: ConnectionInfo, error: Exception | None
    ) -> None:
        left_open: list[Transaction] = [
            *reversed(
                context.waiting_ends
            ),  # newest first, so that the end of one does not start that of another
            *context.transactions.values(),
            *(
                transaction
                for transaction in self._xa.values()
                if transaction.connection_id == info.connection_id and not transaction.is_prepared
            ),
        ]
        for transaction in left_open:
            if transaction.is_ending:
                continue  # the store's result decides
            try:
                transaction.rollback(error)
            except Exception:
                logger.exception("Rolling back %s of a closed connection failed", transaction.xid)
        self.next.remove_connection(context, info, error)

    def _forget_xa(self, transaction: Transaction) -> None:
        if isinstance(transaction.xid, XATransactionId):
            self._xa.pop(transaction.xid, None)
