"""What a template does once it has a session: send, receive, browse, ask and wait."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeVar

from pyjms.core.closing import call, quietly, using
from pyjms.enums import AcknowledgeMode
from pyjms.errors import UnsupportedOperationException
from pyjms.jms.api import MessageConsumer, MessageProducer, QueueBrowser, Session
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

_ACKNOWLEDGED_BY_US = (AcknowledgeMode.CLIENT, AcknowledgeMode.INDIVIDUAL)


async def send_with(
    producer: MessageProducer,
    message: Message,
    qos: QosSettings | None,
    delivery_delay: float | None,
) -> None:
    """Send with these settings, or with the producer's own.

    Raises:
        UnsupportedOperationException: there is a delivery delay.
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
    """Receive one message and commit (if `commit`) or acknowledge, as the session has it."""
    consumer = await session.create_consumer(destination, selector, no_local=no_local)

    async def receive(consumer: MessageConsumer) -> Message | None:
        message = await consumer.receive(timeout)
        if session.transacted:
            if commit:
                await session.commit()
        elif message is not None and session.acknowledge_mode in _ACKNOWLEDGED_BY_US:
            await message.acknowledge()
        return message

    return await using(consumer, receive)


async def browse_with(
    session: Session,
    queue: Queue,
    selector: str | None,
    action: Callable[[Session, QueueBrowser], Awaitable[_T] | _T],
) -> _T:
    """Return what `action` makes of a browser of `queue`."""
    browser = await session.create_browser(queue, selector)
    return await using(browser, lambda b: call(action, session, b))


async def reply_from_temporary_queue(
    session: Session,
    destination: Destination,
    request: Message,
    send: _Send,
    timeout: float | None,
) -> Message | None:
    """Ask with a temporary queue to reply to, which is gone afterwards."""
    queue = await session.create_temporary_queue()
    try:
        consumer = await session.create_consumer(queue)

        async def ask(consumer: MessageConsumer) -> Message | None:
            request.reply_to = queue
            await send(session, destination, request)
            return await consumer.receive(timeout)

        reply = await using(consumer, ask)
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
    """Ask with a lasting queue to reply to, and take the reply that belongs to the request."""
    request.reply_to = queue
    await send(session, destination, request)
    key = (request.correlation_id or request.message_id or "").replace("'", "''")
    consumer = await session.create_consumer(queue, f"JMSCorrelationID='{key}'")
    return await using(consumer, lambda c: c.receive(timeout))
