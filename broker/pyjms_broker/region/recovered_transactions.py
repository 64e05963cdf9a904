"""What a prepared transaction from before the start still has to do at its end.

(activemq-broker X6, T25)
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from pyjms.jms.destination import Destination
from pyjms.wire.openwire.commands import ActiveMQMessage
from pyjms_broker.api.message import StoredMessage, SubscriptionKey
from pyjms_broker.api.transaction import Synchronization
from pyjms_broker.store.api import RecoveredTransaction

if TYPE_CHECKING:
    from pyjms_broker.region.services import RegionServices

__all__ = ["recovered_work"]

logger = logging.getLogger(__name__)


def recovered_work(
    region: RegionServices, transaction: RecoveredTransaction
) -> list[Synchronization]:
    """Return the work: sends appear at the commit, acknowledged messages again at a rollback."""
    sends = [_Send(region, destination, message) for destination, message in transaction.added]
    acknowledged = [
        _Acknowledgement(region, destination, key, stored)
        for destination, key, stored in transaction.removed
    ]
    return [*sends, *acknowledged]


class _Send(Synchronization):
    __slots__ = ("_message", "_store", "_there")

    def __init__(
        self, region: RegionServices, destination: Destination, message: ActiveMQMessage
    ) -> None:
        self._there = region.region_destination(destination)
        self._there.decided_sends += 1
        self._message = message
        self._store = region.store.transaction_store()

    def after_commit(self) -> None:
        there, message = self._there, self._message
        there.decided_sends -= 1
        if message.message_id is None:
            return
        position = self._store.position_of(there.destination, message.message_id)
        if position is None:
            logger.warning("%s has %s already; dropped", there, message.message_id)
            return
        there.publish(there.reference_to(message, position))

    def after_rollback(self) -> None:
        self._there.decided_sends -= 1


class _Acknowledgement(Synchronization):
    __slots__ = ("_hidden", "_key", "_there")

    def __init__(
        self,
        region: RegionServices,
        destination: Destination,
        key: SubscriptionKey | None,
        stored: StoredMessage,
    ) -> None:
        self._there = region.region_destination(destination)
        self._key = key
        self._hidden = self._there.hide(stored, key)

    def after_commit(self) -> None:
        if not self._there.disposed:
            self._there.forget_hidden(self._hidden, self._key)

    def after_rollback(self) -> None:
        if not self._there.disposed:
            self._there.restore(self._hidden, self._key)
