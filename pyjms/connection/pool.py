"""Pools of connections and of their sessions. (spring-jms 9 and 10)

    PooledConnectionFactory --lends--> PooledConnection --lends--> PooledSession
              |                               |                          |
      PhysicalConnection <--refers to---------+                          |
              |                                                          |
          SessionPool ------------------takes and returns ---------------+

The objects on the right are handles: each is one use, from its creation to its `close`. The objects
on the left are pooled. A physical connection is shared by several handles, a physical session has
at most one handle at a time.
"""

from __future__ import annotations

import itertools
from collections import OrderedDict, deque
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from dataclasses import dataclass, fields
from functools import partial
from operator import attrgetter
from threading import Lock
from typing import Any, ClassVar, Final, Self, TypedDict, TypeVar, Unpack
from weakref import WeakSet

import anyio

from pyjms.connection.handles import ConnectionHandle, Forget, ProducerHandle, SessionHandle
from pyjms.connection.interruptions import SharedInterruptions
from pyjms.enums import AcknowledgeMode, SessionMode
from pyjms.errors import (
    ConnectionClosedException,
    ConnectionFailedException,
    IllegalStateException,
    InvalidDestinationException,
    JMSException,
    UnsupportedOperationException,
)
from pyjms.jms import api
from pyjms.jms.delegating import DelegatingConsumer, target_of
from pyjms.jms.destination import Destination, Queue, TemporaryQueue, TemporaryTopic
from pyjms.jms.domain import QueueConnectionFactory, TopicConnectionFactory
from pyjms.jms.message import Message
from pyjms.jms.metadata import ConnectionMetaData
from pyjms.management import CountStatistic, Statistics, TimeStatistic
from pyjms.runtime import clock as _clock
from pyjms.runtime.clock import FOR_EVER, check_seconds
from pyjms.runtime.event_loop import BackgroundTask, end_tasks, spawn
from pyjms.runtime.fork import inherits
from pyjms.runtime.forwarding import DelegatedAttribute, delegate_with
from pyjms.runtime.ids import IdGenerator
from pyjms.runtime.keywords import refuse_unknown_keywords
from pyjms.runtime.logging import get_logger
from pyjms.template.resources import close_quietly, quietly
from pyjms.transport.uri import TransportURI

logger: Final = get_logger(__name__)

# --- The options of a pool, under the names of Spring Boot's `pool.*` keys. (spring-jms 8 and 9.1)


class PoolKeywords(TypedDict, total=False):
    """The options as keywords, described by `PoolOptions`."""

    max_connections: int
    max_sessions_per_connection: int
    idle_timeout: float
    expiry_timeout: float
    connection_timeout: float | None
    block_if_full: bool
    block_if_full_timeout: float | None
    create_connection_on_startup: bool
    use_anonymous_producers: bool
    explicit_producer_cache_size: int
    reconnect_on_exception: bool
    time_between_expiration_check: float


_KINDS: Final = {"bool": bool, "int": int}
_SECONDS: Final = ("idle_timeout", "expiry_timeout", "time_between_expiration_check")
_SECONDS_OR_NONE: Final = ("connection_timeout", "block_if_full_timeout")


