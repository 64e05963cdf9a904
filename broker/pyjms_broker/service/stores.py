"""The stores of one broker: messages, non-persistent overflow, and scheduled jobs.

They are created and opened at each start: the message store first (which waits for its lock), then
the temp store, then the job store. Each stop closes them in reverse order.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Final, Protocol, TypeVar, runtime_checkable

from pyjms.errors import IllegalStateException
from pyjms.runtime import clock as _clock
from pyjms.runtime.logging import get_logger
from pyjms_broker.region.region_broker import RegionBroker, StoreCapabilities
from pyjms_broker.region.system_usage import SystemUsage
from pyjms_broker.service.configuration import BrokerConfiguration
from pyjms_broker.store.api import PersistenceAdapter, StoreState
from pyjms_broker.store.damage import quarantined_files
from pyjms_broker.store.memory import MemoryPersistenceAdapter

if TYPE_CHECKING:
    from pyjms_broker.store.jobs.scheduler import JobSchedulerStore
    from pyjms_broker.store.temp import TempStore

__all__ = ["BrokerStores", "require_started"]

logger = get_logger(__name__)

_T = TypeVar("_T")


def require_started(part: _T | None) -> _T:
    """Return a component that exists once the broker has started.

    Raises:
        IllegalStateException: it has not been started.
    """
    if part is None:
        raise IllegalStateException("Broker has not been started", hint="await broker.start()")
    return part


PROGRESS_INTERVAL: Final = 5.0
"""Seconds between log lines about a long replay."""

StateListener = Callable[[StoreState, "Exception | None"], None]


@runtime_checkable
class LockedStore(Protocol):
    """A store that only one broker may use at a time."""

    on_lock_lost: Callable[[], None] | None
    """Called when another broker has taken over the store."""

    @property
    def is_slave(self) -> bool:
        """Whether the store waits for another broker's lock."""


@runtime_checkable
class ReplayedStore(Protocol):
    """A store that replays its journal at the start."""

    on_progress: Callable[[int, object], None] | None
    """Called periodically with the number of records read and the location."""


