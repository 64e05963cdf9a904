"""Sets fields of a scheduled message aside while it waits in the queue of schedule requests.

- The duplicate id (`_AMQ_DUPL_ID`): a queue drops a message whose id it has seen, but the same id
  for another destination is another message. The queue of requests holds messages for all
  destinations, so there the id is prefixed with the destination.
- The expiration: the time to live counts from the delivery, so the request must not expire
  before. (activemq-broker S5)
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
_DEFERRED: Final = (DUPLICATE_ID_PROPERTY.encode(), _EXPIRATION.encode())


def defer_fields(copy: ActiveMQMessage, target: Destination) -> None:
    """Prefix the duplicate id of a copy with `target`, and move its expiration to a property."""
    if not copy.expiration and not _has_deferred(copy):
        return
    properties = properties_of(copy)
    properties.pop(_EXPIRATION, None)  # set by a sender, it would be restored as the expiration
    if DUPLICATE_ID_PROPERTY in properties:
        properties[DUPLICATE_ID_PROPERTY] = f"{_prefix(target)}{properties[DUPLICATE_ID_PROPERTY]}"
    if copy.expiration:
        properties[_EXPIRATION] = Long(copy.expiration)
        copy.expiration = 0
    copy.marshalled_properties = encode_map(properties)
    copy.raw = None


def restore_fields(copy: ActiveMQMessage, target: Destination) -> None:
    """Restore the duplicate id and expiration that the sender gave to a copy."""
    if not _has_deferred(copy):
        return
    properties = properties_of(copy)
    expiration = properties.pop(_EXPIRATION, None)
    if isinstance(expiration, int):
        copy.expiration = expiration
    if DUPLICATE_ID_PROPERTY in properties:
        properties[DUPLICATE_ID_PROPERTY] = str(properties[DUPLICATE_ID_PROPERTY]).removeprefix(
            _prefix(target)
        )
    copy.marshalled_properties = encode_map(properties)
    copy.raw = None


def _has_deferred(copy: ActiveMQMessage) -> bool:
    marshalled = copy.marshalled_properties
    return marshalled is not None and any(name in marshalled for name in _DEFERRED)


def _prefix(target: Destination) -> str:
    return f"{target.qualified_name}|"
