"""The container that receives in a loop: any number of consumers, transactions, recovery.

Everything happens on the loop that initialised it, but for `def` listeners, which have a
thread a consumer. (spring-jms 1)
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any, Unpack, cast

import anyio

from pyjms.enums import CacheLevel
from pyjms.errors import IllegalStateException, JMSException
from pyjms.jms.api import ConnectionFactory, MessageConsumer, Session
from pyjms.listener.container.default_properties import DefaultContainerProperties, DefaultOptions
from pyjms.listener.container.failures import ends_start, is_misconfiguration
from pyjms.listener.container.invoker import AsyncMessageListenerInvoker
from pyjms.listener.container.receiving import ReceiveCycle
from pyjms.listener.container.recovery import Recovery
from pyjms.listener.container.scaling import InvokerPool

__all__ = ["DefaultMessageListenerContainer", "DefaultOptions"]

logger = logging.getLogger(__name__)

_DEFAULT_PATIENCE = 1.0
_THREAD_JOIN = 1.0


class DefaultMessageListenerContainer(DefaultContainerProperties):
    """Receives messages in loops of its own and calls the listener with each.

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
        super().__init__(connection_factory, cast("dict[str, Any]", options))
        self._pool = InvokerPool(self)
        self._cycle = ReceiveCycle(self)
        self._recovery = Recovery(self)
        self._started = anyio.Event()
        self._stop_callback: Callable[[], None] | None = None
        self._registered = 0
        self._settled: anyio.Event | None = None
        self._failure: Exception | None = None

    @property
    def scheduled_consumer_count(self) -> int:
        """All consumers, also those that wait or are paused."""
        return self._pool.scheduled

    @property
    def active_consumer_count(self) -> int:
        """Consumers at work: receiving or handling."""
        return self._pool.active

    @property
    def paused_task_count(self) -> int:
        """Consumers that wait for a start, or for the task executor to take them."""
        return self._pool.paused

    @property
    def is_recovering(self) -> bool:
        """Whether the connection is lost and not yet made again."""
        return self._recovery.recovering

    @property
    def is_registered_with_destination(self) -> bool:
        """Whether a cached consumer exists now; never so below cache level CONSUMER."""
        return self._registered > 0

    @property
    def shared_connection_enabled(self) -> bool:
        """Whether the consumers share one connection: from cache level CONNECTION on."""
        return self._cache_level >= CacheLevel.CONNECTION

    async def initialize(self) -> None:
        """Check the properties and create the consumers, paused.

        Raises:
            ValueError: connection factory or destination are missing.
        """
        async with self._life_cycle:
            self._initialize()

    def _initialize(self) -> None:
        if self._active:
            return
        self._validate()
        self._settle_properties()
        self._active = True
        self._started = anyio.Event()
        for _ in range(self._concurrent_consumers):
            self._pool.add()

    async def start(self) -> None:
        """Receive messages; also takes up paused consumers again. Initialises if nobody did.

        Never raises because there is no broker: the consumers keep trying to connect.

        Raises:
            JMSException: a URL or a selector that no broker can do anything with. The container
                is not running then.
        """
        async with self._life_cycle:
            self._initialize()
            self._failure = None
            if not self._registered and (self._settled is None or self._settled.is_set()):
                self._settled = anyio.Event()
            if self.shared_connection_enabled:
                try:
                    await self._shared_connection.establish()
                except JMSException as error:
                    # a client id that cannot be set, a broker of another loop
                    refused = ends_start(error) or type(error) is IllegalStateException
                    self._settle(error if refused else None)
                    if is_misconfiguration(error):
                        raise
                    logger.debug("Could not connect on start: the consumers will: %s", error)
                    self._tell_exception_listener(error)
            self._stop_callback = None
            self._running = True
            self._started.set()
            self._pool.resume_paused()
            if not self._pool.active:  # the executor takes nothing: nobody will report
                self._settle()
            if self.shared_connection_enabled:
                await self._shared_connection.start()

    async def wait_until_listening(self) -> None:
        if self._settled is not None:
            await self._settled.wait()
        if self._failure is not None:
            raise self._failure

    async def stop(self, callback: Callable[[], None] | None = None) -> None:
        """Stop receiving and return, without waiting for running listeners; they end normally.

        `callback` is called once no listener runs any more; at once if the container is
        not running, or if another callback waits. A `start` before that discards it. When the
        last listener is done, consumers, sessions and the connection are closed.
        """
        if not self._running or self._stop_callback is not None:
            if callback is not None:
                callback()
            return
        self._running = False
        self._settle()
        self._stop_callback = callback
        self._started = anyio.Event()
        for invoker in self._pool.invokers():
            invoker.interrupt_wait()
        async with self._life_cycle:
            if not self._running:
                await self._shared_connection.stop()
        if self._pool.active == 0:
            await self._became_inactive()

    async def shutdown(self, timeout: float | None = None) -> None:
        """Stop for good, wait for running listeners, close everything.

        `timeout`: seconds that running listeners have to finish; then coroutine listeners are
        cancelled, threads given up, and the broker delivers their messages again. None is
        Spring's rule: cancel after `receive_timeout`, give up after another one, or never if
        `accept_messages_while_stopping` is set or `receive_timeout` is None.
        """
        self._running = self._active = False
        self._settle()
        self._started.set()
        everyone = self._pool.invokers()
        for invoker in everyone:
            invoker.interrupt_wait()
        dropped = self._pool.drop_paused()
        async with self._life_cycle:
            await self._shared_connection.stop()
        await self._wait_for_invokers(timeout)
        for invoker in dropped:
            await invoker.clear_resources()
        async with self._life_cycle:
            await self._shared_connection.release()
        for invoker in everyone:
            invoker.worker.close()
            if not invoker.worker.busy:
                await invoker.worker.join(_THREAD_JOIN)

    async def _create_consumer(self, session: Session) -> MessageConsumer:
        consumer = await super()._create_consumer(session)
        self._settle()
        return consumer

    def _settle(self, failure: Exception | None = None) -> bool:
        """Say that the start is over, one way or the other; return whether it was not yet."""
        if self._settled is None or self._settled.is_set():
            return False
        self._failure = failure
        self._settled.set()
        return True

    async def _wait_for_invokers(self, timeout: float | None) -> None:
        patience = self._patience() if timeout is None else timeout
        if await self._pool.wait_inactive(patience):
            return
        for invoker in self._pool.invokers():
            invoker.interrupt(abandon_threads=timeout is not None)
        second = patience if timeout is None else _DEFAULT_PATIENCE
        if await self._pool.wait_inactive(second):
            return
        logger.warning(
            "Shutdown does not wait any longer for %d consumers of destination '%s'",
            self._pool.active,
            self.destination_description,
        )
        for invoker in self._pool.invokers():
            invoker.interrupt(abandon_threads=True)
        await self._pool.wait_inactive(_DEFAULT_PATIENCE)

    def _is_stopped(self) -> bool:
        return self._active and not self._running

    def _patience(self) -> float | None:
        if self.accept_messages_while_stopping or self.receive_timeout is None:
            return None
        return self.receive_timeout or _DEFAULT_PATIENCE

    async def _task_ended(
        self, invoker: AsyncMessageListenerInvoker, *, idle: bool, killed: bool
    ) -> None:
        """A task is over: reschedule, pause or remove its invoker."""
        invoker.idle_task_executions = invoker.idle_task_executions + 1 if idle else 0
        if killed and self._running:  # cancelled by nobody of ours: do not run into it again
            logger.error("Consumer %s was cancelled from outside and is paused", invoker.name)
            await invoker.clear_resources()
            self._pool.pause(invoker)
        elif not self._pool.reschedule(invoker):
            self._pool.remove(invoker)
            await invoker.clear_resources()
            invoker.worker.close()
        await self._left_work()

    async def _left_work(self) -> None:
        self._pool.left()
        if self._pool.active == 0:
            await self._became_inactive()

    async def _became_inactive(self) -> None:
        """The last consumer has stopped working: give back what a stopped container needs not."""
        if self._is_stopped():
            async with self._life_cycle:
                if self._is_stopped() and not self._pool.active:
                    for invoker in self._pool.invokers():
                        await invoker.clear_resources()
                    await self._shared_connection.release()
        callback, self._stop_callback = self._stop_callback, None
        if callback is not None:
            try:
                callback()
            except Exception:
                logger.exception("The callback of stop() failed")

    def _forget_destination(self) -> None:
        """Drop the destination from a resolver that remembers names: the new broker may differ."""
        forget = getattr(self.destination_resolver, "remove_from_cache", None)
        if forget is not None and self.destination_name is not None:
            forget(self.destination_name)
