"""A topic of advisories, which never waits for space and drops advisories instead.

The cause of an advisory (a client that connects or disconnects) cannot be delayed until a consumer
of advisories acknowledges. Advisories wait for a consumer like other messages, in memory and then
in the temp store, and the command in an advisory is included in its size. If neither has space,
slow consumers miss advisories; other consumers still get them. (activemq-broker 11, M2)
"""

from __future__ import annotations

from typing import Final

from pyjms import _clock
from pyjms._logger import get_logger
from pyjms.errors import ResourceAllocationException
from pyjms.jms.destination import Destination
from pyjms.wire.openwire.commands import Command, DataStructure
from pyjms_broker.api.completion import COMPLETED, Completion
from pyjms_broker.api.exchange import ProducerExchange
from pyjms_broker.api.message import MessageReference
from pyjms_broker.region.topic.topic import Topic

__all__ = ["AdvisoryTopic"]

logger = get_logger(__name__)

_LOG_PERIOD: Final = 60.0
"""Seconds between two log lines about dropped advisories of one topic."""
_STRUCTURE: Final = 1024
"""Bytes accounted for the command in an advisory, in addition to its strings."""


class AdvisoryTopic(Topic):
    """A topic `ActiveMQ.Advisory.*`: without a store, and without flow control."""

    dropped_count = 0
    """The number of missed advisories, summed over the consumers."""
    _next_log = 0.0

    def accept(self, exchange: ProducerExchange, reference: MessageReference) -> Completion:
        about = reference.message.data_structure
        if about is not None:
            reference.size += _size_of(about) + len(self.destination.physical_name)
        if not self._has_space():
            if exchange.transaction is not None:  # a client's: the broker's advisories have none
                raise ResourceAllocationException(f"{self} has no space for {reference.message_id}")
            self._publish_to_ready(reference)
            return COMPLETED
        return super().accept(exchange, reference)

    def _has_space(self) -> bool:
        if not self._spooling and not self.memory.is_full:
            return True
        if self.broker.temp_store is None or self.policy.pending_subscriber_policy == "vmCursor":
            return False
        return self.temp_usage.full() is None  # a spooled message needs no memory

    def _publish_to_ready(self, reference: MessageReference) -> None:
        """Publish to the consumers to which the message can be sent now."""
        self.statistics.enqueues += 1
        for subscriber in tuple(self._subscribers):
            if not subscriber.matches(reference):
                continue
            if subscriber.pending_count or subscriber.is_full():
                self._dropped()
            else:
                subscriber.add(reference)

    def _dropped(self) -> None:
        self.dropped_count += 1
        now = _clock.now()
        if now >= self._next_log:
            self._next_log = now + _LOG_PERIOD
            logger.warning(
                "%s: memory and temp store have no space, so consumers that are behind miss "
                "advisories (%d so far)",
                self,
                self.dropped_count,
            )


def _size_of(about: DataStructure | Destination) -> int:
    """Return the approximate memory size of a command, from its strings and destinations."""
    size = _STRUCTURE
    if not isinstance(about, Command):
        return size
    for field in about.LAYOUT:
        value = getattr(about, field.name)
        if isinstance(value, str | bytes):
            size += len(value)
        elif isinstance(value, Destination):
            size += len(value.physical_name)
    return size
