"""The work of a transaction in the regions: its sends, and what an XA branch did before a restart.

(activemq-broker X1 to X6, T25)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from pyjms.jms.destination import Destination
from pyjms.runtime.logging import get_logger
from pyjms.wire.openwire.commands import ActiveMQMessage
from pyjms_broker.api.completion import Completion
from pyjms_broker.api.context import ConnectionContext, ProducerExchange
from pyjms_broker.api.destination import RegionDestination
from pyjms_broker.api.message import MessageReference, StoredMessage, SubscriptionKey
from pyjms_broker.api.transaction import Synchronization, Transaction
from pyjms_broker.store.api import RecoveredTransaction

if TYPE_CHECKING:
    from pyjms_broker.region.region_broker import RegionBroker

logger = get_logger(__name__)


class PendingSend(Synchronization):
    """A send of an open transaction, whose destination may be removed before the end.

    In that case the message is sent to the re-created destination of the same name, like a message
    sent without a transaction; a message to a temporary destination is discarded. From
    `before_commit` until the end, `prepared_sends` prevents the removal of the destination.
    """

    __slots__ = ("_kept", "reference", "transaction")

    def __init__(self, transaction: Transaction, reference: MessageReference) -> None:
        self.transaction = transaction
        self.reference = reference
        self._kept: RegionDestination | None = None

    @property
    def is_void(self) -> bool:
        """Whether its destination was removed."""
        return self.reference.destination.disposed

    def before_commit(self) -> None:
        destination = self.reference.destination
        if not destination.disposed:
            self._kept = destination
            destination.prepared_sends += 1
        elif not destination.destination.is_temporary:
            for reference in self.messages():
                self._send_again(destination, reference)

    def messages(self) -> Sequence[MessageReference]:
        """Return the messages that are sent."""
        return (self.reference,)

    def _send_again(self, removed: RegionDestination, reference: MessageReference) -> None:
        destination = removed.recreate()
        exchange = ProducerExchange(ConnectionContext(), transaction=self.transaction)
        destination.accept(exchange, destination.reference_to(reference.message))

    def committing(self, stored: Completion) -> None:
        self.reference.destination.committing(stored)

    def release(self) -> None:
        """Allow the removal of the destination again, as the transaction has ended."""
        if self._kept is not None:
            self._kept.prepared_sends -= 1
            self._kept = None


class TransactedSends(PendingSend):
    """Successive sends to a queue, whose messages it passes on together at the end."""

    __slots__ = ("_committed", "_rolled_back", "references")

    def __init__(
        self,
        transaction: Transaction,
        references: list[MessageReference],
        committed: Callable[[list[MessageReference]], None],
        rolled_back: Callable[[MessageReference], None],
    ) -> None:
        super().__init__(transaction, references[0])
        self.references = references
        """The messages; more are added as long as the transaction gets no other work."""
        self._committed = committed
        self._rolled_back = rolled_back

    def messages(self) -> Sequence[MessageReference]:
        return self.references

    def after_commit(self) -> None:
        self.release()
        if self.is_void:
            self._discard()
        else:
            self._committed(self.references)

    def after_rollback(self) -> None:
        self.release()
        self._discard()

    def _discard(self) -> None:
        for reference in self.references:
            self._rolled_back(reference)


def recovered_work(
    region: RegionBroker, transaction: RecoveredTransaction
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
        self, region: RegionBroker, destination: Destination, message: ActiveMQMessage
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
        region: RegionBroker,
        destination: Destination,
        key: SubscriptionKey | None,
        stored: StoredMessage,
    ) -> None:
        self._destination = region.region_destination(destination)
        self._key = key
        self._hidden = self._destination.hide(stored, key)
        self._destination.prepared_sends += 1

    def after_commit(self) -> None:
        self._destination.prepared_sends -= 1
        if not self._destination.disposed:
            self._destination.forget_hidden(self._hidden, self._key)

    def after_rollback(self) -> None:
        self._destination.prepared_sends -= 1
        if not self._destination.disposed:
            self._destination.restore(self._hidden, self._key)
