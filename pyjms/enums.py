"""The numeric constants of JMS and Spring as enumerations."""

from __future__ import annotations

from enum import IntEnum
from typing import TypeAlias

__all__ = ["AcknowledgeMode", "CacheLevel", "DeliveryMode", "SessionMode"]


class AcknowledgeMode(IntEnum):
    """When received messages are acknowledged. JMS: Session; INDIVIDUAL is ActiveMQ's."""

    TRANSACTED = 0
    AUTO = 1
    CLIENT = 2
    DUPS_OK = 3
    INDIVIDUAL = 4


SessionMode: TypeAlias = AcknowledgeMode | int
"""An acknowledge mode, or its number in JMS; a provider may have more numbers."""


class DeliveryMode(IntEnum):
    """Whether a message survives a restart of the broker. JMS: DeliveryMode."""

    NON_PERSISTENT = 1
    PERSISTENT = 2


class CacheLevel(IntEnum):
    """The resources that a container keeps between receives. Spring: CACHE_NONE to CACHE_AUTO."""

    NONE = 0
    CONNECTION = 1
    SESSION = 2
    CONSUMER = 3
    AUTO = 4
