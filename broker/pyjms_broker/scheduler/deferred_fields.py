"""Deferral of fields of a scheduled message while it is in the queue of schedule requests.

- The duplicate id (`_AMQ_DUPL_ID`): a queue drops a message whose id it has already received, but
  the same id for another destination belongs to another message. The queue of requests has messages
  for all destinations, so the id is prefixed with the destination.
- The text of a redelivery's message id, which is the same in each queue that has a copy of the
  message; stores drop a message whose text they already have.
- The expiration: the time to live begins with the delivery, so the request must not expire earlier.
  (activemq-broker S5)
"""

from __future__ import annotations

from typing import Final

from pyjms.jms.destination import Destination
from pyjms.jms.properties import DUPLICATE_ID_PROPERTY
from pyjms.jms.types import Long
from pyjms.wire.openwire.commands import ActiveMQMessage, MessageId
from pyjms.wire.openwire.primitives import encode_map
from pyjms_broker.scheduler.schedule_properties import properties_of

__all__ = ["defer_fields", "restore_fields"]

_EXPIRATION: Final = "PyJMSScheduledExpiration"
_ID_TEXT: Final = "PyJMSScheduledMessageID"
_DEFERRED: Final = (DUPLICATE_ID_PROPERTY.encode(), _EXPIRATION.encode(), _ID_TEXT.encode())


def defer_fields(
    copy: ActiveMQMessage, target: Destination, *, is_redelivery: bool = False
) -> None:
    """Prefix the duplicate id of a copy with `target`, and move its expiration to a property.

    The text of a redelivery's message id also becomes a property.
    """
    text = _text_of(copy) if is_redelivery else None
    if text is None and not copy.expiration and not _has_deferred(copy):
        return
    properties = properties_of(copy)
    for name in (_EXPIRATION, _ID_TEXT):  # a sender's values must not be restored
        properties.pop(name, None)
    if text is not None:
        properties[_ID_TEXT] = text
        _set_text(copy, None)
    if DUPLICATE_ID_PROPERTY in properties:
        properties[DUPLICATE_ID_PROPERTY] = f"{_prefix(target)}{properties[DUPLICATE_ID_PROPERTY]}"
    if copy.expiration:
        properties[_EXPIRATION] = Long(copy.expiration)
        copy.expiration = 0
    copy.marshalled_properties = encode_map(properties)
    copy.raw = None


def restore_fields(copy: ActiveMQMessage, target: Destination) -> None:
    """Restore a copy's original duplicate id, expiration and text of the message id."""
    if not _has_deferred(copy):
        return
    properties = properties_of(copy)
    expiration = properties.pop(_EXPIRATION, None)
    if isinstance(expiration, int):
        copy.expiration = expiration
    text = properties.pop(_ID_TEXT, None)
    if isinstance(text, str):
        _set_text(copy, text)
    if DUPLICATE_ID_PROPERTY in properties:
        properties[DUPLICATE_ID_PROPERTY] = str(properties[DUPLICATE_ID_PROPERTY]).removeprefix(
            _prefix(target)
        )
    copy.marshalled_properties = encode_map(properties)
    copy.raw = None


def _has_deferred(copy: ActiveMQMessage) -> bool:
    marshalled = copy.marshalled_properties
    return marshalled is not None and any(name in marshalled for name in _DEFERRED)


def _text_of(copy: ActiveMQMessage) -> str | None:
    return None if copy.message_id is None else copy.message_id.text_view


def _set_text(copy: ActiveMQMessage, text: str | None) -> None:
    message_id = copy.message_id
    if message_id is not None:
        copy.message_id = MessageId(text, message_id.producer_id, message_id.producer_sequence_id)


def _prefix(target: Destination) -> str:
    return f"{target.qualified_name}|"
