"""The contract of job stores: messages to be sent later, ordered by the time they are due.

A job store keeps jobs and finds them; it has no clock and dispatches nothing: the broker's
scheduler does. Times are milliseconds since 1970, delays and periods milliseconds, as messages'
properties and the journal have them.

Calls belong to the broker's loop and never wait. Those that change something return a
`Completion`, `COMPLETED` if the change is durable already. A change is visible to the next call,
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
"""The scheduler of the messages that clients delay."""
EARLIEST: Final = 0
LATEST: Final = (1 << 63) - 1
"""The range of times that the journal can hold."""


class ScheduledJob(NamedTuple):
    """A message that is to be sent later, without the message."""

    job_id: str
    start_time: int
    """When it was added."""
    next_time: int
    """When it is due."""
    cron_entry: str = ""
    """Five fields; empty if it has none."""
    delay: int = 0
    period: int = 0
    repeat: int = 0
    """How often it is to be sent again after `next_time`; negative: for ever."""
    execution_count: int = 0
    """How often it was sent."""


class JobScheduler(Protocol):
    """The jobs under one scheduler name; get it from a `JobSchedulerStore`.

    Source: ActiveMQ JobScheduler, without its clock.
    """

    name: str

    def __len__(self) -> int:
        """Return how many jobs it has."""

    @property
    def next_time(self) -> int | None:
        """When the first job is due; None if there is none."""

    def add(self, job: ScheduledJob, message: ActiveMQMessage) -> Completion:
        """Store a job, replacing one with the same id; complete when it is durable.

        Raises:
            LocalProtocolError: the message cannot be marshalled, or a number is too large.
        """

    def reschedule(self, job_id: str, next_time: int) -> Completion:
        """Note that a job was sent, and when it is due again; one repetition is used up.

        To be called after its message is safe in its destination: a crash in between repeats
        the message and loses none. An unknown job is ignored.
        """

    def remove(self, job_id: str, *, sync: bool = False) -> Completion:
        """Remove a job; an unknown one is ignored. Complete when written, or synced."""

    def remove_range(self, start: int = EARLIEST, end: int = LATEST) -> Completion:
        """Remove the jobs due from `start` to `end`, both included; by default all."""

    def get(self, job_id: str) -> ScheduledJob | None:
        """Return a job, or None."""

    def message(self, job_id: str) -> ActiveMQMessage | None:
        """Return a job's message as it was added, or None if there is no such job. May block.

        Raises:
            JMSException: it cannot be read.
        """

    def due(self, now: int, limit: int = 100) -> list[ScheduledJob]:
        """Return at most `limit` jobs that are due, in the order of their times."""

    def jobs(self, start: int = EARLIEST, end: int = LATEST) -> Iterator[ScheduledJob]:
        """Iterate over the jobs due from `start` to `end`, in the order of their times.

        A page is read at a time: jobs added or removed meanwhile may be seen or not.
        """


class JobSchedulerStore(Protocol):
    """The schedulers of a broker. `start` it before use."""

    on_state: Callable[[StoreState, Exception | None], None] | None
    """Called on the broker's loop when the state changes, with the error that caused it."""

    async def start(self) -> None:
        """Open the store; waits for its lock while another broker holds it. Cancellable.

        Raises:
            JMSException: it cannot be opened.
        """

    async def stop(self) -> None:
        """Write everything and close the store. Idempotent."""

    @property
    def state(self) -> StoreState: ...

    @property
    def size(self) -> int:
        """Bytes on the disk, or of the messages in memory."""

    def scheduler(self, name: str = DEFAULT_SCHEDULER) -> JobScheduler:
        """Return a scheduler; it exists as long as it has jobs."""

    def schedulers(self) -> list[str]:
        """Return the names of the schedulers that have jobs, sorted."""

    def remove_scheduler(self, name: str) -> Completion:
        """Remove a scheduler and its jobs."""

    async def checkpoint(self) -> None:
        """Bring the index on the disk up to the journal."""

    async def delete_all_jobs(self) -> None:
        """Have the next `start` begin with an empty store; only before `start`."""
