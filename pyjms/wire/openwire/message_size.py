"""The size of a message as computed by both ends: for producer windows, limits and caches."""

from __future__ import annotations

from typing import Final

from pyjms.wire.openwire.commands import ActiveMQMessage

__all__ = ["MESSAGE_OVERHEAD", "message_size"]

MESSAGE_OVERHEAD: Final = 1024
"""Bytes counted for a message in addition to properties and body. (openwire-encoding 8)"""


def message_size(message: ActiveMQMessage) -> int:
    """Return a message's size in bytes, as counted in producer windows. (activemq-broker M6)"""
    content, properties = message.content, message.marshalled_properties
    return MESSAGE_OVERHEAD + len(content or b"") + len(properties or b"")