class BrokerStores:
    """Creates, opens and closes the stores of a broker."""

    def __init__(self, configuration: BrokerConfiguration, usage: SystemUsage) -> None:
        """Remember the configuration, which is evaluated at each `open`."""
        self._configuration = configuration
        self._usage = usage
        self.temp_store: TempStore | None = None
        """The store for non-persistent messages when memory is short; None: they stay in memory.

        (activemq-persistence K2)
        """
        self.job_store: JobSchedulerStore | None = None
        """The store for scheduled messages; None: the broker has no scheduler."""
        self._store: PersistenceAdapter | None = None
        self._last_progress = 0.0

    @property
    def store(self) -> PersistenceAdapter:
        """The message store. Raises IllegalStateException before the broker is started."""
        return require_started(self._store)

    @property
    def failed(self) -> bool:
        """Whether a store has failed permanently. (activemq-persistence K24)"""
        return any(
            store is not None and store.state is StoreState.FAILED
            for store in (self._store, self.job_store)
        )

    @property
    def is_slave(self) -> bool:
        """Whether the store waits for another broker's lock. (activemq-persistence H4)"""
        store: object = self._store
        return isinstance(store, LockedStore) and store.is_slave

    @property
    def directory(self) -> Path | None:
        """The message store's directory; None in memory, and with a custom adapter."""
        config = self._configuration
        name = None if config.persistence is None else config.persistence.directory_name
        if config.persistence_adapter is not None or not config.persistent or name is None:
            return None
        if config.store_directory is not None:
            return Path(config.store_directory)
        return self._broker_directory / name

    @property
    def _broker_directory(self) -> Path:
        return Path(self._configuration.data_directory) / self._configuration.broker_name

    async def open(
        self, on_state: StateListener, on_lock_lost: Callable[[], None]
    ) -> PersistenceAdapter:
        """Create the stores and open them, after waiting for the lock.

        Args:
            on_state: called when the message store's state changes, or the job store fails.
            on_lock_lost: called when another broker has taken over the message store.

        Raises:
            JMSException: a store cannot be opened.
        """
        config, directory = self._configuration, self.directory
        self.temp_store = self.job_store = None
        if config.persistence_adapter is not None:
            store = config.persistence_adapter
        elif config.persistence is None or not config.persistent:
            store = MemoryPersistenceAdapter()
        else:
            location = directory or self._broker_directory
            store = config.persistence.create(location, config.broker_name)
        self._store = store
        store.on_state = on_state
        if isinstance(store, LockedStore):
            store.on_lock_lost = on_lock_lost
        if isinstance(store, ReplayedStore):
            self._last_progress = _clock.now()
            store.on_progress = self._progress
        if config.delete_all_messages_on_startup:
            logger.warning("Broker %s starts with an empty store", config.broker_name)
            await store.delete_all_messages()
        await store.start()
        is_volatile = StoreCapabilities.of(store).is_volatile
        if directory is not None or not is_volatile:
            await self._open_temp_store()
        if config.scheduler_support:
            await self._open_job_store(is_volatile, on_state)
        return store

    async def _open_temp_store(self) -> None:
        # imported only when needed: an embedded broker in memory does not need it
        from pyjms_broker.store.temp import TempStore  # noqa: PLC0415

        store = TempStore(self._broker_directory / "tmp_storage")
        self.temp_store = store  # so that `close` closes it if its start fails
        await store.start()

    async def _open_job_store(self, is_volatile: bool, on_state: StateListener) -> None:
        config, usage = self._configuration, self._usage.job_scheduler
        store: JobSchedulerStore
        if is_volatile:
            from pyjms_broker.store.jobs.scheduler import MemoryJobSchedulerStore  # noqa: PLC0415

            store = MemoryJobSchedulerStore()
            limits = (usage.limit, self._usage.memory.limit)
            usage.limit = min((limit for limit in limits if limit), default=0)
        else:
            from pyjms_broker.store.jobs.kahadb import KahaDBJobSchedulerStore  # noqa: PLC0415

            directory = config.scheduler_directory or self._broker_directory / "scheduler"
            store = KahaDBJobSchedulerStore(Path(directory))

        def job_store_state(state: StoreState, error: Exception | None) -> None:
            if state is StoreState.FAILED:
                on_state(state, error)
            usage.admit_waiting()

        store.on_state = job_store_state
        self.job_store = usage.store = store
        if config.delete_all_messages_on_startup:
            await store.delete_all_jobs()
        await store.start()

    def log_contents(self, region: RegionBroker) -> None:
        """Log where the messages are stored and their number."""
        config = self._configuration
        if config.persistence_adapter is None and self.directory is None:
            logger.info("Broker %s keeps its messages in memory", config.broker_name)
            return
        present = region.destinations()
        stored = [
            present[each].statistics.messages
            for each in self.store.destinations()
            if each in present
        ]
        logger.info(
            "Broker %s keeps its messages in %s: %d in %d destinations",
            config.broker_name,
            self.directory or type(config.persistence_adapter).__name__,
            sum(stored),
            len(stored),
        )
        if self.directory is None:
            return
        for folder, count in quarantined_files(self.directory).items():
            logger.warning(
                "Broker %s: this start, or an earlier one, could not read everything; the damaged "
                "data is kept in %s (%d files) until you remove it",
                config.broker_name,
                folder,
                count,
            )

    def _progress(self, records: int, location: object) -> None:
        now = _clock.now()
        if now - self._last_progress >= PROGRESS_INTERVAL:
            self._last_progress = now
            name = self._configuration.broker_name
            logger.info("Broker %s replays its journal: %d records, at %s", name, records, location)

    async def close(self) -> None:
        """Close the stores. Idempotent."""
        try:
            if self.job_store is not None:
                await self.job_store.stop()
            if self.temp_store is not None:
                await self.temp_store.stop()
        finally:
            if self._store is not None:
                await self._store.stop()