@dataclass
class PoolOptions:
    """The options of a PooledConnectionFactory; changes affect connections opened later.

    Times are seconds.
    """

    max_connections: int = 1
    """Connections for each pair of user name and password; further callers share them."""
    max_sessions_per_connection: int = 500
    """The limit of open sessions of one connection in each mode; below 0: no limit.
    ActiveMQ: maximumActiveSessionPerConnection."""
    idle_timeout: float = 30.0
    """How long an unused connection stays open; 0: for ever."""
    expiry_timeout: float = 0.0
    """The age at which a connection is replaced as soon as it is unused; 0: no limit."""
    connection_timeout: float | None = 30.0
    """How long `create_connection` waits for a connection to be opened; None: for ever."""
    block_if_full: bool = True
    """Whether `create_session` waits while all sessions are in use, instead of failing at once.
    ActiveMQ: blockIfSessionPoolIsFull."""
    block_if_full_timeout: float | None = None
    """How long `create_session` waits for a session; None: for ever."""
    create_connection_on_startup: bool = True
    """Whether `start` opens a connection."""
    use_anonymous_producers: bool = True
    """Whether all producers of a session share one producer, which has no destination."""
    explicit_producer_cache_size: int = 0
    """The number of producers that a session keeps open if they are not shared."""
    reconnect_on_exception: bool = True
    """Whether a connection that reports an exception is closed and replaced at once, instead of
    when it is unused."""
    time_between_expiration_check: float = 0.0
    """How often unused connections are checked in the background; 0: only when connections are
    taken and returned."""

    def check(self) -> None:
        """Check all options.

        Raises:
            TypeError: one has the wrong type: the text "false" would count as true.
            ValueError: a number is out of range.
        """
        for each in fields(self):
            value, kind = getattr(self, each.name), _KINDS.get(str(each.type))
            if kind is not None and type(value) is not kind:
                raise TypeError(f"{each.name} must be {kind.__name__}, not {type(value).__name__}")
        if self.max_connections < 1:
            raise ValueError(f"max_connections must be 1 or higher, not {self.max_connections}")
        if self.max_sessions_per_connection == 0:
            raise ValueError("max_sessions_per_connection must be 1 or higher, or -1 for no limit")
        if self.explicit_producer_cache_size < 0:
            raise ValueError(
                "explicit_producer_cache_size must be 0 or higher, not "
                f"{self.explicit_producer_cache_size}"
            )
        for name in _SECONDS:
            check_seconds(name, getattr(self, name))
        for name in _SECONDS_OR_NONE:
            value = getattr(self, name)
            if value is not None:
                check_seconds(name, value, otherwise=FOR_EVER)


_all: WeakSet[PoolStats] = WeakSet()
_lock = Lock()  # of the set: pools belong to any loop, and metrics are read in any thread


def pool_statistics() -> list[PoolStats]:
    """Return the statistics of all pools of this process, ordered by broker and name."""
    with _lock:
        found = list(_all)
    return sorted(found, key=lambda stats: (stats.broker, stats.name))


class PoolStats(Statistics):
    """Statistics of a PooledConnectionFactory, always on: each call costs a few counts."""

    KIND = "pool"

    connections: CountStatistic
    """Open physical connections. ActiveMQ: getNumConnections."""
    created_connections: CountStatistic
    """Physical connections opened so far."""
    expired_connections: CountStatistic
    """Physical connections closed because they were idle or too old."""
    failed_connections: CountStatistic
    """Physical connections closed because they reported an exception."""
    borrowed_connections: CountStatistic
    """Handles on connections that are not closed."""
    sessions: CountStatistic
    """Open physical sessions. ActiveMQ: getNumSessions; the idle ones are the difference."""
    active_sessions: CountStatistic
    """Sessions in use. ActiveMQ: getNumActiveSessions."""
    created_sessions: CountStatistic
    """Physical sessions opened so far."""
    discarded_sessions: CountStatistic
    """Physical sessions closed because they could not be cleaned up for their next use."""
    refused_sessions: CountStatistic
    """Calls of `create_session` that failed because all sessions were in use."""
    session_wait_time: TimeStatistic
    """Seconds that calls of `create_session` waited because all sessions were in use."""

    def __init__(self, name: str, broker: str) -> None:
        super().__init__(name)
        self.broker = broker
        """The broker's URL without options, or the class of another provider's factory."""
        with _lock:
            _all.add(self)


class PhysicalSession:
    """A session of the provider, and the producers that are kept open on it."""

    __slots__ = ("anonymous", "explicit", "session")

    def __init__(self, session: api.Session) -> None:
        self.session: api.Session = session
        self.anonymous: api.MessageProducer | None = None
        """The shared producer, without a destination; None: not created yet."""
        self.explicit: OrderedDict[Destination | None, api.MessageProducer] = OrderedDict()
        """The kept producers that have a destination, the one used longest ago first."""


class _Turn:
    """A call that waits for a session, for permission to open one, or for an error."""

    __slots__ = ("error", "event", "granted", "session")

    def __init__(self) -> None:
        self.event = anyio.Event()
        self.granted = False
        self.session: PhysicalSession | None = None
        self.error: JMSException | None = None


