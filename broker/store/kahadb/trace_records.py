"""What KahaDB has no record for, as text in trace records: `pyjms:<kind> <JSON>`.

ActiveMQ skips trace records, so they cost nothing there and are lost when it lets go of a
segment; then arrival numbers begin anew in another epoch. (design D7; persistence K32)
"""

from __future__ import annotations

import json
import logging
from typing import Any, Final, NamedTuple

from pyjms.wire.kahadb.codec import encode_command
from pyjms.wire.kahadb.commands import KahaTraceCommand

__all__ = [
    "ARRIVALS",
    "AUDIT",
    "DUPLICATES",
    "TRANSACTION",
    "Trace",
    "parse_trace",
    "plain_trace",
    "trace_record",
]

logger = logging.getLogger(__name__)

ARRIVALS: Final = "arrivals"
"""{destination key: [epoch, next arrival]}: what was so when it was written. Every segment
begins with all destinations'; a new destination has its own before its first message."""
AUDIT: Final = "audit"
"""{"last": highest broker sequence number, "producers": {producer: last sequence number},
"openwire": version of the messages}."""
DUPLICATES: Final = "duplicates"
"""{destination key: [duplicate ids, oldest first]}: a queue's whole window."""
TRANSACTION: Final = "transaction"
"""[transaction id, [[segment, offset] dropped], {destination key: [[segment, messages]]}]:
what the commit that follows leaves out, and how many messages it has in each segment."""

_PREFIX: Final = "pyjms:"
_SHAPES: Final[dict[str, type]] = {
    ARRIVALS: dict,
    AUDIT: dict,
    DUPLICATES: dict,
    TRANSACTION: list,
}


class Trace(NamedTuple):
    """One of our remarks."""

    kind: str
    value: Any


def trace_record(kind: str, value: object) -> bytes:
    """Return the payload of the record that says `value`."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return encode_command(KahaTraceCommand(f"{_PREFIX}{kind} {text}"))


def plain_trace(text: str) -> bytes:
    """Return the payload of a remark for people, such as ActiveMQ's own."""
    return encode_command(KahaTraceCommand(text))


def parse_trace(text: str) -> Trace | None:
    """Return our remark; None if it is somebody else's, or of a kind that we do not know."""
    if not text.startswith(_PREFIX):
        return None
    kind, _, data = text[len(_PREFIX) :].partition(" ")
    shape = _SHAPES.get(kind)
    if shape is None:
        logger.warning("A remark of a newer pyjms is in the journal: %s", kind)
        return None
    try:
        value = json.loads(data)
    except ValueError:
        logger.warning("A remark in the journal is damaged: %s", kind)
        return None
    return Trace(kind, value) if isinstance(value, shape) else None
