"""The ledgers whose acknowledgements wait for the application, and the choice of a ledger.

See `ack_ledger` for the rules and their invariants. (activemq-broker A5, A6; activemq-edges F5)
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from pyjms.client.delivery.ack_ledger import (
    AckLedger,
    AutoAckLedger,
    DupsOkAckLedger,
    OptimizedAckLedger,
    message_id,
)
from pyjms.client.delivery.interrupted_deliveries import InterruptedDeliveries
from pyjms.client.interfaces import ClientSession
from pyjms.enums import AcknowledgeMode
from pyjms.wire.openwire.commands import AckType, ConsumerInfo, MessageDispatch

__all__ = ["DeferredAckLedger", "IndividualAckLedger", "LedgerChoice", "choose_ledger"]

LedgerChoice: TypeAlias = "staticmethod[[ClientSession, ConsumerInfo], AckLedger]"
"""The type of a consumer class's function that chooses the ledger."""

_LAZY_SHARE = 0.5  # of the prefetch

_STANDARD = int(AckType.STANDARD)
_DELIVERED = int(AckType.DELIVERED)
_INDIVIDUAL = int(AckType.INDIVIDUAL)


class DeferredAckLedger(AckLedger):
    """CLIENT and TRANSACTED: one range, when the application acknowledges or commits.

    Until then, DELIVERED acknowledgements at half the prefetch extend the prefetch window.
    (activemq-broker A5, A6)
    """

    def __init__(self, session: ClientSession, info: ConsumerInfo) -> None:
        super().__init__(session, info)
        self.redelivers_on_error = False
        self._delivered_acks = 0  # the length of the prefix of `delivered` with a DELIVERED ack
        self._interruptions = InterruptedDeliveries()

    def before_delivery(self, dispatch: MessageDispatch) -> None:
        if self._session.transacted:
            self._session.transaction.begin()
        self.delivered.append(dispatch)

    def after_delivery(self, dispatch: MessageDispatch) -> None:
        prefetch = self._info.prefetch_size
        if prefetch and len(self.delivered) - self._delivered_acks >= _LAZY_SHARE * prefetch:
            fresh = self.delivered[self._delivered_acks :]
            self._delivered_acks = len(self.delivered)
            self.send_ack(_DELIVERED, fresh, in_transaction=True)

    def flush(self) -> None:
        """Do nothing: messages that the application has not acknowledged are redelivered."""

    def acknowledge_in_transaction(self) -> None:
        if self._interruptions.happened:  # the new broker's order may differ
            for dispatch in self._interruptions.acknowledgeable(self.delivered):
                self.send_ack(_INDIVIDUAL, [dispatch], in_transaction=True)
        elif self.delivered:
            self.send_ack(_STANDARD, self.delivered, in_transaction=True)

    def acknowledge(self) -> None:
        if self.delivered:
            self.send_ack(_STANDARD, self.pop_delivered())

    def settle(self) -> None:
        super().settle()
        self._delivered_acks = 0
        self._interruptions.clear()

    def pop_delivered(self) -> list[MessageDispatch]:
        self._delivered_acks = 0
        self._interruptions.clear()
        return super().pop_delivered()

    def interrupted(self) -> list[MessageDispatch]:
        """Record the loss of the broker.

        Messages that were delivered in a transaction stay part of it and must be dispatched again
        before the commit. Otherwise they are delivered again: the application has not acknowledged
        them.
        (activemq-edges F2, F5)
        """
        if not self._session.transacted:
            return self.pop_delivered()
        self._delivered_acks = len(self.delivered)
        self._interruptions.interrupt(self.delivered)
        return []

    @property
    def has_unsettled(self) -> bool:
        return bool(self.delivered)

    @property
    def stale_count(self) -> int:
        return self._interruptions.stale_count

    def acknowledge_again(self, dispatch: MessageDispatch) -> None:
        super().acknowledge_again(dispatch)
        self._came_again(dispatch)

    def pop_stale(self) -> list[MessageDispatch]:
        stale, self.delivered[:] = self._interruptions.split(self.delivered)
        return stale

    def _came_again(self, dispatch: MessageDispatch) -> None:
        if self._interruptions.came_again(message_id(dispatch)):
            self._session.transaction.redelivered()


class IndividualAckLedger(DeferredAckLedger):
    """INDIVIDUAL; also CLIENT and TRANSACTED if messages may be delivered out of order.

    Each message has a separate acknowledgement, which is sent at once within a transaction.
    (activemq-broker A5, A6)
    """

    def __init__(self, session: ClientSession, info: ConsumerInfo) -> None:
        super().__init__(session, info)
        self.redelivers_on_error: bool = session.acknowledge_mode == AcknowledgeMode.INDIVIDUAL

    def before_delivery(self, dispatch: MessageDispatch) -> None:
        super().before_delivery(dispatch)
        if self._session.transacted:  # at once: a listener may commit before it returns
            self.send_ack(_INDIVIDUAL, [dispatch], in_transaction=True)

    def after_delivery(self, dispatch: MessageDispatch) -> None:
        if not self._session.transacted:
            super().after_delivery(dispatch)

    def acknowledge_in_transaction(self) -> None:
        """Do nothing: every message was acknowledged when it was delivered."""

    def acknowledge(self) -> None:
        for dispatch in self.pop_delivered():
            self.send_ack(_INDIVIDUAL, [dispatch])

    def acknowledge_again(self, dispatch: MessageDispatch) -> None:
        if self._session.transacted:
            self.send_ack(_INDIVIDUAL, [dispatch], in_transaction=True)
        self._came_again(dispatch)

    @property
    def acknowledger_of_one(self) -> Callable[[MessageDispatch], None]:
        return self._acknowledge_one

    def _acknowledge_one(self, dispatch: MessageDispatch) -> None:
        """INDIVIDUAL: acknowledge this message, unless it is already settled."""
        for index, delivered in enumerate(self.delivered):
            if delivered is dispatch:
                del self.delivered[index]
                self._delivered_acks -= index < self._delivered_acks
                self.send_ack(_INDIVIDUAL, [dispatch])
                return


def choose_ledger(session: ClientSession, info: ConsumerInfo) -> AckLedger:
    """Return the ledger of a new consumer; see the table of this module."""
    if info.browser:
        return AutoAckLedger(session, info)
    mode = session.acknowledge_mode
    options = session.connection.options
    if mode == AcknowledgeMode.INDIVIDUAL:
        return IndividualAckLedger(session, info)
    if mode == AcknowledgeMode.TRANSACTED:
        individual = options.transacted_individual_ack or session.reorders
        return (IndividualAckLedger if individual else DeferredAckLedger)(session, info)
    if mode == AcknowledgeMode.CLIENT:
        return (IndividualAckLedger if session.reorders else DeferredAckLedger)(session, info)
    assert info.destination is not None
    if mode == AcknowledgeMode.DUPS_OK and info.destination.is_topic and not session.reorders:
        return DupsOkAckLedger(session, info)
    return (OptimizedAckLedger if info.optimized_acknowledge else AutoAckLedger)(session, info)
