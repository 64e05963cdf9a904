"""Copy commands, because a dispatched or forwarded command must not be changed."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from operator import attrgetter
from typing import Any, Final, TypeVar

from pyjms.errors import JMSException
from pyjms.jms.destination import Destination
from pyjms.jms.properties import DUPLICATE_ID_PROPERTY
from pyjms.wire.limits import MAX_PROPERTY_VALUES
from pyjms.wire.openwire.commands import ActiveMQMessage, BaseCommand, Command, MessageId
from pyjms.wire.openwire.primitives import decode_map, encode_map
from pyjms.wire.openwire.raw import readdress_raw

__all__ = ["copy_command", "copy_for_destination", "remove_duplicate_id"]

_DUPLICATE_ID: Final = DUPLICATE_ID_PROPERTY.encode()

C = TypeVar("C", bound=Command)


def copy_command(command: C) -> C:
    """Return an unmarshalled command of the same class with the same field values."""
    kind: Any = type(command)
    values = _values_of(kind)
    if values is not None:
        copied: C = kind(*values(command))
        return copied
    copy = type(command)()
    for field in command.LAYOUT:
        setattr(copy, field.name, getattr(command, field.name))
    return copy


@cache
def _values_of(kind: type[Command]) -> Callable[[Command], tuple[Any, ...]] | None:
    """Return a getter of a message's field values in constructor order; None for other classes.

    Copying with the constructor takes half as long as setting each field.
    """
    if kind.LAYOUT is not ActiveMQMessage.LAYOUT:
        return None
    last = [field.name for field in BaseCommand.LAYOUT]
    names = [field.name for field in kind.LAYOUT if field.name not in last]
    return attrgetter(*names, *last)


def copy_for_destination(
    message: ActiveMQMessage, destination: Destination, original: Destination | None
) -> ActiveMQMessage:
    """Return a copy of `message` with the given destination and original destination.

    Body and properties are shared; the message id is copied, so that the broker can number each
    copy. The marshalled form of `message` is reused: code that sets a field of the copy must set
    its `raw` to None, as for any message.
    """
    copy = copy_command(message)
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


def remove_duplicate_id(copy: ActiveMQMessage) -> None:
    """Remove the duplicate id of a copy, which may occur in another message of its target.

    Source: Artemis does not reject moved messages as duplicates.
    """
    marshalled = copy.marshalled_properties
    if marshalled is None or _DUPLICATE_ID not in marshalled:
        return
    try:
        properties = dict(decode_map(marshalled, MAX_PROPERTY_VALUES))
    except JMSException:
        return  # stores cannot read a duplicate id in them either
    if properties.pop(DUPLICATE_ID_PROPERTY, None) is not None:
        copy.marshalled_properties = encode_map(properties)
        copy.raw = None
