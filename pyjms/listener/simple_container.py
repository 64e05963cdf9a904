"""The container to which the provider pushes: a fixed number of consumers with message listeners.

No scaling, no transaction manager, and a single attempt at recovery: longer reconnecting is the
task of a `failover:` transport. (spring-jms 2)
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, Final, Unpack, cast

import anyio

from pyjms.errors import JMSException
from pyjms.jms.api import Connection, ConnectionFactory, MessageConsumer, Session
from pyjms.jms.message import Message
from pyjms.listener.container import (
    PATIENCE,
    THREAD_JOIN,
    AbstractMessageListenerContainer,
    ContainerEvent,
)
from pyjms.listener.delivery import Delivery, log_abandoned
from pyjms.listener.error_handling import handle_exception
from pyjms.listener.properties import ContainerOptions, check_range, one_or_more, parse_concurrency
from pyjms.listener.task_executor import AsyncTaskExecutor
from pyjms.runtime import clock as _clock
from pyjms.runtime.event_loop import BackgroundTask, end_tasks, spawn
from pyjms.runtime.forwarding import Checked
from pyjms.runtime.logging import get_logger
from pyjms.template.resources import close_quietly
from pyjms.template.workers import Worker

logger: Final = get_logger(__name__)


class SimpleOptions(ContainerOptions, total=False):
    """The keyword arguments of SimpleMessageListenerContainer."""

    connect_lazily: bool
    recover_on_exception: bool
    task_executor: AsyncTaskExecutor | None


class SimpleMessageListenerContainer(AbstractMessageListenerContainer):
    """Sets the listener on `concurrent_consumers` consumers of one shared connection.

    Keyword arguments are the properties, with Spring's names and defaults.
    Spring: SimpleMessageListenerContainer.
    """

    OPTIONS: ClassVar[frozenset[str]] = frozenset(SimpleOptions.__optional_keys__)

    connect_lazily: bool = False
    """Connect at `start` only, not already at `initialize`."""
    recover_on_exception: bool = True
    """Make one attempt to reconnect when the connection reports a failure."""
    task_executor: AsyncTaskExecutor | None = None
    """Runs the listeners; with an executor, acknowledgements do not wait for the listeners."""

    def __init__(
        self,
        connection_factory: ConnectionFactory | None = None,
        **options: Unpack[SimpleOptions],
    ) -> None:
        """Set the properties, as DefaultMessageListenerContainer does."""
        super().__init__(connection_factory)
        self._concurrent_consumers = 1
        self._consumers: list[tuple[MessageConsumer, Session, Worker]] = []
        self._busy = 0
        self._quiet = anyio.Event()
        self._stop_callback: Callable[[], None] | None = None
        self._reconnects: BackgroundTask | None = None
        self._handling: dict[anyio.CancelScope, Delivery] = {}
        self.set_options(cast("dict[str, Any]", options))

    def validate(self) -> None:
        """Check that the properties are consistent.

        Raises:
            ValueError: a property is missing, or contradicts others.
            JMSException: a value is invalid for every broker.
        """
        super().validate()
        if self.batch_size is not None:
            raise ValueError(
                "'batch_size' has no effect in a SimpleMessageListenerContainer: use a "
                "DefaultMessageListenerContainer"
            )

    @property
    def concurrency(self) -> str:
        """The number of consumers; for a range such as "2-4", the upper number."""
        return str(self._concurrent_consumers)

    @concurrency.setter
    def concurrency(self, value: str) -> None:
        _, upper = parse_concurrency(value)
        self.concurrent_consumers = upper

    concurrent_consumers: Checked[int] = Checked(
        one_or_more,
        "The number of sessions and consumers; takes effect when they are next created.",
    )

    @property
    def has_consumer(self) -> bool:
        """Whether a consumer can receive."""
        return bool(self._consumers) and not self._resources.is_interrupted

    @property
    def is_registered_with_destination(self) -> bool:
        """Whether the consumers exist."""
        return bool(self._consumers)

    def deliveries(self) -> list[Delivery]:
        """Return the messages that are being handled now."""
        return list(self._handling.values())

    @property
    def active_consumer_count(self) -> int:
        """The number of listener calls in progress."""
        return self._busy

    @property
    def scheduled_consumer_count(self) -> int:
        """The number of consumers that exist now."""
        return len(self._consumers)

    async def initialize(self) -> None:
        """Check the properties and connect, unless `connect_lazily`.

        A failure to connect is left to `start`.

        Raises:
            ValueError: connection factory or destination are missing, or a durable
                subscription has more than one consumer.
        """
        async with self._lock:
            await self._initialize()

    async def _initialize(self) -> None:
        if self._life_cycle.active:
            return
        self.validate()
        if self.subscription_durable and self._concurrent_consumers != 1:
            raise ValueError("Only 1 concurrent consumer supported for durable subscription")
        self._life_cycle.advance(ContainerEvent.INITIALIZE)
        if not self.connect_lazily:
            try:
                await self._create_consumers()
            except JMSException as error:
                logger.debug("Could not connect on initialization - start() will: %s", error)

    async def start(self) -> None:
        """Connect if need be, and let messages flow.

        Raises:
            JMSException: there is no connection, or the destination cannot be listened to.
        """
        async with self._lock:
            await self._initialize()
            await self._create_consumers()
            self._stop_callback = None
            if self._life_cycle.advance(ContainerEvent.START):
                await self._resources.start()

    async def stop(self, callback: Callable[[], None] | None = None) -> None:
        """Stop the connection and return, without waiting for running listeners."""
        if not self._life_cycle.advance(ContainerEvent.STOP):
            if callback is not None:
                callback()
            return
        self._stop_callback = callback
        async with self._lock:
            if not self._life_cycle.running:
                await self._resources.stop()
        if self._busy == 0:
            self._on_drained()

    async def shutdown(self, timeout: float | None = None) -> None:
        """Stop for good, give running listeners `timeout` seconds (None: 1), close everything."""
        self._life_cycle.advance(ContainerEvent.SHUT_DOWN)
        await end_tasks(self._reconnects)
        deadline = _clock.now() + (PATIENCE if timeout is None else timeout)
        async with self._lock:
            with _clock.timeout(deadline - _clock.now()):  # also waits for running listeners
                await self._resources.stop()
        await self._wait_for_listeners(max(deadline - _clock.now(), 0))
        workers = [worker for _, _, worker in self._consumers]
        async with self._lock:
            await self._drop_consumers()
            await self._resources.release()
        for worker in workers:
            if not worker.busy:
                await worker.join(THREAD_JOIN)

    async def scale(self, lower: int, upper: int | None = None) -> None:
        """Change the number of consumers to `upper`, at once if consumers exist.

        Waits for the listeners of the consumers that are closed.

        Raises:
            ValueError: `lower` is under 1 or over `upper`, or the subscription is durable.
            JMSException: a consumer cannot be created; the existing ones continue.
        """
        most = check_range(lower, upper, durable=self.subscription_durable)
        async with self._lock:
            self.concurrent_consumers = most
            if self._consumers:
                connection = await self._resources.establish()
                await self._add_consumers(connection)
                await self._drop_consumers(keep=most)

    async def _create_consumers(self) -> None:
        if self._consumers:
            return
        connection = await self._resources.establish()
        try:
            await self._add_consumers(connection)
        except BaseException:
            await self._drop_consumers()
            raise

    async def _add_consumers(self, connection: Connection) -> None:
        while len(self._consumers) < self._concurrent_consumers:
            session = await self._resources.create_session(connection)
            try:
                worker = Worker(self.task_name(len(self._consumers) + 1), self.bean_name)
                consumer = await self._resources.create_consumer(session)
            except BaseException:
                await close_quietly(session)
                raise
            self._consumers.append((consumer, session, worker))
            await consumer.set_message_listener(
                self._message_listener(connection, session, consumer, worker)
            )

    async def _drop_consumers(self, keep: int = 0) -> None:
        consumers, self._consumers = self._consumers[keep:], self._consumers[:keep]
        for consumer, session, worker in consumers:
            await close_quietly(consumer, session)
            worker.close()

    def _message_listener(
        self,
        connection: Connection,
        session: Session,
        consumer: MessageConsumer,
        worker: Worker,
    ) -> Callable[[Message], Any]:
        async def on_message(message: Message) -> None:
            delivery = Delivery(message, session, connection, consumer, worker)
            executor = self.task_executor
            if executor is None:
                await self._process(delivery)
            else:
                executor.execute(lambda: self._process(delivery), worker.name)

        return on_message

    async def _process(self, delivery: Delivery) -> None:
        self._busy += 1
        scope = anyio.CancelScope()
        self._handling[scope] = delivery
        try:
            with scope:
                await self._execute(delivery)
        finally:
            del self._handling[scope]
            self._busy -= 1
            if self._busy == 0:
                quiet, self._quiet = self._quiet, anyio.Event()
                quiet.set()
                if not self._life_cycle.running:
                    self._on_drained()

    async def _execute(self, delivery: Delivery) -> None:
        try:
            await self._execution.execute(delivery, expose=True)
        except Exception as error:
            await handle_exception(
                self, error, is_active=self._life_cycle.active, delivery=delivery
            )

    def _on_drained(self) -> None:
        """Call the callback of `stop` after the last listener has returned."""
        self._life_cycle.advance(ContainerEvent.DRAINED)
        callback, self._stop_callback = self._stop_callback, None
        if callback is not None:
            callback()

    async def _wait_for_listeners(self, seconds: float) -> None:
        if await self._become_quiet(seconds):
            return
        for scope, delivery in list(self._handling.items()):
            log_abandoned(self, delivery)
            scope.cancel()
        if not await self._become_quiet(PATIENCE):
            logger.warning(
                "Shutdown does not wait any longer for %d listeners of destination '%s'",
                self._busy,
                self.destination_description,
            )

    async def _become_quiet(self, seconds: float) -> bool:
        with _clock.timeout(seconds):
            while self._busy:
                await self._quiet.wait()
        return self._busy == 0

    def prepare_connection(self, connection: Connection) -> None:
        """Watch a new connection for failures."""
        connection.exception_listener = self._on_exception

    def _on_exception(self, error: JMSException) -> None:
        """Report a failure of the connection to the exception listener, then reconnect once."""
        self.invoke_exception_listener(error)
        if not self.recover_on_exception or not self._life_cycle.active:
            return
        if self._reconnects is None or self._reconnects.done:
            self._reconnects = spawn(self._reconnect, name=self.task_name(0))

    async def _reconnect(self) -> None:
        async with self._lock:
            logger.info("Trying to recover from JMS connection exception")
            await self._drop_consumers()
            try:
                await self._resources.refresh()
                await self._create_consumers()
            except JMSException as error:
                logger.debug("Failed to recover the connection: %s", error)
                logger.error("Encountered non-recoverable JMSException", exc_info=error)
            else:
                logger.info("Successfully refreshed JMS connection")
