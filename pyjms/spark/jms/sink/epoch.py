"""Exactly once by batch: tasks stage their rows at the broker, one transaction publishes them all.

`PyJMS.Stage.<query>` holds what tasks sent, `PyJMS.Epoch.<query>` one message that names the last
batch published. The transaction that moves a batch to its destinations replaces that message too,
so a batch that comes again is known and dropped. Plain JMS: it works with every broker. Spark
repeats the last batch only: one before it comes from a checkpoint that is older than what was
published, and may hold other messages. (spark-pipeline 5 D)
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any, Final

from pyjms.client.producer import ActiveMQMessageProducer
from pyjms.client.session import ActiveMQSession
from pyjms.enums import DeliveryMode
from pyjms.errors import IllegalStateException, JMSException, ResourceAllocationException
from pyjms.jms.bodies import TextMessage
from pyjms.jms.destination import Queue, parse_destination
from pyjms.jms.message import Message
from pyjms.spark.jms.connections import run_in_session, with_paged_prefetch, without_prefetch
from pyjms.spark.jms.options import JmsOptions
from pyjms.spark.jms.sink.rows import DUPLICATE_ID, Outgoing, to_message
from pyjms.spark.jms.sink.sending import send_rows

__all__ = ["discard", "epoch_queue", "publish", "stage_queue", "stage_rows"]

logger = logging.getLogger(__name__)

_BATCH: Final = "PyJMSBatch"
_STAGE: Final = "PyJMSStage"
_WHERE: Final = "PyJMSDestination"
_PRIORITY: Final = "PyJMSPriority"
_MODE: Final = "PyJMSDeliveryMode"
_TIME_TO_LIVE: Final = "PyJMSTimeToLive"
_OURS: Final = frozenset((_BATCH, _STAGE, _WHERE, _PRIORITY, _MODE, _TIME_TO_LIVE))
_KEPT: Final = "PyJMSKept_"
"""How properties are called on the stage that tell a broker to do something with a message."""
_ORDERS: Final = ("AMQ_SCHEDULED_", DUPLICATE_ID)
_MARKER_WITHIN: Final = 45.0
"""Seconds to wait for the marker; only a query's first batch with rows has none.

Longer than the 30 s in which brokers notice that the connection of a dead driver is dead.
"""
_STAGED_WITHIN: Final = 30.0
"""Seconds to wait for the next staged row; the broker has it, or it is lost."""


def stage_queue(query: str) -> Queue:
    """Return the queue that holds a query's staged rows."""
    return Queue(f"PyJMS.Stage.{query}")


def epoch_queue(query: str) -> Queue:
    """Return the queue whose one message names a query's last published batch."""
    return Queue(f"PyJMS.Epoch.{query}")


def stage_rows(options: JmsOptions, query: str, batch: int, stage: str, rows: Iterator[Any]) -> int:
    """Send a task's rows to the staging queue in one transaction and return how many. Blocks.

    Raises:
        JMSException: it failed.
    """
    default = options.destination
    return send_rows(options, rows, partial(_staged, query, batch, stage, default))


async def publish(
    options: JmsOptions,
    query: str,
    batch: int,
    stages: Mapping[str, int],
    staged_within: float = _STAGED_WITHIN,
) -> None:
    """Publish the staged rows of these stages, unless the batch was published before.

    `stages`: how many rows each task that succeeded has staged. What failed tasks have staged
    is dropped. `staged_within`: seconds to wait for each row.

    Raises:
        ResourceAllocationException: staged rows are missing.
        IllegalStateException: a later batch of the query was published before.
        JMSException: the broker is gone, or refuses; nothing is published.
    """
    await run_in_session(options, _publish, query, batch, stages, staged_within)


async def discard(options: JmsOptions, query: str, batch: int) -> None:
    """Drop what a failed batch has staged. What stays is dropped by the next one."""

    async def drop(session: ActiveMQSession) -> None:
        staged = await session.create_consumer(
            without_prefetch(stage_queue(query)), f"{_BATCH} = {batch}"
        )
        while await staged.receive(0) is not None:
            pass
        await session.commit()

    await run_in_session(options, drop)


async def _publish(
    session: ActiveMQSession,
    query: str,
    batch: int,
    stages: Mapping[str, int],
    staged_within: float,
) -> None:
    producer = await session.create_producer(None)
    marker = await session.create_consumer(without_prefetch(epoch_queue(query)))
    last = -1
    patience = _MARKER_WITHIN if batch else 0  # it may be with a driver that was just killed
    while (message := await marker.receive(patience)) is not None:
        last = max(last, _batch_of(message))
        patience = 0
    if batch < last:
        await session.rollback()
        raise IllegalStateException(
            f"Query {query}: batch {batch} begins, and batch {last} is published already: the "
            "checkpoint is older than what was sent",
            hint="give a query whose checkpoint was deleted, restored or rolled back a new one, or "
            "another queryId; replay what is missing from the journal",
        )
    if batch == last:
        logger.warning("Query %s: batch %d was published before; dropped", query, batch)
    else:
        await _move(session, producer, query, batch, stages, staged_within)
        last = batch
    await producer.send(TextMessage(str(last)), destination=epoch_queue(query))
    await session.commit()


async def _move(
    session: ActiveMQSession,
    producer: ActiveMQMessageProducer,
    query: str,
    batch: int,
    stages: Mapping[str, int],
    staged_within: float,
) -> None:
    left = dict(stages)
    consumer = await session.create_consumer(with_paged_prefetch(stage_queue(query)))
    while any(left.values()):
        message = await consumer.receive(staged_within)
        if message is None:
            await session.rollback()
            raise ResourceAllocationException(
                f"Query {query}, batch {batch}: {sum(left.values())} staged rows are missing from "
                f"{stage_queue(query)}",
                hint="the query may be started again: its batch is replayed",
            )
        stage = str(message.properties.get(_STAGE))
        if message.properties.get(_BATCH) == batch and left.get(stage):
            left[stage] -= 1
            await _forward(producer, message)
    await consumer.close()


async def _forward(producer: ActiveMQMessageProducer, message: Message) -> None:
    kept: dict[str, Any] = dict(message.properties)
    message.clear_properties()
    for name, value in kept.items():
        if name not in _OURS:
            message.properties[name.removeprefix(_KEPT)] = value
    mode = kept.get(_MODE)
    await producer.send(
        message,
        destination=parse_destination(str(kept[_WHERE])),
        delivery_mode=DeliveryMode.PERSISTENT if mode is None else DeliveryMode(mode),
        priority=kept.get(_PRIORITY),
        time_to_live=kept.get(_TIME_TO_LIVE),
    )


def _staged(
    query: str, batch: int, stage: str, default: str | None, _number: int, row: Any
) -> Outgoing:
    out = to_message(row)
    where = default if out.destination is None else out.destination.qualified_name
    fields = {
        _BATCH: batch,
        _STAGE: stage,
        _WHERE: where,
        _PRIORITY: out.priority,
        _MODE: out.delivery_mode,
        _TIME_TO_LIVE: out.time_to_live,
    }
    properties = out.message.properties
    for name in [name for name in properties if name.startswith(_ORDERS)]:
        properties[_KEPT + name] = properties[name]
        del properties[name]
    for name, value in fields.items():
        if value is not None:
            properties[name] = value
    return Outgoing(out.message, stage_queue(query), None, None, None)


def _batch_of(marker: Message) -> int:
    text = marker.text if isinstance(marker, TextMessage) else None
    if text is None or not text.isdigit():
        raise JMSException(f"{marker.destination} has a message that names no batch: {marker}")
    return int(text)
