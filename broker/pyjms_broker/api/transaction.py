"""The interface of transactions: work registers with them and is called at their end.

Sends and acknowledgements register a `Synchronization`. Work that has to finish before the
transaction can end, such as a send that waits for memory, registers as `PendingWork`.
`pyjms_broker.transaction` implements them.
(ActiveMQ Transaction, Synchronization; activemq-broker X1 to X5)
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from enum import Enum
from typing import Protocol

from pyjms.wire.openwire.commands import ProducerInfo, TransactionId
from pyjms_broker.api.completion import Completion

__all__ = ["PendingWork", "Synchronization", "Transaction", "TransactionState"]


class Synchronization:
    """One piece of work in a transaction; override methods as needed. No call may wait."""

    def before_commit(self) -> None:
        """Check, before anything is stored; an error turns the commit into a rollback.

        Synchronizations that this registers in the same transaction are called as well.
        """

    def committing(self, stored: Completion) -> None:
        """Note that the store has numbered the work, and will have it when `stored` is done.

        Not called where the store has it at once.
        """

    def after_commit(self) -> None:
        """Make the work visible: the store has it."""

    def after_rollback(self) -> None:
        """Undo the work."""


class PendingWork(Protocol):
    """Work of a transaction that must be finished before the transaction can end."""

    def transaction_rolled_back(self) -> None:
        """Stop waiting: the transaction was rolled back."""


class TransactionState(Enum):
    """The states of a transaction; `pyjms_broker.transaction.base` has the table of transitions."""

    IN_USE = "in use"
    PREPARE_WAITS = "waiting for space, to be prepared"
    COMMIT_WAITS = "waiting for space, to be committed"
    PREPARING = "being prepared"
    PREPARED = "prepared"
    COMMITTING = "being committed"
    FINISHED = "finished"


class Transaction(ABC):
    """An open transaction, local or XA. Belongs to the broker's loop; no call waits."""

    xid: TransactionId
    state: TransactionState
    began: float
    """`_clock.now()` of its beginning."""
    producer: ProducerInfo | None
    """The producer that sent last in it, set by the transaction filter."""

    @property
    def is_prepared(self) -> bool:
        """Whether phase one of a two-phase commit is done."""
        return self.state is TransactionState.PREPARED

    @property
    def is_waiting(self) -> bool:
        """Whether its end was requested and waits for pending work."""
        return self.state in {TransactionState.PREPARE_WAITS, TransactionState.COMMIT_WAITS}

    @property
    def is_ending(self) -> bool:
        """Whether the store prepares or commits it now: the store's result decides."""
        return self.state in {TransactionState.PREPARING, TransactionState.COMMITTING}

    # work
    @abstractmethod
    def add(self, synchronization: Synchronization) -> None:
        """Call `synchronization` at the end of this transaction, in the order of registration."""

    @abstractmethod
    def set_rollback_only(self, cause: BaseException) -> None:
        """Make the commit fail, naming `cause`. (activemq-broker C5)"""

    @abstractmethod
    def add_pending(self, work: PendingWork) -> None:
        """Delay the end until `work` was reported by `pending_finished` or `pending_failed`."""

    @abstractmethod
    def pending_finished(self, work: PendingWork) -> None:
        """Report that `work` is now part of the transaction; an end that waited for it goes on."""

    @abstractmethod
    def pending_failed(self, work: PendingWork, cause: BaseException) -> None:
        """Report that `work` has failed: an end that waits for it fails with `cause`.

        Before its end was requested, the transaction goes on without: the sender gets the error.
        """

    # the end
    @abstractmethod
    def prepare(self) -> int | Completion:
        """Do phase one; return XA_OK (0), or XA_RDONLY (3) where nothing was done.

        A Completion that ends without an error is an XA_OK that comes later.

        Raises (or completes with):
            JMSException: this kind of transaction has no phases.
            TransactionRolledBackException, XAException: it was rolled back instead.
        """

    @abstractmethod
    def commit(self, one_phase: bool) -> Completion:
        """Make the work durable and visible. While that is in progress, return the same result.

        Raises (or completes with):
            TransactionRolledBackException, XAException: it was rolled back instead.
        """

    @abstractmethod
    def rollback(self, cause: BaseException | None = None) -> Completion:
        """Undo the work, in the order it was done; the Completion is done when the store knows.

        A commit that waits for space fails with an error that names `cause`.

        Raises:
            JMSException: the store is preparing or committing it.
        """

    @abstractmethod
    def busy_error(self, step: str) -> Exception:
        """Return the error that refuses `step` because of the state."""