class SessionPool:
    """Lends a limited number of sessions; further callers wait in first-in, first-out order."""

    def __init__(
        self, owner: PhysicalConnection, transacted: bool, acknowledge_mode: SessionMode
    ) -> None:
        """Open the sessions on the connection of `owner`, in this mode."""
        self._connection = owner.connection
        self._transacted = transacted
        self._acknowledge_mode = acknowledge_mode
        self.options = owner.options
        self.is_jms_11 = owner.is_jms_11
        self._stats = owner.stats
        self._idle: deque[PhysicalSession] = deque()
        self._waiting: deque[_Turn] = deque()
        self._active = 0
        self._open_sessions = 0
        self._failure: JMSException | None = None

    async def take(self) -> PhysicalSession:
        """Return an idle session or a new one; wait if the limit is reached. Cancellable."""
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
        if self._failure is None and not self._pass_on(physical):
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
            session = await self._connection.create_session(
                self._transacted, self._acknowledge_mode
            )
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

    def _vacate(self) -> None:
        """Free the slot of a session that was closed: another session may be opened."""
        if self._failure is None:
            self._pass_on(None)

    def _pass_on(self, physical: PhysicalSession | None) -> bool:
        """Give the first waiting caller a session, or permission to open one; False: none waits."""
        if self._waiting:
            turn = self._waiting.popleft()
            turn.granted = True
            turn.session = physical
            turn.event.set()
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
        mode = AcknowledgeMode.TRANSACTED if self._transacted else self._acknowledge_mode
        name = mode.name if isinstance(mode, AcknowledgeMode) else str(mode)
        return IllegalStateException(
            f"The session pool is full: all {limit} sessions of mode {name} have been in use"
            f"{waited}",
            hint="close sessions after use, or raise max_sessions_per_connection"
            + ("" if self.options.block_if_full else "; block_if_full waits for one"),
        )


class PooledConsumer(DelegatingConsumer):
    """A consumer that is removed from its session when it is closed."""

    def __init__(self, target: api.MessageConsumer, forget: Forget) -> None:
        super().__init__(target)
        self._forget = forget

    # an extension of ActiveMQ, if the target has it; listener containers set the policy
    redelivery_policy: DelegatedAttribute[Any] = DelegatedAttribute(
        attrgetter("_target"), read_only=False
    )

    async def close(self) -> None:
        self._forget(self)
        await self._target.close()


class PooledBrowser(api.QueueBrowser):
    """A browser that is removed from its session when it is closed."""

    def __init__(self, target: api.QueueBrowser, forget: Forget) -> None:
        self._target = target
        self._forget = forget

    queue: Final = DelegatedAttribute[Queue](attrgetter("_target"), read_only=True)
    message_selector: Final = DelegatedAttribute[str | None](attrgetter("_target"), read_only=True)

    def __aiter__(self) -> AsyncIterator[Message]:
        return self._target.__aiter__()

    async def close(self) -> None:
        self._forget(self)
        await self._target.close()


_T = TypeVar("_T", bound=api.Closeable)
_D = TypeVar("_D", TemporaryQueue, TemporaryTopic)


