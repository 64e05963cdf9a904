"""What adapters have in common: stores by destination, a directory with a lock, background work."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Final, Generic, NoReturn, TypeVar

from pyjms.errors import IllegalStateException, JMSException, ResourceAllocationException
from pyjms.jms.destination import Destination
from pyjms.runtime import clock as _clock
from pyjms.runtime.logging import get_logger
from pyjms_broker.store.api import StoreState
from pyjms_broker.store.files import SharedFileLock

logger = get_logger(__name__)

_Q = TypeVar("_Q")
_T = TypeVar("_T")


class DestinationStores(Generic[_Q, _T]):
    """The part of a persistence adapter that keeps one store for each destination.

    A subclass creates the stores. See PersistenceAdapter.
    """

    _queues: dict[Destination, _Q]
    _topics: dict[Destination, _T]

    def queue_message_store(self, destination: Destination, prioritized: bool = False) -> _Q:
        """Return the queue's store, creating it if needed.

        Raises:
            JMSException: it cannot be created.
        """
        store = self._queues.get(destination)
        if store is None:
            store = self._queues[destination] = self._new_queue(destination, prioritized)
        return store

    def topic_message_store(self, destination: Destination, prioritized: bool = False) -> _T:
        """Return the topic's store, creating it if needed; `prioritized` as for queues.

        Raises:
            JMSException: it cannot be created.
        """
        store = self._topics.get(destination)
        if store is None:
            store = self._topics[destination] = self._new_topic(destination, prioritized)
        return store

    @abstractmethod
    def _new_queue(self, destination: Destination, prioritized: bool) -> _Q:
        """Return a new store for a queue."""

    @abstractmethod
    def _new_topic(self, destination: Destination, prioritized: bool) -> _T:
        """Return a new store for a topic."""


class FileAdapter(ABC):
    """A persistence adapter with files in a directory that one broker at a time may open."""

    def __init__(
        self,
        directory: Path,
        *,
        use_lock: bool,
        fail_if_locked: bool,
        lock_acquire_sleep_interval: float,
    ) -> None:
        """Configure the lock; the interval is in seconds."""
        self.directory = directory
        self.on_state: Callable[[StoreState, Exception | None], None] | None = None
        self.on_lock_lost: Callable[[], None] | None = None
        """Called when the lock is lost: the broker must stop. (activemq-persistence H2)"""
        self._uses_lock = use_lock
        self._lock = SharedFileLock(directory / "lock", fail_if_locked, lock_acquire_sleep_interval)
        self.state = StoreState.RUNNING
        """The state of the store; with several stores, the worst of their states."""
        self._delete_all = False

    async def start(self) -> None:
        """Open the store, waiting for the lock while another broker holds it. Cancellable.

        Raises:
            ResourceAllocationException: it cannot be opened, or segments are missing.
                (activemq-persistence K23)
            JMSException: it cannot be opened.
        """
        if self._uses_lock:
            await self._lock.acquire()
        try:
            await self._open()
        except BaseException as error:
            await self._close()
            if isinstance(error, OSError):
                raise ResourceAllocationException(
                    f"Cannot open the store in {self.directory}: {error}"
                ) from error
            raise

    @abstractmethod
    async def _open(self) -> None:
        """Open the store; the lock has been acquired."""

    @abstractmethod
    async def _close(self) -> None:
        """Close everything that is open, and release the lock. Idempotent."""

    @property
    @abstractmethod
    def _is_open(self) -> bool: ...

    async def delete_all_messages(self) -> None:
        """Make the next `start` delete everything once it holds the lock.

        Raises:
            IllegalStateException: the store is started.
        """
        if self._is_open:
            raise IllegalStateException("The store is started: its messages cannot be deleted now")
        self._delete_all = True

    @property
    def is_slave(self) -> bool:
        """Whether it waits while another broker holds its lock. (activemq-persistence H4)"""
        return self._lock.slave

    def _report(self, state: StoreState, error: Exception | None) -> None:
        self.state = state
        if self.on_state is not None:
            self.on_state(state, error)

    def _lock_lost(self) -> None:
        if self.on_lock_lost is not None:
            self.on_lock_lost()


_EXPECTED: Final = (OSError, JMSException)


async def run_logged(work: Callable[[], Awaitable[object]], name: str) -> Exception | None:
    """Run `work`; log an error under `name` and return it. Cancellable.

    A failure loses nothing, because the journal has everything, but a store whose maintenance has
    ended would grow without bound.
    """
    error: Exception | None = None
    try:
        await work()
    except _EXPECTED as failure:
        error = failure
        logger.warning("%s failed: %s", name, error)
    except Exception as failure:
        error = failure
        logger.exception("%s failed", name)
    return error


async def run_every(interval: float, work: Callable[[], Awaitable[object]], name: str) -> NoReturn:
    """Run `work` every `interval` seconds until cancelled; errors are logged under `name`."""
    while True:
        await _clock.sleep(interval)
        await run_logged(work, name)
