"""The XA resource: the interface for a transaction manager, implemented by requests to the broker.

No call changes the state of a branch here before the broker's response is known. That makes every
wait cancellable: the branch is then in the state before or after the call, and a repeated call, a
rollback or a recovery determines which. (JTA: XAResource; ActiveMQ: TransactionContext)
"""

from __future__ import annotations

from typing import Any, Final, NoReturn

from pyjms._logger import get_logger
from pyjms.client.xa.branches import Branch, BranchTable
from pyjms.client.xa.manager import ResourceManager
from pyjms.client.xa.transaction import BranchTransaction
from pyjms.errors import TransactionRolledBackException, XAException
from pyjms.jms.transaction.xa import XAResource, Xid
from pyjms.wire.openwire.commands import (
    DataArrayResponse,
    IntegerResponse,
    TransactionType,
    XATransactionId,
)

__all__ = ["ActiveMQXAResource"]

logger: Final = get_logger(__name__)

_START_FLAGS = (XAResource.TMNOFLAGS, XAResource.TMJOIN, XAResource.TMRESUME)
_SCAN_FLAGS = XAResource.TMSTARTRSCAN | XAResource.TMENDRSCAN
_COMMITS = (TransactionType.COMMIT_ONE_PHASE, TransactionType.COMMIT_TWO_PHASE)
_NOTA = XAException.XAER_NOTA


