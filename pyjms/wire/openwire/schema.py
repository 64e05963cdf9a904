"""Layouts as the marshallers walk them: per type and version, with what may be nested where.

Data only. The classes of `commands` list their fields; here they are cut to a version and
joined with the type codes that each nested field accepts. (ENCODING 2 and 19)
"""

from __future__ import annotations

from typing import Final, NamedTuple

from pyjms.jms.destination import Destination, Queue, TemporaryQueue, TemporaryTopic, Topic
from pyjms.wire.openwire.commands import TYPES, ActiveMQMessage, DataStructure
from pyjms.wire.openwire.commands.base import ARRAY, CACHED, NESTED, STRING, Field

__all__ = [
    "CURRENT_VERSION",
    "DESTINATIONS",
    "MARSHALL_AWARE",
    "MESSAGES",
    "NULL_TYPE",
    "OLDEST_VERSION",
    "STRUCTURES",
    "Entry",
    "Structure",
    "layout_of",
]

NULL_TYPE: Final = 0
OLDEST_VERSION: Final = 1
CURRENT_VERSION: Final = 12

# Destinations are JMS's own objects and know nothing of the wire.
Structure = DataStructure | Destination

DESTINATIONS: Final[dict[int, type[Destination]]] = {
    c.TYPE: c for c in (Queue, Topic, TemporaryQueue, TemporaryTopic)
}
MESSAGES: Final[dict[int, type[ActiveMQMessage]]] = {
    code: c for code, c in TYPES.items() if issubclass(c, ActiveMQMessage)
}
STRUCTURES: Final[dict[int, type[Structure]]] = {**TYPES, **DESTINATIONS}
MARSHALL_AWARE: Final = frozenset(code for code, c in TYPES.items() if c.MARSHALL_AWARE)

_BROKER_INFO: Final = frozenset({2})
_CONSUMER_INFO: Final = frozenset({5})
_MESSAGE_ACK: Final = frozenset({22})
_BRIDGE_FILTER: Final = frozenset({91})
_MESSAGE_ID: Final = frozenset({110})
_TRANSACTION_ID: Final = frozenset({111, 112})
_CONNECTION_ID: Final = frozenset({120})
_SESSION_ID: Final = frozenset({121})
_CONSUMER_ID: Final = frozenset({122})
_PRODUCER_ID: Final = frozenset({123})
_BROKER_ID: Final = frozenset({124})
_DESTINATION: Final = frozenset(DESTINATIONS)
_MESSAGE: Final = frozenset(MESSAGES)
_ANY: Final = frozenset(STRUCTURES)

# A nested field's name tells its class, whatever type it is in.
_ACCEPTS: Final[dict[str, frozenset[int]]] = {
    "additional_predicate": _BRIDGE_FILTER,
    "broker_id": _BROKER_ID,
    "broker_path": _BROKER_ID,
    "cluster": _BROKER_ID,
    "connection_id": _CONNECTION_ID,
    "consumer_id": _CONSUMER_ID,
    "data": _ANY,
    "data_structure": _ANY,
    "destination": _DESTINATION,
    "first_message_id": _MESSAGE_ID,
    "last_message_id": _MESSAGE_ID,
    "message": _MESSAGE,
    "message_ack": _MESSAGE_ACK,
    "message_id": _MESSAGE_ID,
    "network_broker_id": _BROKER_ID,
    "network_consumer_path": _CONSUMER_ID,
    "object_id": _ANY,
    "original_destination": _DESTINATION,
    "original_transaction_id": _TRANSACTION_ID,
    "peer_broker_infos": _BROKER_INFO,
    "producer_id": _PRODUCER_ID,
    "reply_to": _DESTINATION,
    "session_id": _SESSION_ID,
    "subscribed_destination": _DESTINATION,
    "subscription_infos": _CONSUMER_INFO,
    "target_consumer_id": _CONSUMER_ID,
    "transaction_id": _TRANSACTION_ID,
}
_NESTING: Final = (NESTED, CACHED, ARRAY)
_DESTINATION_LAYOUT: Final = (Field("physical_name", STRING, OLDEST_VERSION),)


class Entry(NamedTuple):
    """A field of one type in one version; `accepts` are the codes that may be nested in it."""

    name: str
    kind: int
    accepts: frozenset[int]


def _entries(code: int, version: int) -> tuple[Entry, ...]:
    fields: tuple[Field, ...] = _DESTINATION_LAYOUT
    if code in TYPES:
        cls = TYPES[code]
        fields = cls.OLDER_LAYOUTS.get(version, cls.LAYOUT)
    return tuple(
        Entry(f.name, f.kind, _ACCEPTS[f.name] if f.kind in _NESTING else frozenset())
        for f in fields
        if f.since <= version
    )


_LAYOUTS: Final[list[dict[int, tuple[Entry, ...]]]] = [
    {code: _entries(code, version) for code in STRUCTURES} for version in range(CURRENT_VERSION + 1)
]


def layout_of(code: int, version: int) -> tuple[Entry, ...]:
    """Return the fields of type `code` in OpenWire `version` (1 to 12), in wire order."""
    return _LAYOUTS[version][code]