class _PooledProducer(ProducerHandle):
    """A handle with a destination and settings, which sends through a shared producer."""

    def __init__(
        self,
        target: api.MessageProducer,
        destination: Destination | None,
        forget: Forget,
        *,
        owns_target: bool,
        is_jms_11: bool,
    ) -> None:
        """Send through `target`, which `close` closes if the handle owns it."""
        super().__init__(target, forget, target.delivery_mode, target.priority, target.time_to_live)
        self._destination = destination
        self._owns_target = owns_target
        self._is_jms_11 = is_jms_11
        self._delivery_delay = 0.0 if is_jms_11 else target.delivery_delay
        self.disable_message_id = target.disable_message_id
        self.disable_message_timestamp = target.disable_message_timestamp

    @property
    def destination(self) -> Destination | None:
        if self._closed:
            raise IllegalStateException("The producer is closed")
        return self._destination

    @property
    def delivery_delay(self) -> float:
        """Seconds before the broker delivers a message; 0 in a pool of JMS 1.1.

        Raises:
            UnsupportedOperationException: on setting, the pool supports JMS 1.1 only.
        """
        return self._delivery_delay

    @delivery_delay.setter
    def delivery_delay(self, value: float) -> None:
        if self._is_jms_11:
            raise _not_in_jms_11("delivery_delay")
        self._delivery_delay = value

    def _admit(
        self,
        destination: Destination | None,
        delivery_delay: float | None,
        completion_listener: api.CompletionListener | None,
        /,
    ) -> Destination:
        if self._is_jms_11 and completion_listener is not None:
            raise _not_in_jms_11("completion_listener")
        if self._is_jms_11 and delivery_delay is not None:
            raise _not_in_jms_11("delivery_delay")
        own = self._destination
        if own is not None and destination is not None and destination != own:
            raise UnsupportedOperationException(
                f"This producer can only send messages to: {own.physical_name}",
                hint="to give a destination with each send, create a producer without one",
            )
        if (target := own or destination) is None:
            raise UnsupportedOperationException(
                "A destination must be specified.",
                hint="this producer has none: send(message, destination=...)",
            )
        return target

    async def close(self) -> None:
        """Close the handle, and the target if it is not shared. Idempotent."""
        if not self._closed:
            await super().close()
            if self._owns_target:
                await self.target.close()


def _not_in_jms_11(call: str) -> UnsupportedOperationException:
    return UnsupportedOperationException(
        f"{call} is not supported by this pool, which supports JMS 1.1, as ActiveMQ's does",
        hint="JmsPoolConnectionFactory supports it",
    )


def _consumer(self: PooledSession, target: api.MessageConsumer) -> api.MessageConsumer:
    return self._add(PooledConsumer(target, self._open.discard))


def _browser(self: PooledSession, target: api.QueueBrowser) -> api.QueueBrowser:
    return self._add(PooledBrowser(target, self._open.discard))


class PooledSession(SessionHandle[PhysicalSession]):
    """A handle on a pooled session; after `close` every call raises IllegalStateException.

    `close` closes its consumers and browsers, rolls back an open transaction, and returns the
    session to the pool; if that fails, the session is closed.
    """

    def __init__(
        self,
        physical: PhysicalSession,
        pool: SessionPool,
        temporaries: set[TemporaryQueue | TemporaryTopic],
        on_close: Forget,
    ) -> None:
        """Use `physical`, returned to `pool` later; add temporary destinations to `temporaries`."""
        super().__init__(physical, physical.session)
        self._pool = pool
        self._temporaries = temporaries
        self._on_close = on_close
        self._open: set[api.Closeable] = set()

    def __repr__(self) -> str:
        kept = self._kept
        return "<closed pooled session>" if kept is None else f"<pooled {kept.session!r}>"

    async def create_temporary_queue(self) -> TemporaryQueue:
        return self._note_temporary(await self._target().create_temporary_queue())

    async def create_temporary_topic(self) -> TemporaryTopic:
        return self._note_temporary(await self._target().create_temporary_topic())

    async def delete_temporary(self, destination: TemporaryQueue | TemporaryTopic) -> None:
        await self._target().delete_temporary(destination)
        self._temporaries.discard(destination)

    async def create_producer(self, destination: Destination | None = None) -> api.MessageProducer:
        """Create a handle on the session's producer, or a producer if they are not shared."""
        physical = self._use()
        session = physical.session
        if self._pool.options.use_anonymous_producers:
            if destination is not None and not isinstance(destination, Destination):
                raise InvalidDestinationException(f"{destination!r} is not a destination")
            if physical.anonymous is None:
                physical.anonymous = await session.create_producer()
            target, owned = physical.anonymous, False
        elif self._pool.options.explicit_producer_cache_size:
            target, owned = await self._kept_producer(physical, destination), False
        else:
            target, owned = await session.create_producer(destination), True
        return self._add(
            _PooledProducer(
                target,
                destination,
                self._open.discard,
                owns_target=owned,
                is_jms_11=self._pool.is_jms_11,
            )
        )

    create_consumer = delegate_with(api.Session.create_consumer, target_of, _consumer)
    create_pull_consumer = delegate_with(api.Session.create_pull_consumer, target_of, _consumer)
    create_durable_subscriber = delegate_with(
        api.Session.create_durable_subscriber, target_of, _consumer
    )
    create_shared_consumer = delegate_with(api.Session.create_shared_consumer, target_of, _consumer)
    create_shared_durable_consumer = delegate_with(
        api.Session.create_shared_durable_consumer, target_of, _consumer
    )
    create_browser = delegate_with(api.Session.create_browser, target_of, _browser)

    def _take(self) -> PhysicalSession | None:
        self._on_close(self)
        return super()._take()

    async def _put_back(self, kept: PhysicalSession) -> None:
        self._pool.put(kept)

    async def _discard(self, kept: PhysicalSession | None, error: BaseException) -> None:
        logger.debug("Discarding a pooled session that cannot be cleaned up: %s", error)
        if kept is not None:
            with anyio.CancelScope(shield=True):
                await self._pool.discard(kept)
        if not isinstance(error, Exception):
            raise error

    async def _clean(self, kept: PhysicalSession) -> None:
        if self._listening:
            await kept.session.set_message_listener(None)
        for opened in list(self._open):
            await opened.close()
        if kept.session.transacted:
            await kept.session.rollback()
        if self._observing:
            kept.session.set_local_transaction_event_listener(None)

    async def _kept_producer(
        self, physical: PhysicalSession, destination: Destination | None
    ) -> api.MessageProducer:
        """Return the session's producer for a destination; close unused ones above the limit."""
        kept = physical.explicit
        target = kept.get(destination)
        if target is None:
            target = kept[destination] = await physical.session.create_producer(destination)
        kept.move_to_end(destination)
        in_use = {p.target for p in self._open if isinstance(p, _PooledProducer)} | {target}
        unused = [each for each in kept if kept[each] not in in_use]
        for oldest in unused[: max(0, len(kept) - self._pool.options.explicit_producer_cache_size)]:
            await kept.pop(oldest).close()
        return target

    def _note_temporary(self, destination: _D) -> _D:
        self._temporaries.add(destination)
        return destination

    def _add(self, opened: _T) -> _T:
        self._open.add(opened)
        return opened


