"""The branches that the sessions of one event loop have worked in, until their outcome is known.

Several sessions, even of different connections, may work in one branch, and any resource at the
same broker may end it. Every session that has worked in it must be informed of its outcome.
ActiveMQ has one such table per process; here there is one per loop, since the objects of another
loop must not be used.

    state                entered by                        leaves by
    ------------------   -------------------------------   --------------------------------------
    associated           start()                           end(): the work is acknowledged in the
                                                           branch and kept in its consumers
    ended                end(), of all sessions            prepare(), commit(one phase), rollback()
    prepared             the vote XA_OK                    commit(), rollback()
    rollback-only        end(TMFAIL); the loss of a        rollback(); prepare() and commit() roll
                         connection before the vote        back as well and raise XA_RBROLLBACK
    finished             a definite answer of the broker   settled or redelivered, at once

A call without a definite answer (cancelled, connection lost) changes no state here, but is recorded
in `requested`: if it is repeated and the broker does not know the branch any more, it was executed.

For the broker, a branch that is not prepared belongs to its connection and ends with it. ActiveMQ's
client sends the branch's messages again to the next broker; but other connections may have worked
in the branch, and acknowledgements cannot be repeated, so that only a part of the branch could be
committed. Here it is rolled back. (activemq-broker X6; activemq-edges F5)

Messages. Within a branch the acknowledgement rule is that of a transacted session. When the
session's work in the branch ends, the messages received are acknowledged in the branch and kept
until its outcome is known: then they are settled or redelivered. In the meantime the consumer may
receive in other branches, or outside of branches.

When a connection is lost, the kept messages are forgotten, so that they are accepted if they are
dispatched again: the broker keeps the acknowledgements of prepared branches, and rolls the other
branches back. (activemq-broker X6)

Work in a branch carries the branch's id. A session works in one branch at a time, and in any number
one after another. Outside of branches there is no transaction: a session without an `xa_ack_mode`
refuses such work, as ActiveMQ's does. (activemq-edges N20)
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Final, NoReturn

import anyio
from anyio.lowlevel import RunVar

from pyjms.client.consumer import AckLedger, DeferredAckLedger, IndividualAckLedger, choose_ledger
from pyjms.client.session import SessionTransaction, Synchronizations, after_commit, after_rollback
from pyjms.client.tasks import OwnedTasks
from pyjms.enums import AcknowledgeMode
from pyjms.errors import (
    IllegalStateException,
    JMSException,
    TransactionInProgressException,
    TransactionRolledBackException,
)
from pyjms.jms.api import LocalTransactionEventListener, Synchronization
from pyjms.runtime.logging import get_logger
from pyjms.wire.openwire import commands

if TYPE_CHECKING:
    from pyjms.client.session import ActiveMQSession
    from pyjms.client.xa import ActiveMQXAConnection, ActiveMQXASession

logger: Final = get_logger(__name__)


class Branch:
    """One branch: the sessions that work or have worked in it, and its known state."""

    def __init__(self, table: BranchTable, xid: commands.XATransactionId) -> None:
        self._table = table
        self.xid = xid
        self.associated: list[BranchTransaction] = []
        self.participants: list[BranchTransaction] = []
        """All sessions that have worked in it, in order."""
        self.synchronizations: list[Synchronization] = []
        """The synchronizations of work that has ended."""
        self.is_prepared = False
        self.rollback_cause: str | None = None
        """Why it can only be rolled back, or None."""
        self.requested: commands.TransactionType | None = None
        """The last request to end it, as long as the broker's response is not known."""

    def associate(self, participant: BranchTransaction) -> None:
        """Record that a session works in it."""
        self.associated.append(participant)
        if participant not in self.participants:
            self.participants.append(participant)

    def set_rollback_only(self, cause: str) -> None:
        """Make it rollback-only, unless it is prepared. The first cause is kept."""
        if not self.is_prepared and self.rollback_cause is None:
            self.rollback_cause = cause

    def end_work(
        self, participant: BranchTransaction, synchronizations: Sequence[Synchronization]
    ) -> None:
        """Record that a session no longer works in it."""
        self.associated.remove(participant)
        self.synchronizations.extend(synchronizations)

    def leave(self, participant: BranchTransaction) -> None:
        """Remove a session that is closed."""
        if participant in self.associated:
            self.associated.remove(participant)
        if participant in self.participants:
            self.participants.remove(participant)
        if not self.participants:
            self._table.remove(self)

    async def finish(self, *, committed: bool) -> None:
        """Settle or redeliver the messages received in it; then call its synchronizations.

        The consumers are handled before the first await; the rest is not cancellable.
        """
        for participant in list(self.associated):
            self.end_work(participant, participant.disassociate())
        self._table.remove(self)
        for participant in self.participants:
            participant.branch_ended(self, committed=committed)
        await (after_commit if committed else after_rollback)(self.synchronizations)
        with anyio.CancelScope(shield=True):
            for participant in self.participants:
                try:
                    await participant.close_if_pending()
                except Exception:
                    logger.exception("Closing an XA session after its last branch failed")


