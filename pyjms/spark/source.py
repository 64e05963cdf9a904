"""The readers of the data source `jms`: the stream reader selects another one; the batch readers.

`spark.readStream.format("jms")` reads by ranges if the broker supports them (the bundled broker
does), otherwise through a spool of files. With `mode=auto` the process that computes offsets asks
the broker once, and logs the result once. (spark-pipeline 6.1)

A batch is a snapshot of a queue that removes nothing: `BrowseReader` browses, with any broker, in
one task. `RangeReader` (`mode=ranges`, only with the bundled broker) reads the messages in the
queue's store in several tasks: persistent messages, except those that are consumed in the meantime.
(spark-pipeline 5 A)
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from pyspark.sql import datasource
from pyspark.sql.datasource import DataSourceReader, InputPartition
from pyspark.sql.streaming.datasource import ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow

from pyjms.client.advisories import DestinationAdvisory, read_advisory
from pyjms.client.messages import command_of
from pyjms.client.session import ActiveMQSession
from pyjms.errors import ConfigurationException, JMSSecurityException
from pyjms.jms.destination import Destination, Queue, Topic, advisory_topic, name_matches
from pyjms.jms.message import Message
from pyjms.runtime import clock as _clock
from pyjms.runtime.logging import get_logger
from pyjms.spark.connections import discard_connection, new_session, retry_while_lost, run_blocking
from pyjms.spark.offsets import is_several, split_evenly
from pyjms.spark.options import EARLIEST, LATEST, JmsOptions
from pyjms.spark.range_stream import RangeStreamReader, find_queues
from pyjms.spark.ranges import RangePartition, ranges_client, read_range, supports_ranges
from pyjms.spark.rows import MESSAGE_COLUMNS, arrow_schema, message_batch, new_columns
from pyjms.spark.spool import RowsPartition, SpoolStreamReader, read_rows, spool_id
from pyjms.wire.openwire.message_columns import MessageColumns

if TYPE_CHECKING:
    import pyarrow as pa
    from pydantic import BaseModel


logger: Final = get_logger(__name__)

_Reader: TypeAlias = RangeStreamReader | SpoolStreamReader

_ROWS_PER_BATCH: Final = 2000
_ADVISORY_TIMEOUT: Final = 0.05
"""Seconds to wait for another advisory; those about what is there already have arrived."""
_ADVISORIES_TIMEOUT: Final = 5.0
"""Seconds to read advisories, of which a busy broker may send more and more."""


class JmsStreamReader(datasource.DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reads queues or a durable subscription, by ranges or through a spool."""

    def __init__(self, options: JmsOptions, models: tuple[type[BaseModel], ...] = ()) -> None:
        self._options = options
        self._models = models
        self._reader: _Reader | None = None
        self._is_available_now = False
        reason = _why_spool(options)
        if reason is not None:
            self._spool_folder(reason)

    def initialOffset(self) -> dict[str, Any]:
        return self._open(None).initialOffset()

    def getDefaultReadLimit(self) -> ReadLimit:
        return ReadMaxRows(self._options.max_messages_per_trigger)

    def prepareForTriggerAvailableNow(self) -> None:
        self._is_available_now = True
        if self._reader is not None:
            self._reader.prepareForTriggerAvailableNow()

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        return self._open(start).latestOffset(start, limit)

    def reportLatestOffset(self) -> dict[str, Any] | None:
        return None if self._reader is None else self._reader.reportLatestOffset()

    def partitions(
        self, start: dict[str, Any], end: dict[str, Any]
    ) -> Sequence[datasource.InputPartition]:
        return self._open(end).partitions(start, end)

    def read(self, partition: datasource.InputPartition) -> Iterator[pa.RecordBatch]:
        if isinstance(partition, RangePartition):
            rows = read_range(self._options, partition)
        elif isinstance(partition, RowsPartition):
            rows = read_rows(partition.path, partition.start, partition.stop)
        else:
            return iter(())  # Spark's own partition, for an empty batch
        encoded = self._options.body_schema
        if encoded is None:
            return rows
        from pyjms.spark.schema import body_reader  # most queries have none

        return body_reader(encoded, self._models).read(rows)

    def commit(self, end: dict[str, Any]) -> None:
        self._open(end).commit(end)

    def stop(self) -> None:
        if self._reader is not None:
            self._reader.stop()

    def _open(self, offset: dict[str, Any] | None) -> _Reader:
        if self._reader is None:
            self._reader = reader = self._choose(offset)
            if self._is_available_now:
                reader.prepareForTriggerAvailableNow()
        return self._reader

    def _choose(self, offset: dict[str, Any] | None) -> _Reader:
        options = self._options
        reason = _why_spool(options)
        if reason is None and (options.mode == "ranges" or self._uses_ranges(offset)):
            logger.warning("jms: %s is read by ranges of its sequence numbers", options.target)
            return RangeStreamReader(options)
        folder = self._spool_folder(reason or "this broker does not serve ranges")
        logger.warning(
            "jms: %s is read through a spool: files in %s, written before messages are "
            "acknowledged",
            options.target,
            folder,
        )
        return SpoolStreamReader(options, folder)

    def _uses_ranges(self, offset: dict[str, Any] | None) -> bool:
        options = self._options
        if offset is not None and options.spool is not None:
            spool = spool_id(Path(options.spool))
            if spool is not None and spool == offset.get("epoch"):
                return False  # the query started with this spool, and its rows are there
        return bool(run_blocking(retry_while_lost, supports_ranges, options))

    def _spool_folder(self, reason: str) -> str:
        spool = self._options.spool
        if spool is None:
            raise ConfigurationException(
                f"jms: option spool is missing: {reason}, so messages are kept in files until "
                "Spark has finished with them",
                hint='option("spool", "/shared/folder/of-this-query"), a folder that the driver '
                "and all executors can access; pipelines set it beside their checkpoint",
            )
        return str(Path(spool).absolute())


