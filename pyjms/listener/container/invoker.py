"""One consumer of a DefaultMessageListenerContainer: its task, what it keeps, how it is stopped.

A task goes round: receive, handle. Its wait for a message may be cut short at any time
(a stop, a shutdown); handling may not, unless a shutdown has run out of patience. So the
task runs inside one cancel scope, and says when it is in a wait.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

import anyio
from anyio.lowlevel import checkpoint

from pyjms.enums import CacheLevel
from pyjms.jms.api import MessageConsumer, Session
from pyjms.listener.backoff import BackOffExecution
from pyjms.listener.container.resources import close_quietly
from pyjms.listener.workers import Worker

if TYPE_CHECKING:
    from pyjms.listener.container.default import DefaultMessageListenerContainer

__all__ = ["AsyncMessageListenerInvoker"]

logger = logging.getLogger(__name__)

_TURNS_PER_YIELD = 16
"""A full buffer and a handler that never waits must not starve the loop."""


class AsyncMessageListenerInvoker:
    """Receives and handles, one message at a time. Spring: AsyncMessageListenerInvoker."""

    def __init__(self, container: DefaultMessageListenerContainer, number: int) -> None:
        self.name = container._task_name(number)
        self.idle = True
        self.idle_task_executions = 0
        self.session: Session | None = None
        self.consumer: MessageConsumer | None = None
        self.worker = Worker(self.name)
        self.waiting = False
        self.recovery_marker = 0
        self.setup_failures: BackOffExecution | None = None
        self.failed = False
        self._idle = True
        self._killed = False
        self._container = container
        self._scope = anyio.CancelScope()

    async def run(self) -> None:
        """One task: receive and handle until a limit, a failure or the container ends it."""
        self._idle = True
        self._killed = True
        try:
            self._idle = await self._turns()
        except Exception as error:
            await self._recover(error)
        self._killed = False

    async def ended(self) -> None:
        """What follows a task: the next one, a pause, or the end of this consumer."""
        with anyio.CancelScope(shield=True):
            await self._container._task_ended(self, idle=self._idle, killed=self._killed)

    def interrupt_wait(self) -> None:
        """Cut a wait for a message, a connection or a retry short; leave handling alone."""
        if self.waiting:
            self._scope.cancel()

    def interrupt(self, *, abandon_threads: bool) -> None:
        """Cancel whatever this consumer does; a handler in its thread only if it is given up."""
        if abandon_threads or not self.worker.busy:
            self._scope.cancel()

    async def clear_resources(self) -> None:
        """Close the consumer and the session, if it keeps any."""
        consumer, session = self.consumer, self.session
        self.consumer = self.session = None
        if consumer is not None:
            self._container._registered -= 1
        await close_quietly(consumer, session)

    async def handle(self, execute: Callable[[], Awaitable[None]]) -> None:
        """Run the handling of a message that has just been received, outside of the wait.

        If a stop has cut the wait short while the message came in, the handling runs in a
        scope of its own: cancelled is only what nobody has received.
        """
        self.waiting = False
        if not self._scope.cancel_called:
            await execute()
            return
        outer = self._scope
        try:
            with anyio.CancelScope(shield=True) as self._scope:
                await execute()
        finally:
            self._scope = outer

    async def _turns(self) -> bool:
        container = self._container
        messages_left = container._message_limit
        idle_limit = container._idle_receive_limit
        ongoing = messages_left is None and (not container._pool.is_surplus() or idle_limit is None)
        limits = _TaskLimits(None if ongoing else messages_left, None if ongoing else idle_limit)
        while await (self._wait_for_start() if ongoing else self._is_running(limits)):
            with anyio.CancelScope() as self._scope:
                await self._loop(limits, ongoing=ongoing)
            if ongoing and container._pool.scheduled > container.max_concurrent_consumers:
                break
        return limits.idle

    async def _loop(self, limits: _TaskLimits, *, ongoing: bool) -> None:
        container = self._container
        pool = container._pool
        receive = container._cycle.receive_and_execute
        turns = 0
        while container._running and not limits.reached:
            if ongoing and pool.scheduled > container._max_concurrent_consumers:
                return
            if self.consumer is None and container._cache_level >= CacheLevel.SESSION:
                await self._init_resources()
            elif self.consumer is None:
                await container._recovery.join(self)
            limits.count(received=await receive(self))
            self.failed = False
            self.setup_failures = None
            turns += 1
            if turns % _TURNS_PER_YIELD == 0:
                await checkpoint()

    async def _wait_for_start(self) -> bool:
        container = self._container
        if container._is_stopped():
            with anyio.CancelScope(shield=True):
                await container._left_work()
            while container._is_stopped():
                await container._started.wait()
            container._pool.entered()
        return container.is_active

    async def _is_running(self, limits: _TaskLimits) -> bool:
        return self._container.is_running and not limits.reached

    async def _init_resources(self) -> None:
        container = self._container
        self.waiting = True
        try:
            await container._recovery.join(self)
            if self.session is None:
                connection = container._shared_connection.get()
                self.session = await container._create_session(connection)
            if container._cache_level >= CacheLevel.CONSUMER:
                self.consumer = await container._create_consumer(self.session)
                container._registered += 1
        finally:
            self.waiting = False

    async def _recover(self, error: Exception) -> None:
        await self.clear_resources()
        with anyio.CancelScope() as self._scope:
            self.waiting = True
            try:
                await self._container._recovery.recover(self, error)
            finally:
                self.waiting = False


class _TaskLimits:
    """When a task ends by itself: after so many receives, or so many empty ones in a row."""

    __slots__ = ("_idle_left", "_idle_limit", "_left", "reached", "received")

    # Where only silence ends a task, that silence makes it an idle one, whatever came before
    # (spring-jms 1.6.1); where receives are counted, it must have been empty (1.4.5).

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
