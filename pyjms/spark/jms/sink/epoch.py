"""`exactlyOnce=epoch`: tasks stage their rows at the broker, one transaction publishes a batch.

How it works is described in the package's docstring. (spark-pipeline 5 D)
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any, Final

from pyjms._logger import get_logger
from pyjms.client.producer import ActiveMQMessageProducer
from pyjms.client.session import ActiveMQSession
from pyjms.enums import DeliveryMode
from pyjms.errors import IllegalStateException, JMSException, ResourceAllocationException
from pyjms.jms.bodies import TextMessage
from pyjms.jms.destination import Queue, parse_destination
from pyjms.jms.message import Message
from pyjms.jms.properties import DUPLICATE_ID_PROPERTY
from pyjms.spark.jms.connections import run_in_session, with_paged_prefetch, without_prefetch
from pyjms.spark.jms.options import JmsOptions
from pyjms.spark.jms.sink.rows import Outgoing, to_message
from pyjms.spark.jms.sink.sending import send_rows

__all__ = ["discard", "epoch_queue", "publish", "stage_queue", "stage_rows"]

logger: Final = get_logger(__name__)

_BATCH: Final = "PyJMSBatch"
_STAGE: Final = "PyJMSStage"
_TARGET: Final = "PyJMSDestination"
_PRIORITY: Final = "PyJMSPriority"
_MODE: Final = "PyJMSDeliveryMode"
_TIME_TO_LIVE: Final = "PyJMSTimeToLive"
_OURS: Final = frozenset((_BATCH, _STAGE, _TARGET, _PRIORITY, _MODE, _TIME_TO_LIVE))
_KEPT_PREFIX: Final = "PyJMSKept_"
"""The prefix, on the stage queue, of properties that make a broker act on a message."""
_BROKER_PROPERTIES: Final = ("AMQ_SCHEDULED_", DUPLICATE_ID_PROPERTY)
_MARKER_TIMEOUT: Final = 45.0
"""Seconds to wait for the marker, which only the first batch of a query lacks.

Longer than the 30 s in which brokers notice that the connection of a killed driver is dead.
"""
_STAGED_TIMEOUT: Final = 30.0
"""Seconds to wait for the next staged row, which the broker has unless it is lost."""


def stage_queue(query: str) -> Queue:
    """Return the queue that holds a query's staged rows."""
    return Queue(f"PyJMS.Stage.{query}")


def epoch_queue(query: str) -> Queue:
    """Return the queue whose only message names the last published batch of a query."""
    return Queue(f"PyJMS.Epoch.{query}")


def stage_rows(options: JmsOptions, query: str, batch: int, stage: str, rows: Iterator[Any]) -> int:
    """Send the rows of a task to the staging queue in one transaction; return their number. Blocks.

    Raises:
        JMSException: sending failed; nothing was staged.
    """
    default = options.destination
    return send_rows(options, rows, partial(_staged, query, batch, stage, default))


async def publish(
    options: JmsOptions,
    query: str,
    batch: int,
    stages: Mapping[str, int],
    staged_timeout: float = _STAGED_TIMEOUT,
) -> None:
    """Publish the rows of these stages, unless the batch is already published.

    `stages`: the number of rows by stage, for each task that succeeded; rows of other stages are
    dropped. `staged_timeout`: seconds to wait for each row.

    Raises:
        ResourceAllocationException: staged rows are missing.
        IllegalStateException: a later batch of the query is published already.
        JMSException: the connection is lost, or the broker refuses; nothing is published.
    """
    await run_in_session(options, _publish, query, batch, stages, staged_timeout)


async def discard(options: JmsOptions, query: str, batch: int) -> None:
    """Drop the staged rows of a failed batch; the next batch drops what this leaves."""

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
    staged_timeout: float,
) -> None:
    producer = await session.create_producer(None)
    marker = await session.create_consumer(without_prefetch(epoch_queue(query)))
    last = -1
    timeout = _MARKER_TIMEOUT if batch else 0  # a driver that was just killed may still hold it
    while (message := await marker.receive(timeout)) is not None:
        last = max(last, _batch_of(message))
        timeout = 0
    if batch < last:
        await session.rollback()
        raise IllegalStateException(
            f"Query {query}: batch {batch} begins, but batch {last} is published already: the "
            "checkpoint is older than what was sent",
            hint="if the checkpoint was deleted, restored or rolled back, use a new one, or "
            "another queryId; replay missing messages from the journal",
        )
    if batch == last:
        logger.warning(
            "Query %s: batch %d is published already; its repetition is dropped", query, batch
        )
    else:
        await _move(session, producer, query, batch, stages, staged_timeout)
        last = batch
    await producer.send(TextMessage(str(last)), destination=epoch_queue(query))
    await session.commit()


async def _move(
    session: ActiveMQSession,
    producer: ActiveMQMessageProducer,
    query: str,
    batch: int,
    stages: Mapping[str, int],
    staged_timeout: float,
) -> None:
    remaining = dict(stages)
    consumer = await session.create_consumer(with_paged_prefetch(stage_queue(query)))
    while any(remaining.values()):
        message = await consumer.receive(staged_timeout)
        if message is None:
            await session.rollback()
            raise ResourceAllocationException(
                f"Query {query}, batch {batch}: {sum(remaining.values())} staged rows are missing "
                f"from {stage_queue(query)}",
                hint="restart the query, which runs the batch again",
            )
        stage = str(message.properties.get(_STAGE))
        if message.properties.get(_BATCH) == batch and remaining.get(stage):
            remaining[stage] -= 1
            await _forward(producer, message)
    await consumer.close()


async def _forward(producer: ActiveMQMessageProducer, message: Message) -> None:
    staged: dict[str, Any] = dict(message.properties)
    message.clear_properties()
    for name, value in staged.items():
        if name not in _OURS:
            message.properties[name.removeprefix(_KEPT_PREFIX)] = value
    mode = staged.get(_MODE)
    await producer.send(
        message,
        destination=parse_destination(str(staged[_TARGET])),
        delivery_mode=DeliveryMode.PERSISTENT if mode is None else DeliveryMode(mode),
        priority=staged.get(_PRIORITY),
        time_to_live=staged.get(_TIME_TO_LIVE),
    )


def _staged(
    query: str, batch: int, stage: str, default: str | None, _number: int, row: Any
) -> Outgoing:
    out = to_message(row)
    target = default if out.destination is None else out.destination.qualified_name
    fields = {
        _BATCH: batch,
        _STAGE: stage,
        _TARGET: target,
        _PRIORITY: out.priority,
        _MODE: out.delivery_mode,
        _TIME_TO_LIVE: out.time_to_live,
    }
    properties = out.message.properties
    for name in [name for name in properties if name.startswith(_BROKER_PROPERTIES)]:
        properties[_KEPT_PREFIX + name] = properties[name]
        del properties[name]
    for name, value in fields.items():
        if value is not None:
            properties[name] = value
    return Outgoing(out.message, stage_queue(query), None, None, None)


def _batch_of(marker: Message) -> int:
    text = marker.text if isinstance(marker, TextMessage) else None
    if text is None or not text.isdigit():
        raise JMSException(
            f"{marker.destination} contains a message that does not name a batch: {marker}; "
            "remove it if another program sent it"
        )
    return int(text)