class BranchTable:
    """The branches of one loop. Different brokers may have branches with the same id."""

    def __init__(self) -> None:
        self._branches: dict[commands.XATransactionId, list[Branch]] = {}

    def __len__(self) -> int:
        return sum(map(len, self._branches.values()))

    def find(
        self, xid: commands.XATransactionId, connection: ActiveMQXAConnection
    ) -> Branch | None:
        """Return the branch that `xid` names at the broker of `connection`."""
        for branch in self._branches.get(xid, ()):
            if any(p.connection.is_at_broker_of(connection) for p in branch.participants):
                return branch
        return None

    def join(self, xid: commands.XATransactionId, participant: BranchTransaction) -> Branch:
        """Associate `participant` with the branch, created if there is none, and return it."""
        branch = self.find(xid, participant.connection)
        if branch is None:
            branch = Branch(self, xid)
            self._branches.setdefault(xid, []).append(branch)
        branch.associate(participant)
        return branch

    def of_connection(self, connection: object) -> list[Branch]:
        """Return the branches in which sessions of a connection have worked."""
        return [
            branch
            for branches in self._branches.values()
            for branch in branches
            if any(participant.connection is connection for participant in branch.participants)
        ]

    def remove(self, branch: Branch) -> None:
        """Remove a branch; does nothing if it has been removed."""
        branches = self._branches.get(branch.xid, [])
        if branch in branches:
            branches.remove(branch)
            if not branches:
                del self._branches[branch.xid]


_table: RunVar[BranchTable] = RunVar("pyjms_branches")


def table_of_this_loop() -> BranchTable:
    """Return the table that the connections of this loop share."""
    try:
        return _table.get()
    except LookupError:
        table = BranchTable()
        _table.set(table)
        return table