Credentials = tuple[str | None, str | None]
"""User name and password, for which connections are pooled separately."""


class PhysicalConnection:
    """A connection of the provider, with the number of handles on it."""

    def __init__(
        self,
        connection: api.Connection,
        options: PoolOptions,
        stats: PoolStats,
        on_failure: Callable[[PhysicalConnection, JMSException], None],
        *,
        is_jms_11: bool,
    ) -> None:
        """Keep a connection; `on_failure` is called before the exception listeners."""
        self.connection = connection
        self.is_jms_11 = is_jms_11
        """Whether handles behave like those of ActiveMQ's pool."""
        self.references: int = 0
        self.has_failed: bool = False
        self.listeners: list[api.ExceptionListener] = []
        """The exception listeners of the handles."""
        self.interruptions: SharedInterruptions = SharedInterruptions()
        self.interruptions.watch(connection)
        self.options = options
        self.stats = stats
        self._on_failure = on_failure
        self._own_listener = connection.exception_listener
        connection.exception_listener = self._on_exception
        self._starting = anyio.Lock()
        self._is_started = False
        self._created_at = self._last_used = _clock.now()
        self._pools: dict[SessionMode, SessionPool] = {}
        stats.created_connections.increment()
        stats.connections.increment()
        self._is_open = True

    def take(self) -> None:
        """Count a new handle."""
        self.references += 1
        self._last_used = _clock.now()
        self.stats.borrowed_connections.increment()

    def give_back(self) -> None:
        """Count a closed handle."""
        self.references -= 1
        self._last_used = _clock.now()
        self.stats.borrowed_connections.decrement()

    def is_due(self) -> bool:
        """Return whether to close it: it is unused, and has failed or is idle or open too long."""
        if self.references:
            return False
        now = _clock.now()
        idle, expiry = self.options.idle_timeout, self.options.expiry_timeout
        return (
            self.has_failed
            or (idle > 0 and now > self._last_used + idle)
            or (expiry > 0 and now > self._created_at + expiry)
        )

    async def start(self) -> None:
        """Start the connection; it is never stopped."""
        async with self._starting:
            if not self._is_started:
                await self.connection.start()
                self._is_started = True

    def sessions(self, transacted: bool, acknowledge_mode: SessionMode) -> SessionPool:
        """Return the session pool of a mode."""
        mode = AcknowledgeMode.TRANSACTED if transacted else acknowledge_mode
        pool = self._pools.get(mode)
        if pool is None:
            pool = SessionPool(self, transacted, acknowledge_mode)
            if self._is_open:
                self._pools[mode] = pool
        return pool

    def end(self) -> None:
        """Mark it as about to be closed, and fail callers that wait for a session."""
        if self._is_open:
            self._is_open = False
            self.stats.connections.decrement()
            for pool in self._pools.values():
                pool.close(ConnectionClosedException())
            self._pools.clear()

    async def close(self) -> None:
        """Close the connection with all its sessions. Errors are logged."""
        self.end()
        await close_quietly(self.connection)

    def _on_exception(self, error: JMSException) -> None:
        """Mark the connection as failed; then call the listeners. Called on its loop."""
        first, self.has_failed = not self.has_failed, True
        if first:
            self._on_failure(self, error)
        for listener in [self._own_listener, *self.listeners]:
            if listener is not None:
                try:
                    listener(error)
                except Exception:
                    logger.exception("An exception listener of %r failed", self.connection)


