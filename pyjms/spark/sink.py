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

For each batch, Spark creates the writers whose `commit` and `abort` it calls; they share only the
commit messages with the objects whose `write` it calls. (spark-pipeline 3.1, 3.4, 5 D)
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceStreamWriter, DataSourceWriter, WriterCommitMessage

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
from pyjms.jms.message import DUPLICATE_ID_PROPERTY, Message, TextMessage
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
from pyjms.spark.rows import Outgoing, RowId, check_columns, to_message

if TYPE_CHECKING:
    from pyspark.sql.types import StructType


logger: Final = get_logger(__name__)

_ROWS_PER_CALL: Final = 500
_BATCH_ID: Final = "streaming.sql.batchId"
_QUERY_ID: Final = "sql.streaming.queryId"
"""Local properties of a task: the batch that it belongs to, and the query."""

Messages: TypeAlias = list[WriterCommitMessage | None]
"""What the tasks of a batch reported; None for a task that failed."""
RowConverter: TypeAlias = Callable[[int, Any], Outgoing]
"""Converts a row, given its number in the partition, to a message."""


class RowTransaction:
    """A transaction in which rows are sent, chunk by chunk. Lives on the shared loop.

    With `transacted=False` there is no transaction: each row is durable when it is sent.
    """

    def __init__(
        self, options: JmsOptions, to_outgoing: RowConverter, *, transacted: bool = True
    ) -> None:
        self._options = options
        self._to_outgoing = to_outgoing
        self._is_transacted = transacted
        self._session: ActiveMQSession | None = None
        self._producer: ActiveMQMessageProducer | None = None
        self.sent: int = 0

    async def send(self, rows: list[Any]) -> None:
        """Send some rows.

        Raises:
            JMSException: the connection is lost, or the broker refuses; nothing was committed.
        """
        if self._session is None:
            self._session = await new_session(self._options, transacted=self._is_transacted)
            self._producer = await self._session.create_producer(None)
        assert self._producer is not None
        default = self._options.target if self._options.destination else None
        for row in rows:
            out = self._to_outgoing(self.sent, row)
            self._producer.next_message_id = out.message_id
            await self._producer.send(
                out.message,
                destination=out.destination or default,
                delivery_mode=out.delivery_mode,
                priority=out.priority,
                time_to_live=out.time_to_live,
            )
            self.sent += 1

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


def send_rows(options: JmsOptions, rows: Iterable[Any], to_outgoing: RowConverter) -> int:
    """Send all rows in one transaction and return their number. Blocks.

    With `exactlyOnce=ids` a broker may roll the transaction back because it knows a row's id; then
    each row is sent separately, and the broker drops duplicates.

    Raises:
        JMSException: sending failed. Nothing was sent, unless the response to the commit was lost,
            or rows were sent one by one.
    """
    if options.exactly_once != "ids":
        return _send(RowTransaction(options, to_outgoing), rows)
    kept: list[Any] = []
    try:
        return _send(RowTransaction(options, to_outgoing), _keeping(rows, kept))
    except TransactionRolledBackException as error:
        logger.warning(
            "jms: the broker rolled back a transaction of %d rows; sending them one by one: %s",
            len(kept),
            error,
        )
    return _send(RowTransaction(options, to_outgoing, transacted=False), kept)


def _send(transaction: RowTransaction, rows: Iterable[Any]) -> int:
    try:
        for chunk in _chunks(iter(rows)):
            run_blocking(transaction.send, chunk)
        run_blocking(transaction.commit)
    except BaseException:
        run_blocking(transaction.abort)
        raise
    return transaction.sent


def _keeping(rows: Iterable[Any], kept: list[Any]) -> Iterator[Any]:
    for row in rows:
        kept.append(row)
        yield row


def _chunks(rows: Iterator[Any]) -> Iterator[list[Any]]:
    while chunk := list(islice(rows, _ROWS_PER_CALL)):
        yield chunk


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
    return send_rows(options, rows, partial(_to_staged, query, batch, stage, default))


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


