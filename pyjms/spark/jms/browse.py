"""The batch source: what is on a queue now, looked at and left there."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final

from pyspark.sql.datasource import DataSourceReader, InputPartition

from pyjms.client.messages import command_of
from pyjms.client.session import ActiveMQSession
from pyjms.errors import ConfigurationException
from pyjms.jms.destination import Queue
from pyjms.spark.columns import MESSAGE_COLUMNS, arrow_batch, arrow_schema, message_values
from pyjms.spark.jms.client import in_session, run
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
        rows: list[Row] = run(in_session, self._options, _browse, self._options)
        schema = arrow_schema(MESSAGE_COLUMNS)
        for at in range(0, len(rows), _ROWS_A_BATCH):
            yield arrow_batch(rows[at : at + _ROWS_A_BATCH], schema)


async def _browse(session: ActiveMQSession, options: JmsOptions) -> list[Row]:
    target = options.target
    assert isinstance(target, Queue)
    found: list[Row] = []
    async with await session.create_browser(target, options.selector) as browser:
        async for message in browser:
            values = message_values(command_of(message), None, message.delivery_count - 1)
            found.append(values)
    return found
