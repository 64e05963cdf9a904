"""The count of a client's pending responses, so that a stopping broker can send them.

A request that was accepted before the stop is completed, and the client should get the result: the
outcome of a commit is unknown if its response is lost.
"""

from __future__ import annotations

from collections.abc import Iterable

import anyio

from pyjms_broker.api.context import ConnectionContext

__all__ = ["PendingResponses"]


class PendingResponses:
    """The pending responses of one connection.

    Sends that wait for space, and commits that wait for such sends, are excluded, because space may
    never become available.
    """

    __slots__ = ("_all_sent", "_contexts", "count")

    def __init__(self) -> None:
        self.count = 0
        """The number of pending responses: add 1 for each delayed one, which `sent` subtracts."""
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
