"""The stores of one broker: messages, non-persistent overflow, and scheduled jobs.

They are created and opened at each start: the message store first (which waits for its lock), then
the temp store, then the job store. Each stop closes them in reverse order.

How the broker reacts to a failure of a store: (activemq-persistence K24)

    RUNNING  --space or database missing-->  SUSPENDED  --available again-->  RUNNING
    any      --any other error----------->   FAILED (final)

While the store is SUSPENDED, senders wait; with `stop_start_connectors` the connectors are closed,
so that clients fail over to another broker. When the store has FAILED, the broker stops unless
`ignore_all_errors` is set. The store decides which state an error leads to.
"""

from __future__ import annotations

import signal
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Final, Protocol, TypeVar, runtime_checkable

from pyjms.errors import IllegalStateException
from pyjms.runtime import clock as _clock
from pyjms.runtime.event_loop import BackgroundTask, end_tasks, spawn
from pyjms.runtime.logging import get_logger
from pyjms.runtime.slices import Slices
from pyjms_broker.region.region_broker import RegionBroker, StoreCapabilities
from pyjms_broker.service.configuration import IOExceptionHandler
from pyjms_broker.store.api import PersistenceAdapter, StoreState
from pyjms_broker.store.damage import quarantined_files
from pyjms_broker.store.memory import MemoryPersistenceAdapter

if TYPE_CHECKING:
    from pyjms_broker.service.service import BrokerService
    from pyjms_broker.store.jobs.scheduler import JobSchedulerStore
    from pyjms_broker.store.temp import TempStore

logger = get_logger(__name__)

_T = TypeVar("_T")


def require_started(part: _T | None) -> _T:
    """Return a component that exists once the broker has started."""
    if part is None:
        raise IllegalStateException("Broker has not been started", hint="await broker.start()")
    return part


