"""How many consumers there are: the arithmetic of spring-jms 1.3 to 1.6, and who is at work.

The pool starts tasks, pauses what cannot run and adds a consumer when messages come. It
never waits itself, but for `wait_inactive`.
"""

from __future__ import annotations

import logging
import re
from typing import TYPE_CHECKING

import anyio

from pyjms import _clock
from pyjms.errors import ResourceAllocationException
from pyjms.listener.container.invoker import AsyncMessageListenerInvoker

if TYPE_CHECKING:
    from pyjms.listener.container.default import DefaultMessageListenerContainer

__all__ = ["InvokerPool", "parse_concurrency"]

logger = logging.getLogger(__name__)


def parse_concurrency(text: str) -> tuple[int | None, int]:
    """Return `(lower, upper)` of "3-5", `(None, 5)` of "5".

    Raises:
        ValueError: it is neither.
    """
    match = re.fullmatch(r"\s*(?:(\d+)\s*-\s*)?(\d+)\s*", text)
    if match is None:
        raise ValueError(
            f"Invalid concurrency value {text!r}: only single maximum integer (e.g. '5') "
            f"and minimum-maximum combo (e.g. '3-5') supported."
        )
    lower, upper = match.groups()
    return (None if lower is None else int(lower)), int(upper)


class InvokerPool:
    """The invokers of one container."""

    def __init__(self, container: DefaultMessageListenerContainer) -> None:
        self._container = container
        self._scheduled: dict[AsyncMessageListenerInvoker, None] = {}
        self._paused: dict[AsyncMessageListenerInvoker, None] = {}
        self._count = 0
        self._changed = anyio.Event()
        self.active = 0

    @property
    def scheduled(self) -> int:
        """All invokers, at work, waiting and paused."""
        return len(self._scheduled)

    @property
    def paused(self) -> int:
        """Invokers that wait for a start, or for the executor to take them."""
        return len(self._paused)

    def invokers(self) -> list[AsyncMessageListenerInvoker]:
        """A snapshot of all invokers."""
        return list(self._scheduled)

    def add(self) -> None:
        """Create one more invoker and give it to the executor, or pause it."""
        self._count += 1
        invoker = AsyncMessageListenerInvoker(self._container, self._count)
        self._scheduled[invoker] = None
        self._submit_or_pause(invoker)

    def remove(self, invoker: AsyncMessageListenerInvoker) -> None:
        """Forget an invoker that will not run again."""
        self._scheduled.pop(invoker, None)
        self._paused.pop(invoker, None)

    def pause(self, invoker: AsyncMessageListenerInvoker) -> None:
        """Keep an invoker for later."""
        self._paused[invoker] = None

    def drop_paused(self) -> list[AsyncMessageListenerInvoker]:
        """Forget the paused invokers, as the container shuts down, and return them."""
        dropped = list(self._paused)
        for invoker in dropped:
            self.remove(invoker)
        return dropped

    def resume_paused(self) -> None:
        """Give every paused invoker to the executor again; those it refuses stay paused."""
        for invoker in list(self._paused):
            del self._paused[invoker]
            self._submit_or_pause(invoker)

    def message_received(self, invoker: AsyncMessageListenerInvoker) -> None:
        """Mark `invoker` busy, resume paused ones, and add one if more are allowed and needed."""
        invoker.idle = False
        if self._paused:
            self.resume_paused()
        container = self._container
        if (
            len(self._scheduled) < container.max_concurrent_consumers
            and self.idle_count() < container.idle_consumer_limit
        ):
            self.add()

    def idle_count(self) -> int:
        """Invokers whose last receive was empty, or that had none yet."""
        return sum(invoker.idle for invoker in self._scheduled)

    def is_surplus(self) -> bool:
        """Whether a task that starts now belongs to an invoker over `concurrent_consumers`."""
        return len(self._scheduled) > self._container.concurrent_consumers

    def reschedule(self, invoker: AsyncMessageListenerInvoker) -> bool:
        """After a task has ended: give its invoker another one, or say that it is over."""
        container = self._container
        if invoker not in self._scheduled or not container.is_active:
            return False
        superfluous = (
            invoker.idle_task_executions >= container.idle_task_execution_limit
            and self.idle_count() > 1
        )
        allowed = (
            container.concurrent_consumers if superfluous else container.max_concurrent_consumers
        )
        if len(self._scheduled) > allowed:
            return False
        self._submit_or_pause(invoker)
        if container.is_running:
            self._warn_if_short()
        return True

    def entered(self) -> None:
        """A task begins to work."""
        self.active += 1

    def left(self) -> None:
        """A task has stopped working."""
        self.active -= 1
        if self.active == 0:
            changed, self._changed = self._changed, anyio.Event()
            changed.set()

    async def wait_inactive(self, seconds: float | None) -> bool:
        """Wait until no task works, at most `seconds` (None: for ever); say whether that is so."""
        with _clock.timeout(seconds):
            while self.active:
                await self._changed.wait()
        return self.active == 0

    def _submit_or_pause(self, invoker: AsyncMessageListenerInvoker) -> None:
        if not self._container.is_running:
            self._paused[invoker] = None
            return
        try:
            self._container.task_executor.execute(invoker.run, invoker.name, invoker.ended)
        except ResourceAllocationException as error:
            self._paused[invoker] = None
            logger.warning(
                "Listener container task [%s] has been rejected and paused: %s",
                invoker.name,
                error,
            )
        else:
            self.entered()

    def _warn_if_short(self) -> None:
        at_work = len(self._scheduled) - len(self._paused)
        if at_work < 1:
            logger.error(
                "All scheduled consumers have been paused, probably due to tasks having been "
                "rejected. Check your task executor's size! Manual recovery necessary through "
                "a start() call."
            )
        elif at_work < self._container.concurrent_consumers:
            logger.warning(
                "Number of scheduled consumers has dropped below concurrent_consumers limit, "
                "probably due to tasks having been rejected. Check your task executor's size! "
                "Automatic recovery to be triggered by remaining consumers."
            )
