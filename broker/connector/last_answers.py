"""Counts the answers that a client still waits for, so that a broker that stops can give them.

What was asked before the end is done, and its client shall hear of it: a commit whose answer
is lost is one that nobody can say anything of.
"""

from __future__ import annotations

from collections.abc import Iterable

import anyio

from broker.context import ConnectionContext

__all__ = ["LastAnswers"]


class LastAnswers:
    """The open answers of one connection, but for sends without room and commits behind them."""

    __slots__ = ("_contexts", "_given", "open")

    def __init__(self) -> None:
        self.open = 0
        """Raise it by one for each answer that is not there yet; `given` lowers it."""
        self._given: anyio.Event | None = None
        self._contexts: tuple[ConnectionContext, ...] = ()

    def given(self) -> None:
        """Say that one of them was answered."""
        self.open -= 1
        if self._given is not None and self._are_given():
            self._given.set()

    async def wait(self, contexts: Iterable[ConnectionContext]) -> None:
        """Wait until all are given but for what waits for room in `contexts`. Cancellable."""
        self._contexts = tuple(contexts)
        if not self._are_given():
            self._given = anyio.Event()
            await self._given.wait()

    def _are_given(self) -> bool:
        return self.open <= sum(map(_without_room, self._contexts))


def _without_room(context: ConnectionContext) -> int:
    ends = sum(transaction.is_waiting for transaction in context.waiting_ends)
    return len(context.parked) + ends