class ActiveMQXAResource(XAResource):
    """The resource of one session; for one task at a time."""

    def __init__(
        self, manager: ResourceManager, table: BranchTable, transaction: BranchTransaction
    ) -> None:
        self.manager = manager
        self._table = table
        self._transaction = transaction

    # --- work

    async def start(self, xid: Xid, flags: int = XAResource.TMNOFLAGS) -> None:
        branch_id = _branch_id(xid)
        if flags not in _START_FLAGS:
            raise _error(XAException.XAER_INVAL, f"start of {branch_id} with flags {flags:#x}")
        if self._transaction.branch is not None:
            raise _protocol(f"start of {branch_id} within {self._transaction.id}")
        await self.manager.begin(branch_id)
        self._transaction.associate(branch_id)

    async def end(self, xid: Xid, flags: int = XAResource.TMSUCCESS) -> None:
        branch_id, branch = _branch_id(xid), self._transaction.branch
        must_work = bool(flags & (self.TMSUSPEND | self.TMFAIL))
        if not must_work and not flags & self.TMSUCCESS:
            raise _error(XAException.XAER_INVAL, f"end of {branch_id} with flags {flags:#x}")
        if branch is None or branch.xid != branch_id:
            if must_work:
                raise _protocol(f"end of {branch_id}, in which this session does not work")
            return  # the work has ended already: allowed, as in ActiveMQ
        failure = await self._before_end()
        if failure is not None:
            branch.set_rollback_only(f"a synchronization failed: {failure}")
        elif flags & self.TMFAIL:
            branch.set_rollback_only("its work was ended with TMFAIL")
        is_ended = self._transaction.branch is not branch  # a synchronization has ended it
        if not is_ended:
            self._transaction.end_work()
        if branch.rollback_cause is None:
            if not is_ended:
                await self.manager.ask(TransactionType.END, branch_id)
        elif not flags & self.TMFAIL:
            raise _rollback_only(branch) from failure

    async def _before_end(self) -> Exception | None:
        try:
            await self._transaction.before_end()
        except Exception as error:
            return error
        return None

    # --- the two phases

    async def prepare(self, xid: Xid) -> int:
        branch_id, branch = self._ended(xid, "prepare")
        await self._refuse_rollback_only(branch)
        try:
            response = await self._ask(TransactionType.PREPARE, branch_id, branch)
        except XAException as error:
            await self._failed(branch_id, branch, error)
        assert isinstance(response, IntegerResponse)
        if branch is not None:
            if response.result == self.XA_RDONLY:
                await branch.finish(committed=True)
            else:
                branch.is_prepared = True
        return response.result

    async def commit(self, xid: Xid, one_phase: bool = False) -> None:
        branch_id, branch = self._ended(xid, "commit")
        await self._refuse_rollback_only(branch)
        how = TransactionType.COMMIT_ONE_PHASE if one_phase else TransactionType.COMMIT_TWO_PHASE
        before = None if branch is None else branch.requested
        try:
            await self._ask(how, branch_id, branch)
        except XAException as error:
            if branch is None or error.xa_error_code != _NOTA or before not in _COMMITS:
                await self._failed(branch_id, branch, error)
            elif one_phase:  # the call that was cancelled has committed, or failed
                await branch.finish(committed=True)
                raise
        if branch is not None:
            await branch.finish(committed=True)

    async def rollback(self, xid: Xid) -> None:
        await self._undo(TransactionType.ROLLBACK, xid)

    async def forget(self, xid: Xid) -> None:
        await self._undo(TransactionType.FORGET, xid)

    async def _undo(self, how: TransactionType, xid: Xid) -> None:
        branch_id = _branch_id(xid)
        branch = self._find(branch_id)
        expects_none = branch is not None and (
            branch.requested == how or branch.rollback_cause is not None
        )
        try:
            await self._ask(how, branch_id, branch)
        except XAException as error:
            if error.xa_error_code != _NOTA:
                raise
            if not expects_none:
                await _finish(branch, committed=False)
                raise
        await _finish(branch, committed=False)

    async def _refuse_rollback_only(self, branch: Branch | None) -> None:
        """Roll a rollback-only branch back, and raise."""
        if branch is not None and branch.rollback_cause is not None:
            error = _rollback_only(branch)
            await self._roll_back_after(error, branch.xid, branch)

    async def _failed(
        self, branch_id: XATransactionId, branch: Branch | None, error: XAException
    ) -> NoReturn:
        """Apply the consequences of a failed prepare or commit to the branch, and raise."""
        if isinstance(error.linked_exception, TransactionRolledBackException):
            await self._roll_back_after(error, branch_id, branch)
        await self._refuse_rollback_only(branch)  # the broker was lost during the request
        if error.is_rollback:
            logger.warning("The branch %s was rolled back: %s", branch_id, error)
            await _finish(branch, committed=False)
        elif error.xa_error_code == _NOTA:
            await _finish(branch, committed=branch is not None and branch.is_prepared)
        raise error

    async def _roll_back_after(
        self, error: XAException, branch_id: XATransactionId, branch: Branch | None
    ) -> NoReturn:
        """Ensure that the broker has rolled the branch back; then raise `error`.

        With failover, it is unknown what the lost broker has executed. (activemq-broker X9)
        """
        try:
            await self._ask(TransactionType.ROLLBACK, branch_id, branch)
        except XAException as refusal:
            if refusal.xa_error_code != _NOTA:
                raise
        await _finish(branch, committed=False)
        raise error

    # --- recovery

    async def recover(
        self, flags: int = XAResource.TMSTARTRSCAN | XAResource.TMENDRSCAN
    ) -> list[Xid]:
        if flags & ~_SCAN_FLAGS:
            raise _error(XAException.XAER_INVAL, f"recover with flags {flags:#x}")
        response = await self.manager.ask(TransactionType.RECOVER, None)
        found = response.data if isinstance(response, DataArrayResponse) else None
        return [_xid(each) for each in found or () if isinstance(each, XATransactionId)]

    async def is_same_rm(self, other: XAResource) -> bool:
        if not isinstance(other, ActiveMQXAResource):
            return False
        return await self.manager.resource_id() == await other.manager.resource_id()

    # --- internals

    def _find(self, branch_id: XATransactionId) -> Branch | None:
        return self._table.find(branch_id, self._transaction.connection)

    def _ended(self, xid: Xid, what: str) -> tuple[XATransactionId, Branch | None]:
        """Return the branch; no session may be working in it.

        Raises:
            XAException: a session is.
        """
        branch_id = _branch_id(xid)
        branch = self._find(branch_id)
        if branch is not None and branch.associated:
            raise _protocol(f"{what} of {branch_id}, in which a session works: end() comes first")
        return branch_id, branch

    async def _ask(
        self, how: TransactionType, branch_id: XATransactionId, branch: Branch | None
    ) -> Any:
        """Request the end of a branch; record the request until there is a definite answer."""
        if branch is not None:
            branch.requested = how
        try:
            response = await self.manager.ask(how, branch_id)
        except XAException as error:
            if branch is not None and error.xa_error_code != XAException.XAER_RMFAIL:
                branch.requested = None
            raise
        if branch is not None:
            branch.requested = None
        return response


async def _finish(branch: Branch | None, *, committed: bool) -> None:
    if branch is not None:
        await branch.finish(committed=committed)


def _branch_id(xid: Xid) -> XATransactionId:
    return XATransactionId(xid.format_id, xid.global_transaction_id, xid.branch_qualifier)


def _xid(branch_id: XATransactionId) -> Xid:
    return Xid(
        branch_id.format_id,
        branch_id.global_transaction_id or b"",
        branch_id.branch_qualifier or b"",
    )


def _error(code: int, text: str) -> XAException:
    return XAException(text, xa_error_code=code)


def _protocol(text: str) -> XAException:
    return _error(XAException.XAER_PROTO, f"Not allowed now: {text}")


def _rollback_only(branch: Branch) -> XAException:
    return _error(
        XAException.XA_RBROLLBACK, f"{branch.xid} can only be rolled back: {branch.rollback_cause}"
    )
