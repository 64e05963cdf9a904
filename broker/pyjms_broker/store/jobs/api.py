"""The contract of job stores, which keep messages to be sent later, ordered by due time.

A job store only stores and finds jobs; the clock and the dispatch are the broker's scheduler's.
Times are milliseconds since 1970, delays and periods are milliseconds, as in the messages'
properties and in the journal.

Call the methods on the broker's loop; they never wait. Those that change something return a
`Completion`, `COMPLETED` if the change is already durable. A change is visible to the next call,
before it is durable. (activemq-persistence E3, E4; ActiveMQ JobSchedulerStore, JobScheduler)
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final, NamedTuple, Protocol

from pyjms.wire.openwire.commands import ActiveMQMessage
from pyjms_broker.api.completion import Completion
from pyjms_broker.store.api import StoreState

__all__ = [
    "DEFAULT_SCHEDULER",
    "EARLIEST",
    "LATEST",
    "JobScheduler",
    "JobSchedulerStore",
    "ScheduledJob",
]

DEFAULT_SCHEDULER: Final = "JMS"
"""The name of the scheduler for messages delayed by clients."""
EARLIEST: Final = 0
LATEST: Final = (1 << 63) - 1
"""The range of times that the journal can represent."""


class ScheduledJob(NamedTuple):
    """The schedule and state of a message to be sent later, without the message."""

    job_id: str
    start_time: int
    """The time at which it was added."""
    next_time: int
    """The time at which it is due."""
    cron_entry: str = ""
    """A cron entry of five fields; empty if there is none."""
    delay: int = 0
    period: int = 0
    repeat: int = 0
    """The number of repetitions after `next_time`; negative: unlimited."""
    execution_count: int = 0
    """The number of times it was sent."""


class JobScheduler(Protocol):
    """The jobs under one scheduler name; returned by a `JobSchedulerStore`.

    Source: ActiveMQ JobScheduler, without its clock.
    """

    name: str

    def __len__(self) -> int:
        """Return the number of jobs."""

    @property
    def next_time(self) -> int | None:
        """The due time of the first job; None if there is none."""

    def add(self, job: ScheduledJob, message: ActiveMQMessage) -> Completion:
        """Store a job, replacing one with the same id; completed when it is durable.

        Raises:
            LocalProtocolError: the message cannot be marshalled, or a number is too large.
        """

    def reschedule(self, job_id: str, next_time: int) -> Completion:
        """Record that a job was sent, and its next due time; this uses up one repetition.

        Call it once the message is durable in its destination, so that a crash in between can
        only duplicate the message, not lose it. An unknown job is ignored.
        """

    def remove(self, job_id: str, *, sync: bool = False) -> Completion:
        """Remove a job; an unknown one is ignored. Completed when written (`sync`: synced)."""

    def remove_range(self, start: int = EARLIEST, end: int = LATEST) -> Completion:
        """Remove the jobs due from `start` to `end` inclusive; by default all."""

    def get(self, job_id: str) -> ScheduledJob | None:
        """Return a job, or None."""

    def message(self, job_id: str) -> ActiveMQMessage | None:
        """Return a job's message as it was added, or None if there is no such job. May block.

        Raises:
            JMSException: it cannot be read.
        """

    def due(self, now: int, limit: int = 100) -> list[ScheduledJob]:
        """Return at most `limit` due jobs, ordered by due time."""

    def jobs(self, start: int = EARLIEST, end: int = LATEST) -> Iterator[ScheduledJob]:
        """Iterate over the jobs due from `start` to `end` inclusive, ordered by due time.

        Jobs are read page by page: those added or removed meanwhile may or may not be included.
        """


class JobSchedulerStore(Protocol):
    """The schedulers of a broker. Call `start` before use."""

    on_state: Callable[[StoreState, Exception | None], None] | None
    """Called on the broker's loop when the state changes, with the error that caused it."""

    async def start(self) -> None:
        """Open the store, waiting for its lock while another broker holds it. Cancellable.

        Raises:
            JMSException: it cannot be opened.
        """

    async def stop(self) -> None:
        """Write everything and close the store. Idempotent."""

    @property
    def state(self) -> StoreState: ...

    @property
    def size(self) -> int:
        """The size on disk, or of the messages in memory, in bytes."""

    def scheduler(self, name: str = DEFAULT_SCHEDULER) -> JobScheduler:
        """Return a scheduler; a scheduler exists as long as it has jobs."""

    def schedulers(self) -> list[str]:
        """Return the names of the schedulers that have jobs, sorted."""

    def remove_scheduler(self, name: str) -> Completion:
        """Remove a scheduler and its jobs."""

    async def checkpoint(self) -> None:
        """Bring the index on disk up to date with the journal."""

    async def delete_all_jobs(self) -> None:
        """Make the next `start` begin with an empty store; call it only before `start`."""