def _why_spool(options: JmsOptions) -> str | None:
    """Return why a stream needs a spool whatever the broker serves; None: it may not need one."""
    target = options.target
    if options.mode == "ranges":
        return None
    if any(one.is_topic for one in target.composite_destinations):
        return f"{target} is a topic, which has no ranges"
    return "mode=spool was set" if options.mode == "spool" else None


class QueuePartition(InputPartition):
    """A task's share of a browsed snapshot: one queue, or one pattern."""

    def __init__(self, queue: str) -> None:
        super().__init__(queue)
        self.queue: str = queue


class _BatchReader(DataSourceReader):
    """The common part of both: the queues, and the time range."""

    def __init__(self, options: JmsOptions) -> None:
        self._options = options
        target = options.target
        for queue in target.composite_destinations:
            if not isinstance(queue, Queue):
                raise ConfigurationException(
                    f"jms: {queue} cannot be read as a batch: only queues can be browsed",
                    hint="read a queue, or stream from the topic with clientId, subscription and "
                    "spool",
                )

    def _queues(self) -> Sequence[Destination]:
        """Return the queues and patterns to read, without those that do not exist."""
        found = run_blocking(retry_while_lost, existing_queues, self._options)
        wanted = self._options.target.composite_destinations
        if found is None:  # a broker without advisories
            return wanted
        missing = [
            queue.physical_name
            for queue in wanted
            if not any(name_matches(queue.physical_name, name) for name in found)
        ]
        if missing and self._options.fail_on_missing:
            raise ConfigurationException(
                f"jms: there is no queue {', '.join(missing)}",
                hint="check the name; failOnMissing=false reads nothing from it, with a warning",
            )
        if missing:
            logger.warning(
                "jms: there is no queue %s: nothing is read from it (failOnMissing makes it an "
                "error)",
                ", ".join(missing),
            )
        return [queue for queue in wanted if queue.physical_name not in missing]

    def _within_times(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the rows from startingTimestamp to before endingTimestamp; those without time not.

        Producers set the timestamps, so they are not in order, and all messages are read.
        """
        import pyarrow as pa
        import pyarrow.compute as pc

        start, end = self._options.starting_timestamp, self._options.ending_timestamp
        for batch in batches:
            if start is None and end is None:
                yield batch
                continue
            times = pc.cast(batch.column("timestamp"), pa.int64())
            after = pc.greater_equal(
                times, pa.scalar(-(2**63) if start is None else start, pa.int64())
            )
            before = pc.less(times, pa.scalar(2**63 - 1 if end is None else end, pa.int64()))
            yield batch.filter(pc.and_(after, before))


class BrowseReader(_BatchReader):
    """A snapshot of queues, each browsed in one task. ActiveMQ's policies may limit it to 400."""

    def partitions(self) -> Sequence[InputPartition]:
        return [QueuePartition(_with_options(queue)) for queue in self._queues()]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        if not isinstance(partition, QueuePartition):  # Spark's own, for no queue
            return iter(())
        return self._within_times(self._browse(Queue(partition.queue)))

    def _browse(self, queue: Queue) -> Iterator[pa.RecordBatch]:
        schema = arrow_schema(MESSAGE_COLUMNS)
        pages = _Pages(self._options, queue)
        try:
            while (columns := run_blocking(pages.next)).count:
                yield message_batch(columns, schema)
        finally:
            run_blocking(pages.close)


def _with_options(queue: Destination) -> str:
    options = "&".join(f"{name}={value}" for name, value in queue.options.items())
    return f"{queue.physical_name}?{options}" if options else queue.physical_name


class RangeReader(_BatchReader):
    """A snapshot of the persistent messages of queues, read by ranges in `partitions` tasks."""

    def __init__(self, options: JmsOptions) -> None:
        super().__init__(options)
        is_numbered = options.starting_offset.isdigit() or options.ending_offset.isdigit()
        if is_several(options.target) and is_numbered:
            raise ConfigurationException(
                "jms: startingOffset and endingOffset are numbers of a single queue, but the "
                f"destination is {options.target}",
                hint="read one at a time, or use startingTimestamp and endingTimestamp",
            )

    def partitions(self) -> Sequence[InputPartition]:
        queues = run_blocking(retry_while_lost, find_queues, self._options, self._queues())
        return [part for queue in queues for part in self._partitions(queue.physical_name)]

    def _partitions(self, queue: str) -> Iterator[InputPartition]:
        options = self._options
        found: dict[str, Any] = run_blocking(retry_while_lost, _queue_range, options, queue)
        first, following = found["first"], found["next"]
        named = {EARLIEST: first, LATEST: following}
        low = named.get(options.starting_offset)
        high = named.get(options.ending_offset)
        low = max(first, int(options.starting_offset) if low is None else low)
        high = min(following, int(options.ending_offset) if high is None else high)
        for start, end in split_evenly(low, high, options.partitions):
            yield RangePartition(None, found["epoch"], start, end, queue)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        if not isinstance(partition, RangePartition):  # Spark's own, for an empty queue
            return iter(())
        return self._within_times(read_range(self._options, partition))


async def existing_queues(options: JmsOptions) -> set[str] | None:
    """Return the names of the broker's queues; None: the broker does not tell them.

    A new consumer of the advisories about queues is told those that there are, before its creation
    is confirmed. The advisory about this process's own connection shows that there are advisories.
    """
    session = await new_session(options, transacted=False)
    names: set[str] = set()
    has_advisories = False
    try:
        topics = (advisory_topic(event).physical_name for event in ("Connection", "Queue"))
        consumer = await session.create_consumer(Topic(",".join(topics)))
        deadline = _clock.now() + _ADVISORIES_TIMEOUT
        while _clock.now() < deadline:
            message = await consumer.receive(_ADVISORY_TIMEOUT)
            if message is None:
                break
            advisory = read_advisory(message)
            has_advisories = True
            if isinstance(advisory, DestinationAdvisory) and advisory.destination is not None:
                names.add(advisory.destination.physical_name)
    except JMSSecurityException:
        return None
    finally:
        await session.close()
    return names if has_advisories else None


class _Pages:
    """The messages of a browser, a page at a time. Lives on the shared loop."""

    def __init__(self, options: JmsOptions, queue: Queue) -> None:
        self._options = options
        self._queue = queue
        self._session: ActiveMQSession | None = None
        self._messages: AsyncIterator[Message] | None = None

    async def next(self) -> MessageColumns:
        """Return the next messages; none means that there are no more."""
        messages = await self._open_browser()
        columns = new_columns()
        while columns.count < _ROWS_PER_BATCH:
            message = await anext(messages, None)
            if message is None:
                break
            columns.add_message(command_of(message), None, message.delivery_count - 1)
        return columns

    async def close(self) -> None:
        """Close the browser; idempotent."""
        session, self._session = self._session, None
        if session is not None and session.connection.failure is None:
            await session.close()
        elif session is not None:
            await discard_connection(self._options)

    async def _open_browser(self) -> AsyncIterator[Message]:
        if self._messages is None:
            self._session = await new_session(self._options)
            browser = await self._session.create_browser(self._queue, self._options.selector)
            self._messages = aiter(browser)
        return self._messages


async def _queue_range(options: JmsOptions, queue: str) -> dict[str, Any]:
    client = await ranges_client(options)
    return await client.values("look", queue=queue, selector=options.selector)
