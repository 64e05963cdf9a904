"""Shallow copies of commands, for those who pass one on in several versions."""

from __future__ import annotations

from broker.region.copies import copied
from pyjms.jms.destination import Destination
from pyjms.wire.openwire.commands import ActiveMQMessage, MessageId
from pyjms.wire.openwire.raw import readdress_raw

__all__ = ["copied", "readdressed"]


def readdressed(
    message: ActiveMQMessage, destination: Destination, original: Destination | None
) -> ActiveMQMessage:
    """Return a copy of `message` for `destination`, whose original destination is `original`.

    Body and properties are shared. The id is its own object: the broker may number each
    copy by itself. What `message` has marshalled is not marshalled again: whoever sets a field
    of the copy sets `raw` to None, as with any message.
    """
    copy = copied(message)
    message_id = message.message_id
    if message_id is not None:
        copy.message_id = MessageId(
            message_id.text_view,
            message_id.producer_id,
            message_id.producer_sequence_id,
            message_id.broker_sequence_id,
        )
    copy.destination = destination
    copy.original_destination = original
    if message.raw is not None:
        readdress_raw(copy, message.raw)
    return copy
