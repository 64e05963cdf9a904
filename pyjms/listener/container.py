"""The interface of both listener containers, and their life cycle.

A container belongs to the event loop on which it was initialised. Properties may be set at any
time; a property that takes effect at once says so.

A container is in exactly one state. Spring keeps two flags instead, and both are derived here:
`active` (initialised and not shut down) and `running` (active and started).

    CREATED --initialize--> INITIALIZED --start--> RUNNING --stop--> STOPPING --drained--> STOPPED
                                                     ^                  |                     |
                                                     +------start-------+--------start--------+

`shut_down` leads from every state to CLOSED, and `initialize` from CLOSED back to INITIALIZED: a
container may be used again. STOPPING means that listeners may still be handling messages; when the
last one has returned, the container releases its connection and is STOPPED.

Requesting a transition that the table does not have changes nothing and returns False. That is why
a `stop` of a container that does not run, or a `start` overtaken by a `shutdown` while it was
connecting, has no effect. Transitions are synchronous; the container performs what they entail
(connecting, closing) under its own lock.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from enum import Enum, auto
from typing import Final

import anyio
from anyio.lowlevel import checkpoint

from pyjms.jms.api import ConnectionFactory
from pyjms.listener.delivery import Delivery, ListenerExecution
from pyjms.listener.properties import ContainerProperties
from pyjms.listener.resources import ContainerResources
from pyjms.runtime import clock as _clock


class ContainerState(Enum):
    """The states of a container's life cycle."""

    CREATED = auto()
    INITIALIZED = auto()
    RUNNING = auto()
    STOPPING = auto()
    STOPPED = auto()
    CLOSED = auto()


class ContainerEvent(Enum):
    """The events that cause transitions between states."""

    INITIALIZE = auto()
    START = auto()
    STOP = auto()
    DRAINED = auto()
    SHUT_DOWN = auto()


_State = ContainerState
_Event = ContainerEvent

_TRANSITIONS: Final[dict[ContainerState, dict[ContainerEvent, ContainerState]]] = {
    _State.CREATED: {
        _Event.INITIALIZE: _State.INITIALIZED,
        _Event.SHUT_DOWN: _State.CLOSED,
    },
    _State.INITIALIZED: {
        _Event.START: _State.RUNNING,
        _Event.SHUT_DOWN: _State.CLOSED,
    },
    _State.RUNNING: {
        _Event.START: _State.RUNNING,
        _Event.STOP: _State.STOPPING,
        _Event.SHUT_DOWN: _State.CLOSED,
    },
    _State.STOPPING: {
        _Event.START: _State.RUNNING,
        _Event.DRAINED: _State.STOPPED,
        _Event.SHUT_DOWN: _State.CLOSED,
    },
    _State.STOPPED: {
        _Event.START: _State.RUNNING,
        _Event.SHUT_DOWN: _State.CLOSED,
    },
    _State.CLOSED: {
        _Event.INITIALIZE: _State.INITIALIZED,
        _Event.SHUT_DOWN: _State.CLOSED,
    },
}

_NOT_STARTED = frozenset((_State.CREATED, _State.INITIALIZED, _State.CLOSED))
_ACTIVE = frozenset((_State.INITIALIZED, _State.RUNNING, _State.STOPPING, _State.STOPPED))


class LifeCycle:
    """The state of one container.

    `active` and `running` are plain attributes because consumers read them for each message.
    """

    __slots__ = ("_not_paused", "active", "running", "state")

    def __init__(self) -> None:
        self.state: ContainerState = ContainerState.CREATED
        self.active: bool = False
        self.running: bool = False
        self._not_paused = anyio.Event()

    @property
    def paused(self) -> bool:
        """Whether the container is active but not running: consumers wait."""
        return self.active and not self.running

    def advance(self, event: ContainerEvent) -> bool:
        """Make the transition for `event` and return True; return False if there is none."""
        following = _TRANSITIONS[self.state].get(event)
        if following is None:
            return False
        was_paused = self.paused
        self.state = following
        self.active = following in _ACTIVE
        self.running = following is ContainerState.RUNNING
        if not self.paused:
            self._not_paused.set()
        elif not was_paused:
            self._not_paused = anyio.Event()
        return True

    async def wait_while_paused(self) -> None:
        """Return when the container runs, or has been shut down."""
        while self.paused:
            await self._not_paused.wait()


class StartOutcome:
    """The outcome of a start: a first consumer, an error, or waiting for the broker.

    `begin` makes it pending, the first `settle` after that decides it.
    """

    def __init__(self) -> None:
        self._settled: anyio.Event | None = None
        self._failure: Exception | None = None

    def begin(self, *, has_consumer: bool) -> None:
        """Forget an earlier failure; the outcome is pending unless a consumer listens already."""
        self._failure = None
        if not has_consumer and (self._settled is None or self._settled.is_set()):
            self._settled = anyio.Event()

    def settle(self, failure: Exception | None = None) -> bool:
        """Decide the outcome; return False if it was decided already, or nothing has started."""
        if self._settled is None or self._settled.is_set():
            return False
        self._failure = failure
        self._settled.set()
        return True

    async def wait(self) -> None:
        """Wait until the outcome is decided; return at once if nothing has started."""
        if self._settled is not None:
            await self._settled.wait()
        if self._failure is not None:
            raise self._failure


PATIENCE: Final = 1.0
"""Seconds that a container waits for its listeners unless it is told otherwise."""
THREAD_JOIN: Final = 1.0
"""Seconds that a container waits for a consumer's thread that has nothing more to do."""


