"""The work of an XA session in branches: in one at a time, and in any number one after another.

Work in a branch carries the branch's id. Outside of branches there is no transaction: a session
without an `xa_ack_mode` refuses such work, as ActiveMQ's does. (activemq-edges N20)
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Final, NoReturn

from pyjms.client.session.resources import SessionResources
from pyjms.client.session.synchronizations import Synchronizations
from pyjms.client.session.transaction import SessionTransaction
from pyjms.client.xa.branches import Branch, BranchConnection
from pyjms.client.xa.ledger import BranchAckLedger
from pyjms.errors import (
    IllegalStateException,
    JMSException,
    TransactionInProgressException,
    TransactionRolledBackException,
)
from pyjms.jms.transaction.synchronization import LocalTransactionEventListener, Synchronization
from pyjms.wire.openwire.commands import XATransactionId

__all__ = ["BranchTransaction"]

_ENDS: Final = "the transaction manager ends branches, with commit() or rollback() of an XAResource"


class BranchTransaction(SessionTransaction):
    """The branches of one session. `id` is the id of the branch in which it works now."""

    id: XATransactionId | None = None

    def __init__(
        self, connection: BranchConnection, resources: SessionResources, *, works_outside: bool
    ) -> None:
        self.connection = connection
        self._table = connection.branches
        self._resources = resources
        self._works_outside = works_outside
        self._synchronizations = Synchronizations()
        self._close: Callable[[], Awaitable[None]] | None = None
        self.branch: Branch | None = None
        """The branch in which the session works now."""

    # --- for the session, its producers and consumers

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

    def begin(self) -> XATransactionId:
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
        self.branch = self.id = None

    # --- for the resource

    def associate(self, xid: XATransactionId) -> None:
        """Start to work in the branch `xid`."""
        self.branch = self._table.join(xid, self)
        self.id = xid
        for consumer in self._resources.consumers:
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
        branch.ended(self, self._leave())

    # --- for the branch

    def disassociate(self) -> Sequence[Synchronization]:
        assert self.branch is not None
        self._end_work_of_consumers(self.branch, acknowledges=False)
        return self._leave()

    def branch_ended(self, branch: Branch, *, committed: bool) -> None:
        for consumer in self._resources.all_consumers:
            if isinstance(consumer.ledger, BranchAckLedger):
                received = consumer.ledger.pop_branch(branch)
                if not committed:
                    consumer.redeliverer.redeliver(received)
        self._resources.release_closed_consumers(only_settled=True)

    async def close_if_pending(self) -> None:
        close = self._close
        if close is not None and not self.is_involved:
            self._close = None
            await close()

    def _end_work_of_consumers(self, branch: Branch, *, acknowledges: bool) -> None:
        for consumer in self._resources.all_consumers:
            if isinstance(consumer.ledger, BranchAckLedger):
                consumer.ledger.end_work(branch, acknowledges=acknowledges)

    def _leave(self) -> Sequence[Synchronization]:
        self.branch = self.id = None
        return self._synchronizations.detach()


def _not_enlisted() -> JMSException:
    return JMSException(
        "Session's XAResource has not been enlisted in a distributed transaction.",
        hint="call xa_resource.start() first, or give the factory an xa_ack_mode",
    )
