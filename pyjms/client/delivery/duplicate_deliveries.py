"""The handling of duplicates: messages that the consumer's connection has received before."""

from __future__ import annotations

from typing import Final, Protocol

from pyjms._logger import get_logger
from pyjms.client.delivery.ack_ledger import AckLedger
from pyjms.client.duplicates import DuplicateVerdict, judge_duplicate
from pyjms.client.interfaces import ClientSession
from pyjms.wire.openwire.commands import ConsumerId, MessageDispatch, Throwable

__all__ = ["is_delivered_again"]

logger: Final = get_logger(__name__)


class _Consumer(Protocol):
    """The consumer as used by this module."""

    consumer_id: ConsumerId
    session: ClientSession

    @property
    def ledger(self) -> AckLedger: ...


def is_delivered_again(consumer: _Consumer, dispatch: MessageDispatch) -> bool:
    """Apply the verdict of `pyjms.client.duplicates`; return whether the duplicate is delivered."""
    assert dispatch.message is not None
    if consumer.ledger.takes_copy(dispatch):
        return False
    message_id = dispatch.message.message_id
    consumer_id = consumer.consumer_id
    holders = consumer.session.connection.consumers_holding(message_id)
    verdict = judge_duplicate(consumer_id, holders)
    if verdict is DuplicateVerdict.ACKNOWLEDGED:
        consumer.ledger.acknowledge_again(dispatch)
        return False
    if verdict is DuplicateVerdict.DELIVERED:
        logger.warning(
            "%s delivers the duplicate %s: a transaction on %s may still roll back",
            consumer_id,
            message_id,
            holders[0],
        )
        return True
    logger.warning(
        "%s suppresses a duplicate delivery on its connection, poison acking: %s",
        consumer_id,
        message_id,
    )
    reason = f"Suppressing duplicate delivery on connection, consumer {consumer_id}"
    consumer.ledger.acknowledge_poison([dispatch], Throwable("java.lang.Throwable", reason))
    return False
