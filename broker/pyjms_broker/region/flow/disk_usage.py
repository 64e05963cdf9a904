"""How full a store is, and who waits until it takes messages again. (activemq-broker M3)

A store has no room at its limit, and while it cannot keep up with what it is given or its
disk takes nothing. Its state is heard of; its size is looked at while somebody waits.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable
from typing import Final, Protocol

from pyjms import _clock, _wakeup
from pyjms_broker.store.api import StoreState

__all__ = ["DiskUsage", "Measured"]

logger = logging.getLogger(__name__)

POLLING_TIME: Final = 1.0
"""Seconds between two looks at the size, as ActiveMQ's usages have it."""
_TAKES_MORE: Final = (StoreState.RUNNING, StoreState.FAILED)


class Measured(Protocol):
    """A store that can be full."""

    @property
    def size(self) -> int: ...

    @property
    def state(self) -> StoreState: ...


class DiskUsage:
    """What a store takes, with a limit in bytes (0: none). Of no store until it has one.

    A part of a store with a limit of its own has the store's usage as its `parent`.
    """

    def __init__(
        self,
        name: str,
        limit: int = 0,
        store: Measured | None = None,
        parent: DiskUsage | None = None,
    ) -> None:
        self.name = name
        self.limit = limit
        self.store = store
        self.parent = parent
        self._waiting: deque[tuple[Callable[[], None], int]] = deque()
        self._watch: _wakeup.BackgroundTask | None = None

    @property
    def used(self) -> int:
        """Bytes on the disk."""
        return 0 if self.store is None else self.store.size

    @property
    def percent(self) -> int:
        """How full it is."""
        return self.used * 100 // self.limit if self.limit else 0

    def is_full(self, high_water_mark: int = 100) -> bool:
        """Whether nothing more should come in: at that percentage, or the store is busy.

        A store that has failed takes what comes, and says to each that it failed.
        """
        store = self.store
        if store is None:
            return False
        if self.limit and store.size * 100 >= self.limit * high_water_mark:
            return True
        return store.state not in _TAKES_MORE

    def full(self, high_water_mark: int = 100) -> DiskUsage | None:
        """Return which has no room, the parent or this one; None if both have.

        The parent first: it hears of its store's state at once.
        """
        above = None if self.parent is None else self.parent.full(high_water_mark)
        if above is not None:
            return above
        return self if self.is_full(high_water_mark) else None

    def trouble(self, high_water_mark: int = 100) -> str:
        """Say why there is no room."""
        store = self.store
        if store is not None and store.state not in _TAKES_MORE:
            return f"{self.name} is {store.state.value}"
        return f"{self.name} is Full, {high_water_mark}% of {self.limit}"

    def wait(self, callback: Callable[[], None], high_water_mark: int = 100) -> Callable[[], None]:
        """Call `callback` once there is room; return a function that takes the request back."""
        request = (callback, high_water_mark)
        self._waiting.append(request)
        if self._watch is None:
            self._watch = _wakeup.spawn(self._look, name=f"room in {self.name}")

        def forget() -> None:
            if request in self._waiting:
                self._waiting.remove(request)

        return forget

    def changed(self) -> None:
        """Let those in for whom there is room now, in their order."""
        for request in tuple(self._waiting):
            if not self.is_full(request[1]) and request in self._waiting:
                self._waiting.remove(request)
                request[0]()

    async def close(self) -> None:
        """Stop looking. Idempotent."""
        watch, self._watch = self._watch, None
        if watch is not None:
            watch.cancel()
            await watch.wait()

    async def _look(self) -> None:
        while self._waiting:
            await _clock.sleep(POLLING_TIME)
            try:
                self.changed()
            except Exception:  # who waits would wait for ever
                logger.exception("Nobody can be let in to %s now", self.name)
        self._watch = None
