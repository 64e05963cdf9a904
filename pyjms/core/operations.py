"""The operations of a template on a session: send, receive, browse, request/reply."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeVar

from pyjms.core.closing import call, quietly, using
from pyjms.enums import AcknowledgeMode
from pyjms.errors import UnsupportedOperationException
from pyjms.jms.api import MessageProducer, QueueBrowser, Session
from pyjms.jms.destination import Destination, Queue
from pyjms.jms.message import Message
from pyjms.support.qos import QosSettings

__all__ = [
    "browse_with",
    "receive_from",
    "reply_from_response_queue",
    "reply_from_temporary_queue",
    "send_with",
]

_T = TypeVar("_T")

_Send = Callable[[Session, Destination, Message], Awaitable[None]]

_ACKNOWLEDGED_BY_TEMPLATE = (AcknowledgeMode.CLIENT, AcknowledgeMode.INDIVIDUAL)


async def send_with(
    producer: MessageProducer,
    message: Message,
    qos: QosSettings | None,
    delivery_delay: float | None,
) -> None:
    """Send with these settings; None: with the producer's own.

    Raises:
        UnsupportedOperationException: `delivery_delay` is set.
    """
    if delivery_delay is not None:
        raise UnsupportedOperationException(
            "Delivery delay is not supported over OpenWire",
            hint="set the property AMQ_SCHEDULED_DELAY (milliseconds) and the broker's "
            "scheduler_support (ActiveMQ: schedulerSupport)",
        )
    if qos is None:
        await producer.send(message)
    else:
        await producer.send(
            message,
            delivery_mode=qos.delivery_mode,
            priority=qos.priority,
            time_to_live=qos.time_to_live,
        )


async def receive_from(
    session: Session,
    destination: Destination,
    selector: str | None,
    *,
    timeout: float | None,
    no_local: bool,
    commit: bool,
) -> Message | None:
    """Receive one message; acknowledge it, or commit if `commit`, according to the session."""
    if destination.is_queue and not destination.is_temporary:
        # What others could have stays in the queue. A topic's messages are copies of our own.
        opened = await session.create_pull_consumer(destination, selector, timeout=timeout)
    else:
        opened = await session.create_consumer(destination, selector, no_local=no_local)
    async with using(opened) as consumer:
        message = await consumer.receive(timeout)
        if session.transacted:
            if commit:
                await session.commit()
        elif message is not None and session.acknowledge_mode in _ACKNOWLEDGED_BY_TEMPLATE:
            await message.acknowledge()
        return message


async def browse_with(
    session: Session,
    queue: Queue,
    selector: str | None,
    action: Callable[[Session, QueueBrowser], Awaitable[_T] | _T],
) -> _T:
    """Return the result of `action(session, browser)` for a browser of `queue`."""
    async with using(await session.create_browser(queue, selector)) as browser:
        return await call(action, session, browser)


async def reply_from_temporary_queue(
    session: Session,
    destination: Destination,
    request: Message,
    send: _Send,
    timeout: float | None,
) -> Message | None:
    """Send a request, and receive the reply on a temporary queue, which is deleted then."""
    queue = await session.create_temporary_queue()
    try:
        async with using(await session.create_consumer(queue)) as consumer:
            request.reply_to = queue
            await send(session, destination, request)
            reply = await consumer.receive(timeout)
    except BaseException:
        await quietly(lambda: session.delete_temporary(queue), f"delete {queue}")
        raise
    await session.delete_temporary(queue)
    return reply


async def reply_from_response_queue(
    session: Session,
    destination: Destination,
    request: Message,
    send: _Send,
    timeout: float | None,
    queue: Destination,
) -> Message | None:
    """Send a request, and receive its reply on a permanent queue, by correlation id."""
    request.reply_to = queue
    await send(session, destination, request)
    key = (request.correlation_id or request.message_id or "").replace("'", "''")
    selector = f"JMSCorrelationID='{key}'"
    async with using(await session.create_consumer(queue, selector)) as consumer:
        return await consumer.receive(timeout)
