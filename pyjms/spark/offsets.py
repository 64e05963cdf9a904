"""Common parts of the stream readers: offsets, read limits, and the division of work among tasks.

An offset identifies the next row: the destination, the epoch (the numbering to which the sequence
numbers belong) and a sequence number. A stream by ranges of several queues has an offset of each
(version 2). Spark writes them to the checkpoint as JSON and returns them after a restart, so keys
and versions are a file format; Spark compares them as texts.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime
from typing import Any, Final, NamedTuple

from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit

from pyjms.errors import IllegalStateException
from pyjms.jms.destination import Destination
from pyjms.spark.options import JmsOptions

_VERSION: Final = 1
_SEVERAL: Final = 2


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
        """Return the offset that Spark stored for a stream from `queue`."""
        _check(value, queue, _VERSION)
        return cls(value["queue"], value["epoch"], value["seq"])


def is_several(target: Destination) -> bool:
    """Return whether a destination names several queues, or matches any number."""
    return target.is_composite or any(each.is_pattern for each in target.composite_destinations)


def offsets_to_json(offsets: Iterable[Offset], target: Destination) -> dict[str, Any]:
    """Return the offsets of a destination's queues as Spark stores them in the checkpoint."""
    if not is_several(target):
        (one,) = offsets
        return one.to_json()
    queues = {queue: [epoch, seq] for queue, epoch, seq in sorted(offsets)}
    return {"v": _SEVERAL, "queue": target.qualified_name, "queues": queues}


def read_offsets(value: dict[str, Any], target: Destination) -> dict[str, Offset]:
    """Return the offsets that Spark stored for a stream from `target`, by queue."""
    queue = target.qualified_name
    if not is_several(target):
        return {queue: Offset.from_json(value, queue)}
    _check(value, queue, _SEVERAL)
    return {name: Offset(name, *numbers) for name, numbers in value["queues"].items()}


def _check(value: dict[str, Any], queue: str, version: int) -> None:
    if value.get("queue") != queue:
        raise IllegalStateException(
            f"The checkpoint belongs to {value.get('queue')}, but this query reads {queue}",
            hint="use another checkpointLocation",
        )
    if value.get("v") != version:
        raise IllegalStateException(
            f"The checkpoint's offset has version {value.get('v')}; this version of pyjms "
            f"reads version {version}",
            hint="run the version of pyjms that wrote it, or use another checkpointLocation",
        )


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


def divide(waiting: Mapping[str, int], rows: int) -> dict[str, int]:
    """Divide at most `rows` among queues, by the messages that wait in each."""
    shares: dict[str, int] = {}
    left = sum(waiting.values())
    for name, number in waiting.items():
        shares[name] = min(number, -(-rows * number // left)) if left else 0
        rows -= shares[name]
        left -= number
    return shares


def iso_time(milliseconds: int) -> str:
    """Return a time in milliseconds since 1970 as ISO 8601."""
    return datetime.fromtimestamp(milliseconds / 1000, UTC).isoformat(timespec="milliseconds")
