"""The life cycle of a listener container: states, transitions, and the outcome of a start.

A container is in exactly one state. Spring keeps two flags instead, and both are derived here:
`active` (initialised and not shut down) and `running` (active and started).

    CREATED --initialize--> INITIALIZED --start--> RUNNING --stop--> STOPPING --drained--> STOPPED
                                                     ^                  |                     |
                                                     +------start-------+--------start--------+

`shut_down` leads from every state to CLOSED, and `initialize` from CLOSED back to INITIALIZED: a
container may be used again. STOPPING means that listeners may still be handling messages; once
none is, the container releases its connection and is STOPPED.

Asking for a transition that the table does not have changes nothing and returns False. That is
how a `stop` of a container that does not run, or a `start` overtaken by a `shutdown` while it was
connecting, has no effect. Transitions are synchronous; what they entail (connecting, closing) is
the container's business, under its own lock.
"""

from __future__ import annotations

from enum import Enum, auto
from typing import Final

import anyio

__all__ = ["ContainerEvent", "ContainerState", "LifeCycle", "StartOutcome"]


class ContainerState(Enum):
    """Where a container is in its life."""

    CREATED = auto()
    INITIALIZED = auto()
    RUNNING = auto()
    STOPPING = auto()
    STOPPED = auto()
    CLOSED = auto()


class ContainerEvent(Enum):
    """What moves a container from one state to another."""

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
        """Whether the container is active and does not run: consumers wait."""
        return self.active and not self.running

    def advance(self, event: ContainerEvent) -> bool:
        """Make the transition for `event` and return True; False if there is none."""
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
    """How a start ended: with a first consumer, with an error, or in waiting for the broker.

    `begin` opens it, the first `settle` after that decides it.
    """

    def __init__(self) -> None:
        self._settled: anyio.Event | None = None
        self._failure: Exception | None = None

    def begin(self, *, has_consumer: bool) -> None:
        """Forget an earlier failure and, unless a consumer listens already, await an outcome."""
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
        """Wait until the start is decided; return at once if there was none.

        Raises:
            Exception: what the start failed with.
        """
        if self._settled is not None:
            await self._settled.wait()
        if self._failure is not None:
            raise self._failure
