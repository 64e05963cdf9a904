"""A shared connection whose sessions, producers and consumers are reused. (spring-jms 3.2)

Handles on cached sessions, producers and consumers: closing a handle keeps its target open.

A `CachedSession` is one use of a session, from `create_session` to `close`. Closing it closes its
handles on producers and consumers, rolls back an open transaction, closes durable subscribers and
returns the session to the cache. A session that cannot be cleaned up is closed.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Callable
from operator import attrgetter
from typing import Final, NamedTuple, TypeVar, Unpack

import anyio

from pyjms.connection.handles import Forget, ProducerHandle, SessionHandle
from pyjms.connection.single import SingleConnectionFactory
from pyjms.enums import AcknowledgeMode, SessionMode
from pyjms.errors import IllegalStateException
from pyjms.jms.api import (
    Closeable,
    CompletionListener,
    Connection,
    ConnectionFactory,
    ExceptionListener,
    MessageAvailableListener,
    MessageConsumer,
    MessageListener,
    MessageProducer,
    Session,
)
from pyjms.jms.api.connection import check_least
from pyjms.jms.api.delegating import DelegatingConsumer
from pyjms.jms.api.session import PullOptions
from pyjms.jms.destination import Destination, Topic
from pyjms.jms.message import Message
from pyjms.runtime.forwarding import DelegatedAttribute, delegated
from pyjms.template.closing import quietly

Touch = Callable[[], object]
"""Records that the session may have work to roll back."""


class CachedProducer(ProducerHandle):
    """A producer with separate quality of service; `close` restores the target's hints."""

    def __init__(self, target: MessageProducer, touch: Touch, forget: Forget) -> None:
        super().__init__(target, forget)
        self._touch = touch
        self._hints = (target.disable_message_id, target.disable_message_timestamp)
        self.delivery_delay: float = target.delivery_delay

    destination: Final = DelegatedAttribute[Destination | None](
        attrgetter("target"), read_only=True
    )
    disable_message_id = DelegatedAttribute[bool](attrgetter("target"), read_only=False)
    disable_message_timestamp = DelegatedAttribute[bool](attrgetter("target"), read_only=False)

    def _admit(
        self, destination: Destination | None, *_: float | CompletionListener | None
    ) -> Destination | None:
        self._touch()
        return destination

    async def _release(self) -> None:
        """Restore the hints; the target stays open."""
        self.target.disable_message_id, self.target.disable_message_timestamp = self._hints


class CachedConsumer(DelegatingConsumer):
    """A consumer that stays open; `close` removes a listener set through this handle."""

    def __init__(
        self,
        target: MessageConsumer,
        touch: Touch,
        forget: Forget,
        discard: Callable[[], Awaitable[None]] | None = None,
    ) -> None:
        """Receive from `target`; `discard` closes the target if a receive was interrupted."""
        super().__init__(target)
        self._touch = touch
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

    async def set_message_listener(self, listener: MessageListener | None) -> None:
        """Set the listener, until this handle is closed."""
        await super().set_message_listener(listener)
        self._listening = listener is not None

    async def set_message_available_listener(
        self, listener: MessageAvailableListener | None
    ) -> None:
        """Set the listener, until this handle is closed."""
        await super().set_message_available_listener(listener)
        self._is_announcing = listener is not None

    async def receive(self, timeout: float | None = None) -> Message | None:
        """Wait for the next message and return it, or None when `timeout` seconds pass."""
        consumer = self._consumer()
        self._touch()
        return await self._receive(consumer.receive(timeout))

    async def receive_checked(
        self, check: Callable[[Message], object], timeout: float | None = None
    ) -> Message | None:
        """Receive like `receive`; a message for which `check` raises stays in the target."""
        consumer = self._consumer()
        self._touch()
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

    def _consumer(self) -> MessageConsumer:
        if self._closed:
            raise IllegalStateException("The consumer is closed")
        return self._target


_Handle = TypeVar("_Handle", CachedProducer, CachedConsumer)


class _ConsumerKey(NamedTuple):
    destination: Destination
    selector: str | None
    no_local: bool
    subscription: str | None
    pulls: bool = False


