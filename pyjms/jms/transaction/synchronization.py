"""Callbacks at the end of transactions, with ActiveMQ's type names."""

from __future__ import annotations

from collections.abc import Awaitable

__all__ = ["LocalTransactionEventListener", "Synchronization"]


class Synchronization:
    """Called at the end of one transaction; override what matters.

    Register it with `Session.add_synchronization`. The methods are called on the event loop and
    must not block; each may be a coroutine, which is awaited before the commit or rollback
    returns. With the blocking API they are plain functions, called in a thread, and may block.
    ActiveMQ: org.apache.activemq.transaction.Synchronization.
    """

    def before_end(self) -> Awaitable[None] | None:
        """Do the last work of the transaction, before its commit, rollback or end of an XA branch.

        An exception rolls back instead of committing, and is raised by `commit`. Calls of `commit`
        and `rollback` raise IllegalStateException here: the transaction is ending already.
        """
        return None

    def after_commit(self) -> Awaitable[None] | None:
        """Act on the commit. An exception is logged: the outcome is decided."""
        return None

    def after_rollback(self) -> Awaitable[None] | None:
        """Act on the rollback, or on a commit that failed. An exception is logged."""
        return None


class LocalTransactionEventListener:
    """Called when the local transactions of a session begin and end; override what matters.

    The methods are called on the event loop, also with the blocking API, and must not block; an
    exception is logged. ActiveMQ: org.apache.activemq.LocalTransactionEventListener.
    """

    def begin_event(self) -> None:
        """Note that the first work of a session has begun a transaction."""

    def commit_event(self) -> None:
        """Note that the transaction was committed."""

    def rollback_event(self) -> None:
        """Note that the transaction was rolled back, or that its commit failed."""
