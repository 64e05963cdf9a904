"""The size of a message as both ends count it: for producer windows, limits and caches."""

from __future__ import annotations

from typing import Final

from pyjms.wire.openwire.commands import ActiveMQMessage

__all__ = ["MESSAGE_OVERHEAD", "message_size"]

MESSAGE_OVERHEAD: Final = 1024
"""Bytes counted for a message besides its properties and body. (openwire-encoding 8)"""


def message_size(message: ActiveMQMessage) -> int:
    """Return the size of a message in bytes, as in its producer's window. (activemq-broker M6)"""
    content, properties = message.content, message.marshalled_properties
    return MESSAGE_OVERHEAD + len(content or b"") + len(properties or b"")
