"""The pending messages of a topic consumer: in memory, beyond that in the temp store.

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

__all__ = ["HeldPendingList", "SpoolingCursor"]


class HeldPendingList(FifoPendingList):
    """Messages that are all in memory; it holds them."""

    @property
    def is_spilling(self) -> bool:
        """Whether messages are elsewhere: never."""
        return False

    def append(self, reference: MessageReference) -> None:
        reference.destination.hold(reference)
        super().append(reference)

    def read_ahead(self, count: int) -> None:
        """Do nothing: all messages are in memory."""

    def clear(self) -> None:
        _drop_all(self)
        super().clear()


class SpoolingCursor(SpillingCursor):
    """Messages of one or several topics in order of arrival. It holds those in memory.

    What memory has no room for is in one spool, so that the order of a pattern's topics is kept.
    """

    def __init__(self, name: str, temp_store: TempStore, policy: PolicyEntry) -> None:
        """Create an empty cursor; `name` is the consumer's, for the log."""
        super().__init__(name, self._source_of, self._is_above, self._spooled, policy.max_page_size)
        self._mark = policy.cursor_memory_high_water_mark
        self._spool = SpoolSource(temp_store, name, self._paged_in, prioritized=False)
        self._topics: dict[Destination | None, RegionDestination] = {}
        """Where spooled messages came from, by the destination that they name."""
        self.add_source(self._spool)

    def append(self, reference: MessageReference) -> None:
        super().append(reference)
        if not self.is_spilling or reference in self:
            reference.destination.hold(reference)

    def clear(self) -> None:
        _drop_all(self)
        super().clear()
        self._topics.clear()

    def _source_of(self, reference: MessageReference) -> SpoolSource:
        return self._spool

    def _is_above(self, reference: MessageReference) -> bool:
        return reference.destination.memory.is_above(self._mark)

    def _spooled(self, reference: MessageReference) -> None:
        self._topics[reference.message.destination] = reference.destination

    def _paged_in(self, spooled: SpooledMessage) -> MessageReference:
        topic = self._topics[spooled.message.destination]
        reference = topic.reference_to(spooled.message)
        reference.redelivery_counter = spooled.redelivery_counter
        topic.hold(reference)
        return reference


def _drop_all(references: Iterable[MessageReference]) -> None:
    for reference in references:
        reference.destination.drop(reference)
