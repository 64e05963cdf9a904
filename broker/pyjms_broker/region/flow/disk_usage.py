"""Usage of a store's disk space, and the sends that wait for it. (activemq-broker M3)

A store has no space at its limit, while it is overloaded, and while its disk is full. The store
reports changes of its state; its size is polled, but only while a send waits.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Final, Protocol

from pyjms import _clock, _wakeup
from pyjms._logger import get_logger
from pyjms_broker.store.api import StoreState

__all__ = ["DiskUsage", "Measured"]

logger = get_logger(__name__)

POLLING_TIME: Final = 1.0
"""Seconds between checks of the size while a send waits, as in ActiveMQ's usages."""
_ACCEPTING: Final = (StoreState.RUNNING, StoreState.FAILED)


class Measured(Protocol):
    """A store that reports its size and state."""

    @property
    def size(self) -> int: ...

    @property
    def state(self) -> StoreState: ...


class DiskUsage:
    """Disk space used by a store, with a limit in bytes (0: none). Source: ActiveMQ StoreUsage.

    Without a `store` it is never full. The usage of a partition with its own limit has the usage
    of the whole store as its `parent`.
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
        self.is_promised = True
        """Whether the limit was configured; False for a default lowered to the disk's size."""
        self.store = store
        self.parent = parent
        self._waiting: deque[tuple[Callable[[], None], int]] = deque()
        self._poll_task: _wakeup.BackgroundTask | None = None

    @property
    def used(self) -> int:
        """The used disk space in bytes."""
        return 0 if self.store is None else self.store.size

    @property
    def percent(self) -> int:
        """The used percentage of the limit; 0 without a limit."""
        return self.used * 100 // self.limit if self.limit else 0

    def change_limit(self, limit: int, *, is_promised: bool = True) -> None:
        """Set the limit in bytes (0: none), and admit the sends that now have space."""
        self.limit = limit
        self.is_promised = is_promised
        self.changed()

    def is_full(self, high_water_mark: int = 100) -> bool:
        """Return whether sends must wait: at that percentage of the limit, or for a busy store.

        A failed store is not full: sends get its error at once.
        """
        store = self.store
        if store is None:
            return False
        if self.limit and store.size * 100 >= self.limit * high_water_mark:
            return True
        return store.state not in _ACCEPTING

    def full(self, high_water_mark: int = 100) -> DiskUsage | None:
        """Return the usage without space, the parent or this one; None if both have space.

        The parent takes precedence, because it is notified of changes of the store's state.
        """
        full = None if self.parent is None else self.parent.full(high_water_mark)
        if full is not None:
            return full
        return self if self.is_full(high_water_mark) else None

    def reason(self, high_water_mark: int = 100) -> str:
        """Return the reason for the lack of space, for logs and errors."""
        store = self.store
        if store is not None and store.state not in _ACCEPTING:
            return f"{self.name} is {store.state.value}"
        return f"{self.name} is Full, {high_water_mark}% of {self.limit}"

    def wait(self, callback: Callable[[], None], high_water_mark: int = 100) -> Callable[[], None]:
        """Call `callback` once there is space; return a function that withdraws the request."""
        request = (callback, high_water_mark)
        self._waiting.append(request)
        if self._poll_task is None:
            self._poll_task = _wakeup.spawn(self._poll, name=f"space in {self.name}")

        def withdraw() -> None:
            if request in self._waiting:
                self._waiting.remove(request)

        return withdraw

    def changed(self) -> None:
        """Call the waiting callbacks for which there is space now, oldest first."""
        for request in tuple(self._waiting):
            if not self.is_full(request[1]) and request in self._waiting:
                self._waiting.remove(request)
                request[0]()

    async def close(self) -> None:
        """Stop polling. Idempotent."""
        task, self._poll_task = self._poll_task, None
        await _wakeup.end_tasks(task)

    async def _poll(self) -> None:
        while self._waiting:
            await _clock.sleep(POLLING_TIME)
            try:
                self.changed()
                self._reclaim()
            except Exception:  # otherwise the other sends would wait forever
                logger.exception("%s: admitting a waiting send failed", self.name)
        self._poll_task = None

    def _reclaim(self) -> None:
        """Make the store reclaim disk space, if it can, while sends wait for it."""
        reclaim_soon: Callable[[], None] | None = getattr(self.store, "reclaim_soon", None)
        if self._waiting and reclaim_soon is not None:
            reclaim_soon()
