"""Which dispatched messages an acknowledgement of a range names. (activemq-broker 7.1, A1)"""

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
        JMSException: its start or its end was not dispatched.
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
    held: Container[MessageReference],
    ack: MessageAck,
    transaction: Transaction | None,
) -> list[MessageReference]:
    """Return those messages of the range that no open transaction holds.

    There must be as many as the acknowledgement says: after a failover the order may differ, and
    what lies between its ends was never delivered. In a transaction the count may include what
    was acknowledged before. A count that does not fit makes the transaction rollback-only.

    Raises:
        JMSException: the count does not fit, or an end was not dispatched.
    """
    whole = whole_range(dispatched, ack)
    references = [reference for reference in whole if reference not in held]
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
    """Whether the acknowledgement ends with this message."""
    return reference.message_id == ack.last_message_id and (
        ack.destination is None or ack.destination == reference.destination.destination
    )


def unmatched(ack: MessageAck, reason: str) -> JMSException:
    """Return the error of an acknowledgement that fits nothing."""
    return JMSException(f"Unmatched acknowledge: {ack}; {reason}")
