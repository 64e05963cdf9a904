"""Messages of queues: pages of messages, and a single message with its body, details and history.

Bodies are untrusted input: only text, numbers and bytes are deserialized, and at most `LIMIT`
characters or bytes are shown.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final, NamedTuple

from pyjms.errors import IllegalStateException, InvalidDestinationException, JMSException
from pyjms.jms.destination import Destination
from pyjms.jms.message import FAILURE_CAUSE
from pyjms.runtime import clock as _clock
from pyjms.selector import selector_or_none
from pyjms.wire.limits import MAX_PROPERTY_VALUES
from pyjms.wire.openwire.commands import (
    ActiveMQBlobMessage,
    ActiveMQBytesMessage,
    ActiveMQMapMessage,
    ActiveMQMessage,
    ActiveMQObjectMessage,
    ActiveMQStreamMessage,
    ActiveMQTextMessage,
)
from pyjms.wire.openwire.primitives import decode_map, decode_text
from pyjms_broker.api.completion import wait_for
from pyjms_broker.api.destination import BrokerDestination
from pyjms_broker.api.message import MessageReference
from pyjms_broker.console.model.destinations import Page, find_destination, page_of_iterable
from pyjms_broker.management.host import ManagementContext
from pyjms_broker.management.messages import content_of, find, is_selected, original_destination
from pyjms_broker.region.queue import Queue
from pyjms_broker.store.jobs.api import ScheduledJob
from pyjms_broker.store.jobs.scheduler import JobScheduler

LIMIT: Final = 64 * 1024
_ENTRIES: Final = 500
_ROW: Final = 16


@dataclass(frozen=True, slots=True)
class Body:
    """A body for display.

    Args:
        kind: the JMS message type.
        size: the size of the inflated body in bytes.
        text: the body, possibly truncated.
        entries: name, type and value of a map's entries.
        note: the reason why there is no text, or not all of it.
    """

    kind: str
    size: int
    text: str | None = None
    entries: tuple[tuple[str, str, str], ...] = ()
    note: str = ""


def read_body(message: ActiveMQMessage) -> Body:
    """Return the body of a message; never raises, even for invalid bodies."""
    for kind, (name, read) in _KINDS.items():
        if isinstance(message, kind):
            try:
                return read(name, content_of(message), message)
            except (JMSException, ValueError) as error:
                size = len(message.content or b"")
                return Body(name, size, note=f"It cannot be read: {type(error).__name__}.")
    return Body("Message", len(message.content or b""), note="Messages of this kind have no body.")


def _limit_note(size: int) -> str:
    return f"The first {LIMIT:,} of {size:,} are shown." if size > LIMIT else ""


def _text(kind: str, content: bytes, _: ActiveMQMessage) -> Body:
    text = decode_text(content) if content else None
    if not text:
        return Body(kind, len(content), note="It has no body." if text is None else "It is empty.")
    return Body(kind, len(content), text[:LIMIT], note=_limit_note(len(text)))


def _bytes(kind: str, content: bytes, _: ActiveMQMessage) -> Body:
    if not content:
        return Body(kind, 0, note="It has no body.")
    return Body(kind, len(content), _hex(content[:LIMIT]), note=_limit_note(len(content)))


def _hex(content: bytes) -> str:
    lines = []
    for start in range(0, len(content), _ROW):
        row = content[start : start + _ROW]
        shown = "".join(chr(byte) if 32 <= byte < 127 else "." for byte in row)
        lines.append(f"{start:06x}  {row.hex(' '):<{_ROW * 3 - 1}}  {shown}")
    return "\n".join(lines)


def _map(kind: str, content: bytes, _: ActiveMQMessage) -> Body:
    values = decode_map(content, MAX_PROPERTY_VALUES) if content else {}
    entries = tuple(
        (name, type_name(value), str(value)[:LIMIT])
        for name, value in list(values.items())[:_ENTRIES]
    )
    note = f"The first {_ENTRIES} of {len(values)} entries." if len(values) > _ENTRIES else ""
    return Body(
        kind, len(content), entries=entries, note=note or ("" if entries else "It is empty.")
    )


def _opaque(kind: str, content: bytes, _: ActiveMQMessage) -> Body:
    return Body(
        kind,
        len(content),
        _hex(content[:LIMIT]),
        note=f"It is shown as bytes: nothing is deserialised here. {_limit_note(len(content))}",
    )


def _blob(kind: str, content: bytes, message: ActiveMQMessage) -> Body:
    assert isinstance(message, ActiveMQBlobMessage)
    entries = (
        ("URL", "string", message.remote_blob_url or ""),
        ("MIME type", "string", message.mime_type or ""),
    )
    return Body(
        kind, len(content), entries=entries, note="The content is stored outside of the broker."
    )


_Read = Callable[[str, bytes, ActiveMQMessage], Body]
_KINDS: Final[dict[type[ActiveMQMessage], tuple[str, _Read]]] = {
    ActiveMQTextMessage: ("TextMessage", _text),
    ActiveMQBytesMessage: ("BytesMessage", _bytes),
    ActiveMQMapMessage: ("MapMessage", _map),
    ActiveMQStreamMessage: ("StreamMessage", _opaque),
    ActiveMQObjectMessage: ("ObjectMessage", _opaque),
    ActiveMQBlobMessage: ("BlobMessage", _blob),
}


_TYPES: Final = {"str": "string", "bool": "boolean", "float": "double", "bytes": "bytes"}


def type_name(value: object) -> str:
    """Return the JMS name of the type of a property or map entry."""
    name = type(value).__name__
    return _TYPES.get(name, name.lower())


@dataclass(frozen=True, slots=True)
class MessageRow:
    """A message in a table."""

    message_id: str
    kind: str
    correlation_id: str
    persistent: bool
    priority: int
    redeliveries: int
    reply_to: str
    sent: str
    """JMSTimestamp as UTC time."""
    type: str
    group: str
    size: int
    preview: str
    in_flight: bool
    original_destination: str
    cause: str
    """The reason why it is a dead letter; empty if it is not one, or unknown."""


class Event(NamedTuple):
    """An event in the history of a message."""

    what: str
    when: str
    """Time in UTC; empty: unknown."""
    details: str


@dataclass(frozen=True, slots=True)
class WholeMessage:
    """A message with all data of its page."""

    row: MessageRow
    headers: tuple[tuple[str, str], ...]
    properties: tuple[tuple[str, str, str], ...]
    """Name, type and value."""
    properties_note: str
    body: Body
    journey: tuple[Event, ...]


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
    if not isinstance(found, Queue):
        raise InvalidDestinationException(
            f"There is no queue {name[:200]!r}",
            hint="it may have been deleted; create it on the page queues",
        )
    return found


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


def _messages_text(value: object) -> str:
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
        _messages_text(message.correlation_id),
        message.persistent,
        message.priority,
        reference.redelivery_counter,
        _messages_text(message.reply_to),
        time_text(message.timestamp),
        _messages_text(message.type),
        _messages_text(message.group_id),
        body.size,
        preview if body.kind == "TextMessage" else "",
        reference.owner is not None,
        _messages_text(original_destination(reference)),
        _messages_text(properties.get(FAILURE_CAUSE)),
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
        Event(
            "Sent",
            time_text(message.timestamp),
            f"by producer {_messages_text(message.producer_id)}",
        )
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
        events.append(Event("With a consumer now", "", f"dispatched to {_messages_text(consumer)}"))
    return events


def _name(destination: Destination | None) -> str:
    return "" if destination is None else str(destination)


@dataclass(frozen=True, slots=True)
class JobRow:
    """A scheduled message; times in UTC, `delay` and `period` in milliseconds."""

    job_id: str
    destination: str
    cron: str
    next_time: str
    start: str
    delay: int
    period: int
    repeat: str
    executed: int


def _scheduler(context: ManagementContext) -> JobScheduler | None:
    store = context.host.job_store
    return None if store is None else store.scheduler()


def job_page(context: ManagementContext, number: int, size: int) -> Page[JobRow] | None:
    """Return a page of scheduled messages, ordered by time; None if there is no scheduler."""
    scheduler = _scheduler(context)
    if scheduler is None:
        return None
    page = page_of_iterable(scheduler.jobs(), number, size)
    rows = [_row(scheduler, job) for job in page.items]
    return Page(rows, page.number, page.first, page.has_next, len(scheduler))


def _row(scheduler: JobScheduler, job: ScheduledJob) -> JobRow:
    try:
        message = scheduler.message(job.job_id)
        destination = "" if message is None else str(message.destination)
    except JMSException as error:
        destination = f"(cannot be read: {type(error).__name__})"
    return JobRow(
        job.job_id,
        destination,
        job.cron_entry,
        time_text(job.next_time),
        time_text(job.start_time),
        job.delay,
        job.period,
        "for ever" if job.repeat < 0 else str(job.repeat),
        job.execution_count,
    )


async def remove_job(context: ManagementContext, job_id: str) -> bool:
    """Remove a scheduled message durably; return whether there was one.

    Raises:
        IllegalStateException: the broker has no scheduler.
    """
    scheduler = _scheduler(context)
    if scheduler is None:
        raise IllegalStateException(
            "This broker has no scheduler", hint="set scheduler_support: true in broker.yaml"
        )
    if scheduler.get(job_id) is None:
        return False
    await wait_for(scheduler.remove(job_id, sync=True))
    return True