class SessionEntry:
    """A physical session, with its cached producers and consumers."""

    __slots__ = ("connection", "consumers", "mode", "producers", "session", "uncommitted")

    def __init__(self, session: Session, connection: Connection, mode: SessionMode) -> None:
        self.session: Session = session
        self.connection: Connection = connection
        self.mode: SessionMode = mode
        self.producers: dict[Destination | None, MessageProducer] = {}
        self.consumers: dict[_ConsumerKey, MessageConsumer] = {}
        self.uncommitted: bool = False

    async def close_consumers(self, condition: Callable[[_ConsumerKey], bool]) -> None:
        """Close the cached consumers for which `condition` is true."""
        for key in [key for key in self.consumers if condition(key)]:
            await self.consumers.pop(key).close()

    async def close(self) -> None:
        """Close the session and its cached producers and consumers.

        The session is closed before its producers: it waits once for all asynchronous sends.
        """
        for kept in (*self.consumers.values(), self.session, *self.producers.values()):
            await kept.close()
        self.producers.clear()
        self.consumers.clear()


def _session_of(self: CachedSession) -> Session:
    return self._use_for_work().session


class CachedSession(SessionHandle[SessionEntry]):
    """One use of a cached session; after `close` every call raises IllegalStateException."""

    def __init__(
        self,
        entry: SessionEntry,
        release: Callable[[SessionEntry], Awaitable[None]],
        *,
        cache_producers: bool,
        cache_consumers: bool,
    ) -> None:
        """Use the session of `entry`, which is passed to `release` on close."""
        self._release = release
        self._cache_producers = cache_producers
        self._cache_consumers = cache_consumers
        super().__init__(entry)
        self._handles: set[Closeable] = set()

    def __repr__(self) -> str:
        return f"<cached {self._kept.session!r}>" if self._kept else "<closed cached session>"

    async def create_producer(self, destination: Destination | None = None) -> MessageProducer:
        """Reuse the producer of this destination, or create one."""
        entry = self._use_for_work()
        if not self._cache_producers or _is_temporary(destination):
            return await entry.session.create_producer(destination)
        producer = entry.producers.get(destination)
        if producer is None:
            producer = await entry.session.create_producer(destination)
            entry.producers[destination] = producer
        return self._add_handle(CachedProducer(producer, self._use_for_work, self._handles.discard))

    async def create_consumer(
        self, destination: Destination, selector: str | None = None, *, no_local: bool = False
    ) -> MessageConsumer:
        """Reuse the consumer with these arguments, or create one."""
        create = self._use_for_work().session.create_consumer
        return await self._consumer(
            _ConsumerKey(destination, selector or None, no_local, None),
            lambda: create(destination, selector, no_local=no_local),
        )

    async def create_pull_consumer(
        self, destination: Destination, selector: str | None = None, **options: Unpack[PullOptions]
    ) -> MessageConsumer:
        """Reuse the pull consumer with these arguments, or create one."""
        create = self._use_for_work().session.create_pull_consumer
        no_local = options.get("no_local", False)
        return await self._consumer(
            _ConsumerKey(destination, selector or None, no_local, None, pulls=True),
            lambda: create(destination, selector, **options),
        )

    async def create_durable_subscriber(
        self, topic: Topic, name: str, selector: str | None = None, *, no_local: bool = False
    ) -> MessageConsumer:
        """Reuse the subscriber of this session or create one; closing the session closes it."""
        create = self._use_for_work().session.create_durable_subscriber
        return await self._consumer(
            _ConsumerKey(topic, selector or None, no_local, name),
            lambda: create(topic, name, selector, no_local=no_local),
        )

    # never cached
    create_shared_consumer = delegated(Session.create_shared_consumer, _session_of)
    create_shared_durable_consumer = delegated(Session.create_shared_durable_consumer, _session_of)
    create_browser = delegated(Session.create_browser, _session_of)
    add_synchronization = delegated(Session.add_synchronization, _session_of)

    async def commit(self) -> None:
        """Commit; afterwards there is nothing to roll back."""
        await self._target().commit()
        self._note_settled()

    async def rollback(self) -> None:
        """Roll back; afterwards there is nothing more to roll back.

        Pull consumers are closed, so that their messages return to the broker: in the cache they
        would wait for a receive that may never come.
        """
        await self._target().rollback()
        self._note_settled()
        if self._kept is not None:
            await self._kept.close_consumers(lambda key: key.pulls)

    async def _put_back(self, kept: SessionEntry) -> None:
        await self._release(kept)

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
        await kept.close_consumers(
            lambda key: key.subscription is not None or (rolls_back and key.pulls)
        )

    async def _consumer(
        self, key: _ConsumerKey, create: Callable[[], Awaitable[MessageConsumer]]
    ) -> MessageConsumer:
        """Return a handle on the consumer cached under `key`; create one if there is none."""
        if not self._cache_consumers or _is_temporary(key.destination):
            return await create()
        entry = self._use()
        target = entry.consumers.get(key)
        if target is None:
            target = entry.consumers[key] = await create()

        async def discard() -> None:
            await entry.close_consumers(lambda kept: kept == key)

        return self._add_handle(
            CachedConsumer(
                target, self._use_for_work, self._handles.discard, discard if key.pulls else None
            )
        )

    def _use_for_work(self) -> SessionEntry:
        """Return the entry, and record that there may be work to roll back."""
        entry = self._use()
        entry.uncommitted = True
        return entry

    def _note_settled(self) -> None:
        if self._kept is not None:
            self._kept.uncommitted = False

    def _add_handle(self, handle: _Handle) -> _Handle:
        self._handles.add(handle)
        return handle


