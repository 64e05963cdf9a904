"""The messages that a topic keeps for retroactive consumers, as far as memory allows.

A policy decides which messages are kept. In addition, every topic keeps the last message with the
property `ActiveMQ.Retain`; such a message with an empty body clears it. Kept messages count as used
memory. Above `cursor_memory_high_water_mark` the oldest ones are dropped, so that they alone never
make senders wait. (ActiveMQ RetainedMessageSubscriptionRecoveryPolicy; activemq-broker 4.2)
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from pyjms._logger import get_logger
from pyjms.jms.destination import Destination
from pyjms.wire.openwire.primitives import encode_map
from pyjms_broker.api.copying import copy_command

if TYPE_CHECKING:
    from pyjms_broker.api.message import MessageReference
    from pyjms_broker.region.base_destination import BaseDestination

__all__ = ["RETAIN_MARK", "TopicRecovery"]

logger = get_logger(__name__)

_RETAIN: Final = "ActiveMQ.Retain"
_RETAINED: Final = "ActiveMQ.Retained"
RETAIN_MARK: Final = _RETAIN.encode()
"""The bytes in the marshalled properties of each message with the property, and of few others."""


class TopicRecovery:
    """The kept messages of one topic."""

    def __init__(self, topic: BaseDestination) -> None:
        policy = topic.policy.subscription_recovery_policy
        self._topic = topic
        self._kept = None if policy is None else policy.recovery_for(topic)
        self._retained: MessageReference | None = None
        self.wants_all = self._kept is not None
        """Whether `add` must be called for every message, not only for those with RETAIN_MARK."""

    def add(self, reference: MessageReference) -> bool:
        """Keep a message if required; return whether the topic may publish it."""
        properties = reference.properties
        if _RETAIN in properties:
            self._retain_or_clear(reference, properties)
        kept = self._kept
        if kept is None or reference.message.target_consumer_id is not None:
            return True
        may_publish = kept.add(reference)
        while self._is_memory_short() and kept.evict():
            pass
        return may_publish

    def _retain_or_clear(self, reference: MessageReference, properties: dict[str, object]) -> None:
        live = {name: value for name, value in properties.items() if name != _RETAIN}
        is_marked = str(properties[_RETAIN]).lower() == "true"
        published = copy_command(reference.message)  # the store may still write the original
        if is_marked:
            self._clear()
            if published.content:
                retained = copy_command(published)
                retained.marshalled_properties = encode_map({**live, _RETAINED: True})
                self._retain(self._topic.reference_to(retained))
            published.marshalled_properties = encode_map(live) if live else None
            reference.replace_message(published)

    def _retain(self, reference: MessageReference) -> None:
        reference.increment_reference_count()
        if self._is_memory_short():
            logger.warning("%s: memory is short, so a message is not retained", self._topic)
            reference.decrement_reference_count()
        else:
            self._retained = reference

    def _is_memory_short(self) -> bool:
        return self._topic.memory.is_above(self._topic.policy.cursor_memory_high_water_mark)

    def messages(self, requested: Destination) -> Iterator[MessageReference]:
        """Return the messages that a new consumer of `requested` may get, before selection."""
        if self._retained is not None and not self._retained.is_expired():
            yield self._retained
        for reference in () if self._kept is None else self._kept.messages(requested):
            if not reference.is_expired():
                yield reference

    def close(self) -> None:
        """Drop all messages, as the topic is removed or the broker stops. Idempotent."""
        self._clear()
        if self._kept is not None:
            self._kept.close()

    def _clear(self) -> None:
        if self._retained is not None:
            self._retained.decrement_reference_count()
            self._retained = None
