"""Export from and import into a running broker as a client."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import AsyncExitStack

from pyjms import _clock
from pyjms.client.factory import ConnectionFactory
from pyjms.client.messages import command_of, from_command
from pyjms.enums import DeliveryMode
from pyjms.errors import JMSException
from pyjms.jms.destination import Destination, Queue, Topic
from pyjms_broker.policy.wildcard import matches
from pyjms_broker.service.transfer.into_folder import (
    BATCH,
    BATCH_BYTES,
    Imported,
    why_not_importable,
)
from pyjms_broker.service.transfer.message_file import (
    BadLine,
    FileMessage,
    FileSubscription,
    MessageFileWriter,
)

__all__ = ["export_broker", "import_into_broker"]


async def export_broker(
    factory: ConnectionFactory,
    queues: Sequence[Queue],
    writer: MessageFileWriter,
    on_messages: Callable[[int], None] = lambda _count: None,
) -> tuple[int, list[str]]:
    """Browse the queues, which may be patterns, and write their messages.

    Returns the number of queues with messages, and the problems of messages that could not be
    written. A browser may return only part of a long queue (max_browse_page_size, in ActiveMQ
    maxBrowsePageSize).

    Raises:
        ConnectionFailedException: the broker cannot be reached, or the connection failed.
        JMSException: the broker refused a request.
    """
    seen: set[Destination] = set()
    problems: list[str] = []
    async with await factory.create_connection() as connection:
        await connection.start()
        session = await connection.create_session()
        for number, queue in enumerate(queues):
            browser = await session.create_browser(queue)
            async for message in browser:
                command = command_of(message)
                where = command.destination
                if where is None or any(matches(before, where) for before in queues[:number]):
                    continue
                seen.add(where)
                try:
                    writer.message(command)
                except JMSException as error:
                    problems.append(f"{command.message_id} of {where}: {error}")
                on_messages(1)
            await browser.close()
    return len(seen), problems


async def import_into_broker(
    factory: ConnectionFactory,
    lines: Iterable[FileMessage | FileSubscription | BadLine],
    on_messages: Callable[[int], None] = lambda _count: None,
) -> Imported:
    """Send a file's messages as persistent ones in transactions, and create its subscriptions.

    The messages get new ids and timestamps but keep their remaining time to live; expired ones are
    skipped.

    Raises:
        ConnectionFailedException: the broker cannot be reached, or the connection failed.
        JMSException: the broker refused a request.
    """
    found = Imported()
    async with AsyncExitStack() as stack:
        connection = await stack.enter_async_context(await factory.create_connection())
        session = await connection.create_session(transacted=True)
        producer = await session.create_producer()
        count = size = 0
        for line in lines:
            if isinstance(line, BadLine):
                found.problems.append(line)
                continue
            if isinstance(line, FileSubscription):
                await _subscribe(factory, line, found)
                continue
            message = line.message
            reason = why_not_importable(line)
            remaining = message.expiration - _clock.time_ms() if message.expiration > 0 else 0
            if reason is not None:
                found.problems.append(BadLine(line.line, reason))
                continue
            if message.expiration > 0 and remaining <= 0:
                found.expired += 1
                continue
            await producer.send(
                from_command(message),
                destination=message.destination,
                delivery_mode=DeliveryMode.PERSISTENT,
                priority=message.priority,
                time_to_live=remaining / 1000,
            )
            count += 1
            size += len(message.content or b"") + len(message.marshalled_properties or b"")
            if count >= BATCH or size >= BATCH_BYTES:
                await session.commit()
                found.messages += count
                on_messages(count)
                count = size = 0
        await session.commit()
        found.messages += count
        on_messages(count)
    return found


async def _subscribe(factory: ConnectionFactory, line: FileSubscription, found: Imported) -> None:
    """Create a durable subscription without consuming messages."""
    subscription = line.subscription
    topic = subscription.destination
    assert isinstance(topic, Topic), "durable subscriptions exist only on topics"
    try:
        async with await factory.create_connection() as connection:
            await connection.set_client_id(subscription.key.client_id)
            session = await connection.create_session()
            consumer = await session.create_durable_subscriber(
                topic,
                subscription.key.subscription_name,
                subscription.selector,
                no_local=subscription.no_local,
            )
            await consumer.close()
    except JMSException as error:
        found.problems.append(BadLine(line.line, str(error)))
    else:
        found.subscriptions += 1
