"""The format of a journal's segments. (activemq-persistence K1 to K6)

Theory of operation
-------------------

A journal is a sequence of segments, files named `db-<n>.log`, and a segment is a sequence of
batches. All numbers are big-endian:

    segment        = batch* end-marker [zeros ... end-marker]
    batch          = control-record user-record+
    control-record = size:4 (28)  type:1 (2)  "WRITE BATCH":11  records-size:4  adler32:8
    user-record    = size:4       type:1 (1)  payload            (size includes these 5 bytes)
    payload        = command-code:1  fields-size:varint  fields  (see `codec`)
    end-marker     = "-qMa4":5

A batch is the unit of writing and of recovery: it is written in one piece, and a reader
accepts it as a whole or not at all. `records-size` counts the user records, and the Adler-32 covers
them; a checksum of 0 means "not checked", which ActiveMQ writes with checksumJournalFiles=false.

The end marker follows the last batch and is overwritten by the next one, so it counts neither for
a location nor for a segment's length. It stops a reader in a segment whose remaining bytes are old
or preallocated. A preallocated segment has zeros up to its full length, with an end marker as its
first and last bytes.

A location is a segment number and the offset of a user record's first byte. Locations sort in the
order of writing, and they never change: moving a record means writing a new one. A batch does not
span segments; a batch that is larger than a segment gets a separate segment, which becomes longer
(activemq-persistence K27).

Nothing here reads or writes files: `reader` reads a segment's bytes, `files` a directory.
"""

from __future__ import annotations

import re
import struct
from typing import Final, NamedTuple

RECORD_HEAD: Final = struct.Struct(">iB")
USER_TYPE: Final = 1
# The first bytes of every batch: the size and type of its control record, and ActiveMQ's magic.
BATCH_CONTROL_HEAD: Final = b"\0\0\0\x1c\x02WRITE BATCH"
BATCH_CONTROL_SIZE: Final = 28
END_MARKER: Final = b"-qMa4"
_ZEROS: Final = bytes(65536)
MAX_FILE_LENGTH: Final = 33554432
MAX_WRITE_BATCH_SIZE: Final = 4194304

_SEGMENT_NAME: Final = re.compile(r"db-([0-9]{1,10})\.log", re.ASCII)


class Location(NamedTuple):
    """The location of a record: segment number and offset. Sorts in the order of writing."""

    file_id: int
    offset: int


def preallocation(length: int) -> tuple[tuple[int, bytes], ...]:
    """Return the non-zero parts of a preallocated segment as pairs of offset and bytes.

    These are the end markers at its beginning and at its end.
    """
    return (0, END_MARKER), (max(length - len(END_MARKER), 0), END_MARKER)


def segment_name(file_id: int) -> str:
    """Return the file name of segment `file_id`."""
    return f"db-{file_id}.log"


def segment_number(name: str) -> int | None:
    """Return the number of the segment with this file name; None if it is not a segment's."""
    found = _SEGMENT_NAME.fullmatch(name)
    return int(found[1]) if found else None


def has_only_zeros(view: memoryview, start: int, end: int) -> bool:
    """Return whether all bytes from `start` to before `end` are zero."""
    step = len(_ZEROS)
    return all(
        view[at : min(at + step, end)] == _ZEROS[: min(step, end - at)]
        for at in range(start, end, step)
    )
