"""Layouts for the readers and writers: the fields of each type in each version of OpenWire.

The classes of `commands` list their fields; here the lists are reduced to a version, and each
nested field gets the type codes that it accepts. A layout is built when a frame first needs it: a
process uses one or two versions and a third of the types. (openwire-encoding 2 and 19)

For the fast codec, which reads and writes loose frames of version 12, there are struct formats,
generated from config/codegen/commands.yaml. A client's message has few of its nullable fields set.
`MIDDLE` and `TAIL` cover a run of fields with one format each, in which a nullable field is
represented by its flag: usually all flags are zero, and one call converts the whole run.
"""

from __future__ import annotations

import struct
from functools import cache
from typing import Final, NamedTuple

from pyjms.jms.destination import Destination, Queue, TemporaryQueue, TemporaryTopic, Topic
from pyjms.wire.openwire import kinds
from pyjms.wire.openwire.commands import TYPES, ActiveMQMessage, DataStructure, Field

NULL_TYPE: Final = 0
OLDEST_VERSION: Final = 1
CURRENT_VERSION: Final = 12

# Destinations are JMS objects, which are independent of the wire format.
Structure = DataStructure | Destination

DESTINATIONS: Final[dict[int, type[Destination]]] = {
    c.TYPE: c for c in (Queue, Topic, TemporaryQueue, TemporaryTopic)
}
MESSAGES: Final[dict[int, type[ActiveMQMessage]]] = {
    code: c for code, c in TYPES.items() if issubclass(c, ActiveMQMessage)
}
STRUCTURES: Final[dict[int, type[Structure]]] = {**TYPES, **DESTINATIONS}
MARSHALL_AWARE: Final = frozenset(code for code, c in TYPES.items() if c.MARSHALL_AWARE)

_NESTING: Final = (kinds.NESTED, kinds.CACHED, kinds.ARRAY)
_DESTINATION_LAYOUT: Final = (Field("physical_name", kinds.STRING, OLDEST_VERSION),)


class Entry(NamedTuple):
    """A field of one type in one version; `accepts`: the type codes that may be nested."""

    name: str
    kind: int
    accepts: frozenset[int]


@cache
def _accepted_codes(of: str) -> frozenset[int]:
    """Return the type codes of the class `of` and of the classes derived from it."""
    if of == "any":
        return frozenset(STRUCTURES)
    return frozenset(
        code for code, cls in STRUCTURES.items() if of in {c.__name__ for c in cls.__mro__}
    )


def _entries(code: int, version: int) -> tuple[Entry, ...]:
    fields: tuple[Field, ...] = _DESTINATION_LAYOUT
    if code not in DESTINATIONS:
        cls = TYPES[code]
        fields = cls.OLDER_LAYOUTS.get(version, cls.LAYOUT)
    return tuple(
        Entry(f.name, f.kind, _accepted_codes(f.of) if f.kind in _NESTING else frozenset())
        for f in fields
        if f.since <= version
    )


_LAYOUTS: Final[list[dict[int, tuple[Entry, ...]]]] = [{} for _ in range(CURRENT_VERSION + 1)]


def layout_of(code: int, version: int) -> tuple[Entry, ...]:
    """Return the fields of type `code` in OpenWire `version` (1 to 12), in wire order."""
    layouts = _LAYOUTS[version]
    try:
        return layouts[code]
    except KeyError:
        layout = layouts[code] = _entries(code, version)
        return layout


# generated: structs of a message
# producerSequenceId to type, nullable fields as their flags
MIDDLE: Final = struct.Struct(">qqBBiB?qbBqB")
MIDDLE_SIZE: Final = 43
# dataStructure to the end, likewise
TAIL: Final = struct.Struct(">BB?iBqB??Bqq?")
TAIL_SIZE: Final = 37
# fields of fixed size between originalTransactionId and type
GROUP_SEQUENCE: Final = struct.Struct(">i")
GROUP_SEQUENCE_SIZE: Final = 4
PERSISTENT_EXPIRATION_PRIORITY: Final = struct.Struct(">?qb")
PERSISTENT_EXPIRATION_PRIORITY_SIZE: Final = 10
TIMESTAMP: Final = struct.Struct(">q")
TIMESTAMP_SIZE: Final = 8
# end generated
# type, commandId, responseRequired, correlationId
RESPONSE: Final = struct.Struct(">Bi?i")
