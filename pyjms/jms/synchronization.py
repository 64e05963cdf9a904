"""Callbacks at the end of transactions, with ActiveMQ's class names."""

from __future__ import annotations

from collections.abc import Awaitable


class Synchronization:
    """Callbacks at the end of one transaction; override the methods that you need.

    Register it with `Session.add_synchronization`. The methods are called on the event loop and
    must not block; each may be a coroutine, which is awaited before the commit or rollback
    returns. With the blocking API they are plain functions, called in a thread, and may block.
    ActiveMQ: org.apache.activemq.transaction.Synchronization.
    """

    def before_end(self) -> Awaitable[None] | None:
        """Do the last work of the transaction, before its commit, rollback or end of an XA branch.

        If it raises, the transaction is rolled back, and `commit` raises the exception. In this
        method, `commit` and `rollback` raise IllegalStateException: the transaction is already
        ending.
        """
        return None

    def after_commit(self) -> Awaitable[None] | None:
        """Called after the commit. Exceptions are logged, as the transaction has ended."""
        return None

    def after_rollback(self) -> Awaitable[None] | None:
        """Called after a rollback or a failed commit. Exceptions are logged."""
        return None


class LocalTransactionEventListener:
    """Callbacks at the begin and end of local transactions; override the methods that you need.

    The methods are called on the event loop, also with the blocking API, and must not block;
    exceptions are logged. ActiveMQ: org.apache.activemq.LocalTransactionEventListener.
    """

    def begin_event(self) -> None:
        """Called when the session has begun a transaction."""

    def commit_event(self) -> None:
        """Called when the transaction was committed."""

    def rollback_event(self) -> None:
        """Called when the transaction was rolled back, or its commit failed."""
