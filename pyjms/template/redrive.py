"""Redrive: sends dead letters back to their original destinations, on any broker.

Each message is received, sent and committed in a separate transaction, so a failure or a
cancellation in between leaves it in one of the two destinations. The target is the destination
given in the call, or else the original destination: a property of dead letters that a listener
sent, a header of dead letters of an ActiveMQ broker, or a property of dead letters of an Artemis
broker. A dead letter without any of these stays in the queue.

The copies have a property `pyjms_redrive` with the id of the redrive, and the redrive's consumers
do not select such messages. So a message that fails again during the redrive is not sent in an
endless loop.
"""

from __future__ import annotations

import uuid
from collections import Counter
from dataclasses import dataclass, field
from typing import Final

from pyjms.jms.api import MessageConsumer, Session
from pyjms.jms.destination import DEFAULT_DEAD_LETTER_QUEUE, Destination, Queue, parse_destination
from pyjms.jms.failure_reason import FAILURE_CAUSE, FAILURE_TEXT, FAILURE_TYPE, ORIGINAL_DESTINATION
from pyjms.jms.message import Message
from pyjms.runtime import clock as _clock
from pyjms.selector import selector_or_none
from pyjms.support.retry import ORIGINAL_MESSAGE_ID, sendable_copy
from pyjms.template.resources import innermost_factory
from pyjms.template.template import JmsTemplate

_REDRIVE: Final = "pyjms_redrive"
_ARTEMIS_QUEUE: Final = "_AMQ_ORIG_QUEUE"
_OF_DEAD_LETTERS: Final = (
    FAILURE_CAUSE,
    FAILURE_TYPE,
    FAILURE_TEXT,
    ORIGINAL_DESTINATION,
    ORIGINAL_MESSAGE_ID,
)
_MOST_LEFT: Final = 100
"""The number of messages without a destination that a redrive skips before it ends."""


@dataclass
class Redriven:
    """The result of a redrive."""

    by_destination: dict[str, int] = field(default_factory=Counter)
    """The number of messages sent, by destination (`queue://orders`)."""
    left: list[str] = field(default_factory=list)
    """The ids of messages whose original destination is not known; they stay in the queue."""

    @property
    def count(self) -> int:
        """The number of messages sent."""
        return sum(self.by_destination.values())


async def redrive(
    template: JmsTemplate,
    queue: str = DEFAULT_DEAD_LETTER_QUEUE,
    *,
    destination: str | Destination | None = None,
    selector: str | None = None,
    limit: int | None = None,
    timeout: float = 1.0,
) -> Redriven:
    """Send the dead letters in `queue` to their original destinations, each in its own transaction.

    It ends when no message has arrived for a while, after `limit` messages, or when it has found
    more than 100 without a known destination. Bodies, properties and headers are kept, except ids,
    times and the reasons of the failures; the copies do not expire. If it is cancelled, each
    message is in one of the two destinations.

    Args:
        template: supplies the connection factory.
        queue: the dead-letter queue.
        destination: a destination for all messages, instead of their original destinations.
        selector: a condition that the messages to send must match.
        limit: the maximum number of messages to send; None: all.
        timeout: seconds to wait for a further message.

    Raises:
        InvalidSelectorException: the selector is malformed.
        JMSException: the broker cannot be reached, or refuses a message.
        ValueError: `limit` is less than 1, or `timeout` negative.
    """
    _clock.check_seconds("timeout", timeout)
    run = _run_of(queue, destination, selector, limit)
    result = Redriven()
    # not a caching or pooling factory, which would keep the consumers
    factory = innermost_factory(template.connection_factory)
    async with await factory.create_connection() as connection:
        session = await connection.create_session(transacted=True)
        consumer = await run.consumer(session, result.left)
        await connection.start()
        while limit is None or result.count < limit:
            message = await consumer.receive(timeout)
            if message is None:
                break
            wanted = run.destination_of(message)
            if wanted is not None:
                await run.send(session, message, wanted)
                await session.commit()
                result.by_destination[wanted.qualified_name] += 1
                continue
            await consumer.close()
            await session.rollback()
            result.left.append(message.message_id or "")
            if len(result.left) > _MOST_LEFT:
                break
            consumer = await run.consumer(session, result.left)
    return result


async def plan_redrive(
    template: JmsTemplate,
    queue: str = DEFAULT_DEAD_LETTER_QUEUE,
    *,
    destination: str | Destination | None = None,
    selector: str | None = None,
    limit: int | None = None,
) -> Redriven:
    """Return what `redrive` would do with the messages that the broker lets a browser see.

    Raises:
        InvalidSelectorException: the selector is malformed.
        JMSException: the broker cannot be reached.
        ValueError: `limit` is less than 1.
    """
    run = _run_of(queue, destination, selector, limit)
    result = Redriven()
    factory = innermost_factory(template.connection_factory)
    async with await factory.create_connection() as connection:
        await connection.start()
        session = await connection.create_session()
        async with await session.create_browser(Queue(run.queue.physical_name), selector) as found:
            async for message in found:
                if limit is not None and result.count >= limit:
                    break
                wanted = run.destination_of(message)
                if wanted is None:
                    result.left.append(message.message_id or "")
                else:
                    result.by_destination[wanted.qualified_name] += 1
    return result


def _run_of(
    queue: str, destination: str | Destination | None, selector: str | None, limit: int | None
) -> _Run:
    if limit is not None and limit < 1:
        raise ValueError(f"'limit' must be 1 or more: {limit}")
    selector_or_none(selector)
    target = parse_destination(destination) if isinstance(destination, str) else destination
    return _Run(parse_destination(queue), target, selector, uuid.uuid4().hex)


@dataclass(frozen=True)
class _Run:
    """The settings of one redrive."""

    queue: Destination
    target: Destination | None
    selector: str | None
    token: str

    async def consumer(self, session: Session, left: list[str]) -> MessageConsumer:
        """Create a consumer of the messages that this redrive has not seen."""
        conditions = [f"({_REDRIVE} IS NULL OR {_REDRIVE} <> '{self.token}')"]
        if self.selector:
            conditions.append(f"({self.selector})")
        if left:
            ids = ", ".join("'" + each.replace("'", "''") + "'" for each in left)
            conditions.append(f"JMSMessageID NOT IN ({ids})")
        return await session.create_consumer(self.queue, " AND ".join(conditions))

    def destination_of(self, message: Message) -> Destination | None:
        """Return the destination to which a dead letter is sent; None: it is not known."""
        if self.target is not None:
            return self.target
        name = message.properties.get(ORIGINAL_DESTINATION)
        if isinstance(name, str):
            return parse_destination(name)
        if message.original_destination is not None:
            return message.original_destination
        queue = message.properties.get(_ARTEMIS_QUEUE)
        return Queue(queue) if isinstance(queue, str) else None

    async def send(self, session: Session, message: Message, destination: Destination) -> None:
        """Send a copy of a dead letter, without the properties that mark it as a dead letter."""
        copied = sendable_copy(message)
        values = copied.property_values()
        for name in _OF_DEAD_LETTERS:
            values.pop(name, None)
        copied.properties[_REDRIVE] = self.token
        async with await session.create_producer(destination) as producer:
            await producer.send(
                copied,
                delivery_mode=message.delivery_mode,
                priority=message.priority,
                time_to_live=0,
            )
