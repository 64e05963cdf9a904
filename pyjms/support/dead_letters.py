"""Dead letters that a listener sends itself, in the transaction that consumes the message.

A provider makes dead letters only of messages that were rolled back, and determines their
destination. A copy that is sent in the session's transaction works with every broker and any
destination, and needs no rollback: so one message of a batch can be rejected while the others are
committed. The copy has the body, the properties and the headers of the message, except id, time and
destination; it does not expire. It also has these properties:

    dlqDeliveryFailureCause              the reason, in the format of ActiveMQ's brokers
    pyjms_failure_type, _failure_text    class and text of the reason, as set by our broker
    pyjms_original_destination           `queue://orders`, for a redrive
    pyjms_original_message_id            the id that the message had
"""

from __future__ import annotations

import copy
from typing import Final

from pyjms._logger import error_text, one_line, shortened
from pyjms.errors import MessageFormatException
from pyjms.jms.api import Session
from pyjms.jms.destination import Destination
from pyjms.jms.message import Message
from pyjms.jms.properties import FAILURE_CAUSE, FAILURE_TEXT, FAILURE_TYPE

__all__ = ["ORIGINAL_DESTINATION", "ORIGINAL_MESSAGE_ID", "send_dead_letter", "sendable_copy"]

ORIGINAL_DESTINATION: Final = "pyjms_original_destination"
ORIGINAL_MESSAGE_ID: Final = "pyjms_original_message_id"

_LONGEST_TEXT: Final = 2048


async def send_dead_letter(
    session: Session, destination: Destination, message: Message, reason: BaseException
) -> None:
    """Send a copy of `message` with the reason to `destination`, in the session's transaction.

    Raises:
        JMSException: the broker does not accept it.
    """
    dead = sendable_copy(message)
    text = one_line(shortened(error_text(reason), _LONGEST_TEXT))
    kind = type(reason)
    name = kind.__qualname__
    if kind.__module__ != "builtins":
        name = f"{kind.__module__}.{name}"
    dead.properties[FAILURE_CAUSE] = f"{name}: {text}" if text else name
    dead.properties[FAILURE_TYPE] = name
    dead.properties[FAILURE_TEXT] = text
    if message.destination is not None:
        dead.properties[ORIGINAL_DESTINATION] = message.destination.qualified_name
    if message.message_id is not None:
        dead.properties[ORIGINAL_MESSAGE_ID] = message.message_id
    async with await session.create_producer(destination) as producer:
        await producer.send(
            dead, delivery_mode=message.delivery_mode, priority=message.priority, time_to_live=0
        )


def sendable_copy(message: Message) -> Message:
    """Return a copy of a received message whose properties can be changed.

    Sending it does not change the headers of `message`. The body is shared.
    """
    clone = copy.copy(message)
    try:
        values = dict(message.property_values())
    except MessageFormatException:  # damaged properties: keep at least the body
        values = {}
    clone.clear_properties()
    clone.property_values().update(values)
    return clone
