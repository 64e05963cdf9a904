"""What a job store promises: messages to be sent later, by the time at which they are due.

The store keeps and finds jobs; it has no clock and fires nothing. Times are milliseconds since
1970, delays and periods milliseconds, as messages' properties and the journal have them. Calls
never wait: they return None when what they did is safe already, or a Completion. A job can be
found from the moment of its call on. (persistence E3, E4; ActiveMQ JobSchedulerStore)
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

from broker.completion import Completion
from broker.store.api import StoreState

if TYPE_CHECKING:
    from broker.store.jobs.scheduler import JobScheduler

__all__ = ["DEFAULT_SCHEDULER", "JobSchedulerStore", "ScheduledJob"]

DEFAULT_SCHEDULER: Final = "JMS"
"""The scheduler of the messages that clients delay."""


class ScheduledJob(NamedTuple):
    """A message that is to be sent later, without the message."""

    job_id: str
    start_time: int
    """When it was given."""
    next_time: int
    """When it is due."""
    cron_entry: str = ""
    """Five fields; empty if it has none."""
    delay: int = 0
    period: int = 0
    repeat: int = 0
    """How often it is to fire again after `next_time`; negative: for ever."""
    execution_count: int = 0
    """How often it has fired."""


class JobSchedulerStore(Protocol):
    """The schedulers of a broker. Open it with `start` before use."""

    on_state: Callable[[StoreState, Exception | None], None] | None
    """Called on the broker's loop when the state changes, with the error that made it."""

    async def start(self) -> None:
        """Open it; waits for its lock where another broker has it.

        Raises:
            JMSException: it cannot be opened.
        """

    async def stop(self) -> None:
        """Write what is not written and close it. Idempotent."""

    @property
    def state(self) -> StoreState: ...

    @property
    def size(self) -> int:
        """Bytes on the disk, or of the messages in memory."""

    def scheduler(self, name: str = DEFAULT_SCHEDULER) -> JobScheduler:
        """Return a scheduler; it is there as long as it has jobs."""

    def schedulers(self) -> list[str]:
        """Return the names of the schedulers that have jobs, sorted."""

    def remove_scheduler(self, name: str) -> Completion | None:
        """Forget a scheduler and its jobs."""

    async def checkpoint(self) -> None:
        """Bring what is only in the journal into the index, and let go of what is not needed."""

    async def delete_all_jobs(self) -> None:
        """Begin with nothing; before `start` only."""
