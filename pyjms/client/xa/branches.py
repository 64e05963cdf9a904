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
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Final, Protocol

import anyio
from anyio.lowlevel import RunVar

from pyjms._logger import get_logger
from pyjms.client.session.synchronizations import after_commit, after_rollback
from pyjms.jms.transaction.synchronization import Synchronization
from pyjms.wire.openwire.commands import TransactionType, XATransactionId

__all__ = ["Branch", "BranchConnection", "BranchTable", "Participant", "table_of_this_loop"]

logger: Final = get_logger(__name__)


class BranchConnection(Protocol):
    """The part of a connection that identifies its broker."""

    @property
    def branches(self) -> BranchTable:
        """The branches in which its sessions work."""

    def is_at_broker_of(self, other: BranchConnection) -> bool:
        """Return whether both connections are to the same broker, as far as it is known."""


class Participant(Protocol):
    """A session that works, or has worked, in branches."""

    @property
    def connection(self) -> BranchConnection: ...

    def disassociate(self) -> Sequence[Synchronization]:
        """End the work in the present branch without acknowledging; return synchronizations."""

    def branch_ended(self, branch: Branch, *, committed: bool) -> None:
        """Settle or redeliver the messages received in `branch`."""

    async def close_if_pending(self) -> None:
        """Close the session, if its close waits for its branches."""


class Branch:
    """One branch: the sessions that work or have worked in it, and its known state."""

    def __init__(self, table: BranchTable, xid: XATransactionId) -> None:
        self._table = table
        self.xid = xid
        self.associated: list[Participant] = []
        self.participants: list[Participant] = []
        """All sessions that have worked in it, in order."""
        self.synchronizations: list[Synchronization] = []
        """The synchronizations of work that has ended."""
        self.is_prepared = False
        self.rollback_cause: str | None = None
        """Why it can only be rolled back, or None."""
        self.requested: TransactionType | None = None
        """The last request to end it, as long as the broker's response is not known."""

    def associate(self, participant: Participant) -> None:
        """Record that a session works in it."""
        self.associated.append(participant)
        if participant not in self.participants:
            self.participants.append(participant)

    def set_rollback_only(self, cause: str) -> None:
        """Make it rollback-only, unless it is prepared. The first cause is kept."""
        if not self.is_prepared and self.rollback_cause is None:
            self.rollback_cause = cause

    def ended(self, participant: Participant, synchronizations: Sequence[Synchronization]) -> None:
        """Record that a session no longer works in it."""
        self.associated.remove(participant)
        self.synchronizations.extend(synchronizations)

    def leave(self, participant: Participant) -> None:
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
            self.ended(participant, participant.disassociate())
        self._table.remove(self)
        for participant in self.participants:
            participant.branch_ended(self, committed=committed)
        await (after_commit if committed else after_rollback)(self.synchronizations)
        with anyio.CancelScope(shield=True):
            for participant in self.participants:
                await _logged(participant.close_if_pending)


class BranchTable:
    """The branches of one loop. Different brokers may have branches with the same id."""

    def __init__(self) -> None:
        self._branches: dict[XATransactionId, list[Branch]] = {}

    def __len__(self) -> int:
        return sum(map(len, self._branches.values()))

    def find(self, xid: XATransactionId, connection: BranchConnection) -> Branch | None:
        """Return the branch that `xid` names at the broker of `connection`."""
        for branch in self._branches.get(xid, ()):
            if any(p.connection.is_at_broker_of(connection) for p in branch.participants):
                return branch
        return None

    def join(self, xid: XATransactionId, participant: Participant) -> Branch:
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


async def _logged(function: Callable[[], Awaitable[None]]) -> None:
    try:
        await function()
    except Exception:
        logger.exception("Closing an XA session after its last branch failed")


_table: RunVar[BranchTable] = RunVar("pyjms_branches")


def table_of_this_loop() -> BranchTable:
    """Return the table that the connections of this loop share."""
    try:
        return _table.get()
    except LookupError:
        table = BranchTable()
        _table.set(table)
        return table
