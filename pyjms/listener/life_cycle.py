"""The life cycle of a listener container: states, transitions, and the outcome of a start.

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

from enum import Enum, auto
from typing import Final

import anyio


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
        """Wait until the outcome is decided; return at once if nothing has started.

        Raises:
            Exception: the error of the start.
        """
        if self._settled is not None:
            await self._settled.wait()
        if self._failure is not None:
            raise self._failure
