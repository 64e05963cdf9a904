"""Turns: one listener of a connection runs at a time, in the order in which they ask."""

from __future__ import annotations

from collections import deque

import anyio

__all__ = ["ListenerTurns"]


class _Wait:
    """A consumer that waits for its turn."""

    __slots__ = ("consumer", "event", "is_granted")

    def __init__(self, consumer: object) -> None:
        self.consumer = consumer
        self.event = anyio.Event()
        self.is_granted = False


class ListenerTurns:
    """The turns of the listeners of one connection. Belongs to its loop."""

    def __init__(self) -> None:
        self._is_taken = False
        self._waiting: deque[_Wait] = deque()

    async def take(self, consumer: object) -> bool:
        """Wait for a turn; return False if it was withdrawn meanwhile. Cancellable."""
        if not self._is_taken:
            self._is_taken = True
            return True
        wait = _Wait(consumer)
        self._waiting.append(wait)
        try:
            await wait.event.wait()
        except BaseException:
            if wait.is_granted:
                self.give_back()
            elif wait in self._waiting:
                self._waiting.remove(wait)
            raise
        return wait.is_granted

    def give_back(self) -> None:
        """End a turn; the next waiting consumer gets it."""
        if not self._waiting:
            self._is_taken = False
            return
        wait = self._waiting.popleft()
        wait.is_granted = True
        wait.event.set()

    def withdraw(self, consumer: object) -> None:
        """Cancel the waits of `consumer`."""
        for wait in [wait for wait in self._waiting if wait.consumer is consumer]:
            self._waiting.remove(wait)
            wait.event.set()
