"""Handles on cached sessions, producers and consumers: closing a handle keeps its target open.

A `CachedSession` is one use of a session, from `create_session` to `close`. Closing it closes its
handles on producers and consumers, rolls back what a transaction has left open, closes durable
subscribers and returns the session to the cache. A session that cannot be cleaned up is closed.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from operator import attrgetter
from typing import NamedTuple, TypeVar

import anyio

from pyjms._forwarding import DelegatedAttribute
from pyjms.connection.delegating import DelegatingSession
from pyjms.enums import AcknowledgeMode, DeliveryMode
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
from pyjms.jms.message import Message
from pyjms.jms.producer_consumer import destination_first

__all__ = ["CachedConsumer", "CachedProducer", "CachedSession", "SessionEntry"]


class CachedProducer(MessageProducer):
    """A producer with its own quality of service; `close` restores the hints of the target."""

    def __init__(
        self,
        target: MessageProducer,
        touch: Callable[[], None],
        forget: Callable[[Closeable], None],
    ) -> None:
        self._target = target
        self._touch = touch
        self._forget = forget
        self._closed = False
        self._hints = (target.disable_message_id, target.disable_message_timestamp)
        self.delivery_mode: DeliveryMode = target.delivery_mode
        self.priority: int = target.priority
        self.time_to_live: float = target.time_to_live

    destination = DelegatedAttribute[Destination | None](attrgetter("_target"), read_only=True)
    disable_message_id = DelegatedAttribute[bool](attrgetter("_target"), read_only=False)
    disable_message_timestamp = DelegatedAttribute[bool](attrgetter("_target"), read_only=False)

    async def send(
        self,
        message: Message | Destination,
        to_send: Message | None = None,
        *,
        destination: Destination | None = None,
        delivery_mode: DeliveryMode | None = None,
        priority: int | None = None,
        time_to_live: float | None = None,
    ) -> None:
        """Send through the target, by default with the settings of this handle."""
        if self._closed:
            raise IllegalStateException("The producer is closed")
        self._touch()
        if to_send is not None or not isinstance(message, Message):
            message, destination = destination_first(message, to_send, destination)
        await self._target.send(
            message,
            destination=destination,
            delivery_mode=self.delivery_mode if delivery_mode is None else delivery_mode,
            priority=self.priority if priority is None else priority,
            time_to_live=self.time_to_live if time_to_live is None else time_to_live,
        )

    async def close(self) -> None:
        """Restore the hints; the target stays open."""
        if not self._closed:
            self._closed = True
            self._forget(self)
            self._target.disable_message_id, self._target.disable_message_timestamp = self._hints


def _open_target(self: CachedConsumer) -> MessageConsumer:
    return self._consumer()


class CachedConsumer(MessageConsumer):
    """A consumer that stays open; `close` removes a listener set through this handle."""

    def __init__(
        self,
        target: MessageConsumer,
        touch: Callable[[], None],
        forget: Callable[[Closeable], None],
        discard: Callable[[], Awaitable[None]] | None = None,
    ) -> None:
        """Receive from `target`; `discard`: how to end it if a receive was interrupted."""
        self._target = target
        self._touch = touch
        self._forget = forget
        self._discard = discard
        self._closed = False
        self._listening = False
        self._receiving = False

    destination = DelegatedAttribute[Destination](_open_target, read_only=True)
    message_selector = DelegatedAttribute[str | None](_open_target, read_only=True)
    message_listener = DelegatedAttribute[MessageListener | None](_open_target, read_only=True)

    @property
    def is_closed(self) -> bool:
        """Whether this handle or its target is closed."""
        return self._closed or self._target.is_closed

    async def set_message_listener(self, listener: MessageListener | None) -> None:
        """Set the listener, until this handle is closed."""
        await self._consumer().set_message_listener(listener)
        self._listening = listener is not None

    async def receive(self, timeout: float | None = None) -> Message | None:
        """Wait for the next message and return it, or None when `timeout` seconds pass."""
        consumer = self._consumer()
        self._touch()
        self._receiving = True
        message = await consumer.receive(timeout)
        self._receiving = False
        return message

    async def close(self) -> None:
        """Remove the listener; the target stays open and keeps its prefetched messages.

        A pull consumer is closed if a receive was interrupted: its message may still come.
        """
        if not self._closed:
            self._closed = True
            self._forget(self)
            if self._receiving and self._discard is not None:
                await self._discard()
                return
            if self._listening:
                await self._target.set_message_listener(None)

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
    """A physical session, with the producers and consumers that are kept on it."""

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

    async def close_consumers(self, condition: Callable[[_ConsumerKey], bool]) -> None:
        """Close the kept consumers for which `condition` is true."""
        for key in [key for key in self.consumers if condition(key)]:
            await self.consumers.pop(key).close()

    async def close(self) -> None:
        """Close the session and everything kept on it."""
        for producer in self.producers.values():
            await producer.close()
        for consumer in self.consumers.values():
            await consumer.close()
        self.producers.clear()
        self.consumers.clear()
        await self.session.close()


class CachedSession(DelegatingSession):
    """One use of a cached session; after `close` every call raises IllegalStateException."""

    def __init__(
        self,
        entry: SessionEntry,
        release: Callable[[SessionEntry], Awaitable[None]],
        *,
        cache_producers: bool,
        cache_consumers: bool,
    ) -> None:
        """Use the session of `entry`, which `release` gets back on close."""
        self._release = release
        self._cache_producers = cache_producers
        self._cache_consumers = cache_consumers
        self._entry: SessionEntry | None = entry
        self._handles: set[Closeable] = set()
        self._listening = False

    def __repr__(self) -> str:
        return f"<cached {self._entry.session!r}>" if self._entry else "<closed cached session>"

    async def create_producer(self, destination: Destination | None = None) -> MessageProducer:
        """Reuse the producer of this destination, or create one."""
        entry = self._touched()
        if not self._cache_producers or _is_temporary(destination):
            return await entry.session.create_producer(destination)
        producer = entry.producers.get(destination)
        if producer is None:
            producer = await entry.session.create_producer(destination)
            entry.producers[destination] = producer
        return self._add_handle(CachedProducer(producer, self._touch, self._handles.discard))

    async def create_consumer(
        self, destination: Destination, selector: str | None = None, *, no_local: bool = False
    ) -> MessageConsumer:
        """Reuse the consumer with these arguments, or create one."""
        entry = self._touched()
        if not self._cache_consumers or _is_temporary(destination):
            return await entry.session.create_consumer(destination, selector, no_local=no_local)
        key = _ConsumerKey(destination, selector or None, no_local, None)
        target = entry.consumers.get(key)
        if target is None:
            target = await entry.session.create_consumer(destination, selector, no_local=no_local)
            entry.consumers[key] = target
        return self._add_handle(CachedConsumer(target, self._touch, self._handles.discard))

    async def create_pull_consumer(
        self,
        destination: Destination,
        selector: str | None = None,
        *,
        no_local: bool = False,
        timeout: float | None = None,
    ) -> MessageConsumer:
        """Reuse the pull consumer with these arguments, or create one."""
        entry = self._touched()
        create = entry.session.create_pull_consumer
        if not self._cache_consumers or _is_temporary(destination):
            return await create(destination, selector, no_local=no_local, timeout=timeout)
        key = _ConsumerKey(destination, selector or None, no_local, None, pulls=True)
        target = entry.consumers.get(key)
        if target is None:
            target = await create(destination, selector, no_local=no_local, timeout=timeout)
            entry.consumers[key] = target

        async def discard() -> None:
            await entry.close_consumers(lambda kept: kept == key)

        return self._add_handle(CachedConsumer(target, self._touch, self._handles.discard, discard))

    async def create_durable_subscriber(
        self, topic: Topic, name: str, selector: str | None = None, *, no_local: bool = False
    ) -> MessageConsumer:
        """Reuse the subscriber of this session, or create one; `close` of the session closes it."""
        entry = self._touched()
        session = entry.session
        if not self._cache_consumers:
            return await session.create_durable_subscriber(topic, name, selector, no_local=no_local)
        key = _ConsumerKey(topic, selector or None, no_local, name)
        target = entry.consumers.get(key)
        if target is None:
            target = await session.create_durable_subscriber(
                topic, name, selector, no_local=no_local
            )
            entry.consumers[key] = target
        return self._add_handle(CachedConsumer(target, self._touch, self._handles.discard))

    async def create_browser(self, queue: Queue, selector: str | None = None) -> QueueBrowser:
        """Create a browser; browsers are not cached."""
        return await self._touched().session.create_browser(queue, selector)

    async def set_message_listener(self, listener: MessageListener | None) -> None:
        """Set the session's listener; `close` removes it."""
        await self._touched().session.set_message_listener(listener)
        self._listening = listener is not None

    async def commit(self) -> None:
        """Commit; nothing is left to roll back then."""
        await self._target().commit()
        self._settled()

    async def rollback(self) -> None:
        """Roll back; nothing is left to roll back then.

        Pull consumers are closed, so that the broker has their messages again: here they would
        wait for a receive that may never come.
        """
        await self._target().rollback()
        self._settled()
        if self._entry is not None:
            await self._entry.close_consumers(lambda key: key.pulls)

    async def close(self) -> None:
        """Clean the session up and return it to the cache; close it if that fails."""
        entry, self._entry = self._entry, None
        if entry is None:
            return
        try:
            await self._clean(entry)
        except BaseException:
            with anyio.CancelScope(shield=True):
                await entry.close()
            raise
        await self._release(entry)

    async def _clean(self, entry: SessionEntry) -> None:
        for handle in list(self._handles):
            await handle.close()
        if self._listening:
            await entry.session.set_message_listener(None)
        rolls_back = entry.uncommitted and entry.mode == AcknowledgeMode.TRANSACTED
        if rolls_back:
            await entry.session.rollback()
        entry.uncommitted = False
        await entry.close_consumers(
            lambda key: key.subscription is not None or (rolls_back and key.pulls)
        )

    def _target(self) -> Session:
        if self._entry is None:
            raise IllegalStateException("The session is closed")
        return self._entry.session

    def _touched(self) -> SessionEntry:
        """Return the entry, and remember that there may be something to roll back."""
        if self._entry is None:
            raise IllegalStateException("The session is closed")
        self._entry.uncommitted = True
        return self._entry

    def _touch(self) -> None:
        self._touched()

    def _settled(self) -> None:
        if self._entry is not None:
            self._entry.uncommitted = False

    def _add_handle(self, handle: _Handle) -> _Handle:
        self._handles.add(handle)
        return handle


def _is_temporary(destination: Destination | None) -> bool:
    return destination is not None and destination.is_temporary
