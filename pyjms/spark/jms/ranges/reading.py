"""Reading a range: a task reads its share of a batch, chunk by chunk, as Arrow batches."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql.datasource import InputPartition

from pyjms.errors import IllegalStateException
from pyjms.jms.bodies import BytesMessage
from pyjms.spark.columns import MESSAGE_COLUMNS, arrow_batch, arrow_schema, tolerant_values
from pyjms.spark.jms.connections import run_blocking
from pyjms.spark.jms.options import JmsOptions
from pyjms.spark.jms.ranges.requests import RangesRefused, ranges_client, retry_while_unavailable
from pyjms.wire.openwire.raw import unmarshal_body

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["RangePartition", "read_range"]

_RETRY_PERIOD: Final = 60.0
"""Seconds to wait for the broker, and for the driver's lease, to come back."""
_RECORD_HEADER: Final = struct.Struct(">qiB")


class RangePartition(InputPartition):
    """A task's share of a range: the numbers from `start` to before `end`.

    It is read with the token of the driver's lease. Without one (None), a message that was consumed
    in the meantime is missing.
    """

    def __init__(self, token: str | None, epoch: int, start: int, end: int) -> None:
        super().__init__((start, end))
        self.token: str | None = token
        self.epoch: int = epoch
        self.start: int = start
        self.end: int = end


def read_range(options: JmsOptions, partition: RangePartition) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a partition. Blocks.

    Raises:
        IllegalStateException: the messages no longer exist.
        JMSException: the broker, or the driver's lease, did not come back within 60 s.
    """
    options = replace(options, client_id=None)  # the driver's connection has it
    schema = arrow_schema(MESSAGE_COLUMNS)
    at, last = partition.start, partition.start >= partition.end
    while not last:
        body, at, last = run_blocking(_read_chunk, options, partition, at)
        if body:
            yield arrow_batch(_rows(body), schema)


def _rows(body: bytes) -> Iterator[tuple[object, ...]]:
    at = 0
    while at < len(body):
        number, size, kind = _RECORD_HEADER.unpack_from(body, at)
        at += _RECORD_HEADER.size
        message = unmarshal_body(kind, body[at : at + size - 1])
        at += size - 1
        yield tolerant_values(message, number, message.redelivery_counter)


async def _read_chunk(
    options: JmsOptions, partition: RangePartition, start: int
) -> tuple[bytes, int, bool]:
    async def attempt() -> tuple[bytes, int, bool]:
        client = await ranges_client(options)
        arguments: dict[str, Any] = {"from": start, "to": partition.end, "token": partition.token}
        if partition.token is None:
            arguments |= {"queue": options.target.physical_name, "selector": options.selector}
        try:
            message = await client.request("range", **arguments)
        except RangesRefused as error:
            if error.code in {"trimmed", "ahead"}:
                raise IllegalStateException(
                    f"The messages {start} to {partition.end - 1} of {options.target} cannot be "
                    f"read again: {error}",
                    hint="they were removed; the next attempt of the batch reports what is missing",
                ) from error
            raise
        properties = message.properties
        if not isinstance(message, BytesMessage) or properties["epoch"] != partition.epoch:
            raise IllegalStateException(
                f"{options.target} was purged or created again while it was being read",
                hint="the next attempt of the batch reports what is missing",
            )
        return bytes(message.data or b""), int(str(properties["next"])), bool(properties["last"])

    return await retry_while_unavailable(attempt, _RETRY_PERIOD)
