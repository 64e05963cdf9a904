"""Common parts of the stream readers: offsets, read limits, and the division of work among tasks.

An offset identifies the next row: the destination, the epoch (the numbering to which the sequence
numbers belong) and a sequence number. Spark writes it to the checkpoint as JSON and returns it
after a restart, so its keys and version are a file format.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any, Final, NamedTuple

from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit

from pyjms.errors import IllegalStateException
from pyjms.spark.options import JmsOptions

_VERSION: Final = 1


class Offset(NamedTuple):
    """A position in a stream: the number of the next row, and the epoch of the number."""

    queue: str
    epoch: int
    seq: int

    def to_json(self) -> dict[str, Any]:
        """Return the offset as Spark stores it in the checkpoint."""
        return {"v": _VERSION, "queue": self.queue, "epoch": self.epoch, "seq": self.seq}

    @classmethod
    def from_json(cls, value: dict[str, Any], queue: str) -> Offset:
        """Return the offset that Spark stored for a stream from `queue`.

        Raises:
            IllegalStateException: the offset belongs to another destination or a later version.
        """
        if value.get("v") != _VERSION:
            raise IllegalStateException(
                f"The checkpoint's offset has version {value.get('v')}; this version of pyjms "
                f"reads version {_VERSION}",
                hint="run the version of pyjms that wrote it, or use another checkpointLocation",
            )
        if value["queue"] != queue:
            raise IllegalStateException(
                f"The checkpoint belongs to {value['queue']}, but this query reads {queue}",
                hint="use another checkpointLocation",
            )
        return cls(value["queue"], value["epoch"], value["seq"])


class BatchLimit(NamedTuple):
    """The maximum size of a batch: rows, and bytes of message content."""

    rows: int = sys.maxsize
    size: int = sys.maxsize


def batch_limit(limit: ReadLimit, options: JmsOptions) -> BatchLimit:
    """Return the limit for a read limit of Spark; `maxBytesPerTrigger` applies as well.

    A limit that mentions neither rows nor bytes does not limit them. `ReadAllAvailable` overrides
    `maxBytesPerTrigger`.
    """
    rows = getattr(limit, "max_rows", None) or sys.maxsize
    size = getattr(limit, "max_bytes", None) or sys.maxsize
    if not isinstance(limit, ReadAllAvailable):
        size = min(size, options.max_bytes_per_trigger)
    return BatchLimit(rows, size)


def split_evenly(start: int, end: int, parts: int) -> Iterator[tuple[int, int]]:
    """Yield the numbers from `start` to before `end` as at most `parts` consecutive ranges."""
    share = max(1, -(-(end - start) // parts))
    for low in range(start, end, share):
        yield low, min(low + share, end)