class AbstractMessageListenerContainer(ContainerProperties, ABC):
    """Receives messages and calls the listener. Spring: AbstractMessageListenerContainer."""

    def __init__(self, connection_factory: ConnectionFactory | None) -> None:
        super().__init__(connection_factory)
        self._life_cycle = LifeCycle()
        self._resources = ContainerResources(self, self._consumer_created)
        self._execution = ListenerExecution(self, self._life_cycle, self._resources)
        self._pause_ended: anyio.Event | None = None
        self._lock = anyio.Lock()  # held to initialize, to start, and to close resources

    @property
    def state(self) -> ContainerState:
        """The state of the container in its life cycle."""
        return self._life_cycle.state

    @property
    def is_active(self) -> bool:
        """Whether the container is initialised and not shut down."""
        return self._life_cycle.active

    @property
    def is_running(self) -> bool:
        """Whether the container is started and not stopped."""
        return self._life_cycle.running

    @property
    def is_paused(self) -> bool:
        """Whether `pause` was called, and neither `resume` nor `start` since."""
        return self._pause_ended is not None and self._life_cycle.paused and self.has_started

    @property
    def has_started(self) -> bool:
        """Whether the container was started, and not shut down; it may be paused or stopped."""
        return self.state not in _NOT_STARTED

    @abstractmethod
    def deliveries(self) -> list[Delivery]:
        """Return the messages and batches that are being handled now."""

    @property
    @abstractmethod
    def scheduled_consumer_count(self) -> int:
        """The number of consumers: active, idle or paused."""

    @property
    def is_auto_startup(self) -> bool:
        """Whether an application or a registry starts this container by itself."""
        return self.auto_startup

    @property
    def is_recovering(self) -> bool:
        """Whether the connection is lost and not yet restored."""
        return False

    @property
    @abstractmethod
    def has_consumer(self) -> bool:
        """Whether a consumer can receive; True if each receive creates its own."""

    @property
    @abstractmethod
    def concurrency(self) -> str:
        """The number of consumers as text: "5", or "3-5"."""

    @concurrency.setter
    @abstractmethod
    def concurrency(self, value: str) -> None: ...

    @property
    @abstractmethod
    def concurrent_consumers(self) -> int:
        """The least number of consumers."""

    @property
    def max_concurrent_consumers(self) -> int:
        """The largest number of consumers: `concurrent_consumers`, unless the container scales."""
        return self.concurrent_consumers

    @property
    def shared_connection_enabled(self) -> bool:
        """Whether the consumers share one connection: true, unless the container can do without."""
        return True

    @property
    @abstractmethod
    def is_registered_with_destination(self) -> bool:
        """Whether at least one consumer exists that outlives a receive."""

    @abstractmethod
    async def initialize(self) -> None:
        """Check the properties and prepare, without receiving. Idempotent.

        Raises:
            ValueError: a property is missing or contradicts others.
        """

    @abstractmethod
    async def start(self) -> None:
        """Receive messages; initialises first if need be. Idempotent."""

    async def wait_until_listening(self) -> None:
        """Wait until a started container has a consumer, or keeps trying to reach the broker.

        Returns at once if the container is not started, or if `start` itself creates the consumers.

        Raises:
            JMSException: its configuration cannot work, or its client id is in use.
        """
        await checkpoint()

    @abstractmethod
    async def stop(self, callback: Callable[[], None] | None = None) -> None:
        """Stop receiving and return, without waiting for running listeners.

        `callback` is called once no listener runs any more; at once if the container is
        not running, or if another callback waits. A `start` before that discards it.
        """

    async def pause(self, timeout: float | None = None) -> bool:
        """Stop receiving, and wait until the listeners in progress have ended normally.

        Messages stay in the broker until `resume`. A container that does not run stays as it is.
        Cancelling only ends the wait; the container stays paused.

        Args:
            timeout: seconds to wait; None waits for ever, 0 does not wait.

        Returns:
            Whether no listener is running any more.
        """
        ended = self._pause_ended
        if ended is None or self.state is not ContainerState.STOPPING:
            ended = self._pause_ended = anyio.Event()
            await self.stop(ended.set)
        with _clock.timeout(timeout):
            await ended.wait()
        return self.state not in {ContainerState.RUNNING, ContainerState.STOPPING}

    async def resume(self) -> None:
        """Receive again after `pause` or `stop`; return as soon as a consumer exists.

        Raises:
            JMSException: its configuration cannot work, or its client id is in use.
        """
        if self._pause_ended is not None:
            self._pause_ended.set()  # because `start` discards the callback of `stop`
            self._pause_ended = None
        await self.start()
        await self.wait_until_listening()

    @abstractmethod
    async def scale(self, lower: int, upper: int | None = None) -> None:
        """Change the number of consumers, at once if the container is running.

        Missing consumers are created. Consumers above the maximum end when the listener that they
        are calling has returned, and their prefetched messages go to other consumers.

        Args:
            lower: the least number, 1 or more.
            upper: the largest number; None: the same.

        Raises:
            ValueError: `lower` is under 1 or over `upper`, or the subscription allows one consumer.
            JMSException: the container cannot create another consumer.
        """

    @abstractmethod
    async def shutdown(self, timeout: float | None = None) -> None:
        """Stop for good, wait for running listeners and close everything.

        `timeout`: seconds that running listeners have to finish; each container says what None is.
        """

    async def destroy(self) -> None:
        """Shut down. Spring: DisposableBean.destroy."""
        await self.shutdown()

    def _consumer_created(self) -> None:
        """Note that the broker has accepted a consumer."""
