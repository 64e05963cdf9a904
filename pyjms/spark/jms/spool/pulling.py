"""Pulls messages into the spool: received, written, synced, and only then acknowledged."""

from __future__ import annotations

import logging
from typing import Final, NamedTuple

from pyjms import _clock
from pyjms.client.delivery import ActiveMQMessageConsumer
from pyjms.client.messages import command_of
from pyjms.client.session import ActiveMQSession
from pyjms.errors import ConfigurationException
from pyjms.jms.destination import Queue, Topic
from pyjms.jms.message import Message
from pyjms.spark.columns import tolerant_values
from pyjms.spark.jms.client import LOST, connected, forget, retrying
from pyjms.spark.jms.limits import Limit
from pyjms.spark.jms.options import JmsOptions
from pyjms.spark.jms.prefetch import by_pages
from pyjms.spark.jms.spool.segments import Spool

__all__ = ["Pull", "Puller"]

logger = logging.getLogger(__name__)

_MORE_WITHIN: Final = 0.02
"""Seconds to wait for a further message once there is one: what was sent ahead comes at once."""


class Pull(NamedTuple):
    """What a pull brought: new rows, the time stamp of the newest, whether nothing was there."""

    rows: int
    newest: int
    empty: bool


class Puller:
    """The one consumer of a stream. Lives on the shared loop; makes its session when asked."""

    def __init__(self, options: JmsOptions, spool: Spool) -> None:
        self._options = options
        self._spool = spool
        self._session: ActiveMQSession | None = None
        self._consumer: ActiveMQMessageConsumer | None = None

    async def pull(self, limit: Limit, wait: float) -> Pull:
        """Move messages into the spool, as many as there are and the limit allows.

        Waits `wait` seconds for the first one. Those that are in the spool already, because their
        acknowledgement did not arrive, are acknowledged and do not count.

        Raises:
            JMSException: the broker was not reached in eight attempts, or refused.
            OSError: the spool cannot be written; nothing was acknowledged.
        """
        return await retrying(self._pull_once, limit, wait)

    async def _pull_once(self, limit: Limit, wait: float) -> Pull:
        try:
            return await self._pull(limit, wait)
        except LOST:
            self._session = self._consumer = None
            await forget(self._options)
            raise
        except BaseException:
            await self._give_back()
            raise

    async def _pull(self, limit: Limit, wait: float) -> Pull:
        while True:
            session, consumer = await self._opened()
            rows, received, newest = await self._receive(consumer, limit, wait)
            if rows:
                self._spool.append(rows)
            if received:
                await self._acknowledge(session)
            if rows or not received:
                return Pull(len(rows), newest, empty=not received)
            logger.info("%d messages came again; they are in the spool", received)

    async def _acknowledge(self, session: ActiveMQSession) -> None:
        try:
            await session.commit()
        except BaseException:
            self._spool.doubt()
            raise

    async def _receive(
        self, consumer: ActiveMQMessageConsumer, limit: Limit, wait: float
    ) -> tuple[list[tuple[object, ...]], int, int]:
        rows: list[tuple[object, ...]] = []
        seen: set[str] = set()
        received = size = newest = 0
        until = _clock.now() + wait
        while len(rows) < limit.rows and size < limit.size:
            patience = _MORE_WITHIN if received else max(0.0, until - _clock.now())
            message = await consumer.receive(patience)
            if message is None:
                break
            received += 1
            name = message.message_id or ""
            if name in seen or self._spool.has(name):
                continue
            seen.add(name)
            rows.append(self._row(message, self._spool.end + len(rows)))
            size += len(command_of(message).content or b"")
            # the broker's clock, where it says it: producers' go wrong more often
            newest = max(newest, command_of(message).broker_in_time or message.timestamp)
        return rows, received, newest

    @staticmethod
    def _row(message: Message, seq: int) -> tuple[object, ...]:
        return tolerant_values(command_of(message), seq, message.delivery_count - 1)

    async def _opened(self) -> tuple[ActiveMQSession, ActiveMQMessageConsumer]:
        if self._session is None or self._consumer is None:
            options = self._options
            connection = await connected(options)
            self._session = await connection.create_session(transacted=True)
            target = options.target
            if options.subscription is not None and isinstance(target, Topic):
                self._consumer = await self._session.create_durable_subscriber(
                    target, options.subscription, options.selector
                )
            elif target.is_topic:
                raise ConfigurationException(
                    f"jms: a stream from {target} would miss what comes while it does not run",
                    hint="give the options clientId and subscription for a durable subscription, "
                    "or read a queue Consumer.<name>.VirtualTopic.<topic>",
                )
            else:
                queue = by_pages(target) if isinstance(target, Queue) else target
                self._consumer = await self._session.create_consumer(queue, options.selector)
        return self._session, self._consumer

    async def _give_back(self) -> None:
        session, self._session, self._consumer = self._session, None, None
        if session is not None:
            await session.close()
