"""One consumer of a DefaultMessageListenerContainer: its tasks, its resources, its interruption.

Theory of operation (spring-jms 1.4, 1.10)
------------------------------------------

A task of an invoker loops: get resources, receive, handle. It ends by itself when a limit is
reached (`_TaskLimits`), when an error needs recovery, or when the container is stopped and the
invoker is surplus. An invoker without limits runs one *ongoing* task: while the container is
stopped that task waits, and is not counted as active.

*Interruption.* A stop, a shutdown or a removal must end waits at once: for a message, for a
connection, for the next attempt. It must not cancel the handling of a message, unless the timeout
of a shutdown has passed. So the task runs inside one cancel scope and sets `waiting` exactly while
it waits: `interrupt_wait` cancels the scope only then. Between receiving a message and handling it
there is no await, so an interruption either happens while `waiting` is set and no message has been
received, or it is too late: if a wait was cancelled and still returned a message (which arrived
before the cancellation took effect), the invoker is `interrupted`, and the receive cycle handles
the message in a separate scope, `shield`. A message that has been received is always handled.

*Threads.* `def` handlers run in the invoker's `Worker`, one thread for each consumer, so that a
slow handler does not delay other consumers. A thread cannot be cancelled: `interrupt` does not
touch a busy worker unless its thread may be abandoned.

*Commit and rollback* belong to `ListenerExecution`; an invoker sees only errors that may mean a
lost connection, and passes them on to `Recovery`. *Fairness.* A full prefetch buffer and a handler
that never waits would monopolise the loop, so the task yields from time to time.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import anyio
from anyio.lowlevel import checkpoint

from pyjms._logger import get_logger
from pyjms.core.closing import close_quietly
from pyjms.core.workers import Worker
from pyjms.enums import CacheLevel
from pyjms.jms.api import MessageConsumer, Session
from pyjms.listener.container.default_properties import DefaultContainerProperties
from pyjms.listener.container.delivery import Delivery, log_abandoned
from pyjms.listener.container.receiving import ReceiveCycle
from pyjms.listener.container.recovery import FailureRecord, Recovery
from pyjms.listener.container.scaling import InvokerPool
from pyjms.listener.container.state import LifeCycle

__all__ = ["AsyncMessageListenerInvoker"]

logger: Final = get_logger(__name__)

_RECEIVES_PER_YIELD = 16
"""Messages after which a task yields: a handler that never waits must not starve the loop."""


class AsyncMessageListenerInvoker:
    """Receives and handles, one message at a time. Spring: AsyncMessageListenerInvoker."""

    def __init__(
        self,
        name: str,
        *,
        properties: DefaultContainerProperties,
        life_cycle: LifeCycle,
        pool: InvokerPool[AsyncMessageListenerInvoker],
        cycle: ReceiveCycle,
        recovery: Recovery,
    ) -> None:
        self.name = name
        self.idle: bool = True
        self.idle_task_executions: int = 0
        self.session: Session | None = None
        self.consumer: MessageConsumer | None = None
        self.worker: Worker = Worker(name, properties.bean_name)
        self.waiting: bool = False
        self.delivery: Delivery | None = None
        self._properties = properties
        self._life_cycle = life_cycle
        self._pool = pool
        self._cycle = cycle
        self._recovery = recovery
        self._failures = FailureRecord(name)
        self._task_was_idle = True
        self._task_was_killed = False
        self._scope = anyio.CancelScope()

    async def run(self) -> None:
        """Run one task: receive and handle until a limit, a failure or a stop ends it."""
        self._task_was_idle = True
        self._task_was_killed = True
        try:
            self._task_was_idle = await self._run_task()
        except Exception as error:
            await self._recover(error)
        self._task_was_killed = False

    async def task_ended(self) -> None:
        """Decide what follows a task: another task, a pause, or the end of this consumer."""
        with anyio.CancelScope(shield=True):
            self.idle_task_executions = self.idle_task_executions + 1 if self._task_was_idle else 0
            if self._task_was_killed and self._life_cycle.running:
                # cancelled, but not by the container: another task could be cancelled, too
                logger.error("Consumer %s was cancelled from outside and is paused", self.name)
                await self.clear_resources()
                self._pool.pause(self)
            elif not self._pool.reschedule(self):
                self._pool.remove(self)
                await self.clear_resources()
                self.worker.close()
            await self._pool.leave()

    def message_received(self) -> None:
        """Count a message that has just been received; the wait is over. The pool may grow."""
        self.waiting = False
        self.idle = False
        self._pool.message_received()

    def interrupt_wait(self) -> None:
        """Cancel a wait for a message, a connection or a retry, but not a message's handling."""
        if self.waiting:
            self._scope.cancel()

    def interrupt(self, *, abandon_threads: bool) -> None:
        """Cancel the running task; abandon a handler in a thread only with `abandon_threads`."""
        if not abandon_threads and self.worker.busy:
            return
        if self.delivery is not None and not self._scope.cancel_called:
            log_abandoned(logger, self._properties, self.delivery)
        self._scope.cancel()

    async def clear_resources(self) -> None:
        """Close the cached consumer and session, if there are any."""
        consumer, session = self.consumer, self.session
        self.consumer = self.session = None
        await close_quietly(consumer, session)

    @property
    def interrupted(self) -> bool:
        """Whether a stop has cancelled the wait while a message arrived."""
        return self._scope.cancel_called

    @contextmanager
    def shield(self) -> Iterator[None]:
        """Handle the message in a new scope, as the interruption has cancelled the task's scope.

        A message that has been received is always handled.
        """
        outer = self._scope
        try:
            with anyio.CancelScope(shield=True) as self._scope:
                yield
        finally:
            self._scope = outer

    async def _run_task(self) -> bool:
        messages = self._properties.message_limit
        idle_receives = self._properties.idle_receive_limit
        ongoing = messages is None and (not self._pool.has_surplus() or idle_receives is None)
        limits = _TaskLimits(None, None) if ongoing else _TaskLimits(messages, idle_receives)
        while await (self._wait_for_start() if ongoing else self._may_continue(limits)):
            with anyio.CancelScope() as self._scope:
                await self._loop(limits, ongoing=ongoing)
            if ongoing and self._pool.exceeds_maximum():
                break
        return limits.idle

    async def _loop(self, limits: _TaskLimits, *, ongoing: bool) -> None:
        life_cycle, failures = self._life_cycle, self._failures
        exceeds_maximum = self._pool.exceeds_maximum
        receive = self._cycle.receive_and_execute
        receives = 0
        while life_cycle.running and not limits.reached:
            if ongoing and exceeds_maximum():
                return
            if self.consumer is None:
                await self._prepare_resources()
            limits.count(received=await receive(self))
            if failures.failed:
                failures.reset()
            receives += 1
            if receives % _RECEIVES_PER_YIELD == 0:
                await checkpoint()

    async def _wait_for_start(self) -> bool:
        if self._life_cycle.paused:
            with anyio.CancelScope(shield=True):
                await self._pool.leave()
            try:
                await self._life_cycle.wait_while_paused()
            finally:
                self._pool.enter()
        return self._life_cycle.active

    async def _may_continue(self, limits: _TaskLimits) -> bool:
        return self._life_cycle.running and not limits.reached

    async def _prepare_resources(self) -> None:
        """Wait for a recovery in progress, then create the resources to cache."""
        level = self._properties.cache_level
        if level < CacheLevel.SESSION:
            await self._recovery.join(self._failures)
            return
        self.waiting = True
        try:
            await self._recovery.join(self._failures)
            if self.session is None:
                self.session = await self._cycle.create_session()
            if level >= CacheLevel.CONSUMER:
                self.consumer = await self._cycle.create_consumer(self.session)
        finally:
            self.waiting = False

    async def _recover(self, error: Exception) -> None:
        await self.clear_resources()
        with anyio.CancelScope() as self._scope:
            self.waiting = True
            try:
                if not await self._recovery.recover(self._failures, error):
                    self._pool.remove(self)
            finally:
                self.waiting = False


class _TaskLimits:
    """The limits of a task: a number of receives, or a number of empty receives in a row."""

    __slots__ = ("_idle_left", "_idle_limit", "_left", "reached", "received")

    # If only empty receives end a task, a task that they end is idle, even if it has received
    # messages before (spring-jms 1.6.1); if receives are counted, all must have been empty (1.4.5).

    def __init__(self, messages: int | None, idle_receives: int | None) -> None:
        self._left = -1 if messages is None else messages
        self._idle_limit = -1 if idle_receives is None else idle_receives
        self._idle_left = self._idle_limit
        self.received = False
        self.reached = False

    @property
    def idle(self) -> bool:
        """Whether the task that ends now counts as idle."""
        return not self.received or (self._left < 0 and self._idle_left == 0)

    def count(self, *, received: bool) -> None:
        self._left -= 1
        if received:
            self.received = True
            self._idle_left = self._idle_limit
        else:
            self._idle_left -= 1
        self.reached = self._left == 0 or self._idle_left == 0
