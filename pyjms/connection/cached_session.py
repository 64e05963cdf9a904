"""Handles on cached sessions, producers and consumers: closing a handle keeps its target open.

A `CachedSession` is one use of a session, from `create_session` to `close`. Closing it closes its
handles on producers and consumers, rolls back an open transaction, closes durable subscribers and
returns the session to the cache. A session that cannot be cleaned up is closed.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import NamedTuple, TypeVar, Unpack

import anyio

from pyjms._forwarding import delegated
from pyjms.connection.cached_endpoints import CachedConsumer, CachedProducer
from pyjms.connection.session_handle import SessionHandle
from pyjms.enums import AcknowledgeMode, SessionMode
from pyjms.jms.api import Closeable, Connection, MessageConsumer, MessageProducer, Session
from pyjms.jms.api.session import PullOptions
from pyjms.jms.destination import Destination, Topic

__all__ = ["CachedSession", "SessionEntry"]


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
    return self._touched().session


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
        entry = self._touched()
        if not self._cache_producers or _is_temporary(destination):
            return await entry.session.create_producer(destination)
        producer = entry.producers.get(destination)
        if producer is None:
            producer = await entry.session.create_producer(destination)
            entry.producers[destination] = producer
        return self._add_handle(CachedProducer(producer, self._touched, self._handles.discard))

    async def create_consumer(
        self, destination: Destination, selector: str | None = None, *, no_local: bool = False
    ) -> MessageConsumer:
        """Reuse the consumer with these arguments, or create one."""
        create = self._touched().session.create_consumer
        return await self._consumer(
            _ConsumerKey(destination, selector or None, no_local, None),
            lambda: create(destination, selector, no_local=no_local),
        )

    async def create_pull_consumer(
        self, destination: Destination, selector: str | None = None, **options: Unpack[PullOptions]
    ) -> MessageConsumer:
        """Reuse the pull consumer with these arguments, or create one."""
        create = self._touched().session.create_pull_consumer
        no_local = options.get("no_local", False)
        return await self._consumer(
            _ConsumerKey(destination, selector or None, no_local, None, pulls=True),
            lambda: create(destination, selector, **options),
        )

    async def create_durable_subscriber(
        self, topic: Topic, name: str, selector: str | None = None, *, no_local: bool = False
    ) -> MessageConsumer:
        """Reuse the subscriber of this session or create one; closing the session closes it."""
        create = self._touched().session.create_durable_subscriber
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
        self._settled()

    async def rollback(self) -> None:
        """Roll back; afterwards there is nothing more to roll back.

        Pull consumers are closed, so that their messages return to the broker: in the cache they
        would wait for a receive that may never come.
        """
        await self._target().rollback()
        self._settled()
        if self._kept is not None:
            await self._kept.close_consumers(lambda key: key.pulls)

    async def close(self) -> None:
        """Clean the session up and return it to the cache; close it if that fails.

        Raises:
            IllegalStateException: called by a completion listener, which it waits for.
            RequestTimeoutException: asynchronous sends have had no response for 15 seconds.
        """
        await super().close()

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
                target, self._touched, self._handles.discard, discard if key.pulls else None
            )
        )

    def _touched(self) -> SessionEntry:
        """Return the entry, and record that there may be work to roll back."""
        entry = self._use()
        entry.uncommitted = True
        return entry

    def _settled(self) -> None:
        if self._kept is not None:
            self._kept.uncommitted = False

    def _add_handle(self, handle: _Handle) -> _Handle:
        self._handles.add(handle)
        return handle


def _is_temporary(destination: Destination | None) -> bool:
    return destination is not None and destination.is_temporary