class BranchAckLedger(AckLedger):
    """Applies the rule `inside` in branches, `outside` otherwise (None: not allowed)."""

    def __init__(
        self,
        session: ActiveMQSession,
        info: commands.ConsumerInfo,
        inside: DeferredAckLedger,
        outside: AckLedger | None,
    ) -> None:
        self._session = session  # the base class's list is not used: the rules have the messages
        self._info = info
        self._inside = inside
        self._outside = outside
        self._last: AckLedger = inside
        self._by_branch: dict[Branch, list[commands.MessageDispatch]] = {}

    def end_work(self, branch: Branch, *, acknowledges: bool) -> None:
        """Keep the messages received in `branch`; acknowledge them in it if `acknowledges`."""
        if acknowledges:
            self._inside.acknowledge_in_transaction()
        received = self._inside.pop_delivered()
        if received:
            self._by_branch.setdefault(branch, []).extend(received)

    def pop_branch(self, branch: Branch) -> list[commands.MessageDispatch]:
        """Return and forget the messages received in `branch`."""
        return self._by_branch.pop(branch, [])

    @property
    def redelivers_on_error(self) -> bool:  # type: ignore[override]
        return self._last.redelivers_on_error

    def before_delivery(self, dispatch: commands.MessageDispatch) -> None:
        in_branch = self._outside is None or self._session.transaction.id is not None
        self._last = self._inside if in_branch or self._outside is None else self._outside
        self._last.before_delivery(dispatch)

    def after_delivery(self, dispatch: commands.MessageDispatch) -> None:
        self._last.after_delivery(dispatch)

    def flush(self) -> None:
        if self._outside is not None:
            self._outside.flush()

    def start_timer(self, tasks: OwnedTasks) -> None:
        if self._outside is not None:
            self._outside.start_timer(tasks)

    def close(self) -> None:
        if self._outside is not None:
            self._outside.close()

    @property
    def acknowledger_of_one(self) -> Callable[[commands.MessageDispatch], None] | None:
        return None if self._outside is None else self._outside.acknowledger_of_one

    def acknowledge(self) -> None:
        if self._outside is not None:
            self._outside.acknowledge()

    @property
    def _rules(self) -> list[AckLedger]:
        return [self._inside, *filter(None, [self._outside])]

    @property
    def delivered(self) -> list[commands.MessageDispatch]:  # type: ignore[override]
        """The unsettled messages of the current work; without those kept by branch."""
        return [dispatch for rule in self._rules for dispatch in rule.delivered]

    @property
    def has_unsettled(self) -> bool:
        return bool(self._by_branch) or any(rule.has_unsettled for rule in self._rules)

    def holds(self, message_id: commands.MessageId | None) -> bool:
        return any(rule.holds(message_id) for rule in self._rules)

    def pop_delivered(self) -> list[commands.MessageDispatch]:
        return self._last.pop_delivered()

    def on_interruption(self) -> list[commands.MessageDispatch]:
        kept, self._by_branch = self._by_branch, {}
        dropped = self._inside.pop_delivered()
        for received in kept.values():
            dropped += received
        if self._outside is not None:
            dropped += self._outside.on_interruption()
        return dropped


def choose_branch_ledger(session: ActiveMQSession, info: commands.ConsumerInfo) -> AckLedger:
    """Return the ledger of a new consumer of an XA session."""
    if info.browser:
        return choose_ledger(session, info)
    individual = session.connection.options.transacted_individual_ack or session.reorders
    inside = (IndividualAckLedger if individual else DeferredAckLedger)(session, info)
    has_mode = session.acknowledge_mode != AcknowledgeMode.TRANSACTED
    outside = choose_ledger(session, info) if has_mode else None
    return BranchAckLedger(session, info, inside, outside)


_ENDS: Final = "the transaction manager ends branches, with commit() or rollback() of an XAResource"


