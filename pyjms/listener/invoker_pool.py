"""The number of consumers of a DefaultMessageListenerContainer.

Theory of operation (spring-jms 1.3 to 1.6, 1.8, 1.10)
------------------------------------------------------

An *invoker* is one consumer. It runs in *tasks*; between two tasks it may be rescheduled, paused
or removed. Three numbers describe the pool:

* `scheduled`: all invokers, active, waiting or paused;
* `paused`: those without a task, because the container does not run or the executor refused one;
* `active`: those whose task is active (a task is inactive while the container is stopped).

Invariants: paused <= scheduled; active <= scheduled - paused; 1 <= concurrent_consumers <=
max_concurrent_consumers. Both limits may change at any time and are read when they are needed.

*Growing.* Only the receipt of a message adds an invoker, at most one for each message: while
`scheduled` is below the maximum and fewer than `idle_consumer_limit` invokers are idle. An invoker
is idle from its creation, or from an empty receive, until it receives a message; it is *not* idle
just because its listener has returned. If the broker dispatches all messages to the first consumer,
the pool therefore stops growing at two invokers: the second one stays idle. That is Spring's
behaviour.

*Shrinking.* A surplus invoker (over `concurrent_consumers`) runs tasks that end after
`idle_receives_per_task_limit` empty receives. When a task ends idle, for the
`idle_task_execution_limit`-th time in a row, and another invoker is idle too, the pool may shrink
to `concurrent_consumers`; otherwise it may keep the maximum. An invoker above that number is not
rescheduled.

*Refusal.* A full executor raises ResourceAllocationException; the invoker is paused, and submitted
again when another invoker receives a message, or at the next `start`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Final

import anyio

from pyjms.errors import ResourceAllocationException
from pyjms.listener.delivery import ListenerExecution
from pyjms.listener.invoker import AsyncMessageListenerInvoker
from pyjms.listener.properties import DefaultContainerProperties
from pyjms.listener.resources import ContainerResources
from pyjms.runtime import clock as _clock
from pyjms.runtime.logging import get_logger

if TYPE_CHECKING:
    from pyjms.listener.container import LifeCycle
    from pyjms.listener.recovery import Recovery

logger: Final = get_logger(__name__)


class InvokerPool:
    """Starts the tasks of a container's invokers and decides how many invokers there are.

    Everything but the waits is synchronous and runs on the container's loop, so no lock is needed.
    """

    def __init__(
        self,
        properties: DefaultContainerProperties,
        life_cycle: LifeCycle,
        resources: ContainerResources,
        execution: ListenerExecution,
        recovery: Recovery,
        on_inactive: Callable[[], Awaitable[None]],
    ) -> None:
        """Keep what invokers use, and `on_inactive`.

        `on_inactive` is awaited whenever the last active task becomes inactive.
        """
        self.properties = properties
        self.life_cycle = life_cycle
        self.resources = resources
        self.execution = execution
        self.recovery = recovery
        self._on_inactive = on_inactive
        self._scheduled: dict[AsyncMessageListenerInvoker, None] = {}
        self._paused: dict[AsyncMessageListenerInvoker, None] = {}
        self._created = 0
        self._inactive = anyio.Event()
        self.active: int = 0

    @property
    def scheduled(self) -> int:
        """The number of all invokers, active, waiting and paused."""
        return len(self._scheduled)

    @property
    def paused(self) -> int:
        """The number of invokers that wait for a start, or for the executor to accept them."""
        return len(self._paused)

    def invokers(self) -> list[AsyncMessageListenerInvoker]:
        """Return a snapshot of all invokers."""
        return list(self._scheduled)

    def add(self) -> None:
        """Create one more invoker and submit it to the executor, or pause it."""
        self._created += 1
        invoker = AsyncMessageListenerInvoker(self, self.properties.task_name(self._created))
        self._scheduled[invoker] = None
        self._submit_or_pause(invoker)

    def remove(self, invoker: AsyncMessageListenerInvoker) -> None:
        """Remove an invoker that will not run again."""
        self._scheduled.pop(invoker, None)
        self._paused.pop(invoker, None)

    def pause(self, invoker: AsyncMessageListenerInvoker) -> None:
        """Keep an invoker without a task."""
        self._paused[invoker] = None

    def drop_paused(self) -> list[AsyncMessageListenerInvoker]:
        """Remove the paused invokers, as the container shuts down, and return them."""
        dropped = list(self._paused)
        for invoker in dropped:
            self.remove(invoker)
        return dropped

    def resume_paused(self) -> None:
        """Submit all paused invokers to the executor again; refused invokers stay paused."""
        for invoker in list(self._paused):
            del self._paused[invoker]
            self._submit_or_pause(invoker)

    def message_received(self) -> None:
        """Resume paused invokers, and add one if more are allowed and few are idle."""
        if self._paused:
            self.resume_paused()
        properties = self.properties
        if (
            len(self._scheduled) < properties.most_consumers
            and self.idle_count() < properties.idle_consumer_limit
        ):
            self.add()

    def grow(self) -> None:
        """Add invokers until there are `concurrent_consumers`."""
        while len(self._scheduled) < self.properties.least_consumers:
            self.add()

    def has_surplus(self) -> bool:
        """Return whether there are more invokers than `concurrent_consumers`."""
        return len(self._scheduled) > self.properties.least_consumers

    def exceeds_maximum(self) -> bool:
        """Return whether there are more invokers than a lowered `max_concurrent_consumers`."""
        return len(self._scheduled) > self.properties.most_consumers

    def reschedule(self, invoker: AsyncMessageListenerInvoker) -> bool:
        """Start another task of an invoker whose task has ended; False: it is no longer needed."""
        properties = self.properties
        if invoker not in self._scheduled or not self.life_cycle.active:
            return False
        superfluous = (
            invoker.idle_task_executions >= properties.idle_task_execution_limit
            and self.idle_count() > 1
        )
        allowed = properties.least_consumers if superfluous else properties.most_consumers
        if len(self._scheduled) > allowed:
            return False
        self._submit_or_pause(invoker)
        if self.life_cycle.running:
            self._warn_if_short()
        return True

    def enter(self) -> None:
        """Count a task that becomes active."""
        self.active += 1

    async def leave(self) -> None:
        """Count a task that becomes inactive."""
        self.active -= 1
        if self.active == 0:
            inactive, self._inactive = self._inactive, anyio.Event()
            inactive.set()
            await self._on_inactive()

    async def wait_inactive(self, seconds: float | None) -> bool:
        """Wait `seconds` (None: for ever) until no task is active; return whether none is."""
        with _clock.timeout(seconds):
            while self.active:
                await self._inactive.wait()
        return self.active == 0

    def idle_count(self) -> int:
        """Return the number of idle invokers."""
        return sum(invoker.idle for invoker in self._scheduled)

    def _submit_or_pause(self, invoker: AsyncMessageListenerInvoker) -> None:
        if not self.life_cycle.running:
            self._paused[invoker] = None
            return
        try:
            self.properties.task_executor.execute(invoker.run, invoker.name, invoker.task_ended)
        except ResourceAllocationException as error:
            self._paused[invoker] = None
            logger.warning(
                "Listener container task [%s] has been rejected and paused: %s",
                invoker.name,
                error,
            )
        else:
            self.enter()

    def _warn_if_short(self) -> None:
        at_work = len(self._scheduled) - len(self._paused)
        if at_work < 1:
            logger.error(
                "All scheduled consumers have been paused, probably due to tasks having been "
                "rejected. Check your task executor's size! Manual recovery necessary through "
                "a start() call."
            )
        elif at_work < self.properties.least_consumers:
            logger.warning(
                "Number of scheduled consumers has dropped below concurrent_consumers limit, "
                "probably due to tasks having been rejected. Check your task executor's size! "
                "Automatic recovery to be triggered by remaining consumers."
            )
