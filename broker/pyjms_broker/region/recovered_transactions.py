"""The work of XA transactions that were prepared before the broker started.

(activemq-broker X6, T25)
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyjms._logger import get_logger
from pyjms.jms.destination import Destination
from pyjms.wire.openwire.commands import ActiveMQMessage
from pyjms_broker.api.message import StoredMessage, SubscriptionKey
from pyjms_broker.api.transaction import Synchronization
from pyjms_broker.store.api import RecoveredTransaction

if TYPE_CHECKING:
    from pyjms_broker.region.services import RegionServices

__all__ = ["recovered_work"]

logger = get_logger(__name__)


def recovered_work(
    region: RegionServices, transaction: RecoveredTransaction
) -> list[Synchronization]:
    """Return the transaction's work.

    Its sends become visible at the commit. The messages that it acknowledged are hidden until it
    ends, and are available again after a rollback.
    """
    sends = [
        _RecoveredSend(region, destination, message) for destination, message in transaction.added
    ]
    acknowledged = [
        _RecoveredAcknowledgement(region, destination, key, stored)
        for destination, key, stored in transaction.removed
    ]
    return [*sends, *acknowledged]


class _RecoveredSend(Synchronization):
    __slots__ = ("_destination", "_message", "_store")

    def __init__(
        self, region: RegionServices, destination: Destination, message: ActiveMQMessage
    ) -> None:
        self._destination = region.region_destination(destination)
        self._destination.prepared_sends += 1
        self._message = message
        self._store = region.store.transaction_store()

    def after_commit(self) -> None:
        target, message = self._destination, self._message
        target.prepared_sends -= 1
        if message.message_id is None:
            return
        position = self._store.position_of(target.destination, message.message_id)
        if position is None:
            logger.warning(
                "%s: message %s of a recovered transaction is already stored; it is dropped",
                target,
                message.message_id,
            )
            return
        target.publish(target.reference_to(message, position))

    def after_rollback(self) -> None:
        self._destination.prepared_sends -= 1


class _RecoveredAcknowledgement(Synchronization):
    __slots__ = ("_destination", "_hidden", "_key")

    def __init__(
        self,
        region: RegionServices,
        destination: Destination,
        key: SubscriptionKey | None,
        stored: StoredMessage,
    ) -> None:
        self._destination = region.region_destination(destination)
        self._key = key
        self._hidden = self._destination.hide(stored, key)

    def after_commit(self) -> None:
        if not self._destination.disposed:
            self._destination.forget_hidden(self._hidden, self._key)

    def after_rollback(self) -> None:
        if not self._destination.disposed:
            self._destination.restore(self._hidden, self._key)