def _is_temporary(destination: Destination | None) -> bool:
    return destination is not None and destination.is_temporary


class CachingConnectionFactory(SingleConnectionFactory):
    """A SingleConnectionFactory that also caches sessions. Spring: CachingConnectionFactory.

    Up to `session_cache_size` idle sessions are kept for each acknowledge mode (transacted counts
    as one), with their producers and consumers. More are created on demand, and closed when they
    are returned to a full cache. Tasks of one loop may share the factory.

    A cached consumer keeps prefetching messages even if none are received, so consumers are not
    cached by default, as in Spring Boot. The consumers of a template have no prefetch. Do not use a
    caching factory for listener containers that scale.

    Args:
        target_connection_factory: opens the connection.
        session_cache_size: idle sessions to keep for each acknowledge mode; at least 1.
        cache_producers: whether sessions keep their producers.
        cache_consumers: whether sessions keep their consumers. The default of Spring's class is
            true, Spring Boot's is false.
        client_id: set on the connection when it is opened.
        exception_listener: called with the exceptions that the connection reports.
        reconnect_on_exception: open a new connection after the connection reported an exception.

    Raises:
        ValueError: `session_cache_size` is below 1.
    """

    def __init__(
        self,
        target_connection_factory: ConnectionFactory,
        *,
        session_cache_size: int = 1,
        cache_producers: bool = True,
        cache_consumers: bool = False,
        client_id: str | None = None,
        exception_listener: ExceptionListener | None = None,
        reconnect_on_exception: bool = True,
    ) -> None:
        super().__init__(
            target_connection_factory,
            client_id=client_id,
            exception_listener=exception_listener,
            reconnect_on_exception=reconnect_on_exception,
        )
        check_least("session_cache_size", session_cache_size, 1)
        self.session_cache_size = session_cache_size
        self.cache_producers = cache_producers
        self.cache_consumers = cache_consumers
        self._idle: dict[SessionMode, deque[SessionEntry]] = {}

    async def _open_session(
        self, connection: Connection, transacted: bool, acknowledge_mode: SessionMode
    ) -> Session:
        mode = AcknowledgeMode.TRANSACTED if transacted else acknowledge_mode
        idle = self._idle.setdefault(mode, deque())
        while idle:
            entry = idle.popleft()
            if entry.connection is connection:
                return self._handle(entry)
        session = await connection.create_session(transacted, acknowledge_mode)
        return self._handle(SessionEntry(session, connection, mode))

    def _handle(self, entry: SessionEntry) -> CachedSession:
        return CachedSession(
            entry,
            self._release,
            cache_producers=self.cache_producers,
            cache_consumers=self.cache_consumers,
        )

    async def _release(self, entry: SessionEntry) -> None:
        """Keep an idle session; close it if the cache is full or the connection was replaced."""
        idle = self._idle.setdefault(entry.mode, deque())
        if entry.connection is self._sharing.connection and len(idle) < self.session_cache_size:
            idle.append(entry)
        else:
            await entry.close()

    async def _close_physically(self, connection: Connection, started: bool) -> None:
        for idle in self._idle.values():
            for entry in [e for e in idle if e.connection is connection]:
                idle.remove(entry)
                await quietly(entry.close, "close a cached session")
        await super()._close_physically(connection, started)
