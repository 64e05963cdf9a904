"""The pending messages of slow topic consumers: how many may wait, and which are discarded first.

(activemq-broker T8, T9)
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Protocol

from pyjms_broker.attribute import Attribute, attribute, count

if TYPE_CHECKING:
    from pyjms_broker.api.message import MessageReference


def _watermark() -> int:
    return count(
        1000,
        "Number of pending messages from which expired ones are evicted first.",
        minimum=1,
    )


class MessageEvictionStrategy(Protocol):
    """Selects messages to discard; above the high watermark, expired ones go first."""

    @property
    def evict_expired_messages_high_watermark(self) -> int: ...

    def evict(self, messages: Iterable[MessageReference]) -> list[MessageReference]:
        """Return the messages to discard, at least one of `messages` (not empty, oldest first)."""


@dataclass(frozen=True, kw_only=True)
class OldestMessageEvictionStrategy:
    """Discards the oldest message."""

    evict_expired_messages_high_watermark: int = _watermark()

    def evict(self, messages: Iterable[MessageReference]) -> list[MessageReference]:
        return [next(iter(messages))]


@dataclass(frozen=True, kw_only=True)
class OldestMessageWithLowestPriorityEvictionStrategy:
    """Discards the oldest message of the lowest priority."""

    evict_expired_messages_high_watermark: int = _watermark()

    def evict(self, messages: Iterable[MessageReference]) -> list[MessageReference]:
        return [min(messages, key=lambda reference: reference.priority)]


@dataclass(frozen=True, kw_only=True)
class UniquePropertyMessageEvictionStrategy:
    """Discards all but the newest message per value of `property_name`, or else the oldest."""

    property_name: Annotated[str, Attribute("Name of the property.")]
    evict_expired_messages_high_watermark: int = _watermark()

    def evict(self, messages: Iterable[MessageReference]) -> list[MessageReference]:
        newest: dict[object, MessageReference] = {}
        evicted: list[MessageReference] = []
        oldest: MessageReference | None = None
        for reference in messages:
            oldest = oldest or reference
            value = reference.properties.get(self.property_name)
            if value is None:
                continue
            previous = newest.get(value)
            if previous is None:
                newest[value] = reference
            elif previous.message.timestamp <= reference.message.timestamp:
                newest[value] = reference
                evicted.append(previous)
            else:
                evicted.append(reference)
        if not evicted and oldest is not None:
            evicted.append(oldest)
        return evicted


class PendingMessageLimitStrategy(Protocol):
    """Sets the limit of a topic subscription when it is created."""

    def maximum_pending_message_limit(self, prefetch_size: int) -> int:
        """Return the maximum number of messages in addition to dispatched ones; -1: no limit."""


@dataclass(frozen=True, kw_only=True)
class ConstantPendingMessageLimitStrategy:
    """The same `limit` for all; -1: no limit, 0: no messages beyond the prefetch."""

    limit: int = attribute(-1, "Maximum number of pending messages; -1: unlimited.", minimum=-1)

    def maximum_pending_message_limit(self, prefetch_size: int) -> int:
        return self.limit


@dataclass(frozen=True, kw_only=True)
class PrefetchRatePendingMessageLimitStrategy:
    """`multiplier` times the consumer's prefetch."""

    multiplier: float = attribute(
        0.5, "Maximum number of pending messages, as a multiple of the prefetch.", minimum=0
    )

    def maximum_pending_message_limit(self, prefetch_size: int) -> int:
        return int(prefetch_size * self.multiplier)
