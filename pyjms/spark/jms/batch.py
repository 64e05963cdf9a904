"""The batch sources of the format `jms`: a snapshot of a queue that removes nothing.

`BrowseReader` browses, with any broker, in one task. `RangeReader` (`mode=ranges`, only with the
bundled broker) reads the messages in the queue's store in several tasks: persistent messages,
except those that are consumed in the meantime. (spark-pipeline 5 A)
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql.datasource import DataSourceReader, InputPartition

from pyjms.client.messages import command_of
from pyjms.client.session import ActiveMQSession
from pyjms.errors import ConfigurationException
from pyjms.jms.destination import Queue
from pyjms.jms.message import Message
from pyjms.spark.columns import MESSAGE_COLUMNS, arrow_batch, arrow_schema, tolerant_values
from pyjms.spark.jms.connections import (
    discard_connection,
    new_session,
    retry_while_lost,
    run_blocking,
)
from pyjms.spark.jms.options import JmsOptions
from pyjms.spark.jms.ranges.reading import RangePartition, read_range
from pyjms.spark.jms.ranges.requests import ranges_client
from pyjms.spark.jms.streaming import split_evenly

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["BrowseReader", "RangeReader"]

_ROWS_PER_BATCH: Final = 2000
Row = tuple[object, ...]


class BrowseReader(DataSourceReader):
    """A snapshot of a queue, browsed in one task. ActiveMQ's policies may limit it to 400."""

    def __init__(self, options: JmsOptions) -> None:
        if not isinstance(options.target, Queue):
            raise _not_a_queue(options)
        self._options = options

    def partitions(self) -> Sequence[InputPartition]:
        return [InputPartition(0)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        schema = arrow_schema(MESSAGE_COLUMNS)
        pages = _Pages(self._options)
        try:
            while rows := run_blocking(pages.next):
                yield arrow_batch(rows, schema)
        finally:
            run_blocking(pages.close)


class RangeReader(DataSourceReader):
    """A snapshot of the persistent messages of a queue, read by ranges in `partitions` tasks."""

    def __init__(self, options: JmsOptions) -> None:
        if options.target.is_topic:
            raise _not_a_queue(options)
        self._options = options

    def partitions(self) -> Sequence[InputPartition]:
        found: dict[str, Any] = run_blocking(retry_while_lost, _queue_range, self._options)
        shares = split_evenly(found["first"], found["next"], self._options.partitions)
        return [RangePartition(None, found["epoch"], low, high) for low, high in shares]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        if not isinstance(partition, RangePartition):  # Spark's own, for an empty queue
            return iter(())
        return read_range(self._options, partition)


class _Pages:
    """The messages of a browser, a page at a time. Lives on the shared loop."""

    def __init__(self, options: JmsOptions) -> None:
        self._options = options
        self._session: ActiveMQSession | None = None
        self._messages: AsyncIterator[Message] | None = None

    async def next(self) -> list[Row]:
        """Return the next rows; an empty list means there are no more.

        Raises:
            JMSException: the broker could not be reached, or the connection was lost; the
                snapshot cannot be continued.
        """
        messages = await self._open_browser()
        rows: list[Row] = []
        while len(rows) < _ROWS_PER_BATCH:
            message = await anext(messages, None)
            if message is None:
                break
            rows.append(tolerant_values(command_of(message), None, message.delivery_count - 1))
        return rows

    async def close(self) -> None:
        """Close the browser; idempotent."""
        session, self._session = self._session, None
        if session is not None and session.connection.failure is None:
            await session.close()
        elif session is not None:
            await discard_connection(self._options)

    async def _open_browser(self) -> AsyncIterator[Message]:
        if self._messages is None:
            target = self._options.target
            assert isinstance(target, Queue)
            self._session = await new_session(self._options)
            browser = await self._session.create_browser(target, self._options.selector)
            self._messages = aiter(browser)
        return self._messages


async def _queue_range(options: JmsOptions) -> dict[str, Any]:
    client = await ranges_client(options)
    queue = options.target.physical_name
    return await client.values("look", queue=queue, selector=options.selector)


def _not_a_queue(options: JmsOptions) -> ConfigurationException:
    return ConfigurationException(
        f"jms: {options.target} cannot be read as a batch: only queues can be browsed",
        hint="read a queue, or stream from the topic with clientId and subscription",
    )
