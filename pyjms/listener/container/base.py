"""What both listener containers are: properties, a state, a shared connection, one way to fail.

A container belongs to the loop that it was initialised on. Properties may be set at any
time; which of them take effect at once is said at each.
"""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections.abc import Callable

import anyio
from anyio.lowlevel import checkpoint

from pyjms.errors import InvalidDestinationException, JMSException
from pyjms.jms.api import Connection, ConnectionFactory, MessageConsumer, Session
from pyjms.jms.destination import Destination, Topic
from pyjms.listener.container.execution import ListenerExecution
from pyjms.listener.container.properties import ContainerProperties
from pyjms.listener.container.resources import SharedConnection

__all__ = ["AbstractMessageListenerContainer"]

logger = logging.getLogger(__name__)


class AbstractMessageListenerContainer(ContainerProperties, ABC):
    """Receives messages and calls the listener. Spring: AbstractMessageListenerContainer.

    `is_active`: initialised and not shut down. `is_running`: active and started.
    """

    def __init__(self, connection_factory: ConnectionFactory | None) -> None:
        super().__init__(connection_factory)
        self._active = False
        self._running = False
        self._life_cycle = anyio.Lock()
        self._shared_connection = SharedConnection(self, self._prepare_shared_connection)
        self._execution = ListenerExecution(self)

    @property
    def is_active(self) -> bool:
        """Whether the container is initialised and not shut down."""
        return self._active

    @property
    def is_running(self) -> bool:
        """Whether the container is started and not stopped."""
        return self._running

    @property
    def is_auto_startup(self) -> bool:
        """Whether an application or registry starts this container by itself."""
        return self.auto_startup

    @property
    @abstractmethod
    def concurrency(self) -> str:
        """How many consumers, as text: "5", or "3-5"."""

    @concurrency.setter
    @abstractmethod
    def concurrency(self, value: str) -> None: ...

    @property
    @abstractmethod
    def concurrent_consumers(self) -> int:
        """How many consumers there are at least."""

    @property
    @abstractmethod
    def max_concurrent_consumers(self) -> int:
        """How many consumers there are at most."""

    @property
    @abstractmethod
    def shared_connection_enabled(self) -> bool:
        """Whether the consumers share one connection."""

    @property
    @abstractmethod
    def is_registered_with_destination(self) -> bool:
        """Whether at least one lasting consumer exists now."""

    @abstractmethod
    async def initialize(self) -> None:
        """Check the properties and get ready, without receiving. Initialising twice is fine.

        Raises:
            ValueError: a property is missing or does not go with the others.
        """

    @abstractmethod
    async def start(self) -> None:
        """Receive messages; initialises first if nobody did. Starting twice is fine."""

    async def wait_until_listening(self) -> None:
        """Return when a started container has a consumer, or waits for the broker to come.

        Returns at once if it is not started, or where `start` does all this itself.

        Raises:
            JMSException: it cannot work as it is set up, or another has its client id.
        """
        await checkpoint()

    @abstractmethod
    async def stop(self, callback: Callable[[], None] | None = None) -> None:
        """Stop receiving and return, without waiting for running listeners.

        `callback` is called once no listener runs any more; at once if the container is
        not running, or if another callback waits. A `start` before that discards it.
        """

    @abstractmethod
    async def shutdown(self, timeout: float | None = None) -> None:
        """Stop for good, wait for running listeners and close everything."""

    async def destroy(self) -> None:
        """Shut down. Spring: DisposableBean.destroy."""
        await self.shutdown()

    async def _create_session(self, connection: Connection) -> Session:
        return await connection.create_session(
            self.session_transacted, self.session_acknowledge_mode
        )

    async def _create_consumer(self, session: Session) -> MessageConsumer:
        destination = await self._resolve_destination(session)
        selector = self.message_selector
        if not isinstance(destination, Topic):
            return await session.create_consumer(destination, selector)
        if self.subscription_durable and self.subscription_name:
            return await session.create_durable_subscriber(
                destination, self.subscription_name, selector, no_local=self.pub_sub_no_local
            )
        return await session.create_consumer(destination, selector, no_local=self.pub_sub_no_local)

    async def _resolve_destination(self, session: Session) -> Destination:
        target = self._destination
        if isinstance(target, Destination):
            return target
        if target is None:
            raise InvalidDestinationException("The container has no destination")
        return self.destination_resolver.resolve_destination_name(
            session, target, self.pub_sub_domain
        )

    def _prepare_shared_connection(self, connection: Connection) -> None:
        """Set up a shared connection that has just been opened."""

    def _tell_exception_listener(self, error: BaseException) -> None:
        if self.exception_listener is not None and isinstance(error, JMSException):
            self.exception_listener(error)

    def _task_name(self, number: int) -> str:
        return f"{self.bean_name or type(self).__name__}-{number}"
