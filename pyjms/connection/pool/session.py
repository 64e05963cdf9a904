"""Handles on pooled sessions and on their producers. (spring-jms 9.7 and 9.8)"""

from __future__ import annotations

from typing import Final, TypeVar

import anyio

from pyjms._forwarding import delegated_as
from pyjms._logger import get_logger
from pyjms.connection.pool.consumers import PooledBrowser, PooledConsumer
from pyjms.connection.pool.session_pool import PhysicalSession, SessionPool
from pyjms.connection.producer_handle import Forget, ProducerHandle
from pyjms.connection.session_handle import SessionHandle
from pyjms.errors import (
    IllegalStateException,
    InvalidDestinationException,
    UnsupportedOperationException,
)
from pyjms.jms.api import (
    Closeable,
    CompletionListener,
    MessageConsumer,
    MessageProducer,
    QueueBrowser,
    Session,
)
from pyjms.jms.destination import Destination, TemporaryQueue, TemporaryTopic

__all__ = ["PooledSession"]

logger: Final = get_logger(__name__)

_T = TypeVar("_T", bound=Closeable)
_D = TypeVar("_D", TemporaryQueue, TemporaryTopic)


class _PooledProducer(ProducerHandle):
    """A handle with a destination and settings, which sends through a shared producer."""

    def __init__(
        self,
        target: MessageProducer,
        destination: Destination | None,
        forget: Forget,
        *,
        owns_target: bool,
        is_jms_11: bool,
    ) -> None:
        """Send through `target`, which `close` closes if the handle owns it."""
        super().__init__(target, forget)
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
        completion_listener: CompletionListener | None,
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

    async def _release(self) -> None:
        """Close the target if it is not shared."""
        if self._owns_target:
            await self.target.close()


def _not_in_jms_11(call: str) -> UnsupportedOperationException:
    return UnsupportedOperationException(
        f"{call} is not supported by this pool, which supports JMS 1.1, as ActiveMQ's does",
        hint="JmsPoolConnectionFactory supports it",
    )


def _session_of(self: PooledSession) -> Session:
    return self._target()


def _consumer(self: PooledSession, target: MessageConsumer) -> MessageConsumer:
    return self._added(PooledConsumer(target, self._open.discard))


def _browser(self: PooledSession, target: QueueBrowser) -> QueueBrowser:
    return self._added(PooledBrowser(target, self._open.discard))


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
        super().__init__(physical)
        self._pool = pool
        self._temporaries = temporaries
        self._on_close = on_close
        self._open: set[Closeable] = set()

    def __repr__(self) -> str:
        kept = self._kept
        return "<closed pooled session>" if kept is None else f"<pooled {kept.session!r}>"

    async def create_temporary_queue(self) -> TemporaryQueue:
        return self._noted(await self._target().create_temporary_queue())

    async def create_temporary_topic(self) -> TemporaryTopic:
        return self._noted(await self._target().create_temporary_topic())

    async def delete_temporary(self, destination: TemporaryQueue | TemporaryTopic) -> None:
        await self._target().delete_temporary(destination)
        self._temporaries.discard(destination)

    async def create_producer(self, destination: Destination | None = None) -> MessageProducer:
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
        return self._added(
            _PooledProducer(
                target,
                destination,
                self._open.discard,
                owns_target=owned,
                is_jms_11=self._pool.is_jms_11,
            )
        )

    create_consumer = delegated_as(Session.create_consumer, _session_of, _consumer)
    create_pull_consumer = delegated_as(Session.create_pull_consumer, _session_of, _consumer)
    create_durable_subscriber = delegated_as(
        Session.create_durable_subscriber, _session_of, _consumer
    )
    create_shared_consumer = delegated_as(Session.create_shared_consumer, _session_of, _consumer)
    create_shared_durable_consumer = delegated_as(
        Session.create_shared_durable_consumer, _session_of, _consumer
    )
    create_browser = delegated_as(Session.create_browser, _session_of, _browser)

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
    ) -> MessageProducer:
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

    def _noted(self, destination: _D) -> _D:
        self._temporaries.add(destination)
        return destination

    def _added(self, opened: _T) -> _T:
        self._open.add(opened)
        return opened
