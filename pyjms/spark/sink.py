"""The sinks: rows to messages, at three levels of `exactlyOnce`.

Theory of operation
===================

`off`: at least once. Each task sends its rows in one transaction; a batch that runs again is sent
again.

`ids`: the broker drops duplicates. Each message has a duplicate id: the value of `idColumn`, else
query, batch, partition and row number, which are the same in a repetition only without a shuffle.
How long a broker remembers an id:

- the bundled broker: the last 20,000 ids of a queue, on disk;
- ActiveMQ: as long as the first message is on its queue, also after a restart. The id of a consumed
  message as long as the broker runs and within the depth of its audit: 2048 rows of a partition, or
  the last 1024 ids of an `idColumn` (a policy entry changes both). A message that was consumed
  before a restart is sent again;
- Artemis: the last 20,000 ids of an address, consumed or not, also after a restart; not within one
  transaction. It rolls back a transaction that contains a known id; then the rows are sent one by
  one.

`epoch`: exactly once with every broker, also after a shuffle, with plain JMS:

    task      send rows to PyJMS.Stage.<query>, marked with the batch and a random stage id; commit
    driver    in one transaction: receive the marker of PyJMS.Epoch.<query> (the last batch that was
              published), move the rows of the successful stages to their destinations, send the
              marker with this batch's number; commit

    batch = last published     dropped, as the transaction that published it also set the marker
    batch > last published     published; leftovers of failed tasks and batches are dropped
    batch < last published     an error: the checkpoint is older than what was sent

Invariants: the marker changes only together with the messages of its batch. A stage counts only if
its task reported it, so rows of a task that was killed, or a second run, are never published. Spark
repeats only the last batch of a query. (spark-pipeline 5 D)

The rows of a task are one local transaction, committed before the task reports success. If the
broker is down before the first row, the task waits for it; if the connection is lost later,
the task fails. Spark repeats the task on a cluster and in `local[n,m]`, up to m attempts. Artemis
rolls back a transaction with a known id, so rows with ids are kept in memory, to send them one by
one.

The writers that Spark creates are in `formats`: for each batch those whose `commit` and `abort` it
calls, which share only the commit messages with the objects whose `write` it calls.
(spark-pipeline 3.1, 3.4, 5 D)
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from pyjms.client.producer import ActiveMQMessageProducer
from pyjms.client.session import ActiveMQSession
from pyjms.enums import DeliveryMode
from pyjms.errors import (
    ConfigurationException,
    IllegalStateException,
    JMSException,
    ResourceAllocationException,
    TransactionRolledBackException,
)
from pyjms.jms.destination import Queue, parse_destination
from pyjms.jms.message import Message, TextMessage
from pyjms.jms.metadata import DUPLICATE_ID_PROPERTY
from pyjms.runtime.logging import get_logger
from pyjms.spark.connections import (
    discard_connection,
    new_session,
    run_blocking,
    run_in_session,
    with_paged_prefetch,
    without_prefetch,
)
from pyjms.spark.options import JmsOptions
from pyjms.spark.outgoing import Outgoing, OutgoingColumns, RowId, with_id

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType


logger: Final = get_logger(__name__)

BatchConverter: TypeAlias = "Callable[[int, pa.RecordBatch], Iterable[Outgoing]]"
"""Converts a batch, given the number of its first row in the partition, to messages."""


class RowTransaction:
    """A transaction in which rows are sent, batch by batch. Lives on the shared loop.

    With `transacted=False` there is no transaction: each row is durable when it is sent.
    """

    def __init__(
        self, options: JmsOptions, to_messages: BatchConverter, *, transacted: bool = True
    ) -> None:
        self._options = options
        self._to_messages = to_messages
        self._is_transacted = transacted
        self._session: ActiveMQSession | None = None
        self._usual: ActiveMQMessageProducer | None = None
        self._routing: ActiveMQMessageProducer | None = None
        self.sent: int = 0

    async def send(self, batch: pa.RecordBatch) -> None:
        """Send some rows.

        Raises:
            JMSException: the connection is lost, or the broker refuses; nothing was committed.
        """
        for out in self._to_messages(self.sent, batch):
            producer = (self._usual if out.destination is None else self._routing) or (
                await self._open(routed=out.destination is not None)
            )
            producer.next_message_id = out.message_id
            await producer.send(
                out.message,
                destination=out.destination,
                delivery_mode=out.delivery_mode,
                priority=out.priority,
                time_to_live=out.time_to_live,
                delivery_delay=out.delivery_delay,
            )
            self.sent += 1

    async def _open(self, *, routed: bool) -> ActiveMQMessageProducer:
        """Return a producer for the sink's destination, or for those that rows name.

        One with a destination of its own does not check the destination of each message.
        """
        if self._session is None:
            self._session = await new_session(self._options, transacted=self._is_transacted)
        producer = await self._session.create_producer(None if routed else self._options.target)
        if routed:
            self._routing = producer
        else:
            self._usual = producer
        return producer

    async def commit(self) -> None:
        """Make all rows durable and visible at once."""
        if self._session is not None:
            if self._is_transacted:
                await self._session.commit()
            await self._session.close()

    async def abort(self) -> None:
        """Discard the transaction and the connection, which may have caused the failure."""
        if self._session is not None:
            await discard_connection(self._options)


def send_rows(
    options: JmsOptions, batches: Iterable[pa.RecordBatch], to_messages: BatchConverter
) -> int:
    """Send all rows in one transaction and return their number. Blocks.

    With `exactlyOnce=ids` a broker may roll the transaction back because it knows a row's id; then
    each row is sent separately, and the broker drops duplicates.

    Raises:
        JMSException: sending failed. Nothing was sent, unless the response to the commit was lost,
            or rows were sent one by one.
    """
    if options.exactly_once != "ids":
        return _send(RowTransaction(options, to_messages), batches)
    kept: list[pa.RecordBatch] = []
    try:
        return _send(RowTransaction(options, to_messages), _keeping(batches, kept))
    except TransactionRolledBackException as error:
        logger.warning(
            "jms: the broker rolled back a transaction of %d rows; sending them one by one: %s",
            sum(batch.num_rows for batch in kept),
            error,
        )
    return _send(RowTransaction(options, to_messages, transacted=False), kept)


def _send(transaction: RowTransaction, batches: Iterable[pa.RecordBatch]) -> int:
    try:
        for batch in batches:
            run_blocking(transaction.send, batch)
        run_blocking(transaction.commit)
    except BaseException:
        run_blocking(transaction.abort)
        raise
    return transaction.sent


def _keeping(
    batches: Iterable[pa.RecordBatch], kept: list[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        kept.append(batch)
        yield batch


_BATCH: Final = "PyJMSBatch"
_STAGE: Final = "PyJMSStage"
_TARGET: Final = "PyJMSDestination"
_PRIORITY: Final = "PyJMSPriority"
_MODE: Final = "PyJMSDeliveryMode"
_TIME_TO_LIVE: Final = "PyJMSTimeToLive"
_DELAY: Final = "PyJMSDeliveryDelay"
_OURS: Final = frozenset((_BATCH, _STAGE, _TARGET, _PRIORITY, _MODE, _TIME_TO_LIVE, _DELAY))
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


def stage_rows(
    options: JmsOptions,
    query: str,
    batch: int,
    stage: str,
    batches: Iterable[pa.RecordBatch],
    to_messages: BatchConverter,
) -> int:
    """Send the rows of a task to the staging queue in one transaction; return their number. Blocks.

    Raises:
        JMSException: sending failed; nothing was staged.
    """
    to_staged = partial(_to_staged, batch, stage, options.destination, to_messages)
    staging = replace(options, destination=stage_queue(query).qualified_name)
    return send_rows(staging, batches, to_staged)


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
        delivery_delay=staged.get(_DELAY),
    )


def _to_staged(
    batch: int,
    stage: str,
    default: str | None,
    to_messages: BatchConverter,
    number: int,
    rows: pa.RecordBatch,
) -> Iterator[Outgoing]:
    """Yield the rows as messages for the staging queue, whose properties say what is to be sent."""
    for out in to_messages(number, rows):
        target = default if out.destination is None else out.destination.qualified_name
        fields = {
            _BATCH: batch,
            _STAGE: stage,
            _TARGET: target,
            _PRIORITY: out.priority,
            _MODE: out.delivery_mode,
            _TIME_TO_LIVE: out.time_to_live,
            _DELAY: out.delivery_delay,
        }
        properties = out.message.properties
        for name in [name for name in properties if name.startswith(_BROKER_PROPERTIES)]:
            properties[_KEPT_PREFIX + name] = properties[name]
            del properties[name]
        for name, value in fields.items():
            if value is not None:
                properties[name] = value
        yield Outgoing(out.message)


def _batch_of(marker: Message) -> int:
    text = marker.text if isinstance(marker, TextMessage) else None
    if text is None or not text.isdigit():
        raise JMSException(
            f"{marker.destination} contains a message that does not name a batch: {marker}; "
            "remove it if another program sent it"
        )
    return int(text)


def batch_converter(options: JmsOptions, schema: StructType, prefix: str) -> BatchConverter:
    """Return what makes messages of a batch and the number of its first row.

    With `exactly_once: ids` each message has an id by which brokers recognize repetitions: that of
    the column `idColumn`, or `prefix` with the row's number.
    """
    column = options.id_column
    routed = options.destination is not None
    columns = OutgoingColumns(schema, column, routed=routed)
    is_identified = options.exactly_once == "ids"

    def convert(first: int, batch: pa.RecordBatch) -> Iterator[Outgoing]:
        for number, (outgoing, row_id) in enumerate(columns.messages(batch), first):
            if not is_identified:
                yield outgoing
            elif column is None:
                yield with_id(outgoing, RowId(prefix, number))
            elif row_id is None:
                raise ConfigurationException(
                    f"jms: idColumn {column} is null in row {number}; each row needs an id"
                )
            else:
                yield with_id(outgoing, RowId(str(row_id)))

    return convert
