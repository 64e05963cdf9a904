"""A broker's store: made, opened, watched, described, closed."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Final, Protocol, runtime_checkable

from broker.region.region_broker import RegionBroker
from broker.region.store_traits import StoreTraits
from broker.service.io_errors import StoreWatch
from broker.store.api import PersistenceAdapter, StoreState
from broker.store.memory import MemoryPersistenceAdapter
from pyjms import _clock
from pyjms._wakeup import BackgroundTask, spawn
from pyjms.errors import IllegalStateException

if TYPE_CHECKING:
    from broker.service.service import BrokerService
    from broker.store.jobs.api import JobSchedulerStore
    from broker.store.temp import TempStore

__all__ = ["StoreKeeper"]

logger = logging.getLogger(__name__)

PROGRESS_INTERVAL: Final = 5.0
"""Seconds between two lines in the log about a long replay."""


@runtime_checkable
class LockedStore(Protocol):
    """A store that one broker at a time has."""

    on_lock_lost: Callable[[], None] | None
    """Called when another broker has taken it."""

    @property
    def is_slave(self) -> bool:
        """Whether it waits for another broker."""


@runtime_checkable
class ReplayedStore(Protocol):
    """A store that reads its journal at the start."""

    on_progress: Callable[[int, object], None] | None
    """Called now and then with the number of records read and where."""


class StoreKeeper:
    """Has the store of one broker service."""

    def __init__(self, service: BrokerService, given: PersistenceAdapter | None) -> None:
        """Keep `given`, or what the service's attributes ask for at each start."""
        self._service = service
        self._given = given
        self.temp_store: TempStore | None = None
        """Where non-persistent messages go when memory is short; None: they stay. (K2)"""
        self.job_store: JobSchedulerStore | None = None
        """What the scheduler keeps; None: there is none."""
        self._store: PersistenceAdapter | None = None
        self._watch: StoreWatch | None = None
        self._stop: BackgroundTask | None = None
        self._last_progress = 0.0

    @property
    def store(self) -> PersistenceAdapter:
        """The store.

        Raises:
            IllegalStateException: the broker has not been started.
        """
        if self._store is None:
            raise IllegalStateException("Broker has not been started", hint="await broker.start()")
        return self._store

    @property
    def failed(self) -> bool:
        """Whether the store can promise nothing more. (K24)"""
        return self._store is not None and self._store.state is StoreState.FAILED

    @property
    def is_slave(self) -> bool:
        """Whether the store waits for another broker's lock. (H4)"""
        store: object = self._store
        return isinstance(store, LockedStore) and store.is_slave

    @property
    def directory(self) -> Path | None:
        """Where the store lies; None in memory, and for one that was given."""
        service = self._service
        name = service.persistence.directory_name
        if self._given is not None or not service.persistent or name is None:
            return None
        return service.store_directory or service.data_directory / service.broker_name / name

    @property
    def _scheduler_directory(self) -> Path:
        service = self._service
        default = service.data_directory / service.broker_name / "scheduler"
        return service.scheduler_directory or default

    async def open(self) -> PersistenceAdapter:
        """Make the stores and open them; waits for the lock.

        Raises:
            JMSException: it cannot be opened.
        """
        service, directory = self._service, self.directory
        self.temp_store = self.job_store = None
        if self._given is not None:
            store = self._given
        elif directory is None:
            store = MemoryPersistenceAdapter()
        else:
            store = service.persistence.create(directory, service.broker_name)
        self._store = store
        self._watch = StoreWatch(service, service.io_exception_handler)
        store.on_state = self._watch.on_state
        if isinstance(store, LockedStore):
            store.on_lock_lost = self._lock_lost
        if isinstance(store, ReplayedStore):
            self._last_progress = _clock.now()
            store.on_progress = self._progress
        if service.delete_all_messages_on_startup:
            logger.warning("Broker %s begins with an empty store", service.broker_name)
            await store.delete_all_messages()
        await store.start()
        if directory is not None:
            await self._start_temp_store()
        if service.scheduler_support:
            await self._start_job_store(StoreTraits.of(store).is_volatile)
        return store

    async def _start_temp_store(self) -> None:
        # loaded when it is needed: an embedded broker in memory starts without
        from broker.store.temp import TempStore  # noqa: PLC0415

        service = self._service
        store = TempStore(service.data_directory / service.broker_name / "tmp_storage")
        self.temp_store = store  # whoever stops a start that failed finds it
        await store.start()

    async def _start_job_store(self, is_volatile: bool) -> None:
        # loaded when it is needed, as above
        from broker.store.jobs import (  # noqa: PLC0415
            KahaDBJobSchedulerStore,
            MemoryJobSchedulerStore,
        )

        service, usage = self._service, self._service.system_usage.job_scheduler
        store: JobSchedulerStore
        if is_volatile:
            store = MemoryJobSchedulerStore()
            limits = (usage.limit, service.system_usage.memory.limit)
            usage.limit = min((limit for limit in limits if limit), default=0)
        else:
            store = KahaDBJobSchedulerStore(self._scheduler_directory)

        def on_state(state: StoreState, error: Exception | None) -> None:
            if state is StoreState.FAILED and self._watch is not None:
                self._watch.on_state(state, error)
            usage.changed()

        store.on_state = on_state
        self.job_store = usage.store = store
        if service.delete_all_messages_on_startup:
            await store.delete_all_jobs()
        await store.start()

    def say_what_is_stored(self, region: RegionBroker) -> None:
        """Tell in the log where the messages are and how many."""
        name = self._service.broker_name
        if self._given is None and self.directory is None:
            logger.info("Broker %s keeps its messages in memory", name)
            return
        there = region.destinations()
        stored = [there[d].statistics.messages for d in self.store.destinations() if d in there]
        logger.info(
            "Broker %s keeps its messages in %s: %d in %d destinations",
            name,
            self.directory or type(self._given).__name__,
            sum(stored),
            len(stored),
        )

    def _lock_lost(self) -> None:
        name = self._service.broker_name
        logger.error("Broker %s stops: another broker has taken its store", name)
        if self._stop is None or self._stop.done:
            self._service.restart_requested = self._service.restart_allowed
            self._stop = spawn(self._service.stop, name=f"broker {name} stop without its lock")

    def _progress(self, records: int, place: object) -> None:
        now = _clock.now()
        if now - self._last_progress >= PROGRESS_INTERVAL:
            self._last_progress = now
            name = self._service.broker_name
            logger.info("Broker %s reads its journal: %d records, at %s", name, records, place)

    async def leave_connectors_alone(self) -> None:
        """Start and stop no connectors any more, whatever the store does."""
        if self._watch is not None:
            await self._watch.close()

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
