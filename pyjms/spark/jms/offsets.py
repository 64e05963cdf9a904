"""Where a stream is: JSON of a version, the destination, its epoch and the next row's number."""

from __future__ import annotations

from typing import Any, NamedTuple

from pyjms.errors import IllegalStateException

__all__ = ["Offset"]

_VERSION = 1


class Offset(NamedTuple):
    """The number of the next row, and in which numbering."""

    queue: str
    epoch: int
    seq: int

    def to_json(self) -> dict[str, Any]:
        """Return it as Spark keeps it."""
        return {"v": _VERSION, "queue": self.queue, "epoch": self.epoch, "seq": self.seq}

    @classmethod
    def from_json(cls, value: dict[str, Any], queue: str) -> Offset:
        """Read what Spark kept for a stream from `queue`.

        Raises:
            IllegalStateException: it is another destination's, or of a later version.
        """
        if value.get("v") != _VERSION:
            raise IllegalStateException(
                f"The checkpoint's offset has version {value.get('v')}, and {_VERSION} is known",
                hint="it was written by another version of pyjms",
            )
        if value["queue"] != queue:
            raise IllegalStateException(
                f"The checkpoint belongs to {value['queue']}, and this query reads {queue}",
                hint="use another checkpointLocation",
            )
        return cls(value["queue"], value["epoch"], value["seq"])
