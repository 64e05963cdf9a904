"""Counts the responses that a client still waits for, so that a stopping broker can send them.

A request that was accepted before the stop completes, and its client should learn how: the
outcome of a commit is unknown if its response is lost.
"""

from __future__ import annotations

from collections.abc import Iterable

import anyio

from pyjms_broker.api.context import ConnectionContext

__all__ = ["PendingResponses"]


class PendingResponses:
    """The pending responses of one connection.

    Sends that wait for space, and commits that wait for such sends, are not waited for: the space
    may never come.
    """

    __slots__ = ("_all_sent", "_contexts", "count")

    def __init__(self) -> None:
        self.count = 0
        """Add one for each response that cannot be sent at once; `sent` subtracts it."""
        self._all_sent: anyio.Event | None = None
        self._contexts: tuple[ConnectionContext, ...] = ()

    def sent(self) -> None:
        """Count one response as sent."""
        self.count -= 1
        if self._all_sent is not None and self._are_sent():
            self._all_sent.set()

    async def wait(self, contexts: Iterable[ConnectionContext]) -> None:
        """Wait for all, except those that wait for space in `contexts`. Cancellable."""
        self._contexts = tuple(contexts)
        if not self._are_sent():
            self._all_sent = anyio.Event()
            await self._all_sent.wait()

    def _are_sent(self) -> bool:
        return self.count <= sum(map(_waiting_for_space, self._contexts))


def _waiting_for_space(context: ConnectionContext) -> int:
    ends = sum(transaction.is_waiting for transaction in context.waiting_ends)
    return len(context.blocked_sends) + ends
