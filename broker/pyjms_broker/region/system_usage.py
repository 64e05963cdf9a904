"""The broker's usages (memory, store, temp store, job scheduler store) and their limits.

A store has no space at its limit, while it is overloaded, and while its disk is full. The store
reports changes of its state; its size is polled, but only while a send waits.
(activemq-broker M1, M2, M3)
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

from pyjms.jms.destination import Destination
from pyjms.runtime import clock as _clock
from pyjms.runtime import event_loop
from pyjms.runtime.logging import get_logger
from pyjms_broker.api.usage import MemoryUsage
from pyjms_broker.store.api import PersistenceAdapter, StorePartition, StoreState

if TYPE_CHECKING:
    from pyjms_broker.store.temp import TempStore

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
        self._poll_task: event_loop.BackgroundTask | None = None

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
        self.admit_waiting()

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
        store, limit = self.store, self.limit
        if store is None:
            return None
        # written out, since it is asked for each message
        if store.state in _ACCEPTING and not (
            limit and store.size * 100 >= limit * high_water_mark
        ):
            return None
        return self

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
            self._poll_task = event_loop.spawn(self._poll, name=f"space in {self.name}")

        def withdraw() -> None:
            if request in self._waiting:
                self._waiting.remove(request)

        return withdraw

    def admit_waiting(self) -> None:
        """Call the waiting callbacks for which there is space now, oldest first."""
        for request in tuple(self._waiting):
            if not self.is_full(request[1]) and request in self._waiting:
                self._waiting.remove(request)
                request[0]()

    async def close(self) -> None:
        """Stop polling. Idempotent."""
        task, self._poll_task = self._poll_task, None
        await event_loop.end_tasks(task)

    async def _poll(self) -> None:
        while self._waiting:
            await _clock.sleep(POLLING_TIME)
            try:
                self.admit_waiting()
                self._reclaim()
            except Exception:  # otherwise the other sends would wait forever
                logger.exception("%s: admitting a waiting send failed", self.name)
        self._poll_task = None

    def _reclaim(self) -> None:
        """Make the store reclaim disk space, if it can, while sends wait for it."""
        reclaim_soon: Callable[[], None] | None = getattr(self.store, "reclaim_soon", None)
        if self._waiting and reclaim_soon is not None:
            reclaim_soon()


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
        consumer_limit: int = 0,
    ) -> None:
        self.memory = MemoryUsage("Main:memory", memory_limit)
        self.consumer_limit = consumer_limit
        """The memory up to which cursors of topic consumers keep messages; 0: the same."""
        self.store = DiskUsage("Persistent store", store_limit)
        self.temp = DiskUsage("Temp Store", temp_limit)
        self.job_scheduler = DiskUsage("Job Scheduler Store", job_scheduler_limit)
        self.send_fail_if_no_space = send_fail_if_no_space
        self.send_fail_if_no_space_after_timeout = send_fail_if_no_space_after_timeout
        self._partitions: dict[StorePartition, DiskUsage] = {}

    def is_short_for_consumers(self, mark: int) -> bool:
        """Return whether the memory of consumers is used up to `mark` percent."""
        limit = self.consumer_limit
        return limit > 0 and self.memory.used * 100 >= limit * mark

    def store_of(self, destination: Destination) -> DiskUsage:
        """Return the usage against which a destination's persistent messages count."""
        store: object = self.store.store
        partition_of: Callable[[Destination], StorePartition | None] | None = getattr(
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
        store.on_state = _chain_listener(store.on_state, self.store)
        if temp_store is not None:
            self.temp.store = temp_store
            temp_store.on_state = _chain_listener(temp_store.on_state, self.temp)
            temp_store.on_space = self.temp.admit_waiting

    async def close(self) -> None:
        """Stop polling all stores."""
        for usage in (self.store, *self._partitions.values()):
            await usage.close()
        self._partitions.clear()
        await self.temp.close()
        await self.job_scheduler.close()


def _chain_listener(other: _OnState | None, usage: DiskUsage) -> _OnState:
    def on_state(state: StoreState, error: Exception | None) -> None:
        if other is not None:
            other(state, error)
        usage.admit_waiting()

    return on_state


class DestinationLimits(NamedTuple):
    """The maximum numbers of destinations, and the removal of inactive ones.

    ActiveMQ has no maximum. Periods are in seconds.
    """

    maximum: int = MAXIMUM_DESTINATIONS
    per_connection: int = MAXIMUM_DESTINATIONS // 10
    """Without temporary ones, which the connector limits."""
    per_user: int = MAXIMUM_DESTINATIONS // 2
    """All clients without a user name count as one user."""
    purge_period: float = 0
    """Seconds between two sweeps; 0: no sweeps. (activemq-broker D11)"""
    purge_maximum: int = 0
    """The maximum number of destinations that one sweep removes; 0: unlimited."""
