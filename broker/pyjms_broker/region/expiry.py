"""The scan for expired messages, with one background task per period (activemq-broker Q32)."""

from __future__ import annotations

from collections.abc import Callable

from pyjms.runtime import clock as _clock
from pyjms.runtime import event_loop
from pyjms.runtime.logging import get_logger
from pyjms.runtime.slices import Slices
from pyjms_broker.region.base_destination import BaseDestination

logger = get_logger(__name__)


class ExpiryScanner:
    """Calls `expire_messages` of each destination every `expire_messages_period` of its policy.

    Scans are skipped while the store is not `ready()`: the disk may be full, and dead letters
    would accumulate in memory.
    """

    def __init__(self, ready: Callable[[], bool]) -> None:
        self._ready = ready
        self._by_period: dict[float, dict[BaseDestination, None]] = {}
        self._tasks: dict[float, event_loop.BackgroundTask] = {}
        self._is_running = False

    def add(self, destination: BaseDestination) -> None:
        """Scan a destination from now on, if its policy has a period."""
        period = destination.policy.expire_messages_period
        if period <= 0 or destination.is_advisory:
            return
        self._by_period.setdefault(period, {})[destination] = None
        if self._is_running:
            self._start_task(period)

    def remove(self, destination: BaseDestination) -> None:
        """Stop scanning a destination; with a period's last destination, its task ends."""
        period = destination.policy.expire_messages_period
        others = self._by_period.get(period, {})
        others.pop(destination, None)
        if not others:
            self._by_period.pop(period, None)
            task = self._tasks.pop(period, None)
            if task is not None:
                task.cancel()

    def start(self) -> None:
        """Start the tasks, on the broker's event loop."""
        self._is_running = True
        for period in self._by_period:
            self._start_task(period)

    async def stop(self) -> None:
        """Cancel all tasks and wait for them."""
        self._is_running = False
        tasks, self._tasks = self._tasks, {}
        await event_loop.end_tasks(*tasks.values())

    def _start_task(self, period: float) -> None:
        if period not in self._tasks:
            self._tasks[period] = event_loop.spawn(
                self._scan_periodically, period, name=f"expiry scan every {period} s"
            )

    async def _scan_periodically(self, period: float) -> None:
        while True:
            await _clock.sleep(period)
            slices = Slices()
            for destination in tuple(self._by_period.get(period, ())):
                if not self._ready():
                    break
                if destination.disposed:
                    continue
                try:
                    destination.expire_messages()
                except Exception:
                    logger.exception("The expiry scan of %s failed", destination)
                await slices.after_item()
