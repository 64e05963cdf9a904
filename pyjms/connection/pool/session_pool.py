"""The physical sessions of one connection in one mode. (spring-jms 9.6)"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

import anyio

from pyjms import _clock
from pyjms.connection.pool.options import PoolOptions
from pyjms.connection.pool.statistics import PoolStats
from pyjms.core.closing import close_quietly
from pyjms.errors import IllegalStateException, JMSException
from pyjms.jms.api import MessageProducer, Session
from pyjms.jms.destination import Destination

__all__ = ["PhysicalSession", "SessionPool"]


class PhysicalSession:
    """A session of the provider, and the producers that are kept open on it."""

    __slots__ = ("anonymous", "explicit", "session")

    def __init__(self, session: Session) -> None:
        self.session: Session = session
        self.anonymous: MessageProducer | None = None
        """The shared producer, without a destination; None: not created yet."""
        self.explicit: OrderedDict[Destination | None, MessageProducer] = OrderedDict()
        """The kept producers that have a destination, the one used longest ago first."""


class _Turn:
    """A call that waits for a session, for permission to open one, or for an error."""

    __slots__ = ("error", "event", "granted", "session")

    def __init__(self) -> None:
        self.event = anyio.Event()
        self.granted = False
        self.session: PhysicalSession | None = None
        self.error: JMSException | None = None


@dataclass(eq=False, repr=False)
class SessionPool:
    """Lends a limited number of sessions; further callers wait in first-in, first-out order."""

    _open_session: Callable[[], Awaitable[Session]]
    options: PoolOptions
    _stats: PoolStats
    _mode: str
    is_jms_11: bool
    """Whether handles behave like those of ActiveMQ's pool."""
    _idle: deque[PhysicalSession] = field(default_factory=deque, init=False)
    _waiting: deque[_Turn] = field(default_factory=deque, init=False)
    _active: int = field(default=0, init=False)
    _open_sessions: int = field(default=0, init=False)
    _failure: JMSException | None = field(default=None, init=False)

    async def take(self) -> PhysicalSession:
        """Return an idle session or a new one; wait if the limit is reached. Cancellable.

        Raises:
            IllegalStateException: all sessions are in use, and none was returned in time.
            JMSException: no session could be opened.
        """
        if self._failure is not None:
            raise self._failure
        if self._idle:
            self._count_active(1)
            return self._idle.popleft()
        limit = self.options.max_sessions_per_connection
        if limit < 0 or self._active < limit:
            self._count_active(1)
            return await self._open()
        if not self.options.block_if_full:
            raise self._refusal("")
        return await self._wait_for_turn(self.options.block_if_full_timeout)

    def put(self, physical: PhysicalSession) -> None:
        """Return a cleaned-up session; the next caller gets it."""
        if self._failure is None and not self._passed_on(physical):
            self._idle.append(physical)

    async def discard(self, physical: PhysicalSession) -> None:
        """Close a session that could not be cleaned up. Errors are logged."""
        if self._failure is not None:
            return
        self._stats.discarded_sessions.increment()
        self._count_open(-1)
        try:
            await close_quietly(physical.session)
        finally:
            self._vacate()

    def close(self, error: JMSException) -> None:
        """Fail all waiting callers, because the connection and its sessions are closed."""
        self._failure = error
        while self._waiting:
            turn = self._waiting.popleft()
            turn.error = error
            turn.event.set()
        self._count_open(-self._open_sessions)
        self._count_active(-self._active)
        self._idle.clear()

    async def _open(self) -> PhysicalSession:
        """Open a session that has already been counted as active."""
        try:
            session = await self._open_session()
        except BaseException:
            self._vacate()
            raise
        if self._failure is not None:
            await close_quietly(session)
            raise self._failure
        self._stats.created_sessions.increment()
        self._count_open(1)
        return PhysicalSession(session)

    async def _wait_for_turn(self, seconds: float | None) -> PhysicalSession:
        turn = _Turn()
        self._waiting.append(turn)
        began = _clock.now()
        try:
            with _clock.timeout(seconds):
                await turn.event.wait()
        except BaseException:
            self._call_off(turn)
            raise
        self._stats.session_wait_time.add_time(_clock.now() - began)
        if turn.error is not None:
            raise turn.error
        if not turn.granted:
            self._waiting.remove(turn)
            raise self._refusal(f" for {seconds:g} seconds")
        return await self._open() if turn.session is None else turn.session

    def _call_off(self, turn: _Turn) -> None:
        if not turn.granted:
            if turn in self._waiting:
                self._waiting.remove(turn)
        elif turn.session is not None:
            self.put(turn.session)
        else:
            self._vacate()

    def _grant(self, physical: PhysicalSession | None) -> None:
        """Give the first waiting caller a session, or permission to open one."""
        turn = self._waiting.popleft()
        turn.granted = True
        turn.session = physical
        turn.event.set()

    def _vacate(self) -> None:
        """Free the slot of a session that was closed: another session may be opened."""
        if self._failure is None:
            self._passed_on(None)

    def _passed_on(self, physical: PhysicalSession | None) -> bool:
        """Return whether a caller waited for the session or slot, which is then in use."""
        if self._waiting:
            self._grant(physical)
            return True
        self._count_active(-1)
        return False

    def _count_active(self, difference: int) -> None:
        self._active += difference
        self._stats.active_sessions.increment(difference)

    def _count_open(self, difference: int) -> None:
        self._open_sessions += difference
        self._stats.sessions.increment(difference)

    def _refusal(self, waited: str) -> IllegalStateException:
        self._stats.refused_sessions.increment()
        limit = self.options.max_sessions_per_connection
        return IllegalStateException(
            f"The session pool is full: all {limit} sessions of mode {self._mode} have been in use"
            f"{waited}",
            hint="close sessions after use, or raise max_sessions_per_connection"
            + ("" if self.options.block_if_full else "; block_if_full waits for one"),
        )
