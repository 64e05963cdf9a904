"""What a task does: reads its part of a range, chunk by chunk, as Arrow batches."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql.datasource import InputPartition

from pyjms.errors import IllegalStateException
from pyjms.jms.bodies import BytesMessage
from pyjms.spark.columns import MESSAGE_COLUMNS, arrow_batch, arrow_schema, tolerant_values
from pyjms.spark.jms.client import run
from pyjms.spark.jms.options import JmsOptions
from pyjms.spark.jms.ranges.asking import RangesRefused, asker, patiently
from pyjms.wire.openwire.raw import unmarshal_body

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["RangePartition", "read_range"]

_PATIENCE: Final = 60.0
"""Seconds to wait for the broker and for the driver's lease to be there again."""
_HEAD: Final = struct.Struct(">qiB")


class RangePartition(InputPartition):
    """A task's share: the numbers from `start` on, before `end`.

    Read with the driver's token; None: without a lease, what nobody has taken meanwhile.
    """

    def __init__(self, token: str | None, epoch: int, start: int, end: int) -> None:
        super().__init__((start, end))
        self.token, self.epoch, self.start, self.end = token, epoch, start, end


def read_range(options: JmsOptions, partition: RangePartition) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a partition. Blocks.

    Raises:
        IllegalStateException: the messages are not there any more.
        JMSException: the broker, or the driver's lease, did not come back in 60 s.
    """
    options = replace(options, client_id=None)  # it is the driver's
    schema = arrow_schema(MESSAGE_COLUMNS)
    at, last = partition.start, partition.start >= partition.end
    while not last:
        body, at, last = run(_chunk, options, partition, at)
        if body:
            yield arrow_batch(_rows(body), schema)


def _rows(body: bytes) -> Iterator[tuple[object, ...]]:
    at = 0
    while at < len(body):
        number, size, kind = _HEAD.unpack_from(body, at)
        at += _HEAD.size
        message = unmarshal_body(kind, body[at : at + size - 1])
        at += size - 1
        yield tolerant_values(message, number, message.redelivery_counter)


async def _chunk(
    options: JmsOptions, partition: RangePartition, start: int
) -> tuple[bytes, int, bool]:
    async def once() -> tuple[bytes, int, bool]:
        there = await asker(options)
        wanted: dict[str, Any] = {"from": start, "to": partition.end, "token": partition.token}
        if partition.token is None:
            wanted |= {"queue": options.target.physical_name, "selector": options.selector}
        try:
            message = await there.ask("range", **wanted)
        except RangesRefused as error:
            if error.code in {"trimmed", "ahead"}:
                raise IllegalStateException(
                    f"The messages {start} to {partition.end} of {options.target} cannot be read "
                    f"again: {error}"
                ) from error
            raise
        properties = message.properties
        if not isinstance(message, BytesMessage) or properties["epoch"] != partition.epoch:
            raise IllegalStateException(f"{options.target} was purged or made anew")
        return bytes(message.data or b""), int(str(properties["next"])), bool(properties["last"])

    return await patiently(once, _PATIENCE)
