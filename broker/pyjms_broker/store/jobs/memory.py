"""The job store of a broker without persistence: its jobs are lost when it stops.

(activemq-persistence E1)
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Final

from pyjms.wire.kahadb.commands import (
    KahaAddScheduledJobCommand,
    KahaDestroySchedulerCommand,
    KahaRemoveScheduledJobCommand,
    KahaRemoveScheduledJobsCommand,
)
from pyjms.wire.kahadb.journal import Location
from pyjms.wire.kahadb.structures import KahaCommand
from pyjms_broker.api.completion import COMPLETED, Completion
from pyjms_broker.store.api import StoreState
from pyjms_broker.store.jobs.index import JobIndex
from pyjms_broker.store.jobs.scheduler import JournaledSchedulers, apply

__all__ = ["MemoryJobSchedulerStore"]

_SINGLE_JOB_COMMANDS: Final = (KahaAddScheduledJobCommand, KahaRemoveScheduledJobCommand)
_MULTI_JOB_COMMANDS: Final = (KahaRemoveScheduledJobsCommand, KahaDestroySchedulerCommand)


class MemoryJobSchedulerStore(JournaledSchedulers):
    """A job store in memory.

    Source: ActiveMQ InMemoryJobSchedulerStore.
    """

    def __init__(self) -> None:
        self.on_state: Callable[[StoreState, Exception | None], None] | None = None
        self.state = StoreState.RUNNING
        self.size = 0
        """The size of the jobs' messages in bytes."""
        self.index = JobIndex(None)
        self._frames: dict[Location, bytes] = {}
        self._numbers = itertools.count(1)

    async def start(self) -> None:
        """Do nothing: there is nothing to open."""

    async def stop(self) -> None:
        await self.delete_all_jobs()

    async def checkpoint(self) -> None:
        """Do nothing: changes in memory cannot be made more durable."""

    async def delete_all_jobs(self) -> None:
        self.index.clear()
        self._frames.clear()
        self.size = 0

    # -- JobLog

    def record(self, command: KahaCommand, *, sync: bool) -> Completion:
        """Apply the command to the index; completed at once."""
        location = Location(0, next(self._numbers))
        if isinstance(command, _SINGLE_JOB_COMMANDS):
            entry = self.index.get(command.scheduler, command.job_id)
            if entry is not None:
                self._discard_frame(entry.location)
        if isinstance(command, KahaAddScheduledJobCommand):
            self._frames[location] = command.payload
            self.size += len(command.payload)
        apply(self.index, command, location, 1)
        if isinstance(command, _MULTI_JOB_COMMANDS):
            kept = {entry.location for entry in self.index.in_segments_up_to(0, len(self._frames))}
            for removed in self._frames.keys() - kept:
                self._discard_frame(removed)
        return COMPLETED

    def frame(self, location: Location) -> bytes:
        """Return the marshalled message of the job that `record` stored at `location`."""
        return self._frames[location]

    def _discard_frame(self, location: Location) -> None:
        self.size -= len(self._frames.pop(location))
