"""The interface of external transaction managers. `JmsTransactionManager` implements it."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager
from typing import Protocol

__all__ = ["TransactionManager", "TransactionStatus"]


class TransactionStatus(Protocol):
    """The running transaction."""

    @property
    def rollback_only(self) -> bool:
        """Whether the end will be a rollback."""

    def set_rollback_only(self) -> None:
        """Make the end a rollback, without an error."""


class TransactionManager(Protocol):
    """Runs blocks in transactions (Spring: PlatformTransactionManager, PROPAGATION_REQUIRED).

    A manager of JMS sessions also has `connection_factory`, the one whose sessions it binds;
    any other manager makes the container synchronise its own session with the transaction.
    """

    def transaction(
        self, name: str | None = None, timeout: float | None = None
    ) -> AbstractAsyncContextManager[TransactionStatus]:
        """Begin; commit when the block ends, or roll back if it raised or is rollback-only.

        An error of the block is raised again after the rollback.
        """
