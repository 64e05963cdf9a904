"""The broker's usages: memory, store, temp store and job scheduler store, with their limits.

(activemq-broker M1, M2, M3)
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
"""ActiveMQ's memory limit for an embedded broker: 1 GiB."""
STORE_LIMIT: Final = 100 * 1024 * 1024 * 1024
"""ActiveMQ's store limit: 100 GiB."""
MAXIMUM_DESTINATIONS: Final = 100_000
"""The maximum number of destinations of a broker; ActiveMQ has no limit."""
TEMP_LIMIT: Final = 50 * 1024 * 1024 * 1024
"""ActiveMQ's temp store limit: 50 GiB."""
JOB_SCHEDULER_LIMIT: Final = 50 * 1024 * 1024 * 1024
"""ActiveMQ's limit of the job scheduler store: 50 GiB."""


_OnState = Callable[[StoreState, Exception | None], None]


class Partition(Measured, Protocol):
    """A partition of a store, for some of the destinations. (activemq-persistence K25)"""

    @property
    def limit(self) -> int: ...


class SystemUsage:
    """The broker's limits in bytes (0: none), and whether sends wait or fail at a limit.

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
        self._partitions: dict[Partition, DiskUsage] = {}

    def store_of(self, destination: Destination) -> DiskUsage:
        """Return the usage against which a destination's persistent messages count."""
        store: object = self.store.store
        partition_of: Callable[[Destination], Partition | None] | None = getattr(
            store, "partition_of", None
        )
        partition = None if partition_of is None else partition_of(destination)
        if partition is None or not partition.limit:
            return self.store
        usage = self._partitions.get(partition)
        if usage is None:
            name = f"{self.store.name} of {partition}"
            usage = self._partitions[partition] = DiskUsage(
                name, partition.limit, partition, self.store
            )
        return usage

    def watch(self, store: PersistenceAdapter, temp_store: TempStore | None) -> None:
        """Measure these stores, and listen to their states, from now on."""
        self.store.store = store
        store.on_state = _chained(store.on_state, self.store)
        if temp_store is not None:
            self.temp.store = temp_store
            temp_store.on_state = _chained(temp_store.on_state, self.temp)
            temp_store.on_space = self.temp.changed

    async def close(self) -> None:
        """Stop polling all stores."""
        for usage in (self.store, *self._partitions.values()):
            await usage.close()
        self._partitions.clear()
        await self.temp.close()
        await self.job_scheduler.close()


def _chained(other: _OnState | None, usage: DiskUsage) -> _OnState:
    def on_state(state: StoreState, error: Exception | None) -> None:
        if other is not None:
            other(state, error)
        usage.changed()

    return on_state
