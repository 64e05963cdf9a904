"""What of a message is put aside while it waits, with orders for all destinations, in a queue.

- The id by which its sender wants repetitions dropped (`_AMQ_DUPL_ID`): a queue drops what has an
  id that it has seen; the same id for another queue is another message. So there an id begins
  with its destination.
- The time to live: it begins with the delivery, so it must not run out before. (activemq-broker S5)
"""

from __future__ import annotations

from typing import Final

from pyjms.jms.destination import Destination
from pyjms.jms.properties import DUPLICATE_ID_PROPERTY
from pyjms.jms.types import Long
from pyjms.wire.openwire.commands import ActiveMQMessage
from pyjms.wire.openwire.primitives import encode_map
from pyjms_broker.scheduler.schedule_properties import properties_of

__all__ = ["defer_fields", "restore_fields"]

_EXPIRATION: Final = "PyJMSScheduledExpiration"
_MARKS: Final = (DUPLICATE_ID_PROPERTY.encode(), _EXPIRATION.encode())


def defer_fields(copy: ActiveMQMessage, target: Destination) -> None:
    """Make the id of a copy one of `target` alone, and have it live for ever."""
    if not copy.expiration and not _is_marked(copy):
        return
    properties = properties_of(copy)
    properties.pop(_EXPIRATION, None)  # a sender's own would be taken for this
    if DUPLICATE_ID_PROPERTY in properties:
        properties[DUPLICATE_ID_PROPERTY] = (
            f"{_beginning(target)}{properties[DUPLICATE_ID_PROPERTY]}"
        )
    if copy.expiration:
        properties[_EXPIRATION] = Long(copy.expiration)
        copy.expiration = 0
    copy.marshalled_properties = encode_map(properties)
    copy.raw = None


def restore_fields(copy: ActiveMQMessage, target: Destination) -> None:
    """Give a copy its sender's id and time to live again."""
    if not _is_marked(copy):
        return
    properties = properties_of(copy)
    expiration = properties.pop(_EXPIRATION, None)
    if isinstance(expiration, int):
        copy.expiration = expiration
    if DUPLICATE_ID_PROPERTY in properties:
        properties[DUPLICATE_ID_PROPERTY] = str(properties[DUPLICATE_ID_PROPERTY]).removeprefix(
            _beginning(target)
        )
    copy.marshalled_properties = encode_map(properties)
    copy.raw = None


def _is_marked(copy: ActiveMQMessage) -> bool:
    marshalled = copy.marshalled_properties
    return marshalled is not None and any(mark in marshalled for mark in _MARKS)


def _beginning(target: Destination) -> str:
    return f"{target.qualified_name}|"