class BranchTransaction(SessionTransaction):
    """The branches of one session. `id` is the id of the branch in which it works now."""

    def __init__(self, session: ActiveMQXASession) -> None:
        self.connection: ActiveMQXAConnection = session.connection
        self._table = session.connection.branches
        self._session = session
        self._works_outside = session.acknowledge_mode != AcknowledgeMode.TRANSACTED
        self._synchronizations = Synchronizations()
        self._close: Callable[[], Awaitable[None]] | None = None
        self.branch: Branch | None = None
        """The branch in which the session works now."""

    # For the session, its producers and consumers.

    def refusal(self) -> JMSException | None:
        """Return why work is refused now; None: it is allowed."""
        branch = self.branch
        if branch is None:
            return None if self._works_outside else _not_enlisted()
        if branch.rollback_cause is None:
            return None
        return TransactionRolledBackException(
            f"The branch {branch.xid} can only be rolled back: {branch.rollback_cause}"
        )

    def check_work(self) -> None:
        """Raise if work is refused now.

        Raises:
            JMSException: the session works in no branch, and may not work outside of branches.
            TransactionRolledBackException: the branch can only be rolled back.
        """
        refusal = self.refusal()
        if refusal is not None:
            raise refusal

    def begin(self) -> commands.TransactionId:
        self.check_work()
        if self.id is None:
            raise _not_enlisted()
        return self.id

    async def commit(self) -> NoReturn:
        raise TransactionInProgressException("Cannot commit() inside an XASession", hint=_ENDS)

    async def rollback(self) -> NoReturn:
        raise TransactionInProgressException("Cannot rollback() inside an XASession", hint=_ENDS)

    async def close(self) -> None:
        """Do nothing: the transaction manager ends branches."""

    def add_synchronization(self, synchronization: Synchronization) -> None:
        self.begin()
        self._synchronizations.add(synchronization)

    def set_listener(self, listener: LocalTransactionEventListener | None) -> None:
        raise IllegalStateException(
            "An XA session has no local transactions, so a listener for them would never be called",
            hint="add a synchronization to each branch instead",
        )

    @property
    def is_involved(self) -> bool:
        """Whether branches in which the session works or has worked are open."""
        return any(self in b.participants for b in self._table.of_connection(self.connection))

    def close_later(self, close: Callable[[], Awaitable[None]]) -> None:
        """Call `close` when the session's last branch has ended."""
        self._close = close

    def dispose(self) -> None:
        """Leave all branches, because the session is closed."""
        for branch in self._table.of_connection(self.connection):
            if self in branch.participants:
                branch.set_rollback_only("a session that worked in it is closed")
                branch.leave(self)
        self._work_in(None)

    # For the resource.

    def associate(self, xid: commands.XATransactionId) -> None:
        """Start to work in the branch `xid`."""
        self._work_in(self._table.join(xid, self))
        for consumer in self._session.consumers:
            consumer.update_flow()

    async def before_end(self) -> None:
        """Call the synchronizations before the end of the work in the present branch."""
        await self._synchronizations.before_end()

    def end_work(self) -> None:
        """Acknowledge the messages received in the present branch, and stop working in it."""
        branch = self.branch
        assert branch is not None
        try:
            self._end_work_of_consumers(branch, acknowledges=branch.rollback_cause is None)
        except JMSException as error:  # the connection is failing
            branch.set_rollback_only(f"its messages cannot be acknowledged: {error}")
            self._end_work_of_consumers(branch, acknowledges=False)
        branch.end_work(self, self._leave())

    # For the branch.

    def disassociate(self) -> Sequence[Synchronization]:
        assert self.branch is not None
        self._end_work_of_consumers(self.branch, acknowledges=False)
        return self._leave()

    def branch_ended(self, branch: Branch, *, committed: bool) -> None:
        for consumer in self._session.all_consumers:
            if isinstance(consumer.ledger, BranchAckLedger):
                received = consumer.ledger.pop_branch(branch)
                if not committed:
                    consumer.redeliverer.redeliver(received)
        self._session.release_closed_consumers(only_settled=True)

    async def close_if_pending(self) -> None:
        close = self._close
        if close is not None and not self.is_involved:
            self._close = None
            await close()

    def _end_work_of_consumers(self, branch: Branch, *, acknowledges: bool) -> None:
        for consumer in self._session.all_consumers:
            if isinstance(consumer.ledger, BranchAckLedger):
                consumer.ledger.end_work(branch, acknowledges=acknowledges)

    def _work_in(self, branch: Branch | None) -> None:
        """Note the present branch: without one only an `xa_ack_mode` makes work possible."""
        self.branch = branch
        self.id = None if branch is None else branch.xid
        self._session.transacted = branch is not None or not self._works_outside

    def _leave(self) -> Sequence[Synchronization]:
        self._work_in(None)
        return self._synchronizations.detach()


def _not_enlisted() -> JMSException:
    return JMSException(
        "Session's XAResource has not been enlisted in a distributed transaction.",
        hint="call xa_resource.start() first, or give the factory an xa_ack_mode",
    )