_RETRY_DELAY: Final = 1.0
"""Seconds until opening or closing connectors is retried."""
PROGRESS_INTERVAL: Final = 5.0
"""Seconds between log lines about a long replay."""


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
    """Creates, opens and closes the stores of a broker. Use it only on the broker's event loop."""

    def __init__(self, service: BrokerService) -> None:
        """Remember the broker, whose configuration is evaluated at each `open`."""
        self._service = service
        self._state = StoreState.RUNNING
        self._are_connectors_open = True
        self._connectors: BackgroundTask | None = None
        self._stop: BackgroundTask | None = None
        self.temp_store: TempStore | None = None
        """The store for non-persistent messages when memory is short; None: they stay in memory."""
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
        """Whether a store has failed permanently."""
        return any(
            store is not None and store.state is StoreState.FAILED
            for store in (self._store, self.job_store)
        )

    @property
    def is_slave(self) -> bool:
        """Whether the store waits for another broker's lock."""
        store: object = self._store
        return isinstance(store, LockedStore) and store.is_slave

    @property
    def directory(self) -> Path | None:
        """The message store's directory; None in memory, and with a custom adapter."""
        config = self._service
        name = None if config.persistence is None else config.persistence.directory_name
        if config.persistence_adapter is not None or not config.persistent or name is None:
            return None
        if config.store_directory is not None:
            return Path(config.store_directory)
        return self._broker_directory / name

    @property
    def broker_directory(self) -> Path | None:
        """Where the opened broker keeps its files; None in memory."""
        return None if self.temp_store is None else self._broker_directory

    @property
    def _broker_directory(self) -> Path:
        return Path(self._service.data_directory) / self._service.broker_name

    async def open(self) -> PersistenceAdapter:
        """Create the stores and open them, after waiting for the lock."""
        self._state, self._are_connectors_open, self._stop = StoreState.RUNNING, True, None
        config, directory = self._service, self.directory
        self.temp_store = self.job_store = None
        if config.persistence_adapter is not None:
            store = config.persistence_adapter
        elif config.persistence is None or not config.persistent:
            store = MemoryPersistenceAdapter()
        else:
            location = directory or self._broker_directory
            store = config.persistence.create(location, config.broker_name)
        self._store = store
        store.on_state = self._on_state
        if isinstance(store, LockedStore):
            store.on_lock_lost = config.on_lock_lost
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
            await self._open_job_store(is_volatile)
        return store

    async def _open_temp_store(self) -> None:
        # imported only when needed: an embedded broker in memory does not need it
        from pyjms_broker.store.temp import TempStore  # noqa: PLC0415

        store = TempStore(self._broker_directory / "tmp_storage")
        self.temp_store = store  # so that `close` closes it if its start fails
        await store.start()

    async def _open_job_store(self, is_volatile: bool) -> None:
        config, usage = self._service, self._service.system_usage.job_scheduler
        store: JobSchedulerStore
        if is_volatile:
            from pyjms_broker.store.jobs.scheduler import MemoryJobSchedulerStore  # noqa: PLC0415

            store = MemoryJobSchedulerStore()
            limits = (usage.limit, self._service.system_usage.memory.limit)
            usage.limit = min((limit for limit in limits if limit), default=0)
        else:
            from pyjms_broker.store.jobs.kahadb import KahaDBJobSchedulerStore  # noqa: PLC0415

            directory = config.scheduler_directory or self._broker_directory / "scheduler"
            store = KahaDBJobSchedulerStore(Path(directory))

        def job_store_state(state: StoreState, error: Exception | None) -> None:
            if state is StoreState.FAILED:
                self._on_state(state, error)
            usage.admit_waiting()

        store.on_state = job_store_state
        self.job_store = usage.store = store
        await store.start()

    async def log_contents(self, region: RegionBroker) -> None:
        """Log where the messages are stored and their number."""
        config = self._service
        if config.persistence_adapter is None and self.directory is None:
            logger.info("Broker %s keeps its messages in memory", config.broker_name)
            return
        present = region.destinations()
        slices = Slices()
        destinations = messages = 0
        for each in self.store.destinations():
            await slices.after_item()
            if each in present:
                destinations += 1
                messages += present[each].statistics.messages
        logger.info(
            "Broker %s keeps its messages in %s: %d in %d destinations",
            config.broker_name,
            self.directory or type(config.persistence_adapter).__name__,
            messages,
            destinations,
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
            name = self._service.broker_name
            logger.info("Broker %s replays its journal: %d records, at %s", name, records, location)

    async def stop_watching(self) -> None:
        """Stop opening and closing connectors, because the broker stops them."""
        await end_tasks(self._connectors)

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

    # failures
    def _on_state(self, state: StoreState, error: Exception | None) -> None:
        """React to a change of the store's state."""
        former, self._state = self._state, state
        name = self._service.broker_name
        if state is StoreState.FAILED:
            self._on_failure(name, error)
        elif state is StoreState.SUSPENDED:
            logger.error(
                "Broker %s: the store is suspended: %s. Senders wait, and it is retried until it "
                "works again",
                name,
                error,
            )
            self._open_or_close()
        elif former is StoreState.SUSPENDED:
            logger.warning("Broker %s: the store works again", name)
            self._open_or_close()

    @property
    def _handler(self) -> IOExceptionHandler:
        return self._service.io_exception_handler or IOExceptionHandler()

    def _on_failure(self, name: str, error: Exception | None) -> None:
        if self._handler.ignore_all_errors:
            logger.error(
                "Broker %s: the store failed, the broker keeps running without it: %s", name, error
            )
            return
        logger.error("Broker %s stops because its store failed: %s", name, error, exc_info=error)
        if self._stop is None:
            self._stop = spawn(self._stop_broker, name=f"broker {name} stop on a failed store")

    async def _stop_broker(self) -> None:
        try:
            await self._service.stop()
        finally:  # with a failed store, stopping may fail as well
            if self._handler.system_exit_on_shutdown:
                signal.raise_signal(signal.SIGTERM)

    def _open_or_close(self) -> None:
        if self._handler.stop_start_connectors and (
            self._connectors is None or self._connectors.done
        ):
            self._connectors = spawn(
                self._follow_state,
                name=f"broker {self._service.broker_name} connectors of its store",
            )

    async def _follow_state(self) -> None:
        """Open or close the connectors according to the store's state until both agree."""
        failed = False
        while failed or self._are_connectors_open is (self._state is StoreState.SUSPENDED):
            self._are_connectors_open = self._state is not StoreState.SUSPENDED
            name = self._service.broker_name
            done = "opened" if self._are_connectors_open else "closed"
            try:
                for connector in self._service.connectors:
                    await (connector.start() if self._are_connectors_open else connector.stop())
            except Exception as error:  # another program may be using the port temporarily
                failed = True
                logger.error(
                    "Broker %s: connectors could not be %s, retrying: %s", name, done, error
                )
                await _clock.sleep(_RETRY_DELAY)
            else:
                failed = False
                logger.warning("Broker %s: connectors %s", name, done)