class PooledConnection(ConnectionHandle):
    """A handle on a pooled connection, which may have several handles at the same time.

    `close` closes the sessions that were created through this handle, and deletes its temporary
    destinations. `start` starts the connection for all handles; it is never stopped.
    """

    def __init__(
        self,
        physical: PhysicalConnection,
        give_back: Callable[[PhysicalConnection], Awaitable[None]],
    ) -> None:
        """Use `physical`, which `give_back` returns."""
        super().__init__(physical.listeners, physical.interruptions)
        self._physical = physical
        self._give_back = give_back
        self._is_stopped = False
        self._sessions: set[api.Closeable] = set()
        self._temporaries: set[TemporaryQueue | TemporaryTopic] = set()

    def __repr__(self) -> str:
        return f"<pooled {self._physical.connection!r}>"

    @property
    def client_id(self) -> str | None:
        """The client id of the pooled connection, common to all its handles."""
        return self._usable().client_id

    async def set_client_id(self, client_id: str) -> None:
        """Set the client id of the pooled connection; setting its present one has no effect."""
        connection = self._usable()
        if connection.client_id != client_id:
            await connection.set_client_id(client_id)

    @property
    def metadata(self) -> ConnectionMetaData:
        """The connection's metadata."""
        return self._usable().metadata

    async def create_session(
        self, transacted: bool = False, acknowledge_mode: SessionMode = AcknowledgeMode.AUTO
    ) -> api.Session:
        """Take a session from the pool, which opens a session if none is idle.

        Waits while the maximum number of sessions is in use.

        Raises:
            IllegalStateException: all sessions are in use and `block_if_full` is off, or its
                timeout has passed; or the connection is closed.
            JMSException: the acknowledge mode is unknown.
        """
        self._usable()
        pool = self._physical.sessions(transacted, acknowledge_mode)
        physical = await pool.take()
        session = PooledSession(physical, pool, self._temporaries, self._sessions.discard)
        if self._is_closed:
            await session.close()
            raise ConnectionClosedException
        self._sessions.add(session)
        return session

    async def start(self) -> None:
        """Start the pooled connection; it is never stopped."""
        self._usable()
        await self._physical.start()

    async def stop(self) -> None:
        """Do nothing, as others use the connection; in ActiveMQ's pool, disable this handle."""
        if self._physical.is_jms_11:
            self._usable()
            self._is_stopped = True

    async def close(self) -> None:
        """Close its sessions, delete its temporary destinations, and return the connection."""
        if self._is_closed:
            return
        self._is_closed = True
        self._drop_listeners()
        try:
            for session in list(self._sessions):
                await quietly(session.close, "close a session of a pooled connection")
            await self._delete_temporaries()
        finally:
            with anyio.CancelScope(shield=True):
                await self._give_back(self._physical)

    async def _delete_temporaries(self) -> None:
        """Delete them with a separate session, as all pooled sessions may be in use."""
        if not self._temporaries or self._physical.has_failed:
            return

        async def delete_all() -> None:
            async with await self._physical.connection.create_session() as session:
                for destination in self._temporaries:
                    await quietly(
                        partial(session.delete_temporary, destination), f"delete {destination}"
                    )

        await quietly(delete_all, "delete the temporary destinations of a pooled connection")

    def _provider(self) -> api.Connection:
        return self._usable()

    def _check_listener(self) -> None:
        self._usable()

    def _usable(self) -> api.Connection:
        """Return the connection."""
        if self._is_closed or self._is_stopped:
            raise ConnectionClosedException
        return self._physical.connection


