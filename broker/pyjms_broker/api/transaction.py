"""The interface of transactions, which call registered work when they end.

Sends and acknowledgements register a `Synchronization`. Work that must finish before the
transaction can end, such as a send waiting for memory, registers as `PendingWork`.
`pyjms_broker.transaction` implements them.
(ActiveMQ Transaction, Synchronization; activemq-broker X1 to X5)
"""

from __future__ import annotations

from abc import abstractmethod
from enum import Enum
from typing import Protocol

from pyjms.wire.openwire.commands import ProducerInfo, TransactionId
from pyjms_broker.api.completion import Completion


class Synchronization:
    """A unit of work in a transaction; override methods as needed. No method may wait."""

    def before_commit(self) -> None:
        """Check the work before anything is stored; an error turns the commit into a rollback.

        Synchronizations registered by this method in the same transaction are also called.
        """

    def committing(self, stored: Completion) -> None:
        """Record that the store has numbered the work and has stored it when `stored` is done.

        Not called if the store has it at once.
        """

    def after_commit(self) -> None:
        """Make the work visible after it was stored."""

    def after_rollback(self) -> None:
        """Undo the work."""


class PendingWork(Protocol):
    """Work of a transaction that must finish before the transaction can end."""

    def transaction_rolled_back(self) -> None:
        """Stop waiting, because the transaction was rolled back."""


class TransactionState(Enum):
    """The states of a transaction; `pyjms_broker.filters.transactions` has the transitions."""

    IN_USE = "in use"
    PREPARE_WAITS = "waiting for space, to be prepared"
    COMMIT_WAITS = "waiting for space, to be committed"
    PREPARING = "being prepared"
    PREPARED = "prepared"
    COMMITTING = "being committed"
    FINISHED = "finished"


class Transaction:
    """An open transaction, local or XA. Use only on the broker's event loop; no method waits."""

    xid: TransactionId
    state: TransactionState
    began: float
    """`_clock.now()` at its beginning."""
    producer: ProducerInfo | None
    """The producer of its latest message, set by the transaction filter."""
    latest: Synchronization | None
    """The work that was added last, and not removed."""

    @property
    def is_prepared(self) -> bool:
        """Whether phase one of a two-phase commit is done."""
        return self.state is TransactionState.PREPARED

    @property
    def is_waiting(self) -> bool:
        """Whether its requested end waits for pending work."""
        return self.state in {TransactionState.PREPARE_WAITS, TransactionState.COMMIT_WAITS}

    @property
    def is_ending(self) -> bool:
        """Whether the store is preparing or committing it, and will decide the outcome."""
        return self.state in {TransactionState.PREPARING, TransactionState.COMMITTING}

    # work
    @abstractmethod
    def add(self, synchronization: Synchronization) -> None:
        """Call `synchronization` when the transaction ends, in the order of registration."""

    @abstractmethod
    def set_rollback_only(self, cause: BaseException) -> None:
        """Make the commit fail with `cause` in its error. (activemq-broker C5)"""

    @abstractmethod
    def add_pending(self, work: PendingWork) -> None:
        """Delay the end until `pending_finished` or `pending_failed` is called for `work`."""

    @abstractmethod
    def pending_finished(self, work: PendingWork) -> None:
        """Report that `work` is now part of the transaction; an end waiting for it continues."""

    @abstractmethod
    def pending_failed(self, work: PendingWork, cause: BaseException) -> None:
        """Report that `work` has failed; an end waiting for it fails with `cause`.

        If the end was not requested yet, the transaction continues without the work, and the sender
        gets the error.
        """

    # the end
    @abstractmethod
    def prepare(self) -> int | Completion:
        """Perform phase one; return XA_OK (0), or XA_RDONLY (3) if there was no work.

        A Completion without an error means XA_OK.

        Raises (or completes with):
            JMSException: this kind of transaction has no prepare phase.
            TransactionRolledBackException, XAException: it was rolled back instead.
        """

    @abstractmethod
    def commit(self, one_phase: bool) -> Completion:
        """Make the work durable and visible. While this is in progress, return the same result.

        Raises (or completes with):
            TransactionRolledBackException, XAException: it was rolled back instead.
        """

    @abstractmethod
    def rollback(self, cause: BaseException | None = None) -> Completion:
        """Undo the work in the order it was done; done when the store has recorded it.

        A commit waiting for space fails with `cause` in its error.

        Raises:
            JMSException: the store is preparing or committing it.
        """

    @abstractmethod
    def busy_error(self, step: str) -> Exception:
        """Return the error for refusing `step` in the current state."""
