"""What a prepared transaction from before the start still has to do at its end. (X6, T25)"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from broker.region.message import MessageReference
from broker.store.api import (
    Position,
    RecoveredTransaction,
    StoredMessage,
    SubscriptionKey,
)
from broker.transaction.local import Synchronization
from pyjms.jms.destination import Destination
from pyjms.wire.openwire.commands import ActiveMQMessage

if TYPE_CHECKING:
    from broker.region.destination import BaseDestination
    from broker.region.region_broker import RegionBroker

__all__ = ["recovered_work"]

logger = logging.getLogger(__name__)


def recovered_work(
    region: RegionBroker, transaction: RecoveredTransaction
) -> list[Synchronization]:
    """Return the work: sends appear at the commit, acknowledged messages again at a rollback."""
    sends = [_Send(region, destination, message) for destination, message in transaction.added]
    acknowledged = [
        _Acknowledgement(region, destination, key, stored)
        for destination, key, stored in transaction.removed
    ]
    return [*sends, *acknowledged]


class _Work(Synchronization):
    __slots__ = ("_destination", "_region")

    def __init__(self, region: RegionBroker, destination: Destination) -> None:
        self._region = region
        self._destination = destination

    def _there(self) -> BaseDestination:
        region = self._region
        return region.root.add_destination(region.context, self._destination).base

    def _reference(self, message: ActiveMQMessage, position: Position | None) -> MessageReference:
        there = self._there()
        reference = MessageReference(message, there, there.policy.minimum_message_size)
        reference.position = position
        return reference


class _Send(_Work):
    __slots__ = ("_message",)

    def __init__(
        self, region: RegionBroker, destination: Destination, message: ActiveMQMessage
    ) -> None:
        super().__init__(region, destination)
        self._message = message

    def after_commit(self) -> None:
        message_id = self._message.message_id
        if message_id is None:
            return
        store = self._region.store.transaction_store()
        position = store.position_of(self._destination, message_id)
        if position is None:
            logger.warning("%s has %s already; dropped", self._destination, message_id)
            return
        self._there().publish(self._reference(self._message, position))


class _Acknowledgement(_Work):
    __slots__ = ("_hidden", "_key")

    def __init__(
        self,
        region: RegionBroker,
        destination: Destination,
        key: SubscriptionKey | None,
        stored: StoredMessage,
    ) -> None:
        super().__init__(region, destination)
        self._key = key
        self._hidden = self._there().hide(stored, key)

    def after_commit(self) -> None:
        self._there().forget_hidden(self._hidden, self._key)

    def after_rollback(self) -> None:
        self._there().restore(self._hidden, self._key)
