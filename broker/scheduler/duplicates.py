"""Ids by which senders want repetitions dropped, while orders for all destinations share a queue.

A queue drops what has an id (`_AMQ_DUPL_ID`) that it has seen; the same id for another queue is
another message. So in the queue where orders come in an id begins with its destination.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from broker.scheduler.orders import properties_of
from pyjms.jms.destination import Destination
from pyjms.wire.openwire.commands import ActiveMQMessage
from pyjms.wire.openwire.primitives import encode_map

__all__ = ["DUPLICATE_ID", "as_sent", "of_one_destination"]

DUPLICATE_ID: Final = "_AMQ_DUPL_ID"
_MARK: Final = DUPLICATE_ID.encode()


def of_one_destination(copy: ActiveMQMessage, target: Destination) -> None:
    """Make the id of a copy one of `target` alone."""
    _change(copy, lambda duplicate_id: _beginning(target) + duplicate_id)


def as_sent(copy: ActiveMQMessage, target: Destination) -> None:
    """Give a copy its sender's id again."""
    _change(copy, lambda duplicate_id: duplicate_id.removeprefix(_beginning(target)))


def _beginning(target: Destination) -> str:
    return f"{target.qualified_name}|"


def _change(copy: ActiveMQMessage, change: Callable[[str], str]) -> None:
    if copy.marshalled_properties is None or _MARK not in copy.marshalled_properties:
        return
    properties = properties_of(copy)
    duplicate_id = properties.get(DUPLICATE_ID)
    if duplicate_id is not None:
        properties[DUPLICATE_ID] = change(str(duplicate_id))
        copy.marshalled_properties = encode_map(properties)
        copy.raw = None
