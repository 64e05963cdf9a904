"""Data for which KahaDB has no record type, as text in trace records: `pyjms:<kind> <JSON>`.

ActiveMQ ignores trace records. They are lost when ActiveMQ deletes their segment; arrival numbers
then restart in another epoch. (decisions D7; activemq-persistence K32)
"""

from __future__ import annotations

import json
from typing import Any, Final, NamedTuple

from pyjms._logger import get_logger
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

logger = get_logger(__name__)

ARRIVALS: Final = "arrivals"
"""{destination key: [epoch, next arrival]} at this point of the journal. Every segment begins
with all destinations; a new destination gets a record of its own before its first message."""
AUDIT: Final = "audit"
"""{"last": highest broker sequence number, "producers": {producer: last sequence number},
"openwire": version of the messages}."""
DUPLICATES: Final = "duplicates"
"""{destination key: [duplicate ids, oldest first]}: ids whose own records were deleted."""
TRANSACTION: Final = "transaction"
"""[transaction id, [[segment, offset], ...], {destination key: [[segment, messages], ...]}]:
the additions that the following commit drops, and its message counts by segment."""

_PREFIX: Final = "pyjms:"
_SHAPES: Final[dict[str, type]] = {ARRIVALS: dict, AUDIT: dict, DUPLICATES: dict, TRANSACTION: list}


class Trace(NamedTuple):
    """The content of one of our trace records."""

    kind: str
    value: Any


def trace_record(kind: str, value: object) -> bytes:
    """Return the payload of a trace record with `value`."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return encode_command(KahaTraceCommand(f"{_PREFIX}{kind} {text}"))


def plain_trace(text: str) -> bytes:
    """Return the payload of a human-readable trace record, like ActiveMQ's own."""
    return encode_command(KahaTraceCommand(text))


def parse_trace(text: str) -> Trace | None:
    """Parse one of our traces; return None for other text and for an unknown kind."""
    if not text.startswith(_PREFIX):
        return None
    kind, _, data = text[len(_PREFIX) :].partition(" ")
    shape = _SHAPES.get(kind)
    if shape is None:
        logger.warning("Ignoring a trace record of a newer pyjms in the journal: %s", kind)
        return None
    try:
        value = json.loads(data)
    except ValueError:
        logger.warning("Ignoring a damaged trace record in the journal: %s", kind)
        return None
    return Trace(kind, value) if isinstance(value, shape) else None