class _ConnectionPool:
    """The open connections of one pair of user name and password."""

    def __init__(self) -> None:
        self.connections: list[PhysicalConnection] = []
        self.opening = anyio.Lock()
        self._turns = itertools.count()

    def next_in_turn(self) -> PhysicalConnection:
        """Return the next connection, in round-robin order."""
        return self.connections[next(self._turns) % len(self.connections)]


class PooledConnectionFactory(QueueConnectionFactory, TopicConnectionFactory):
    """Shares a number of connections among all callers, and pools their sessions.

    ActiveMQ: PooledConnectionFactory of activemq-pool. `create_connection` opens connections up to
    `max_connections` for each pair of user name and password, then returns handles on the open ones
    in round-robin order. Closing a handle closes the objects created through it; the connection
    stays open until it is idle or open for too long, fails, or `clear` or `stop` is called. As in
    ActiveMQ's pool, which supports JMS 1.1, a handle that was stopped is unusable, and JMS 2.0
    calls are refused. Tasks of one loop may share the factory.

    Args:
        target_connection_factory: opens the connections.
        options: the options of `PoolOptions`; times are seconds.

    Raises:
        TypeError: a keyword is not an option, or a time not a number.
        ValueError: an option is out of range.
    """

    _IS_JMS_11: ClassVar = True

    def __init__(
        self, target_connection_factory: api.ConnectionFactory, **options: Unpack[PoolKeywords]
    ) -> None:
        api.check_factory(target_connection_factory, type(self).__name__)
        self.target_connection_factory = target_connection_factory
        refuse_unknown_keywords(type(self).__name__, options, PoolKeywords.__annotations__)
        self.options: PoolOptions = PoolOptions(**options)
        self.options.check()
        self.stats: PoolStats = PoolStats(_names.generate(), _broker_of(target_connection_factory))
        """The statistics of the pool, always enabled."""
        self._is_stopped = False
        self.on_fork()
        self._inheritance = inherits(self)

    def on_fork(self) -> None:
        """Start without connections, also in a forked child process, which opens its own."""
        self._pools: dict[Credentials, _ConnectionPool] = {}
        self._closing: set[BackgroundTask] = set()
        self._checker: BackgroundTask | None = None
        self.stats.reset()

    @property
    def is_running(self) -> bool:
        """Whether there is an open connection."""
        return next(self._all(), None) is not None

    @property
    def num_connections(self) -> int:
        """The number of open connections. ActiveMQ: getNumConnections."""
        return sum(1 for _ in self._all())

    async def create_connection(
        self, user_name: str | None = None, password: str | None = None
    ) -> api.Connection:
        """Return a handle on a pooled connection; open one if there are fewer than allowed.

        Raises:
            IllegalStateException: the pool is stopped.
            ConnectionFailedException: the connection was not open in `connection_timeout` seconds.
            JMSException: the connection could not be opened.
        """
        self._check_running()
        self.options.check()
        self._check_regularly()
        physical = await self._take(user_name, password)
        return PooledConnection(physical, self._give_back)

    async def start(self) -> None:
        """Allow the use of the pool, and open a connection; a failure to open is only logged.

        With `create_connection_on_startup` off, no connection is opened.
        """
        self._is_stopped = False
        self._check_regularly()
        if self.options.create_connection_on_startup:
            try:
                connection = await self.create_connection()
            except JMSException as error:
                logger.warning(
                    "Create pooled connection during start failed. This exception will be "
                    "ignored: %s",
                    error,
                )
            else:
                await connection.close()

    async def stop(self) -> None:
        """Close all connections, used or not; `create_connection` raises until `start`."""
        self._is_stopped = True
        await end_tasks(self._checker)
        self._checker = None
        await self.clear()

    async def clear(self) -> None:
        """Close all connections, used or not; the next use opens others."""
        try:
            for pool in list(self._pools.values()):
                async with pool.opening:  # wait for a connection that is being opened
                    connections, pool.connections = pool.connections, []
                for physical in connections:
                    await physical.close()
        finally:
            with anyio.CancelScope(shield=True):
                for task in list(self._closing):
                    await task.wait()

    async def destroy(self) -> None:
        """Close all connections like `stop`; all factories that keep connections have `destroy`."""
        await self.stop()

    async def expire_connections(self) -> None:
        """Close the unused connections that have been idle or open too long, or have failed."""
        for pool in list(self._pools.values()):
            due = [physical for physical in pool.connections if physical.is_due()]
            for physical in due:
                pool.connections.remove(physical)
                if not physical.has_failed:
                    self.stats.expired_connections.increment()
            for physical in due:
                await physical.close()

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *error: object) -> None:
        with anyio.CancelScope(shield=True):
            await self.stop()

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {self.target_connection_factory!r}>"

    def _all(self) -> Iterator[PhysicalConnection]:
        return (physical for pool in self._pools.values() for physical in pool.connections)

    async def _take(self, user_name: str | None, password: str | None) -> PhysicalConnection:
        """Take an open connection, or open one if there are fewer than allowed."""
        await self.expire_connections()
        pool = self._pools.setdefault((user_name, password), _ConnectionPool())
        with _clock.timeout(self.options.connection_timeout):
            async with pool.opening:
                self._check_running()
                if len(pool.connections) < self.options.max_connections:
                    physical = await self._open(user_name, password)
                    pool.connections.append(physical)
                else:
                    physical = pool.next_in_turn()
                physical.take()
                return physical
        raise ConnectionFailedException(
            f"No pooled connection was open in {self.options.connection_timeout:g} seconds",
            hint="the pool's option connection_timeout sets this time",
        )

    def _check_running(self) -> None:
        if self._is_stopped:
            raise IllegalStateException(
                "The connection pool is stopped", hint="start() allows its use again"
            )

    async def _open(self, user_name: str | None, password: str | None) -> PhysicalConnection:
        target = self.target_connection_factory
        if user_name is None and password is None:
            connection = await target.create_connection()
        else:
            connection = await target.create_connection(user_name, password)
        return PhysicalConnection(
            connection, self.options, self.stats, self._on_failure, is_jms_11=self._IS_JMS_11
        )

    async def _give_back(self, physical: PhysicalConnection) -> None:
        physical.give_back()
        await self.expire_connections()

    def _on_failure(self, physical: PhysicalConnection, error: JMSException) -> None:
        """Close a connection that has reported an exception, if the options say so."""
        self.stats.failed_connections.increment()
        if not self.options.reconnect_on_exception:
            return
        for pool in self._pools.values():
            if physical in pool.connections:
                logger.info("Closing a pooled connection after an exception: %s", error)
                pool.connections.remove(physical)
                physical.end()
                task = spawn(physical.close, name="close a failed pooled connection")
                self._closing = {t for t in self._closing if not t.done} | {task}

    def _check_regularly(self) -> None:
        """Start the background check, unless it runs or is off."""
        if self.options.time_between_expiration_check > 0 and self._checker is None:
            self._checker = spawn(self._check_periodically, name="pyjms pool expiration check")

    async def _check_periodically(self) -> None:
        while True:
            await _clock.sleep(self.options.time_between_expiration_check)
            await self.expire_connections()


class JmsPoolConnectionFactory(PooledConnectionFactory):
    """The pool of Spring Boot: a PooledConnectionFactory for JMS 2.0.

    pooled-jms: JmsPoolConnectionFactory. Stopping a connection has no effect, as others use the
    connection, and JMS 2.0 calls are passed on. Takes the arguments of PooledConnectionFactory.
    """

    _IS_JMS_11: ClassVar = False


_names = IdGenerator("pool:")


def _broker_of(factory: api.ConnectionFactory) -> str:
    uri = getattr(factory, "uri", None)
    return str(uri.without_options()) if isinstance(uri, TransportURI) else type(factory).__name__
