"""The batch source: what is on a queue now, looked at and left there."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Sequence
from typing import TYPE_CHECKING, Final

from pyspark.sql.datasource import DataSourceReader, InputPartition

from pyjms.client.messages import command_of
from pyjms.client.session import ActiveMQSession
from pyjms.errors import ConfigurationException
from pyjms.jms.destination import Queue
from pyjms.jms.message import Message
from pyjms.spark.columns import MESSAGE_COLUMNS, arrow_batch, arrow_schema, tolerant_values
from pyjms.spark.jms.client import forget, new_session, run
from pyjms.spark.jms.options import JmsOptions

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["BrowseReader"]

_ROWS_A_BATCH: Final = 2000
Row = tuple[object, ...]


class BrowseReader(DataSourceReader):
    """A snapshot of a queue, in one task. ActiveMQ's policies may cut it at 400 messages."""

    def __init__(self, options: JmsOptions) -> None:
        if not isinstance(options.target, Queue):
            raise ConfigurationException(
                f"jms: {options.target} cannot be read as a batch: only queues can be browsed"
            )
        self._options = options

    def partitions(self) -> Sequence[InputPartition]:
        return [InputPartition(0)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        schema = arrow_schema(MESSAGE_COLUMNS)
        pages = _Pages(self._options)
        try:
            while rows := run(pages.next):
                yield arrow_batch(rows, schema)
        finally:
            run(pages.close)


class _Pages:
    """A browser's messages, so many at a time. Lives on the shared loop."""

    def __init__(self, options: JmsOptions) -> None:
        self._options = options
        self._session: ActiveMQSession | None = None
        self._messages: AsyncIterator[Message] | None = None

    async def next(self) -> list[Row]:
        """Return the next rows; none: that was all.

        Raises:
            JMSException: the broker was not reached, or is gone; the snapshot is over then.
        """
        messages = await self._opened()
        found: list[Row] = []
        while len(found) < _ROWS_A_BATCH:
            message = await anext(messages, None)
            if message is None:
                break
            found.append(tolerant_values(command_of(message), None, message.delivery_count - 1))
        return found

    async def close(self) -> None:
        """End the browser, where there is one still."""
        session, self._session = self._session, None
        if session is not None and session.connection.failure is None:
            await session.close()
        elif session is not None:
            await forget(self._options)

    async def _opened(self) -> AsyncIterator[Message]:
        if self._messages is None:
            target = self._options.target
            assert isinstance(target, Queue)
            self._session = await new_session(self._options)
            browser = await self._session.create_browser(target, self._options.selector)
            self._messages = aiter(browser)
        return self._messages
