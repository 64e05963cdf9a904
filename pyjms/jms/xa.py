"""XA: connections and sessions whose work is part of branches of distributed transactions.

A transaction manager drives the `XAResource` of each session. (JMS 1.1 chapter 8; JTA:
javax.transaction.xa; X/Open XA)
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar

from pyjms.jms.api import Connection, Session

_MAX_BYTES = 64


@dataclass(frozen=True, slots=True)
class Xid:
    """The id of a branch. JTA: javax.transaction.xa.Xid.

    Args:
        format_id: the format of the other two; each transaction manager has its own number.
        global_transaction_id: the id of the distributed transaction, 1 to 64 bytes.
        branch_qualifier: the id of the branch in it, up to 64 bytes; different for each broker.
    """

    format_id: int
    global_transaction_id: bytes
    branch_qualifier: bytes = b""

    def __post_init__(self) -> None:
        """Check the lengths.

        Raises:
            ValueError: an id is too long, or the global transaction id is empty.
        """
        if not 1 <= len(self.global_transaction_id) <= _MAX_BYTES:
            raise ValueError("the global transaction id of an Xid has 1 to 64 bytes")
        if len(self.branch_qualifier) > _MAX_BYTES:
            raise ValueError("the branch qualifier of an Xid has at most 64 bytes")


class XAResource(ABC):
    """The interface for transaction managers to the branches of one session.

    JTA: javax.transaction.xa.XAResource. The life cycle of a branch is `start`, the work of the
    session, `end`, and then `commit(one_phase=True)`, or `prepare` and `commit`, or `rollback`.
    Except for `start` and `end`, any resource at the same broker can be used.

    Every method may raise XAException. XAER_RMFAIL: the broker could not be reached, or its
    response was lost; the branch is in the state before or after the call, so repeat the call, or
    `recover` with another connection. The same applies to a call that was cancelled: messages are
    neither settled nor redelivered here until the broker has reported the outcome of the branch.
    """

    TMNOFLAGS: ClassVar[int] = 0x00000000
    TMJOIN: ClassVar[int] = 0x00200000
    TMENDRSCAN: ClassVar[int] = 0x00800000
    TMSTARTRSCAN: ClassVar[int] = 0x01000000
    TMSUSPEND: ClassVar[int] = 0x02000000
    TMSUCCESS: ClassVar[int] = 0x04000000
    TMRESUME: ClassVar[int] = 0x08000000
    TMFAIL: ClassVar[int] = 0x20000000
    TMONEPHASE: ClassVar[int] = 0x40000000
    XA_OK: ClassVar[int] = 0
    XA_RDONLY: ClassVar[int] = 3

    @abstractmethod
    async def start(self, xid: Xid, flags: int = TMNOFLAGS) -> None:
        """Make the session's work part of the branch, until `end`.

        Args:
            xid: the branch; several sessions may be associated with it.
            flags: TMNOFLAGS, TMJOIN or TMRESUME, which all have the same effect, as in ActiveMQ.

        Raises:
            XAException: XAER_PROTO: the session is already associated with a branch; XAER_INVAL:
                the flags are invalid.
        """

    @abstractmethod
    async def end(self, xid: Xid, flags: int = TMSUCCESS) -> None:
        """End the session's work in the branch.

        Args:
            xid: the branch.
            flags: TMSUCCESS; TMSUSPEND: the work will be resumed with TMRESUME; TMFAIL: the branch
                can only be rolled back.

        Raises:
            XAException: XAER_PROTO: TMSUSPEND or TMFAIL, but the session is not associated with the
                branch; XAER_INVAL: the flags are invalid; XA_RBROLLBACK: the branch can only be
                rolled back.
        """

    @abstractmethod
    async def prepare(self, xid: Xid) -> int:
        """Ask the broker to store the branch, so that a commit cannot fail; return its vote.

        XA_OK: prepared. XA_RDONLY: the branch had no work, and has ended.

        Raises:
            XAException: XA_RB*: it was rolled back; XAER_PROTO: a session is associated with it.
        """

    @abstractmethod
    async def commit(self, xid: Xid, one_phase: bool = False) -> None:
        """Commit a prepared branch; with `one_phase`, a branch that is not prepared.

        Raises:
            XAException: XA_RB*: it was rolled back; XAER_NOTA: it is unknown to the broker;
                XAER_PROTO: it is not prepared, or a session is associated with it.
        """

    @abstractmethod
    async def rollback(self, xid: Xid) -> None:
        """Roll a branch back, prepared or not; received messages are redelivered.

        Raises:
            XAException: XAER_NOTA: it is unknown to the broker.
        """

    @abstractmethod
    async def forget(self, xid: Xid) -> None:
        """Forget a branch; brokers roll it back. (activemq-broker X5)"""

    @abstractmethod
    async def recover(self, flags: int = TMSTARTRSCAN | TMENDRSCAN) -> list[Xid]:
        """Return all prepared branches of all clients of the broker.

        As in ActiveMQ, every call returns all of them, with TMSTARTRSCAN, TMENDRSCAN or neither.
        """

    @abstractmethod
    async def is_same_rm(self, other: XAResource) -> bool:
        """Return whether `other` belongs to the same broker, so that both could share a branch.

        With the option `rm_id_from_connection_id`, only if it belongs to the same connection.
        """

    @property
    def transaction_timeout(self) -> int:
        """0: brokers have no timeout for branches."""
        return 0

    def set_transaction_timeout(self, seconds: int) -> bool:
        """Return False: brokers have no timeout for branches; the transaction manager needs one.

        ActiveMQ: XAResource.setTransactionTimeout.
        """
        del seconds
        return False


class XASession(Session):
    """A session whose work is part of branches. JMS: XASession (JMS 1.1 section 8.3).

    `commit` and `rollback` raise TransactionInProgressException. Outside a branch, work is rejected
    with a JMSException, unless the factory has an `xa_ack_mode`. A session that is closed while its
    branches are open is removed at the broker when they have ended.
    """

    @property
    @abstractmethod
    def xa_resource(self) -> XAResource:
        """The resource for the transaction manager; usable after the session was closed."""


class XAConnection(Connection):
    """A connection whose sessions are XA sessions. JMS: XAConnection (JMS 1.1 section 8.5)."""

    @abstractmethod
    async def create_xa_session(self) -> XASession:
        """Create a session.

        Raises:
            IllegalStateException: the connection is closed.
        """