def _to_staged(
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


@dataclass
class SentRows(WriterCommitMessage):
    """The result of a task: the number of rows, and the stage that holds them."""

    rows: int
    query: str = ""
    stage: str = ""


def check_sink(options: JmsOptions, schema: StructType, *, streaming: bool) -> None:
    """Check columns and options before anything runs.

    Raises:
        ConfigurationException: a column or option is not valid, or `exactlyOnce` cannot be kept.
    """
    check_columns(schema.names, options.id_column, routed=options.destination is not None)
    if options.id_column is not None and options.exactly_once != "ids":
        raise ConfigurationException(
            f"jms: idColumn has no effect with exactlyOnce={options.exactly_once}",
            hint="remove it, or set exactlyOnce=ids",
        )
    if options.exactly_once == "ids" and options.id_column is None and not options.map_only:
        raise ConfigurationException(
            "jms: exactlyOnce=ids without idColumn numbers the rows, but after a shuffle a batch "
            "that runs again numbers them differently, so the wrong rows would be dropped",
            hint="set idColumn to a column derived from the row itself; or mapOnly=true for a "
            "query without a shuffle (pyjms pipelines check that); or exactlyOnce=epoch",
        )
    named = options.query_id is not None and options.batch_id is not None
    if options.exactly_once != "off" and options.id_column is None and not (streaming or named):
        raise ConfigurationException(
            f"jms: a batch write with exactlyOnce={options.exactly_once} needs the options "
            "queryId and batchId, by which a repetition is recognized",
            hint="inside foreachBatch, set batchId to the batch id, and queryId to a fixed name",
        )


class _Writer:
    """The common part of batch and stream writers."""

    def __init__(self, options: JmsOptions) -> None:
        self.options = options

    def write(self, iterator: Iterator[Any]) -> SentRows:
        context = TaskContext.get()
        assert context is not None
        options = self.options
        query = options.query_id or context.getLocalProperty(_QUERY_ID) or ""
        batch_text = context.getLocalProperty(_BATCH_ID)
        batch = options.batch_id if options.batch_id is not None else int(batch_text or -1)
        if options.exactly_once == "epoch":
            # attempt numbers start again with the driver: rows staged by a killed driver must not
            # be mistaken for rows of this one
            stage = f"{context.partitionId()}.{secrets.token_hex(8)}"
            return SentRows(stage_rows(options, query, batch, stage, iterator), query, stage)
        prefix = f"{query}:{batch}:{context.partitionId()}"
        return SentRows(send_rows(options, iterator, row_converter(options, prefix)))

    def _publish(self, messages: Messages, batch: int) -> None:
        staged = _staged(messages)
        if staged:
            run_blocking(
                publish, self.options, staged[0].query, batch, {m.stage: m.rows for m in staged}
            )

    def _discard(self, messages: Messages, batch: int) -> None:
        staged = _staged(messages)
        if staged:
            run_blocking(discard, self.options, staged[0].query, batch)


class JmsStreamWriter(_Writer, DataSourceStreamWriter):
    """The sink of a streaming query."""

    def commit(self, messages: Messages, batchId: int) -> None:
        self._publish(messages, batchId)

    def abort(self, messages: Messages, batchId: int) -> None:
        self._discard(messages, batchId)


class JmsBatchWriter(_Writer, DataSourceWriter):
    """The sink of a batch query, also inside foreachBatch."""

    def commit(self, messages: Messages) -> None:
        self._publish(messages, self.options.batch_id or 0)

    def abort(self, messages: Messages) -> None:
        self._discard(messages, self.options.batch_id or 0)


def _staged(messages: Messages) -> list[SentRows]:
    """Return the stages of successful tasks; a failed task has no commit message."""
    return [m for m in messages if isinstance(m, SentRows) and m.stage]


def row_converter(options: JmsOptions, prefix: str) -> RowConverter:
    """Return what makes a message of a row and its number.

    With `exactly_once: ids` each message has an id by which brokers recognize repetitions: that of
    the column `idColumn`, or `prefix` with the row's number.
    """
    if options.exactly_once != "ids":
        return lambda _, row: to_message(row)
    column = options.id_column
    if column is None:
        return lambda number, row: to_message(row, RowId(prefix, number))

    def convert(number: int, row: Any) -> Outgoing:
        if row[column] is None:
            raise ConfigurationException(
                f"jms: idColumn {column} is null in row {number}; each row needs an id"
            )
        return to_message(row, RowId(str(row[column])))

    return convert
