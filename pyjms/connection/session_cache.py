"""The cached sessions of a connection, with their producers and consumers. (spring-jms 3.2)

A `CachedSession` is one use of a session, from `create_session` to `close`. Closing it closes its
handles on producers and consumers, rolls back an open transaction, closes durable subscribers and
returns the session to the cache. A session that cannot be cleaned up is closed. Compiled in the
compiled wheel, as the handles are.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Callable
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import anyio

from pyjms.connection.handles import Forget, ProducerHandle, SessionHandle
from pyjms.enums import AcknowledgeMode, SessionMode
from pyjms.errors import IllegalStateException
from pyjms.jms import api
from pyjms.jms.delegating import DelegatingConsumer
from pyjms.jms.destination import ADVISORY_PREFIX, Destination, Topic
from pyjms.jms.message import Message
from pyjms.template.resources import quietly

if TYPE_CHECKING:
    from pyjms.connection.caching import CachingConnectionFactory, Sharing


class KeptProducer:
    """A producer that stays open, and the settings with which each of its handles begins."""

    __slots__ = (
        "delivery_delay", "delivery_mode", "disable_message_id", "disable_message_timestamp",
        "priority", "target", "time_to_live",
    )  # fmt: skip

    def __init__(self, target: api.MessageProducer) -> None:
        self.target: api.MessageProducer = target
        self.delivery_mode: Any = target.delivery_mode
        self.priority: Any = target.priority
        self.time_to_live: Any = target.time_to_live
        self.delivery_delay: Any = target.delivery_delay
        self.disable_message_id: Any = target.disable_message_id
        self.disable_message_timestamp: Any = target.disable_message_timestamp


class CachedProducer(ProducerHandle):
    """A producer with separate settings, which stays open."""

    def __init__(self, kept: KeptProducer, entry: SessionEntry, forget: Forget) -> None:
        super().__init__(kept.target, forget, kept.delivery_mode, kept.priority, kept.time_to_live)
        self._entry = entry
        self.delivery_delay: Any = kept.delivery_delay
        self.disable_message_id: Any = kept.disable_message_id
        self.disable_message_timestamp: Any = kept.disable_message_timestamp

    @property
    def destination(self) -> Destination | None:
        destination: Destination | None = self.target.destination
        return destination

    def _admit(
        self,
        destination: Destination | None,
        delivery_delay: float | None,
        completion_listener: api.CompletionListener | None,
        /,
    ) -> Destination | None:
        self._entry.uncommitted = True
        target = self.target  # another handle may have sent with other hints
        target.disable_message_id = self.disable_message_id
        target.disable_message_timestamp = self.disable_message_timestamp
        return destination


class CachedConsumer(DelegatingConsumer):
    """A consumer that stays open; `close` removes a listener set through this handle."""

    def __init__(
        self,
        target: api.MessageConsumer,
        entry: SessionEntry,
        forget: Forget,
        discard: Callable[[], Awaitable[None]] | None = None,
    ) -> None:
        """Receive from `target`; `discard` closes the target if a receive was interrupted."""
        super().__init__(target)
        self._entry = entry
        self._forget = forget
        self._discard = discard
        self._closed = False
        self._listening = False
        self._is_announcing = False
        self._receiving = False

    @property
    def is_closed(self) -> bool:
        """Whether this handle or its target is closed."""
        return self._closed or self._target.is_closed

    async def set_message_listener(self, listener: api.MessageListener | None) -> None:
        """Set the listener, until this handle is closed."""
        await super().set_message_listener(listener)
        self._listening = listener is not None

    async def set_message_available_listener(
        self, listener: api.MessageAvailableListener | None
    ) -> None:
        """Set the listener, until this handle is closed."""
        await super().set_message_available_listener(listener)
        self._is_announcing = listener is not None

    async def receive(self, timeout: float | None = None) -> Message | None:
        """Wait for the next message and return it, or None when `timeout` seconds pass."""
        consumer = self._consumer()
        self._entry.uncommitted = True
        return await self._receive(consumer.receive(timeout))

    async def receive_checked(
        self, check: Callable[[Message], object], timeout: float | None = None
    ) -> Message | None:
        """Receive like `receive`; a message for which `check` raises stays in the target."""
        consumer = self._consumer()
        self._entry.uncommitted = True
        return await self._receive(consumer.receive_checked(check, timeout))

    async def _receive(self, receiving: Awaitable[Message | None]) -> Message | None:
        self._receiving = True
        message = await receiving
        self._receiving = False
        return message

    async def close(self) -> None:
        """Remove the listener; the target stays open and keeps its prefetched messages.

        A pull consumer is closed if a receive was interrupted: its message may still arrive.
        """
        if not self._closed:
            self._closed = True
            self._forget(self)
            if self._receiving and self._discard is not None:
                await self._discard()
                return
            if self._listening:
                await self._target.set_message_listener(None)
            if self._is_announcing:
                await self._target.set_message_available_listener(None)

    def _consumer(self) -> api.MessageConsumer:
        if self._closed:
            raise IllegalStateException("The consumer is closed")
        return self._target


class _ConsumerKey(NamedTuple):
    destination: Destination
    selector: str | None
    no_local: bool
    subscription: str | None
    pulls: bool = False


class SessionEntry:
    """A physical session, with its cached producers and consumers."""

    __slots__ = ("connection", "consumers", "mode", "producers", "session", "uncommitted")

    def __init__(self, session: api.Session, connection: api.Connection, mode: SessionMode) -> None:
        self.session: api.Session = session
        self.connection: api.Connection = connection
        self.mode: SessionMode = mode
        self.producers: dict[tuple[int, str] | None, KeptProducer] = {}
        """By the identity of the destination; None: the producer without a destination."""
        self.consumers: dict[_ConsumerKey, api.MessageConsumer] = {}
        self.uncommitted: bool = False

    async def close_consumers(self, condition: Callable[[_ConsumerKey], bool]) -> None:
        """Close the cached consumers for which `condition` is true."""
        for key in [key for key in self.consumers if condition(key)]:
            await self.consumers.pop(key).close()

    async def close(self) -> None:
        """Close the session and its cached producers and consumers.

        The session is closed before its producers: it waits once for all asynchronous sends.
        """
        producers = [kept.target for kept in self.producers.values()]
        for kept in (*self.consumers.values(), self.session, *producers):
            await kept.close()
        self.producers.clear()
        self.consumers.clear()


class CachedSession(SessionHandle[SessionEntry]):
    """One use of a cached session; after `close` every call raises IllegalStateException."""

    def __init__(
        self,
        entry: SessionEntry,
        cache: SessionCache,
        *,
        cache_producers: bool,
        cache_consumers: bool,
    ) -> None:
        """Use the session of `entry`, which returns to `cache` on close."""
        super().__init__(entry, entry.session)
        self._cache = cache
        self._cache_producers = cache_producers
        self._cache_consumers = cache_consumers
        self._handles: set[api.Closeable] = set()

    def __repr__(self) -> str:
        return f"<cached {self._session!r}>" if self._kept else "<closed cached session>"

    async def create_producer(self, destination: Destination | None = None) -> api.MessageProducer:
        """Reuse the producer of this destination, or create one."""
        entry = self._use()
        if not self._cache_producers or (destination is not None and destination.is_temporary):
            return await entry.session.create_producer(destination)
        key = None if destination is None else destination.identity
        kept = entry.producers.get(key)
        if kept is None:
            kept = KeptProducer(await entry.session.create_producer(destination))
            entry.producers[key] = kept
            self._use()  # another task may have closed this handle, and have returned the session
        handle = CachedProducer(kept, entry, self._handles.discard)
        self._handles.add(handle)
        return handle

    async def create_consumer(
        self, destination: Destination, selector: str | None = None, *, no_local: bool = False
    ) -> api.MessageConsumer:
        """Reuse the consumer with these arguments, or create one."""
        self._use()
        create = self._session.create_consumer
        return await self._consumer(
            _ConsumerKey(destination, selector or None, no_local, None),
            lambda: create(destination, selector, no_local=no_local),
        )

    async def create_pull_consumer(
        self,
        destination: Destination,
        selector: str | None = None,
        *,
        no_local: bool = False,
        timeout: float | None = None,
    ) -> api.MessageConsumer:
        """Reuse the pull consumer with these arguments, or create one."""
        self._use()
        create = self._session.create_pull_consumer
        return await self._consumer(
            _ConsumerKey(destination, selector or None, no_local, None, pulls=True),
            lambda: create(destination, selector, no_local=no_local, timeout=timeout),
        )

    async def create_durable_subscriber(
        self, topic: Topic, name: str, selector: str | None = None, *, no_local: bool = False
    ) -> api.MessageConsumer:
        """Reuse the subscriber of this session or create one; closing the session closes it."""
        self._use()
        create = self._session.create_durable_subscriber
        return await self._consumer(
            _ConsumerKey(topic, selector or None, no_local, name),
            lambda: create(topic, name, selector, no_local=no_local),
        )

    async def commit(self) -> None:
        """Commit; afterwards there is nothing to roll back."""
        await self._target().commit()
        kept = self._kept
        if kept is not None:  # not closed meanwhile
            kept.uncommitted = False

    async def rollback(self) -> None:
        """Roll back; afterwards there is nothing more to roll back.

        Pull consumers are closed, so that their messages return to the broker: in the cache they
        would wait for a receive that may never come.
        """
        await self._target().rollback()
        kept = self._kept
        if kept is not None:  # not closed meanwhile
            kept.uncommitted = False
            await kept.close_consumers(lambda key: key.pulls)

    async def _put_back(self, kept: SessionEntry) -> None:
        await self._cache.put_back(kept)

    async def _discard(self, kept: SessionEntry | None, error: BaseException) -> None:
        if kept is not None:
            with anyio.CancelScope(shield=True):
                await kept.close()
        raise error

    async def _clean(self, kept: SessionEntry) -> None:
        for handle in list(self._handles):
            await handle.close()
        if self._listening:
            await kept.session.set_message_listener(None)
        rolls_back = kept.uncommitted and kept.mode == AcknowledgeMode.TRANSACTED
        if rolls_back:
            await kept.session.rollback()
        kept.uncommitted = False
        if self._observing:
            kept.session.set_local_transaction_event_listener(None)
        if kept.consumers:
            await kept.close_consumers(
                lambda key: key.subscription is not None or (rolls_back and key.pulls)
            )

    async def _consumer(
        self, key: _ConsumerKey, create: Callable[[], Awaitable[api.MessageConsumer]]
    ) -> api.MessageConsumer:
        """Return a handle on the consumer cached under `key`; create one if there is none."""
        # a new consumer of advisories is told what is there, a cached one is not
        is_advisory = key.destination.physical_name.startswith(ADVISORY_PREFIX)
        if not self._cache_consumers or key.destination.is_temporary or is_advisory:
            return await create()
        entry = self._use()
        target = entry.consumers.get(key)
        if target is None:
            target = entry.consumers[key] = await create()
            self._use()  # as above

        discard = partial(entry.close_consumers, lambda kept: kept == key)
        handle = CachedConsumer(
            target, entry, self._handles.discard, discard if key.pulls else None
        )
        self._handles.add(handle)
        return handle

    def _use(self) -> SessionEntry:
        """Return the entry, and record that there may be work to roll back."""
        entry = self._kept
        if entry is None:
            raise IllegalStateException("The session is closed")
        entry.uncommitted = True
        return entry

    def _used_target(self) -> api.Session:
        return self._use().session


class SessionCache:
    """The sessions of a CachingConnectionFactory that are not in use."""

    def __init__(self, factory: CachingConnectionFactory, sharing: Sharing) -> None:
        self._factory = factory
        self._sharing = sharing
        self._idle: dict[SessionMode, deque[SessionEntry]] = {}

    async def open_session(
        self, connection: api.Connection, transacted: bool, acknowledge_mode: SessionMode
    ) -> api.Session:
        """Return a handle on an idle session of `connection`, or on a new one."""
        mode = AcknowledgeMode.TRANSACTED if transacted else acknowledge_mode
        idle = self._idle.get(mode)
        entry: SessionEntry | None = None
        while idle and (entry is None or entry.connection is not connection):
            entry = idle.popleft()
        if entry is None or entry.connection is not connection:
            session = await connection.create_session(transacted, acknowledge_mode)
            entry = SessionEntry(session, connection, mode)
        factory = self._factory
        return CachedSession(
            entry,
            self,
            cache_producers=factory.cache_producers,
            cache_consumers=factory.cache_consumers,
        )

    async def put_back(self, entry: SessionEntry) -> None:
        """Keep an idle session; close it if the cache is full or the connection was replaced."""
        idle = self._idle.setdefault(entry.mode, deque())
        is_current = entry.connection is self._sharing.connection
        if is_current and len(idle) < self._factory.session_cache_size:
            idle.append(entry)
        else:
            await entry.close()

    async def close_sessions(self, connection: api.Connection) -> None:
        """Close the idle sessions of a connection."""
        for idle in self._idle.values():
            for entry in [each for each in idle if each.connection is connection]:
                idle.remove(entry)
                await quietly(entry.close, "close a cached session")
