"""XA: connections and sessions whose work belongs to branches of distributed transactions.

A transaction manager drives the `XAResource` of each session. (JMS 1.1 chapter 8; JTA:
javax.transaction.xa; X/Open XA)
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar

from pyjms.jms.api import Connection, Session

__all__ = ["XAConnection", "XAResource", "XASession", "Xid"]

_MAX_BYTES = 64


@dataclass(frozen=True, slots=True)
class Xid:
    """The id of a branch. JTA: javax.transaction.xa.Xid.

    Args:
        format_id: the format of the other two; each transaction manager has its own number.
        global_transaction_id: the distributed transaction, 1 to 64 bytes.
        branch_qualifier: the branch of it, up to 64 bytes; different for each broker.
    """

    format_id: int
    global_transaction_id: bytes
    branch_qualifier: bytes = b""

    def __post_init__(self) -> None:
        """Check the lengths.

        Raises:
            ValueError: one of the ids is too long, or the global one empty.
        """
        if not 1 <= len(self.global_transaction_id) <= _MAX_BYTES:
            raise ValueError("the global transaction id of an Xid has 1 to 64 bytes")
        if len(self.branch_qualifier) > _MAX_BYTES:
            raise ValueError("the branch qualifier of an Xid has at most 64 bytes")


class XAResource(ABC):
    """What a transaction manager does with the branches of one session and their broker.

    JTA: javax.transaction.xa.XAResource. A branch runs through `start`, the work of the session,
    `end`, and `commit(one_phase=True)` or `prepare` and `commit`, or through `rollback` instead
    of either. Except for `start` and `end` any resource at the same broker serves.

    Every method may raise XAException. XAER_RMFAIL: the broker could not be asked, or its answer
    was lost; the branch is as it was or as it should become, so repeat the call, or `recover` with
    another connection. The same holds for a call that was cancelled: nothing is settled or
    redelivered here until the broker has reported the outcome of the branch.
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
            xid: the branch; several sessions may work in it.
            flags: TMNOFLAGS, TMJOIN or TMRESUME, which all do the same, as in ActiveMQ.

        Raises:
            XAException: XAER_PROTO: the session works in a branch already; XAER_INVAL: flags.
        """

    @abstractmethod
    async def end(self, xid: Xid, flags: int = TMSUCCESS) -> None:
        """End the session's work in the branch.

        Args:
            xid: the branch.
            flags: TMSUCCESS; TMSUSPEND: it goes on later, with TMRESUME; TMFAIL: the branch can
                only be rolled back.

        Raises:
            XAException: XAER_PROTO: TMSUSPEND or TMFAIL, and the session does not work in it;
                XAER_INVAL: flags; XA_RBROLLBACK: it can only be rolled back.
        """

    @abstractmethod
    async def prepare(self, xid: Xid) -> int:
        """Ask the broker to store the branch, so that a commit cannot fail; return its vote.

        XA_OK: prepared. XA_RDONLY: nothing was done in it, and it is over.

        Raises:
            XAException: XA_RB*: it was rolled back; XAER_PROTO: a session works in it.
        """

    @abstractmethod
    async def commit(self, xid: Xid, one_phase: bool = False) -> None:
        """Commit a prepared branch; with `one_phase` one that is not prepared.

        Raises:
            XAException: XA_RB*: it was rolled back; XAER_NOTA: the broker does not know it;
                XAER_PROTO: it is not prepared, or a session works in it.
        """

    @abstractmethod
    async def rollback(self, xid: Xid) -> None:
        """Roll a branch back, prepared or not; received messages are delivered again.

        Raises:
            XAException: XAER_NOTA: the broker does not know it.
        """

    @abstractmethod
    async def forget(self, xid: Xid) -> None:
        """Forget a branch; brokers roll it back. (activemq-broker X5)"""

    @abstractmethod
    async def recover(self, flags: int = TMSTARTRSCAN | TMENDRSCAN) -> list[Xid]:
        """Return all branches that are prepared at the broker, by any client.

        As in ActiveMQ every call returns all of them, with TMSTARTRSCAN, TMENDRSCAN or neither.
        """

    @abstractmethod
    async def is_same_rm(self, other: XAResource) -> bool:
        """Return whether `other` belongs to the same broker, so that both could share a branch.

        With the option `rm_id_from_connection_id` only if it belongs to the same connection.
        """

    @property
    def transaction_timeout(self) -> int:
        """0: brokers limit no branch in time."""
        return 0

    def set_transaction_timeout(self, seconds: int) -> bool:
        """Return False: the broker cannot limit branches to `seconds`; the manager must.

        ActiveMQ: XAResource.setTransactionTimeout.
        """
        del seconds
        return False


class XASession(Session):
    """A session whose work belongs to branches. JMS: XASession (JMS 1.1 section 8.3).

    `commit` and `rollback` raise TransactionInProgressException. Outside a branch, work is refused
    with a JMSException, unless the factory has an `xa_ack_mode`. A session that is closed while
    its branches are open takes its end at the broker when they have ended.
    """

    @property
    @abstractmethod
    def xa_resource(self) -> XAResource:
        """What the transaction manager uses, also after the session was closed."""


class XAConnection(Connection):
    """A connection whose sessions are XA sessions. JMS: XAConnection (JMS 1.1 section 8.5)."""

    @abstractmethod
    async def create_xa_session(self) -> XASession:
        """Create a session.

        Raises:
            IllegalStateException: the connection is closed.
        """
