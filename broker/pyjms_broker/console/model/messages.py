"""Messages of queues: pages of messages, and a single message with its details and history."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import UTC, datetime
from typing import Final

from pyjms import _clock
from pyjms.errors import InvalidDestinationException, JMSException
from pyjms.jms.destination import Destination
from pyjms.jms.properties import FAILURE_CAUSE
from pyjms.selector import selector_or_none
from pyjms_broker.api.destination import BrokerDestination
from pyjms_broker.api.message import MessageReference
from pyjms_broker.console.model.bodies import read_body, type_name
from pyjms_broker.console.model.destinations import find_destination
from pyjms_broker.console.model.paging import Page
from pyjms_broker.console.model.rows import Event, MessageRow, WholeMessage
from pyjms_broker.management.host import ManagementContext
from pyjms_broker.management.messages import is_selected, original_destination
from pyjms_broker.management.transfer import find
from pyjms_broker.region.queue.queue import Queue

__all__ = [
    "MOST_EXAMINED",
    "Scan",
    "browse_page",
    "queue_named",
    "row_of",
    "time_text",
    "whole_message",
]

MOST_EXAMINED: Final = 20_000
"""The maximum number of messages examined for a page; later ones need a selector."""
_AT_ONCE: Final = 500
_PREVIEW: Final = 80


def queue_named(context: ManagementContext, name: str) -> Queue:
    """Return a queue.

    Raises:
        InvalidDestinationException: there is none of that name.
    """
    found = find_destination(context, "queue", name)
    if found is None or not isinstance(found[1], Queue):
        raise InvalidDestinationException(
            f"There is no queue {name[:200]!r}",
            hint="it may have been deleted; create it on the page queues",
        )
    return found[1]


class Scan:
    """Messages of queues that a selector matches, among the first `MOST_EXAMINED`.

    Args:
        selector: the selector; None or blank: all messages.

    Raises:
        InvalidSelectorException: the selector is not valid.
    """

    def __init__(self, context: ManagementContext, selector: str | None) -> None:
        self._selector = selector_or_none(selector, context.region.selector_limits)
        self.examined = 0
        """The number of messages read so far."""

    @property
    def complete(self) -> bool:
        """Whether all messages were examined."""
        return self.examined <= MOST_EXAMINED

    async def of(self, queue: BrokerDestination) -> AsyncIterator[MessageReference]:
        """Iterate over the matching messages of one queue, letting other tasks run in between.

        Raises:
            SelectorLimitException: the selector exceeds its limits on a message.
        """
        for reference in queue.messages():
            self.examined += 1
            if not self.complete:
                return
            if self._selector is None or is_selected(self._selector, reference):
                yield reference
            if self.examined % _AT_ONCE == 0:
                await _clock.sleep(0)


async def browse_page(
    context: ManagementContext, queue: Queue, selector: str, number: int, size: int
) -> Page[MessageRow]:
    """Return a page of a queue's messages in order. Cancellable.

    Raises:
        InvalidSelectorException: the selector is not valid.
    """
    number = max(1, number)
    start = (number - 1) * size
    rows: list[MessageRow] = []
    seen = 0
    has_next = False
    scan = Scan(context, selector)
    async for reference in scan.of(queue):
        seen += 1
        if seen > start + size:
            has_next = True
            break
        if seen > start:
            rows.append(row_of(reference))
    total = seen if scan.complete and not has_next else None
    return Page(rows, number, start + 1, has_next, total)


def time_text(milliseconds: int) -> str:
    """Format milliseconds since 1970 as UTC time; empty for 0."""
    if milliseconds <= 0:
        return ""
    try:
        found = datetime.fromtimestamp(milliseconds / 1000, UTC)
    except (ValueError, OverflowError, OSError):
        return f"{milliseconds} ms"
    return found.strftime("%Y-%m-%d %H:%M:%S.") + f"{milliseconds % 1000:03d}"


def _properties(reference: MessageReference) -> tuple[dict[str, object], str]:
    try:
        return dict(reference.properties), ""
    except JMSException as error:
        return {}, f"They cannot be read: {type(error).__name__}."


def _text(value: object) -> str:
    return "" if value is None else str(value)


def row_of(reference: MessageReference) -> MessageRow:
    """Return a message's row for tables."""
    message = reference.message
    body = read_body(message)
    preview = " ".join((body.text or "")[: 4 * _PREVIEW].split())[:_PREVIEW]
    properties, _ = _properties(reference)
    return MessageRow(
        str(reference.message_id),
        body.kind,
        _text(message.correlation_id),
        message.persistent,
        message.priority,
        reference.redelivery_counter,
        _text(message.reply_to),
        time_text(message.timestamp),
        _text(message.type),
        _text(message.group_id),
        body.size,
        preview if body.kind == "TextMessage" else "",
        reference.owner is not None,
        _text(original_destination(reference)),
        _text(properties.get(FAILURE_CAUSE)),
    )


