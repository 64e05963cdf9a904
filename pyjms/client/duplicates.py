"""What to do with a message that the broker sent a second time. (ActiveMQ R8, N13)"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from pyjms.wire.openwire.commands import AckType, MessageDispatch, Throwable

if TYPE_CHECKING:
    from pyjms.client.consumer import ActiveMQMessageConsumer

__all__ = ["suppress_duplicate"]

logger = logging.getLogger(__name__)


def suppress_duplicate(consumer: ActiveMQMessageConsumer, dispatch: MessageDispatch) -> None:
    """Refuse a duplicate, unless an open transaction of this connection still has the first one.

    In this consumer's transaction the broker only needs to know that it came; in another
    consumer's it is delivered, as that transaction may roll back.
    """
    holder = _holder(consumer, dispatch)
    if holder is consumer:
        consumer.ledger.send(AckType.DELIVERED, [dispatch])
    elif holder is not None:
        logger.warning(
            "%s delivers the duplicate %s: a transaction on %s may still roll back",
            consumer.consumer_id,
            dispatch.message and dispatch.message.message_id,
            holder.consumer_id,
        )
        consumer.take_in(dispatch)
    else:
        logger.warning(
            "%s suppresses a duplicate delivery on its connection, poison acking: %s",
            consumer.consumer_id,
            dispatch.message and dispatch.message.message_id,
        )
        reason = f"Suppressing duplicate delivery on connection, consumer {consumer.consumer_id}"
        consumer.ledger.poison([dispatch], Throwable("java.lang.Throwable", reason))


def _holder(
    consumer: ActiveMQMessageConsumer, dispatch: MessageDispatch
) -> ActiveMQMessageConsumer | None:
    """The consumer whose open transaction has the message already."""
    assert dispatch.message is not None
    message_id = dispatch.message.message_id
    holders = [
        other
        for other in consumer.session.connection.open_consumers
        if other.session.transacted
        and any(
            held.message is not None and held.message.message_id == message_id
            for held in other.ledger.delivered
        )
    ]
    return consumer if consumer in holders else next(iter(holders), None)
