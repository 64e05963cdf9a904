"""The jobs of a broker without persistence: gone when it stops. (persistence E1)"""

from __future__ import annotations

import itertools
from collections.abc import Callable

from broker.completion import Completion
from broker.store.api import StoreState
from broker.store.jobs.api import DEFAULT_SCHEDULER
from broker.store.jobs.index import JobIndex
from broker.store.jobs.scheduler import JobScheduler, apply
from pyjms.wire.kahadb.commands import KahaAddScheduledJobCommand, KahaDestroySchedulerCommand
from pyjms.wire.kahadb.journal import Location
from pyjms.wire.kahadb.structures import KahaCommand

__all__ = ["MemoryJobSchedulerStore"]

_KEPT_ANYWAY = 1000
"""Messages of jobs that are gone are looked for only beyond that many."""


class MemoryJobSchedulerStore:
    """Source: ActiveMQ InMemoryJobSchedulerStore."""

    def __init__(self) -> None:
        self.on_state: Callable[[StoreState, Exception | None], None] | None = None
        self.state = StoreState.RUNNING
        self.size = 0
        """Nothing is on the disk."""
        self.index = JobIndex(None)
        self._frames: dict[Location, bytes] = {}
        self._most_frames = _KEPT_ANYWAY
        self._numbers = itertools.count(1)

    async def start(self) -> None:
        """Nothing to open."""

    async def stop(self) -> None:
        await self.delete_all_jobs()

    def scheduler(self, name: str = DEFAULT_SCHEDULER) -> JobScheduler:
        return JobScheduler(name, self)

    def schedulers(self) -> list[str]:
        return self.index.schedulers()

    def remove_scheduler(self, name: str) -> Completion | None:
        return self.record(KahaDestroySchedulerCommand(name), sync=False)

    async def checkpoint(self) -> None:
        """Nothing to do: memory is as safe as it will be."""

    async def delete_all_jobs(self) -> None:
        self.index.clear()
        self._frames.clear()

    # For schedulers.

    def record(self, command: KahaCommand, *, sync: bool) -> Completion | None:
        """Do what the command says; it is as safe as it will be at once."""
        location = Location(0, next(self._numbers))
        if isinstance(command, KahaAddScheduledJobCommand):
            self._frames[location] = command.payload
        apply(self.index, command, location, 1)
        self._forget_frames()
        return None

    def frame(self, location: Location) -> bytes:
        """Return the message of the job that was given as `location`."""
        return self._frames[location]

    def _forget_frames(self) -> None:
        """Let go of removed jobs' messages, once they are more than the others."""
        if len(self._frames) > self._most_frames:
            kept = {p.location for p in self.index.in_files_to(0, len(self._frames))}
            self._frames = {at: frame for at, frame in self._frames.items() if at in kept}
            self._most_frames = max(_KEPT_ANYWAY, 2 * len(kept))
