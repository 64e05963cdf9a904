"""The dispatched messages in the range of an acknowledgement. (activemq-broker 7.1, A1)"""

from __future__ import annotations

from collections.abc import Container, Iterable
from typing import TYPE_CHECKING

from pyjms.errors import JMSException
from pyjms.wire.openwire.commands import MessageAck, MessageId

if TYPE_CHECKING:
    from pyjms_broker.api.message import MessageReference
    from pyjms_broker.api.transaction import Transaction

__all__ = ["counted_range", "is_last", "unmatched", "whole_range"]


def whole_range(dispatched: Iterable[MessageReference], ack: MessageAck) -> list[MessageReference]:
    """Return the messages of the range, in dispatch order.

    Raises:
        JMSException: the first or last message of the range was not dispatched.
    """
    first: MessageId | None = ack.first_message_id
    found: list[MessageReference] = []
    inside = first is None
    for reference in dispatched:
        if not inside:
            if reference.message_id != first:
                continue
            inside = True
        found.append(reference)
        if is_last(reference, ack):
            return found
    missing, end = (ack.last_message_id, "end") if inside else (first, "start")
    raise unmatched(ack, f"Could not find Message-ID {missing} in dispatched-list ({end} of ack)")


def counted_range(
    dispatched: Iterable[MessageReference],
    transacted: Container[MessageReference],
    ack: MessageAck,
    transaction: Transaction | None,
) -> list[MessageReference]:
    """Return the messages of the range that no open transaction has already acknowledged.

    Their number must match the acknowledgement's count: after a failover the dispatch order may
    differ, and the range may include messages that were never delivered. In a transaction, the
    count may include already acknowledged messages. A wrong count makes the transaction
    rollback-only.

    Raises:
        JMSException: the count is wrong, or the first or last message was not dispatched.
    """
    whole = whole_range(dispatched, ack)
    references = [reference for reference in whole if reference not in transacted]
    if len(references) <= ack.message_count <= len(references if transaction is None else whole):
        return references
    error = unmatched(
        ack,
        f"Expected message count ({ack.message_count}) differs from count in "
        f"dispatched-list ({len(references)})",
    )
    if transaction is not None:
        transaction.set_rollback_only(error)
    raise error


def is_last(reference: MessageReference, ack: MessageAck) -> bool:
    """Return whether this message is the last one of the acknowledgement."""
    return reference.message_id == ack.last_message_id and (
        ack.destination is None or ack.destination == reference.destination.destination
    )


def unmatched(ack: MessageAck, reason: str) -> JMSException:
    """Return the error for an acknowledgement that does not match the dispatched messages."""
    return JMSException(f"Unmatched acknowledge: {ack}; {reason}")