def whole_message(queue: Queue, message_id: str) -> WholeMessage | None:
    """Return a message with its body; None if the queue does not have it."""
    reference = find(queue, message_id)
    if reference is None:
        return None
    reference = queue.contents.in_memory(reference) or reference
    properties, note = _properties(reference)
    return WholeMessage(
        row_of(reference),
        tuple(_headers(reference)),
        tuple((name, type_name(value), str(value)) for name, value in properties.items()),
        note,
        read_body(reference.message),
        tuple(_journey(reference, properties)),
    )


def _headers(reference: MessageReference) -> list[tuple[str, str]]:
    message = reference.message
    expiration = time_text(message.expiration) + " UTC" if message.expiration else "never"
    headers: list[tuple[str, object]] = [
        ("JMSMessageID", reference.message_id),
        ("JMSDestination", message.destination),
        ("JMSTimestamp", time_text(message.timestamp) + " UTC" if message.timestamp else ""),
        ("JMSDeliveryMode", "PERSISTENT" if message.persistent else "NON_PERSISTENT"),
        ("JMSPriority", message.priority),
        ("JMSExpiration", expiration),
        ("JMSCorrelationID", message.correlation_id),
        ("JMSReplyTo", message.reply_to),
        ("JMSType", message.type),
        ("JMSRedelivered", reference.redelivery_counter > 0),
        ("JMSXDeliveryCount", reference.redelivery_counter + 1),
        ("JMSXGroupID", message.group_id),
        ("JMSXGroupSeq", message.group_sequence if message.group_id else None),
        ("JMSXUserID", message.user_id),
        ("Original destination", original_destination(reference)),
        ("Size in memory", f"{reference.size} bytes"),
        ("Compressed", message.compressed or None),
    ]
    return [(name, str(value)) for name, value in headers if value is not None]


def _journey(reference: MessageReference, properties: dict[str, object]) -> list[Event]:
    message = reference.message
    events = [
        Event("Sent", time_text(message.timestamp), f"by producer {_text(message.producer_id)}")
    ]
    if message.group_id:
        events.append(
            Event("Grouped", "", f"number {message.group_sequence} of group {message.group_id}")
        )
    events += [Event("Forwarded", "", f"by broker {each}") for each in message.broker_path or ()]
    original = original_destination(reference)
    if original is not None:
        cause = properties.get(FAILURE_CAUSE)
        what = "Moved" if cause is None else "Dead-lettered"
        why = "" if cause is None else f": {cause}"
        events.append(Event(what, "", f"from {original}{why}"))
    if message.broker_in_time:
        events.append(
            Event("Arrived", time_text(message.broker_in_time), f"in {_name(message.destination)}")
        )
    if message.broker_out_time:
        events.append(Event("First dispatched", time_text(message.broker_out_time), ""))
    if reference.redelivery_counter:
        times = reference.redelivery_counter
        events.append(Event("Redelivered", "", f"{times} time{'' if times == 1 else 's'}"))
    if reference.owner is not None:
        consumer = reference.owner.consumer_id
        events.append(Event("With a consumer now", "", f"dispatched to {_text(consumer)}"))
    return events


def _name(destination: Destination | None) -> str:
    return "" if destination is None else str(destination)
