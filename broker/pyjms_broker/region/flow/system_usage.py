"""Memory accounting: what is used, how much may be, and who waits for room.

A usage is full when it, or any above it, has reached its limit. The last message may go
beyond a limit; the next one waits. (activemq-broker M1, M2)
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final, Protocol

from pyjms.jms.destination import Destination
from pyjms_broker.api.usage import MemoryUsage
from pyjms_broker.region.flow.disk_usage import DiskUsage, Measured
from pyjms_broker.store.api import PersistenceAdapter, StoreState

if TYPE_CHECKING:
    from pyjms_broker.store.temp import TempStore

__all__ = [
    "JOB_SCHEDULER_LIMIT",
    "MAIN_MEMORY_LIMIT",
    "MAXIMUM_DESTINATIONS",
    "STORE_LIMIT",
    "TEMP_LIMIT",
    "SystemUsage",
]

MAIN_MEMORY_LIMIT: Final = 1024 * 1024 * 1024
"""ActiveMQ's memory limit of an embedded broker: 1 GiB."""
STORE_LIMIT: Final = 100 * 1024 * 1024 * 1024
"""ActiveMQ's limit of what the store takes: 100 GiB."""
MAXIMUM_DESTINATIONS: Final = 100_000
"""ActiveMQ has no limit."""
TEMP_LIMIT: Final = 50 * 1024 * 1024 * 1024
"""ActiveMQ's limit of what the temp store takes: 50 GiB."""
JOB_SCHEDULER_LIMIT: Final = 50 * 1024 * 1024 * 1024
"""ActiveMQ's limit of what the scheduler's store takes: 50 GiB."""


_OnState = Callable[[StoreState, Exception | None], None]


class Share(Measured, Protocol):
    """A part of a store that some destinations are in. (activemq-persistence K25)"""

    @property
    def limit(self) -> int: ...


class SystemUsage:
    """The broker's limits and what happens at them. Limits in bytes, 0: none.

    Source: ActiveMQ SystemUsage. `send_fail_if_no_space_after_timeout` in seconds, 0: off.
    """

    def __init__(
        self,
        memory_limit: int = MAIN_MEMORY_LIMIT,
        send_fail_if_no_space: bool = False,
        send_fail_if_no_space_after_timeout: float = 0,
        *,
        store_limit: int = STORE_LIMIT,
        temp_limit: int = TEMP_LIMIT,
        job_scheduler_limit: int = JOB_SCHEDULER_LIMIT,
    ) -> None:
        self.memory = MemoryUsage("Main:memory", memory_limit)
        self.store = DiskUsage("Persistent store", store_limit)
        self.temp = DiskUsage("Temp Store", temp_limit)
        self.job_scheduler = DiskUsage("Job Scheduler Store", job_scheduler_limit)
        self.send_fail_if_no_space = send_fail_if_no_space
        self.send_fail_if_no_space_after_timeout = send_fail_if_no_space_after_timeout
        self._shares: dict[Share, DiskUsage] = {}

    def store_of(self, destination: Destination) -> DiskUsage:
        """Return what a destination's persistent messages need room in."""
        store: object = self.store.store
        partition_of: Callable[[Destination], Share | None] | None = getattr(
            store, "partition_of", None
        )
        share = None if partition_of is None else partition_of(destination)
        if share is None or not share.limit:
            return self.store
        usage = self._shares.get(share)
        if usage is None:
            name = f"{self.store.name} of {share}"
            usage = self._shares[share] = DiskUsage(name, share.limit, share, self.store)
        return usage

    def watch(self, store: PersistenceAdapter, temp_store: TempStore | None) -> None:
        """Measure these two from now on, and hear of their states."""
        self.store.store = store
        store.on_state = _told_too(store.on_state, self.store)
        if temp_store is not None:
            self.temp.store = temp_store
            temp_store.on_state = _told_too(temp_store.on_state, self.temp)
            temp_store.on_space = self.temp.changed

    async def close(self) -> None:
        """Stop what looks at the stores."""
        for usage in (self.store, *self._shares.values()):
            await usage.close()
        self._shares.clear()
        await self.temp.close()
        await self.job_scheduler.close()


def _told_too(other: _OnState | None, usage: DiskUsage) -> _OnState:
    def on_state(state: StoreState, error: Exception | None) -> None:
        if other is not None:
            other(state, error)
        usage.changed()

    return on_state
