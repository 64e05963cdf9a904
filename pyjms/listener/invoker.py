"""One consumer of a DefaultMessageListenerContainer: it receives, handles, commits, recovers.

Theory of operation (spring-jms 1.3 to 1.6, 1.8, 1.10)
------------------------------------------------------

*Tasks.* A task loops: get resources, receive, handle. It ends when it has received as often as it
may, when an error needs recovery, or when the container is stopped and the invoker is surplus. An
invoker without limits runs one *ongoing* task: while the container is stopped that task waits, and
is not counted as active.

*Interruption.* A stop, a shutdown or a removal must end waits at once: for a message, for a
connection, for the next attempt. It must not cancel the handling of a message, unless the timeout
of a shutdown has passed. So the task runs inside one cancel scope and sets `waiting` exactly while
it waits: `interrupt_wait` cancels the scope only then. Between receiving a message and handling it
there is no await, so an interruption either happens while `waiting` is set and no message has been
received, or it is too late: if a wait was cancelled and still returned a message (which arrived
before the cancellation took effect), the message is handled in a separate scope, `shield`. A
message that has been received is always handled.

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
from functools import partial
from typing import TYPE_CHECKING, Final

import anyio
from anyio.lowlevel import checkpoint

from pyjms.enums import CacheLevel
from pyjms.jms.api import Closeable, Connection, MessageConsumer, Session
from pyjms.listener.delivery import Delivery, log_abandoned, marked_as_rollback_only
from pyjms.listener.error_handling import handle_exception, is_infrastructure_failure
from pyjms.listener.resources import is_pushed
from pyjms.runtime import clock as _clock
from pyjms.runtime.backoff import BackOffExecution
from pyjms.runtime.event_loop import with_cleanup
from pyjms.runtime.logging import get_logger
from pyjms.template.resources import bound_resource, close_all_quietly, close_quietly
from pyjms.template.workers import Worker

if TYPE_CHECKING:
    from pyjms.connection.transaction import PlatformTransactionStatus
    from pyjms.listener.invoker_pool import InvokerPool

logger: Final = get_logger(__name__)

_RECEIVES_PER_YIELD = 16
"""Messages after which a task yields: a handler that never waits must not starve the loop."""

_IDLE_WAIT: Final = 60.0
"""Seconds of a receive that follows an empty one, if nothing counts empty receives: an idle
consumer needs no processor time. A lower maximum of consumers that was set directly, not by
`scale`, is noticed after it at the latest."""


class AsyncMessageListenerInvoker:
    """Receives and handles, one message at a time. Spring: AsyncMessageListenerInvoker."""

    def __init__(self, pool: InvokerPool, name: str) -> None:
        self.name = name
        self.idle: bool = True
        """Whether the last receive was empty, or no receive has ended yet."""
        self.idle_task_executions: int = 0
        """The number of idle tasks in a row."""
        self.session: Session | None = None
        """The cached session, or None."""
        self.consumer: MessageConsumer | None = None
        """The cached consumer, or None."""
        self.worker: Worker = Worker(name, pool.properties.bean_name)
        self.waiting: bool = False
        """Whether it is in a wait that a stop may interrupt."""
        self.delivery: Delivery | None = None
        """The message that is being handled."""
        self.generation: int = 0
        """The generation of the connection with which it last worked; see `Recovery`."""
        self.has_failed: bool = False
        """Whether it has failed since its last successful receive."""
        self.setup_failures: BackOffExecution | None = None
        """The waits between failures without a receive in between."""
        self._pool = pool
        self._properties = pool.properties
        self._life_cycle = pool.life_cycle
        self._resources = pool.resources
        self._execution = pool.execution
        self._recovery = pool.recovery
        self._task_was_idle = True
        self._task_was_killed = False
        self._counts_receives = True
        self._scope = anyio.CancelScope()

    async def run(self) -> None:
        """Run one task: receive and handle until a limit, a failure or a stop ends it."""
        self._task_was_idle = True
        self._task_was_killed = True
        failure: Exception | None = None  # handled after `except`: see with_cleanup
        try:
            self._task_was_idle = await self._run_task()
        except Exception as error:
            failure = error
        if failure is not None:
            await self._recover(failure)
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

    def interrupt_wait(self) -> None:
        """Cancel a wait for a message, a connection or a retry, but not a message's handling."""
        if self.waiting:
            self._scope.cancel()

    def interrupt(self, *, abandon_threads: bool) -> None:
        """Cancel the running task; abandon a handler in a thread only with `abandon_threads`."""
        if not abandon_threads and self.worker.busy:
            return
        if self.delivery is not None and not self._scope.cancel_called:
            log_abandoned(self._properties, self.delivery)
        self._scope.cancel()

    async def clear_resources(self) -> None:
        """Close the cached consumer and session, if there are any."""
        consumer, session = self.consumer, self.session
        self.consumer = self.session = None
        await close_quietly(consumer, session)

    @contextmanager
    def shield(self) -> Iterator[None]:
        """Run a block in a new scope, which the interruption of the task's scope does not reach.

        A stop during the block cancels the new scope if the invoker waits.
        """
        outer = self._scope
        try:
            with anyio.CancelScope(shield=True) as self._scope:
                yield
        finally:
            self._scope = outer

    async def _run_task(self) -> bool:
        """Run until a limit is reached or the container stops; return whether the task was idle."""
        messages = self._properties.message_limit
        idle_receives = self._properties.idle_receive_limit
        ongoing = messages is None and (not self._pool.has_surplus() or idle_receives is None)
        limits = _TaskLimits(None, None) if ongoing else _TaskLimits(messages, idle_receives)
        self._counts_receives = not ongoing
        while (
            await self._wait_for_start()
            if ongoing
            else self._life_cycle.running and not limits.reached
        ):
            with anyio.CancelScope() as self._scope:
                await self._loop(limits, ongoing=ongoing)
            if ongoing and self._pool.exceeds_maximum():
                break
        return limits.idle

    async def _loop(self, limits: _TaskLimits, *, ongoing: bool) -> None:
        life_cycle, exceeds_maximum = self._life_cycle, self._pool.exceeds_maximum
        receives = 0
        while life_cycle.running and not limits.reached:
            if ongoing and exceeds_maximum():
                return
            if self.consumer is None:
                await self._prepare_resources()
            manager = self._properties.transaction_manager
            if manager is None:
                received = await self.receive_once(None)
            else:
                from pyjms.listener import managed_receive  # noqa: PLC0415 - few have managers

                received = await managed_receive.receive_in_transaction(self, self._pool, manager)
            limits.count(received=received)
            if self.has_failed:
                self.has_failed = False
                self.setup_failures = None
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

    async def _prepare_resources(self) -> None:
        """Wait for a recovery in progress, then create the resources to cache."""
        level = self._properties.cache_level
        if level < CacheLevel.SESSION:
            await self._recovery.join(self)
            return
        self.waiting = True
        try:
            await self._recovery.join(self)
            if self.session is None:
                self.session = await self._resources.create_session(
                    self._resources.require_connection()
                )
            if level >= CacheLevel.CONSUMER:
                self.consumer = await self._resources.create_consumer(self.session)
        finally:
            self.waiting = False

    async def _recover(self, error: Exception) -> None:
        await self.clear_resources()
        with anyio.CancelScope() as self._scope:
            self.waiting = True
            try:
                if not await self._recovery.recover(self, error):
                    self._pool.remove(self)
            finally:
                self.waiting = False

    async def open_connection(self) -> tuple[Connection | None, Connection]:
        """Return the connection to close afterwards, or None, and the connection to use."""
        if self._properties.shared_connection_enabled:
            return None, self._resources.require_connection()
        connection = await self._resources.open_separate()
        return connection, connection

    async def receive_once(self, status: PlatformTransactionStatus | None) -> bool:
        """Receive, and handle the message if there is one; return whether there was.

        The connection, session and consumer are opened for this receive as far as they are not
        cached. (spring-jms 1.2.3)
        """
        if self.consumer is not None and self.session is not None:
            connection = self._resources.connection or self._resources.require_connection()
            return await self._receive(connection, self.session, self.consumer, status, expose=True)
        opened: list[Closeable] = []
        self.waiting = True
        return await with_cleanup(
            partial(self._receive_uncached, opened, status), partial(self._close_opened, opened)
        )

    async def _receive_uncached(
        self, opened: list[Closeable], status: PlatformTransactionStatus | None
    ) -> bool:
        resource = bound_resource(self._properties.require_connection_factory())
        is_bound = self.session is None and resource is not None and resource.transactional
        if self.session is not None:
            connection, session = self._resources.require_connection(), self.session
        elif resource is not None and resource.transactional:
            connection, session = resource.connection, resource.session
            await connection.start()
        else:
            separate, connection = await self.open_connection()
            if separate is not None:
                opened.append(separate)
            session = await self._resources.create_session(connection)
            opened.append(session)
        consumer = await self._resources.create_consumer(session)
        opened.append(consumer)
        return await self._receive(connection, session, consumer, status, expose=not is_bound)

    async def _close_opened(self, opened: list[Closeable]) -> None:
        self.waiting = False
        await close_all_quietly(opened)

    async def _receive(
        self,
        connection: Connection,
        session: Session,
        consumer: MessageConsumer,
        status: PlatformTransactionStatus | None,
        *,
        expose: bool,
    ) -> bool:
        properties, execution = self._properties, self._execution
        self.waiting = True
        timeout = properties.receive_timeout
        if self.idle and timeout and not self._counts_receives and is_pushed(consumer):
            timeout = max(timeout, _IDLE_WAIT)
        message = await consumer.receive(timeout)
        self.waiting = False
        if message is None:
            self.idle = True
            await execution.end_empty_receive(session)
            return False
        self.idle = False
        self._pool.message_received()
        batch = None
        if (
            properties.batch_size is not None
            and execution.is_accepting
            and execution.retries.reason_to_give_up(message, consumer) is None
        ):
            from pyjms.listener.batches import collect  # noqa: PLC0415 - few have batches

            batch = await collect(self, consumer, message, properties, execution.retries)
            message = batch.received[-1]
        interval = properties.turns.interval
        if interval is not None:
            await self._wait_for_turn(interval, 1 if batch is None else len(batch))
        delivery = Delivery(message, session, connection, consumer, self.worker, batch)
        self.delivery = delivery
        try:
            if self._scope.cancel_called:  # while the message arrived
                with self.shield():
                    await self._handle(delivery, status, expose=expose)
            else:
                await self._handle(delivery, status, expose=expose)
        finally:
            self.delivery = None
        return True

    async def _wait_for_turn(self, interval: float, messages: int) -> None:
        """Wait until the rate limit allows the next messages; a stop ends the wait."""
        seconds = self._properties.turns.take_turns(interval, messages)
        if seconds > 0:
            with self.shield():
                self.waiting = True
                await _clock.sleep(seconds)
            self.waiting = False

    async def _handle(
        self, delivery: Delivery, status: PlatformTransactionStatus | None, *, expose: bool
    ) -> None:
        failure: Exception | None = None  # handled after `except`: see with_cleanup
        try:
            await self._execution.execute(delivery, expose=expose)
            if status is not None and status.rollback_only:
                raise marked_as_rollback_only(delivery)
        except Exception as error:
            failure = error
        if failure is not None:
            await self._report(failure, delivery, status)

    async def _report(
        self, error: Exception, delivery: Delivery, status: PlatformTransactionStatus | None
    ) -> None:
        """Tell who is to know of a failed delivery; raise `error` if it needs recovery."""
        if status is not None:
            status.set_rollback_only()
        await handle_exception(
            self._properties, error, is_active=self._life_cycle.active, delivery=delivery
        )
        if is_infrastructure_failure(error):
            raise error


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
