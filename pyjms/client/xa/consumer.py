"""The consumer of an XA session."""

from __future__ import annotations

from typing import ClassVar

from pyjms.client.delivery import ActiveMQMessageConsumer
from pyjms.client.delivery.deferred_ledgers import LedgerChoice
from pyjms.client.xa.ledger import choose_branch_ledger
from pyjms.client.xa.transaction import BranchTransaction
from pyjms.wire.openwire.commands import MessageDispatch

__all__ = ["BranchMessageConsumer"]


class BranchMessageConsumer(ActiveMQMessageConsumer):
    """Delivers messages only where its session may receive: in a branch, or by its own mode."""

    choose_ledger: ClassVar[LedgerChoice] = staticmethod(choose_branch_ledger)

    @property
    def _branches(self) -> BranchTransaction:
        transaction = self.session.transaction
        assert isinstance(transaction, BranchTransaction)
        return transaction

    def next_dispatch(self) -> MessageDispatch | None:
        """Do as the base class, unless a message waits and may not be received: then raise."""
        if self.buffered:
            self._branches.check_work()
        return super().next_dispatch()

    async def deliver_one(self) -> bool:
        """Do as the base class, but keep and report a message that may not be received now."""
        refusal = self._branches.refusal()
        if self.buffered and refusal is not None:
            self.session.connection.report(refusal)
            return False
        return await super().deliver_one()
