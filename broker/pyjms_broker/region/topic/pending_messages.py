"""The pending messages of a topic consumer, in memory and in the temp store.

(activemq-broker T7, M10; ActiveMQ FilePendingMessageCursor, VMPendingMessageCursor)
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from pyjms.jms.destination import Destination
from pyjms_broker.cursor.memory import FifoPendingList
from pyjms_broker.cursor.sources import SpoolSource
from pyjms_broker.cursor.spilling import SpillingCursor

if TYPE_CHECKING:
    from pyjms_broker.api.destination import RegionDestination
    from pyjms_broker.api.message import MessageReference
    from pyjms_broker.policy.entry import PolicyEntry
    from pyjms_broker.store.temp import SpooledMessage, TempStore

__all__ = ["RetainedPendingList", "SpoolingCursor"]


class RetainedPendingList(FifoPendingList):
    """Pending messages that are all in memory; the list has a reference count on each."""

    __slots__ = ()

    @property
    def is_spilling(self) -> bool:
        """Always False: no message is in the temp store."""
        return False

    def append(self, reference: MessageReference) -> None:
        reference.increment_reference_count()
        self._references[reference] = None  # like `super().append`, without the call

    def read_ahead(self, count: int) -> None:
        """Do nothing: all messages are in memory."""

    def clear(self) -> None:
        _release_all(self)
        super().clear()


class SpoolingCursor(SpillingCursor):
    """Messages of topics in order of arrival, with a reference count on each one in memory.

    All topics of a pattern share one spool, which preserves the order of arrival across them.
    """

    def __init__(self, name: str, temp_store: TempStore, policy: PolicyEntry) -> None:
        """Create an empty cursor; `name` is the consumer's name for the log."""
        super().__init__(
            name, self._source_of, self._is_memory_short_for, self._on_spooled, policy.max_page_size
        )
        self._mark = policy.cursor_memory_high_water_mark
        self._spool = SpoolSource(temp_store, name, self._page_in, prioritized=False)
        self._topics: dict[Destination | None, RegionDestination] = {}
        """The topics of spooled messages, by the messages' destination."""
        self.add_source(self._spool)

    def append(self, reference: MessageReference) -> None:
        super().append(reference)
        if not self.is_spilling or reference in self:
            reference.increment_reference_count()

    def clear(self) -> None:
        _release_all(self)
        super().clear()
        self._topics.clear()

    def _source_of(self, reference: MessageReference) -> SpoolSource:
        return self._spool

    def _is_memory_short_for(self, reference: MessageReference) -> bool:
        return reference.destination.memory.is_above(self._mark)

    def _on_spooled(self, reference: MessageReference) -> None:
        self._topics[reference.message.destination] = reference.destination

    def _page_in(self, spooled: SpooledMessage) -> MessageReference:
        topic = self._topics[spooled.message.destination]
        reference = topic.reference_to(spooled.message)
        reference.redelivery_counter = spooled.redelivery_counter
        reference.increment_reference_count()
        return reference


def _release_all(references: Iterable[MessageReference]) -> None:
    for reference in references:
        reference.decrement_reference_count()
