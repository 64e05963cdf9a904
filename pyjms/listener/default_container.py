"""The container that receives in loops: a variable number of consumers, transactions, recovery.

Theory of operation (spring-jms 1)
----------------------------------

The container itself only starts and stops; the work is done by its collaborators, which have
references to the properties, the life cycle and each other, never to the container:

    LifeCycle            the state, one table of transitions
    ContainerResources   the shared connection (cache level CONNECTION and above), and creates
                         sessions and consumers according to the properties
    InvokerPool          the number of invokers, and which of them run
    Invoker              one consumer: tasks, cached resources, interruption; one receive, in an
                         external transaction if there is one
    ListenerExecution    one delivery: listener, commit or rollback
    Recovery             reconnects, once for all invokers
    StartOutcome         the result that a start waits for

    invoker.run -> consumer.receive -> execution.execute -> listener -> commit | rollback
        error of the connection -> recovery.recover -> the invoker's next task

Everything runs on the loop that initialised the container, except `def` listeners, which run in one
thread per consumer.

*Start* returns without a consumer: invokers connect in their tasks and keep trying, so that an
application can start before its broker. `wait_until_listening` waits for the outcome. *Stop* only
interrupts waits and returns; the last invoker that becomes inactive closes consumers, sessions and
the connection and calls the callback. *Shutdown* waits for the handlers until its timeout, then
cancels coroutines and finally abandons threads; the messages that they were handling are delivered
again.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, Unpack, cast

from anyio.lowlevel import checkpoint

from pyjms.enums import CacheLevel
from pyjms.errors import IllegalStateException, JMSException
from pyjms.jms.api import ConnectionFactory, Session
from pyjms.listener.container import (
    PATIENCE,
    THREAD_JOIN,
    AbstractMessageListenerContainer,
    ContainerEvent,
    StartOutcome,
)
from pyjms.listener.delivery import Delivery
from pyjms.listener.error_handling import is_misconfiguration, prevents_startup
from pyjms.listener.invoker_pool import InvokerPool
from pyjms.listener.properties import DefaultContainerProperties, DefaultOptions, check_range
from pyjms.listener.recovery import Recovery
from pyjms.runtime import clock as _clock
from pyjms.runtime.logging import get_logger

logger: Final = get_logger(__name__)


class DefaultMessageListenerContainer(DefaultContainerProperties, AbstractMessageListenerContainer):
    """Receives messages in its own loops and calls the listener with each.

    Keyword arguments are the properties, with Spring's names and defaults; they are
    attributes too. Times are seconds; `receive_timeout` None waits for ever (Spring's 0),
    0 does not wait (Spring's negative values). Spring: DefaultMessageListenerContainer.
    """

    def __init__(
        self,
        connection_factory: ConnectionFactory | None = None,
        **options: Unpack[DefaultOptions],
    ) -> None:
        """Set the properties; nothing else happens before `initialize` or `start`.

        Raises:
            TypeError: there is no such property.
            ValueError: a property cannot have that value.
        """
        super().__init__(connection_factory)
        self.set_options(cast("dict[str, Any]", options))
        self._start_outcome = StartOutcome()
        self._recovery = Recovery(
            self, self._life_cycle, self._resources, self._start_outcome, self.stop
        )
        self._pool = InvokerPool(
            self,
            self._life_cycle,
            self._resources,
            self._execution,
            self._recovery,
            self._on_inactive,
        )
        self._stop_callback: Callable[[], None] | None = None

    @property
    def scheduled_consumer_count(self) -> int:
        """The number of all consumers, also those that wait or are paused."""
        return self._pool.scheduled

    def deliveries(self) -> list[Delivery]:
        """Return the messages and batches that are being handled now."""
        return [each.delivery for each in self._pool.invokers() if each.delivery is not None]

    @property
    def active_consumer_count(self) -> int:
        """The number of consumers at work: receiving or handling."""
        return self._pool.active

    @property
    def paused_task_count(self) -> int:
        """The number of consumers that wait for a start, or for the executor to accept them."""
        return self._pool.paused

    @property
    def consumer_pool(self) -> InvokerPool:
        """The pool of the container's consumers, for diagnosis."""
        return self._pool

    def is_session_locally_transacted(self, session: Session) -> bool:
        """Return whether the container itself ends the session's transaction. (spring-jms 1.8.7)"""
        return self._execution.locally_transacted(session)

    @property
    def is_recovering(self) -> bool:
        """Whether the connection is lost and not yet restored."""
        return self._recovery.in_progress

    @property
    def is_registered_with_destination(self) -> bool:
        """Whether a cached consumer exists now; always False below cache level CONSUMER."""
        return any(invoker.consumer is not None for invoker in self._pool.invokers())

    @property
    def has_consumer(self) -> bool:
        """Whether a consumer can receive; True if each receive creates its own."""
        if self._resources.is_interrupted or self._recovery.in_progress:
            return False
        return self.cache_level < CacheLevel.CONSUMER or self.is_registered_with_destination

    def _consumer_created(self) -> None:
        self._recovery.consumer_created()

    async def initialize(self) -> None:
        """Check the properties and create the consumers, paused.

        Raises:
            ValueError: connection factory or destination are missing.
        """
        async with self._lock:
            self._initialize()

    def _initialize(self) -> None:
        if self._life_cycle.active:
            return
        self.validate()
        self.resolve_defaults()
        self._life_cycle.advance(ContainerEvent.INITIALIZE)
        self._pool.grow()

    async def start(self) -> None:
        """Receive messages; also resumes paused consumers. Initialises first if need be.

        An unreachable broker is not an error: the consumers keep trying to connect.

        Raises:
            JMSException: a URL or selector is invalid for every broker. The container is then not
                running.
        """
        async with self._lock:
            self._initialize()
            self._start_outcome.begin(has_consumer=self.is_registered_with_destination)
            if self.shared_connection_enabled:
                try:
                    await self._recovery.establish()
                except JMSException as error:
                    # for example a client id that cannot be set, a broker on another loop
                    refused = prevents_startup(error) or type(error) is IllegalStateException
                    self._start_outcome.settle(error if refused else None)
                    self._recovery.report_start(error)
                    if is_misconfiguration(error):
                        raise
                    logger.debug("Could not connect on start: the consumers will: %s", error)
                    self.invoke_exception_listener(error)
            self._stop_callback = None
            if not self._life_cycle.advance(ContainerEvent.START):
                return  # shut down while it was connecting
            self._pool.resume_paused()
            if not self._pool.active:  # the executor refused all tasks: no consumer will report
                self._start_outcome.settle()
            if self.shared_connection_enabled:
                await self._resources.start()

    async def wait_until_listening(self) -> None:
        """Wait until a consumer exists, or the container keeps trying to reach the broker.

        Raises:
            JMSException: its configuration cannot work, or its client id is in use.
        """
        with _clock.timeout(self.startup_timeout) as waiting:
            await self._start_outcome.wait()
        if waiting.cancelled_caught:
            self._recovery.report_start(self._recovery.not_in_time())
            self._start_outcome.settle()

    async def stop(self, callback: Callable[[], None] | None = None) -> None:
        """Stop receiving and return, without waiting for running listeners; they end normally.

        `callback` is called once no listener runs any more; at once if the container is
        not running. A `start` before that discards it. When the last listener is done,
        consumers, sessions and the connection are closed.
        """
        if not self._life_cycle.advance(ContainerEvent.STOP):
            if callback is not None:
                callback()
            return
        self._start_outcome.settle()
        self._stop_callback = callback
        for invoker in self._pool.invokers():
            invoker.interrupt_wait()
        async with self._lock:
            if not self._life_cycle.running:
                await self._resources.stop()
        if self._pool.active == 0:
            await self._on_inactive()

    async def shutdown(self, timeout: float | None = None) -> None:
        """Stop for good, wait for running listeners, close everything.

        `timeout`: seconds that running listeners have to finish; then coroutine listeners are
        cancelled, threads are abandoned, and the broker delivers their messages again. None is
        Spring's rule: cancel after `receive_timeout`, abandon after another one, or never if
        `accept_messages_while_stopping` is set or `receive_timeout` is None.
        """
        self._life_cycle.advance(ContainerEvent.SHUT_DOWN)
        self._start_outcome.settle()
        invokers = self._pool.invokers()
        for invoker in invokers:
            invoker.interrupt_wait()
        dropped = self._pool.drop_paused()
        async with self._lock:
            await self._resources.stop()
        await self._wait_for_invokers(timeout)
        for invoker in dropped:
            await invoker.clear_resources()
        async with self._lock:
            await self._resources.release()
        for invoker in invokers:
            invoker.worker.close()
            if not invoker.worker.busy:
                await invoker.worker.join(THREAD_JOIN)

    async def scale(self, lower: int, upper: int | None = None) -> None:
        """Change the number of consumers, at once if the container is running.

        Idle consumers over the maximum end now, the others after their current message. Between
        `lower` and `upper` the number follows the load, as always.

        Raises:
            ValueError: `lower` is under 1 or over `upper`, or the subscription is durable.
        """
        most = check_range(lower, upper, durable=self.subscription_durable)
        self.concurrent_consumers = lower
        self.max_concurrent_consumers = most
        if not self._life_cycle.active:
            return
        self._pool.grow()
        if self._pool.exceeds_maximum():
            for invoker in self._pool.invokers():
                invoker.interrupt_wait()
        await checkpoint()

    async def _wait_for_invokers(self, timeout: float | None) -> None:
        patience = self._patience() if timeout is None else timeout
        if await self._pool.wait_inactive(patience):
            return
        for invoker in self._pool.invokers():
            invoker.interrupt(abandon_threads=timeout is not None)
        second = patience if timeout is None else PATIENCE
        if await self._pool.wait_inactive(second):
            return
        logger.warning(
            "Shutdown does not wait any longer for %d consumers of destination '%s'",
            self._pool.active,
            self.destination_description,
        )
        for invoker in self._pool.invokers():
            invoker.interrupt(abandon_threads=True)
        await self._pool.wait_inactive(PATIENCE)

    def _patience(self) -> float | None:
        if self.accept_messages_while_stopping or self.receive_timeout is None:
            return None
        return self.receive_timeout or PATIENCE

    async def _on_inactive(self) -> None:
        """Close the resources of a stopped container when its last consumer becomes inactive."""
        if self._life_cycle.paused:
            async with self._lock:
                if self._life_cycle.paused and not self._pool.active:
                    for invoker in self._pool.invokers():
                        await invoker.clear_resources()
                    await self._resources.release()
                    self._life_cycle.advance(ContainerEvent.DRAINED)
        callback, self._stop_callback = self._stop_callback, None
        if callback is not None:
            try:
                callback()
            except Exception:
                logger.exception("The callback of stop() failed")
