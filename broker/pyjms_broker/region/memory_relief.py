"""Messages that leave memory while it is short, because their store has them.

Theory of operation
-------------------

    memory                       what happens
    ===========================  ================================================================
    below the policy's mark      nothing
    above the mark               the bodies of stored messages that are in flight, or were returned
                                 by a consumer, leave memory; new messages stay in their stores
    full, so that senders would  the bodies of all other stored messages leave memory, too
    wait

The mark is `cursor_memory_high_water_mark` percent of the destination's or of the broker's limit.
Only the reference stays, which counts 1 KiB; `MessageReference.message` reads the message again
when it is dispatched again, dead-lettered or browsed. A consumer that does not acknowledge
therefore holds at most the mark. ActiveMQ keeps such bodies, and stops dispatching instead.

A turn costs time for each message in memory. That is why it comes only after a twentieth of the
limit was used since the last one, or some time has passed. While senders wait, it is repeated.
(activemq-broker M8, M12, M14)
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final, Protocol

from pyjms.runtime import clock as _clock
from pyjms.runtime import event_loop
from pyjms_broker.api.usage import MemoryUsage

_GROWTH: Final = 20
"""The part of the limit that must have been used since the last turn: one twentieth."""
_PERIOD: Final = 1.0
"""Seconds after which a turn is worth while again, whatever was used."""
_SPARE: Final = 20.0
"""A turn takes at most one in so many parts of the time."""


class Holder(Protocol):
    """Has messages in memory: a queue or a durable subscription."""

    def leave_memory(self, *, is_full: bool) -> None:
        """Make stored messages leave memory: those in flight or returned; `is_full`: all."""


class MemoryRelief:
    """Frees memory of one broker."""

    def __init__(self, memory: MemoryUsage, holders: Callable[[], Iterable[Holder]]) -> None:
        self._memory = memory
        self._holders = holders
        self._is_running = False
        self._was_full = False
        self._period = _PERIOD
        self._task: event_loop.BackgroundTask | None = None

    def relieve(
        self, memory: MemoryUsage, holders: Iterable[Holder], *, is_full: bool = False
    ) -> None:
        """Free memory for a destination, of it if its own limit is near, and of all of them."""
        if memory.limit and memory.used * 100 >= memory.limit * memory.mark:
            self._relieve(memory, holders, is_full=is_full)
        root = self._memory
        if memory.parent is root and root.is_above(memory.mark):
            self._relieve(root, None, is_full=is_full)

    def _relieve(
        self, usage: MemoryUsage, holders: Iterable[Holder] | None, *, is_full: bool
    ) -> None:
        start = _clock.now()
        grown = usage.used - usage.relieved_used
        is_recent = start - usage.relieved_time < self._period
        is_repeated = is_recent and self._was_full >= is_full
        if self._is_running or (grown * _GROWTH < usage.limit and is_repeated):
            return
        self._is_running = True
        try:
            for holder in tuple(self._holders() if holders is None else holders):
                holder.leave_memory(is_full=is_full)
        finally:
            self._is_running = False
        self._was_full = is_full
        usage.relieved_used, usage.relieved_time = usage.used, _clock.now()
        self._period = max(_PERIOD, _SPARE * (usage.relieved_time - start))

    def repeat(self) -> None:
        """Free memory again and again, as long as senders wait, if any store has messages."""
        if self._task is None and any(True for _ in self._holders()):
            self._task = event_loop.spawn(self._repeat, name="memory for waiting senders")

    async def _repeat(self) -> None:
        while any(usage.has_waiting for usage in self._memory.waiting_descendants):
            await _clock.sleep(self._period)
            self._relieve(self._memory, None, is_full=True)
        self._task = None

    async def close(self) -> None:
        """Stop repeating. Idempotent."""
        task, self._task = self._task, None
        await event_loop.end_tasks(task)
