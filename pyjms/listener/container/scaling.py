"""The invokers of a container: how many there are, and which of them are active.

Theory of operation (spring-jms 1.3 to 1.6)
-------------------------------------------

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
rescheduled. Invokers that are not surplus run one endless task if receives are not limited.

*Refusal.* A full executor raises ResourceAllocationException; the invoker is paused, and submitted
again when another invoker receives a message, or at the next `start`.

Everything here is synchronous and runs on the container's loop, so no lock is needed; only
`wait_inactive` and the callback for an inactive pool wait.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final, Generic, Protocol, TypeVar

import anyio

from pyjms import _clock
from pyjms._logger import get_logger
from pyjms.errors import ResourceAllocationException
from pyjms.listener.container.default_properties import DefaultContainerProperties
from pyjms.listener.container.state import LifeCycle

__all__ = ["InvokerPool", "PooledInvoker", "check_range"]

logger: Final = get_logger(__name__)


class PooledInvoker(Protocol):
    """The pool's view of an invoker."""

    name: str
    idle: bool
    """Whether the last receive was empty, or no receive has ended yet."""
    idle_task_executions: int
    """The number of idle tasks in a row."""

    async def run(self) -> None:
        """Run one task to its end."""

    async def task_ended(self) -> None:
        """Decide what follows a task: another task, a pause, or the end of the invoker."""


InvokerT = TypeVar("InvokerT", bound=PooledInvoker)


class InvokerPool(Generic[InvokerT]):
    """Starts the tasks of a container's invokers and decides how many invokers there are."""

    def __init__(
        self,
        properties: DefaultContainerProperties,
        life_cycle: LifeCycle,
        create: Callable[[str], InvokerT],
        on_inactive: Callable[[], Awaitable[None]],
    ) -> None:
        """Keep `create`, which returns a new invoker for a name, and `on_inactive`.

        `on_inactive` is awaited whenever the last active task becomes inactive.
        """
        self._properties = properties
        self._life_cycle = life_cycle
        self._create = create
        self._on_inactive = on_inactive
        self._scheduled: dict[InvokerT, None] = {}
        self._paused: dict[InvokerT, None] = {}
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

    def invokers(self) -> list[InvokerT]:
        """Return a snapshot of all invokers."""
        return list(self._scheduled)

    def add(self) -> None:
        """Create one more invoker and submit it to the executor, or pause it."""
        self._created += 1
        invoker = self._create(self._properties.task_name(self._created))
        self._scheduled[invoker] = None
        self._submit_or_pause(invoker)

    def remove(self, invoker: InvokerT) -> None:
        """Remove an invoker that will not run again."""
        self._scheduled.pop(invoker, None)
        self._paused.pop(invoker, None)

    def pause(self, invoker: InvokerT) -> None:
        """Keep an invoker without a task."""
        self._paused[invoker] = None

    def drop_paused(self) -> list[InvokerT]:
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
        properties = self._properties
        if (
            len(self._scheduled) < properties.max_concurrent_consumers
            and self.idle_count() < properties.idle_consumer_limit
        ):
            self.add()

    def grow(self) -> None:
        """Add invokers until there are `concurrent_consumers`."""
        while len(self._scheduled) < self._properties.concurrent_consumers:
            self.add()

    def idle_count(self) -> int:
        """Return the number of idle invokers."""
        return sum(invoker.idle for invoker in self._scheduled)

    def has_surplus(self) -> bool:
        """Return whether there are more invokers than `concurrent_consumers`."""
        return len(self._scheduled) > self._properties.concurrent_consumers

    def exceeds_maximum(self) -> bool:
        """Return whether there are more invokers than a lowered `max_concurrent_consumers`."""
        return len(self._scheduled) > self._properties.max_concurrent_consumers

    def reschedule(self, invoker: InvokerT) -> bool:
        """Start another task of an invoker whose task has ended; False: it is no longer needed."""
        properties = self._properties
        if invoker not in self._scheduled or not self._life_cycle.active:
            return False
        superfluous = (
            invoker.idle_task_executions >= properties.idle_task_execution_limit
            and self.idle_count() > 1
        )
        allowed = (
            properties.concurrent_consumers if superfluous else properties.max_concurrent_consumers
        )
        if len(self._scheduled) > allowed:
            return False
        self._submit_or_pause(invoker)
        if self._life_cycle.running:
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

    def _submit_or_pause(self, invoker: InvokerT) -> None:
        if not self._life_cycle.running:
            self._paused[invoker] = None
            return
        try:
            self._properties.task_executor.execute(invoker.run, invoker.name, invoker.task_ended)
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
        elif at_work < self._properties.concurrent_consumers:
            logger.warning(
                "Number of scheduled consumers has dropped below concurrent_consumers limit, "
                "probably due to tasks having been rejected. Check your task executor's size! "
                "Automatic recovery to be triggered by remaining consumers."
            )


def check_range(lower: int, upper: int | None, *, durable: bool) -> int:
    """Return the largest number of consumers, `lower` if `upper` is None.

    Raises:
        ValueError: no container can have so many consumers.
    """
    most = lower if upper is None else upper
    if not 1 <= lower <= most:
        raise ValueError(f"Consumers: {lower} to {most} is not a range; write 1 <= lower <= upper")
    if durable and most > 1:
        raise ValueError(
            f"A durable subscription has one consumer, not {most}; the queue of a "
            "virtual topic (Consumer.NAME.VirtualTopic.X) can have any number"
        )
    return most
