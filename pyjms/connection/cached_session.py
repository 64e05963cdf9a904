"""The session of a CachingConnectionFactory: a handle on a session that is used again."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, TypeVar

import anyio

from pyjms.connection.cached_members import CachedConsumer, CachedProducer
from pyjms.connection.delegating import DelegatingSession
from pyjms.enums import AcknowledgeMode
from pyjms.errors import IllegalStateException
from pyjms.jms.api import (
    Closeable,
    Connection,
    MessageConsumer,
    MessageListener,
    MessageProducer,
    QueueBrowser,
    Session,
)
from pyjms.jms.destination import Destination, Queue, Topic

if TYPE_CHECKING:
    from pyjms.connection.caching import CachingConnectionFactory

__all__ = ["CachedSession", "SessionEntry"]


_Handle = TypeVar("_Handle", CachedProducer, CachedConsumer)


class _ConsumerKey(NamedTuple):
    destination: Destination
    selector: str | None
    no_local: bool
    subscription: str | None


class SessionEntry:
    """A physical session with what was created on it and is kept."""

    __slots__ = ("connection", "consumers", "mode", "producers", "session", "uncommitted")

    def __init__(
        self, session: Session, connection: Connection, mode: AcknowledgeMode | int
    ) -> None:
        self.session = session
        self.connection = connection
        self.mode = mode
        self.producers: dict[Destination | None, MessageProducer] = {}
        self.consumers: dict[_ConsumerKey, MessageConsumer] = {}
        self.uncommitted = False

    async def close(self) -> None:
        """Close the session and all that was kept with it."""
        for producer in self.producers.values():
            await producer.close()
        for consumer in self.consumers.values():
            await consumer.close()
        self.producers.clear()
        self.consumers.clear()
        await self.session.close()


class CachedSession(DelegatingSession):
    """One use of a cached session, from `create_session` to `close`.

    Closing rolls back what a transaction has left open, closes durable subscribers and
    gives the session back. After that the handle is dead; the session may live on with
    another.
    """

    def __init__(self, factory: CachingConnectionFactory, entry: SessionEntry) -> None:
        self._factory = factory
        self._entry: SessionEntry | None = entry
        self._handles: set[Closeable] = set()
        self._listening = False

    def __repr__(self) -> str:
        return f"<cached {self._entry.session!r}>" if self._entry else "<closed cached session>"

    async def create_producer(self, destination: Destination | None = None) -> MessageProducer:
        """Take the producer that was made for this destination before, or make one."""
        entry = self._touched()
        if not self._factory.cache_producers or _is_temporary(destination):
            return await entry.session.create_producer(destination)
        producer = entry.producers.get(destination)
        if producer is None:
            producer = await entry.session.create_producer(destination)
            entry.producers[destination] = producer
        return self._handed(CachedProducer(producer, self._touch, self._handles.discard))

    async def create_consumer(
        self, destination: Destination, selector: str | None = None, *, no_local: bool = False
    ) -> MessageConsumer:
        """Take the consumer that was made for the same before, or make one."""
        entry = self._touched()
        if not self._factory.cache_consumers or _is_temporary(destination):
            return await entry.session.create_consumer(destination, selector, no_local=no_local)
        key = _ConsumerKey(destination, selector or None, no_local, None)
        target = entry.consumers.get(key)
        if target is None:
            target = await entry.session.create_consumer(destination, selector, no_local=no_local)
            entry.consumers[key] = target
        return self._handed(CachedConsumer(target, self._touch, self._handles.discard))

    async def create_durable_subscriber(
        self, topic: Topic, name: str, selector: str | None = None, *, no_local: bool = False
    ) -> MessageConsumer:
        """Take the subscriber that this session made before, or make one; it ends with `close`."""
        entry = self._touched()
        session = entry.session
        if not self._factory.cache_consumers:
            return await session.create_durable_subscriber(topic, name, selector, no_local=no_local)
        key = _ConsumerKey(topic, selector or None, no_local, name)
        target = entry.consumers.get(key)
        if target is None:
            target = await session.create_durable_subscriber(
                topic, name, selector, no_local=no_local
            )
            entry.consumers[key] = target
        return self._handed(CachedConsumer(target, self._touch, self._handles.discard))

    async def create_browser(self, queue: Queue, selector: str | None = None) -> QueueBrowser:
        """Make a browser; these are not kept."""
        return await self._touched().session.create_browser(queue, selector)

    async def set_message_listener(self, listener: MessageListener | None) -> None:
        """Set the session's listener; it is taken away when this handle closes."""
        await self._touched().session.set_message_listener(listener)
        self._listening = listener is not None

    async def commit(self) -> None:
        """Commit; nothing is left open then."""
        await self._target().commit()
        self._settled()

    async def rollback(self) -> None:
        """Roll back; nothing is left open then."""
        await self._target().rollback()
        self._settled()

    async def close(self) -> None:
        """Give the session back, as the class says; a session that cannot be cleaned is closed."""
        entry, self._entry = self._entry, None
        if entry is None:
            return
        try:
            await self._clean(entry)
        except BaseException:
            with anyio.CancelScope(shield=True):
                await entry.close()
            raise
        await self._factory._take_back(entry)

    async def _clean(self, entry: SessionEntry) -> None:
        for handle in list(self._handles):
            await handle.close()
        if self._listening:
            await entry.session.set_message_listener(None)
        if entry.uncommitted and entry.mode == AcknowledgeMode.TRANSACTED:
            await entry.session.rollback()
        entry.uncommitted = False
        for key in [key for key in entry.consumers if key.subscription is not None]:
            await entry.consumers.pop(key).close()

    def _target(self) -> Session:
        if self._entry is None:
            raise IllegalStateException("The session is closed")
        return self._entry.session

    def _touched(self) -> SessionEntry:
        """Return the entry, and note that there is something to roll back."""
        if self._entry is None:
            raise IllegalStateException("The session is closed")
        self._entry.uncommitted = True
        return self._entry

    def _touch(self) -> None:
        self._touched()

    def _settled(self) -> None:
        if self._entry is not None:
            self._entry.uncommitted = False

    def _handed(self, handle: _Handle) -> _Handle:
        self._handles.add(handle)
        return handle


def _is_temporary(destination: Destination | None) -> bool:
    return destination is not None and destination.is_temporary
