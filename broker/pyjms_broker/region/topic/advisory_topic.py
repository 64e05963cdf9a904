"""A topic of advisories, which never waits for space and therefore drops what has no room.

What causes an advisory (a client that comes or goes) cannot be held up until a consumer of
advisories acknowledges. So advisories wait for a consumer as other messages do, in memory and then
in the temp store, and count there with what they are about; when neither has room, consumers that
are behind miss them. Others still get them. (activemq-broker 11, M2)
"""

from __future__ import annotations

from typing import Final

from pyjms import _clock
from pyjms._logger import get_logger
from pyjms.errors import ResourceAllocationException
from pyjms.jms.destination import Destination
from pyjms.wire.openwire.commands import Command, DataStructure
from pyjms_broker.api.completion import COMPLETED, Completion
from pyjms_broker.api.context import ConnectionContext
from pyjms_broker.api.message import MessageReference
from pyjms_broker.api.transaction import Transaction
from pyjms_broker.region.topic.topic import Topic

__all__ = ["AdvisoryTopic"]

logger = get_logger(__name__)

_LOG_PERIOD: Final = 60.0
"""Seconds between two log lines about dropped advisories of one topic."""
_STRUCTURE: Final = 1024
"""Bytes that the command counts that an advisory is about, beside its texts."""


class AdvisoryTopic(Topic):
    """A topic `ActiveMQ.Advisory.*`: without a store, and without flow control."""

    dropped_count = 0
    """Advisories that a consumer missed, once for each of them."""
    _next_log = 0.0

    def accept(
        self,
        context: ConnectionContext,
        reference: MessageReference,
        transaction: Transaction | None = None,
    ) -> Completion:
        about = reference.message.data_structure
        if about is not None:
            reference.size += _size_of(about) + len(self.destination.physical_name)
        if not self._has_room():
            if transaction is not None:  # of a client: the broker's advisories have none
                raise ResourceAllocationException(f"{self} has no room for {reference.message_id}")
            self._publish_to_ready(reference)
            return COMPLETED
        return super().accept(context, reference, transaction)

    def _has_room(self) -> bool:
        if not self._spooling and not self.memory.is_full:
            return True
        if self.broker.temp_store is None or self.policy.pending_subscriber_policy == "vmCursor":
            return False
        return self.temp_usage.full() is None  # what spools needs no memory

    def _publish_to_ready(self, reference: MessageReference) -> None:
        """Publish to the consumers that can be sent the message now."""
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
    """Return roughly how many bytes of memory a command needs: of its texts and destinations."""
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
