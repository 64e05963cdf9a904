"""The consumer of an XA session, which delivers only in branches or by the session's mode."""

from __future__ import annotations

from typing import ClassVar

from pyjms.client.delivery import ActiveMQMessageConsumer
from pyjms.client.delivery.deferred_ledgers import LedgerChoice
from pyjms.client.xa.ledger import choose_branch_ledger
from pyjms.client.xa.transaction import BranchTransaction
from pyjms.wire.openwire.commands import MessageDispatch

__all__ = ["BranchMessageConsumer"]


class BranchMessageConsumer(ActiveMQMessageConsumer):
    """Delivers messages only if its session may receive: in a branch, or by its own mode."""

    choose_ledger: ClassVar[LedgerChoice] = staticmethod(choose_branch_ledger)

    @property
    def _branches(self) -> BranchTransaction:
        transaction = self.session.transaction
        assert isinstance(transaction, BranchTransaction)
        return transaction

    def next_dispatch(self) -> MessageDispatch | None:
        """Return the next message; raise if a message waits, but may not be received now."""
        if self.buffered:
            self._branches.check_work()
        return super().next_dispatch()

    async def deliver_one(self) -> bool:
        """Deliver the next message; keep and report a message that may not be received now."""
        refusal = self._branches.refusal()
        if self.buffered and refusal is not None:
            self.session.connection.report(refusal)
            return False
        return await super().deliver_one()
