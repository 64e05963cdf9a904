"""Shallow copies of commands, for those who pass one on in several versions."""

from __future__ import annotations

from typing import TypeVar

from pyjms.jms.destination import Destination
from pyjms.wire.openwire.commands import ActiveMQMessage, Command, MessageId

__all__ = ["copied", "readdressed"]

C = TypeVar("C", bound=Command)

_slots: dict[type[Command], tuple[str, ...]] = {}


def _slots_of(cls: type[Command]) -> tuple[str, ...]:
    names = tuple(name for base in cls.__mro__ for name in getattr(base, "__slots__", ()))
    _slots[cls] = names
    return names


def copied(command: C) -> C:
    """Return a new command of the same class with the same field values."""
    cls = type(command)
    copy = cls.__new__(cls)
    for name in _slots.get(cls) or _slots_of(cls):
        setattr(copy, name, getattr(command, name))
    return copy


def readdressed(
    message: ActiveMQMessage, destination: Destination, original: Destination | None
) -> ActiveMQMessage:
    """Return a copy of `message` for `destination`, whose original destination is `original`.

    Body and properties are shared. The id is its own object: the broker may number each
    copy by itself.
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
    copy.raw = None
    return copy
