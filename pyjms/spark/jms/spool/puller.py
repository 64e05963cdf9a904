"""Pulls of messages into the spool: received, written, synced, and only then acknowledged."""

from __future__ import annotations

from typing import Final, NamedTuple

from pyjms import _clock
from pyjms._logger import get_logger
from pyjms.client.delivery import ActiveMQMessageConsumer
from pyjms.client.messages import command_of
from pyjms.client.session import ActiveMQSession
from pyjms.errors import ConfigurationException
from pyjms.jms.destination import Queue, Topic
from pyjms.jms.message import Message
from pyjms.spark.columns import tolerant_values
from pyjms.spark.jms.connections import (
    CONNECTION_LOST,
    discard_connection,
    get_connection,
    retry_while_lost,
    with_paged_prefetch,
)
from pyjms.spark.jms.options import JmsOptions
from pyjms.spark.jms.spool.segments import Spool
from pyjms.spark.jms.streaming import BatchLimit

__all__ = ["Pull", "Puller"]

logger: Final = get_logger(__name__)

_NEXT_MESSAGE_TIMEOUT: Final = 0.02
"""Seconds to wait for another message after the first: prefetched ones arrive at once."""


class Pull(NamedTuple):
    """The result of a pull: new rows, the newest timestamp (ms), whether nothing was received."""

    rows: int
    newest: int
    empty: bool


class Puller:
    """The only consumer of a stream. Lives on the shared loop; opens its session on demand."""

    def __init__(self, options: JmsOptions, spool: Spool) -> None:
        self._options = options
        self._spool = spool
        self._session: ActiveMQSession | None = None
        self._consumer: ActiveMQMessageConsumer | None = None

    async def pull(self, limit: BatchLimit, timeout: float) -> Pull:
        """Move available messages into the spool, up to the limit.

        Waits up to `timeout` seconds for the first message. Messages that are already in the spool,
        because an earlier acknowledgement was lost, are acknowledged and not counted.

        Raises:
            JMSException: the broker was not reached in eight attempts, or refused.
            OSError: the spool cannot be written; nothing was acknowledged.
        """
        return await retry_while_lost(self._attempt, limit, timeout)

    async def _attempt(self, limit: BatchLimit, timeout: float) -> Pull:
        try:
            return await self._pull(limit, timeout)
        except CONNECTION_LOST:
            self._session = self._consumer = None
            await discard_connection(self._options)
            raise
        except BaseException:
            await self._close_session()
            raise

    async def _pull(self, limit: BatchLimit, timeout: float) -> Pull:
        while True:
            session, consumer = await self._open()
            rows, received, newest = await self._receive(consumer, limit, timeout)
            if rows:
                self._spool.append(rows)
            if received:
                await self._acknowledge(session)
            if rows or not received:
                return Pull(len(rows), newest, empty=not received)
            logger.info("%d messages were delivered again; they are already in the spool", received)

    async def _acknowledge(self, session: ActiveMQSession) -> None:
        try:
            await session.commit()
        except BaseException:
            self._spool.mark_in_doubt()
            raise

    async def _receive(
        self, consumer: ActiveMQMessageConsumer, limit: BatchLimit, timeout: float
    ) -> tuple[list[tuple[object, ...]], int, int]:
        rows: list[tuple[object, ...]] = []
        seen: set[str] = set()
        received = size = newest = 0
        deadline = _clock.now() + timeout
        while len(rows) < limit.rows and size < limit.size:
            remaining = _NEXT_MESSAGE_TIMEOUT if received else max(0.0, deadline - _clock.now())
            message = await consumer.receive(remaining)
            if message is None:
                break
            received += 1
            message_id = message.message_id or ""
            if message_id in seen or message_id in self._spool:
                continue
            seen.add(message_id)
            rows.append(self._row(message, self._spool.end + len(rows)))
            size += len(command_of(message).content or b"")
            # the broker's time if the message has it: producers' clocks are wrong more often
            newest = max(newest, command_of(message).broker_in_time or message.timestamp)
        return rows, received, newest

    @staticmethod
    def _row(message: Message, seq: int) -> tuple[object, ...]:
        return tolerant_values(command_of(message), seq, message.delivery_count - 1)

    async def _open(self) -> tuple[ActiveMQSession, ActiveMQMessageConsumer]:
        if self._session is None or self._consumer is None:
            options = self._options
            connection = await get_connection(options)
            self._session = await connection.create_session(transacted=True)
            target = options.target
            if options.subscription is not None and isinstance(target, Topic):
                self._consumer = await self._session.create_durable_subscriber(
                    target, options.subscription, options.selector
                )
            elif target.is_topic:
                raise ConfigurationException(
                    f"jms: a stream from {target} would miss messages that are sent while it is "
                    "not running",
                    hint="set the options clientId and subscription for a durable subscription, "
                    "or read a queue Consumer.<name>.VirtualTopic.<topic>",
                )
            else:
                queue = with_paged_prefetch(target) if isinstance(target, Queue) else target
                self._consumer = await self._session.create_consumer(queue, options.selector)
        return self._session, self._consumer

    async def _close_session(self) -> None:
        session, self._session, self._consumer = self._session, None, None
        if session is not None:
            await session.close()
