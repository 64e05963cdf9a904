"""Messages of queues: pages of messages, and a single message with its body, details and history.

Bodies are untrusted input: only text, numbers and bytes are deserialized, and at most `LIMIT`
characters or bytes are shown.
"""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final, NamedTuple

from pyjms.errors import IllegalStateException, InvalidDestinationException, JMSException
from pyjms.jms.failure_reason import FAILURE_CAUSE
from pyjms.runtime.slices import Slices
from pyjms.selector import selector_or_none
from pyjms.wire.limits import MAX_PROPERTY_VALUES
from pyjms.wire.openwire import commands
from pyjms.wire.openwire.primitives import decode_map, decode_text, encode_text
from pyjms_broker.api.completion import wait_for
from pyjms_broker.api.destination import BrokerDestination
from pyjms_broker.api.message import MessageReference
from pyjms_broker.console.model.destinations import Page, find_destination, page_of_iterable
from pyjms_broker.management.dead_letters import reason_of_reference
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


def read_body(message: commands.ActiveMQMessage) -> Body:
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


def _text(kind: str, content: bytes, _: commands.ActiveMQMessage) -> Body:
    text = decode_text(content) if content else None
    if not text:
        return Body(kind, len(content), note="It has no body." if text is None else "It is empty.")
    return Body(kind, len(content), text[:LIMIT], note=_limit_note(len(text)))


def _bytes(kind: str, content: bytes, _: commands.ActiveMQMessage) -> Body:
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


def _map(kind: str, content: bytes, _: commands.ActiveMQMessage) -> Body:
    values = decode_map(content, MAX_PROPERTY_VALUES) if content else {}
    entries = tuple(
        (name, type_name(value), str(value)[:LIMIT])
        for name, value in list(values.items())[:_ENTRIES]
    )
    note = f"The first {_ENTRIES} of {len(values)} entries." if len(values) > _ENTRIES else ""
    return Body(
        kind, len(content), entries=entries, note=note or ("" if entries else "It is empty.")
    )


def _opaque(kind: str, content: bytes, _: commands.ActiveMQMessage) -> Body:
    return Body(
        kind,
        len(content),
        _hex(content[:LIMIT]),
        note=f"It is shown as bytes: nothing is deserialised here. {_limit_note(len(content))}",
    )


def _blob(kind: str, content: bytes, message: commands.ActiveMQMessage) -> Body:
    assert isinstance(message, commands.ActiveMQBlobMessage)
    entries = (
        ("URL", "string", message.remote_blob_url or ""),
        ("MIME type", "string", message.mime_type or ""),
    )
    return Body(
        kind, len(content), entries=entries, note="The content is stored outside of the broker."
    )


_Read = Callable[[str, bytes, commands.ActiveMQMessage], Body]
_KINDS: Final[dict[type[commands.ActiveMQMessage], tuple[str, _Read]]] = {
    commands.ActiveMQTextMessage: ("TextMessage", _text),
    commands.ActiveMQBytesMessage: ("BytesMessage", _bytes),
    commands.ActiveMQMapMessage: ("MapMessage", _map),
    commands.ActiveMQStreamMessage: ("StreamMessage", _opaque),
    commands.ActiveMQObjectMessage: ("ObjectMessage", _opaque),
    commands.ActiveMQBlobMessage: ("BlobMessage", _blob),
}


_TYPES: Final = {"str": "string", "bool": "boolean", "float": "double", "bytes": "bytes"}


def json_of(reference: MessageReference) -> str | None:
    """Return the body indented, if it is JSON in at most `LIMIT` bytes of text; else None."""
    message = reference.message
    if not isinstance(message, commands.ActiveMQTextMessage | commands.ActiveMQBytesMessage):
        return None
    try:
        content = content_of(message)
        if len(content) > LIMIT:
            return None
        if isinstance(message, commands.ActiveMQTextMessage):
            return indent_json((decode_text(content) if content else None) or "")
        return indent_json(content.decode())
    except (JMSException, ValueError):
        return None


def type_name(value: object) -> str:
    """Return the JMS name of the type of a property or map entry."""
    name = type(value).__name__
    return _TYPES.get(name, name.lower())


class Event(NamedTuple):
    """An event in the history of a message."""

    what: str
    when: str
    """Time in UTC; empty: unknown."""
    details: str


class MessageRow:
    """A message in a table, or on its own page; `sent` is JMSTimestamp in UTC."""

    def __init__(self, reference: MessageReference) -> None:
        self.reference = reference
        message = self._message = reference.message
        self.message_id = str(reference.message_id)
        self.body = read_body(message)
        try:
            self.properties: dict[str, object] = dict(reference.properties)
            self.properties_note = ""
        except JMSException as error:
            self.properties = {}
            self.properties_note = f"They cannot be read: {type(error).__name__}."
        text = " ".join((self.body.text or "")[: 4 * _PREVIEW].split())[:_PREVIEW]
        self.preview = text if self.body.kind == "TextMessage" else ""
        self.correlation_id = _optional(message.correlation_id)
        self.persistent = message.persistent
        self.priority = message.priority
        self.redeliveries = reference.redelivery_counter
        self.reply_to = _optional(message.reply_to)
        self.sent = time_text(message.timestamp)
        self.type = _optional(message.type)
        self.group = _optional(message.group_id)
        self.in_flight = reference.owner is not None
        self.original_destination = _optional(original_destination(reference))
        self.cause = _optional(self.properties.get(FAILURE_CAUSE))
        """The whole text of why it is a dead letter; empty if it is not one, or unknown."""
        self.reason = reason_of_reference(reference)
        """The same in a line; only for dead letters."""

    def property_entries(self) -> list[tuple[str, str, str]]:
        """Return name, type and value of its properties."""
        return [(name, type_name(value), str(value)) for name, value in self.properties.items()]

    def headers(self) -> list[tuple[str, str]]:
        """Return its headers, except for those that are not set."""
        message, reference = self._message, self.reference
        expiration = time_text(message.expiration) + " UTC" if message.expiration else "never"
        headers: list[tuple[str, object]] = [
            ("JMSMessageID", reference.message_id),
            ("JMSDestination", message.destination),
            ("JMSTimestamp", f"{self.sent} UTC" if message.timestamp else ""),
            ("JMSDeliveryMode", "PERSISTENT" if message.persistent else "NON_PERSISTENT"),
            ("JMSPriority", message.priority),
            ("JMSExpiration", expiration),
            ("JMSCorrelationID", message.correlation_id),
            ("JMSReplyTo", message.reply_to),
            ("JMSType", message.type),
            ("JMSRedelivered", self.redeliveries > 0),
            ("JMSXDeliveryCount", self.redeliveries + 1),
            ("JMSXGroupID", message.group_id),
            ("JMSXGroupSeq", message.group_sequence if message.group_id else None),
            ("JMSXUserID", message.user_id),
            ("Original destination", original_destination(reference)),
            ("Size in memory", f"{reference.size} bytes"),
            ("Compressed", message.compressed or None),
        ]
        return [(name, str(value)) for name, value in headers if value is not None]

    def journey(self) -> list[Event]:
        """Return what happened to it, the first first."""
        message = self._message
        events = [Event("Sent", self.sent, f"by producer {_optional(message.producer_id)}")]
        if message.group_id:
            where = f"number {message.group_sequence} of group {message.group_id}"
            events.append(Event("Grouped", "", where))
        events += [
            Event("Forwarded", "", f"by broker {each}") for each in message.broker_path or ()
        ]
        if self.original_destination:
            is_dead = self.properties.get(FAILURE_CAUSE) is not None
            what, why = (
                ("Dead-lettered", f": {self.reason}; {self.cause}") if is_dead else ("Moved", "")
            )
            events.append(Event(what, "", f"from {self.original_destination}{why}"))
        if message.broker_in_time:
            time = time_text(message.broker_in_time)
            events.append(Event("Arrived", time, f"in {_optional(message.destination)}"))
        if message.broker_out_time:
            events.append(Event("First dispatched", time_text(message.broker_out_time), ""))
        if self.redeliveries:
            times = f"{self.redeliveries} time{'' if self.redeliveries == 1 else 's'}"
            events.append(Event("Redelivered", "", times))
        if self.reference.owner is not None:
            consumer = _optional(self.reference.owner.consumer_id)
            events.append(Event("With a consumer now", "", f"dispatched to {consumer}"))
        return events


def _optional(value: object) -> str:
    return "" if value is None else str(value)


_PREVIEW: Final = 80
MOST_EXAMINED: Final = 20_000
"""The maximum number of messages examined for a page; later ones need a selector."""
_MOST_SEARCHED: Final = 64 * 1024 * 1024
"""The maximum number of bytes of bodies that are searched for a page."""
_LARGEST: Final = 1024 * 1024
"""Bytes at the beginning of each body that are searched; larger compressed ones are not."""


def queue_named(context: ManagementContext, name: str) -> Queue:
    """Return a queue, or raise InvalidDestinationException."""
    found = find_destination(context, "queue", name)
    if not isinstance(found, Queue):
        raise InvalidDestinationException(
            f"There is no queue {name[:200]!r}",
            hint="it may have been deleted; create it on the page queues",
        )
    return found


class Scan:
    """Messages that a selector matches and whose bodies have a text, among the first of queues.

    At most `MOST_EXAMINED` messages are examined, and 64 MiB of bodies are searched: as bytes, so
    that names and values of maps are found too, and without regard to the case of ASCII letters.

    Args:
        selector: the selector; None or blank: all messages.
        body: the text; empty: all messages.

    Raises:
        InvalidSelectorException: the selector is not valid.
    """

    def __init__(self, context: ManagementContext, selector: str | None, body: str = "") -> None:
        self._selector = selector_or_none(selector, context.region.selector_limits)
        self._wanted = encode_text(body)[4:].lower()
        self._searched = 0
        self.examined = 0
        """The number of messages read so far."""

    @property
    def complete(self) -> bool:
        """Whether all messages were examined."""
        return self.examined <= MOST_EXAMINED and self._searched <= _MOST_SEARCHED

    async def of(self, queue: BrokerDestination) -> AsyncIterator[MessageReference]:
        """Iterate over the matching messages of one queue, letting other tasks run in between."""
        slices = Slices()
        for reference in queue.messages():
            self.examined += 1
            if not self.complete:
                return
            if (self._selector is None or is_selected(self._selector, reference)) and (
                not self._wanted or self.has_text(reference)
            ):
                yield reference
            await slices.after_item()

    def has_text(self, reference: MessageReference) -> bool:
        """Return whether the body has the text; False if it cannot be read."""
        message = reference.message
        content = (message.content or b"")[:_LARGEST]
        if self._searched > _MOST_SEARCHED:
            return False
        if message.compressed:
            try:
                content = content_of(message) if len(content) < _LARGEST else b""
            except JMSException:
                return False
        self._searched += len(content)
        return self._wanted in bytes(content).lower()


async def browse_page(queue: Queue, scan: Scan, number: int, size: int) -> Page[MessageRow]:
    """Return a page of a queue's messages in order. Cancellable."""
    number = max(1, number)
    start = (number - 1) * size
    rows: list[MessageRow] = []
    seen = 0
    has_next = False
    async for reference in scan.of(queue):
        seen += 1
        if seen > start + size:
            has_next = True
            break
        if seen > start:
            rows.append(MessageRow(reference))
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


def find_message(queue: Queue, message_id: str) -> MessageRow | None:
    """Return a message with its body; None if the queue does not have it."""
    reference = find(queue, message_id)
    return (
        None if reference is None else MessageRow(queue.contents.in_memory(reference) or reference)
    )


def _scheduler(context: ManagementContext) -> JobScheduler | None:
    store = context.host.job_store
    return None if store is None else store.scheduler()


def job_page(
    context: ManagementContext, number: int, size: int
) -> Page[tuple[ScheduledJob, str]] | None:
    """Return a page of jobs and their destinations by time; None if there is no scheduler."""
    scheduler = _scheduler(context)
    if scheduler is None:
        return None
    page = page_of_iterable(scheduler.jobs(), number, size)
    rows = [(job, _target_of(scheduler, job)) for job in page.items]
    return Page(rows, page.number, page.first, page.has_next, len(scheduler))


def _target_of(scheduler: JobScheduler, job: ScheduledJob) -> str:
    try:
        message = scheduler.message(job.job_id)
    except JMSException as error:
        return f"(cannot be read: {type(error).__name__})"
    return "" if message is None else str(message.destination)


async def remove_job(context: ManagementContext, job_id: str) -> bool:
    """Remove a scheduled message durably; return whether there was one."""
    scheduler = _scheduler(context)
    if scheduler is None:
        raise IllegalStateException(
            "This broker has no scheduler", hint="set scheduler_support: true in broker.yaml"
        )
    if scheduler.get(job_id) is None:
        return False
    await wait_for(scheduler.remove(job_id, sync=True))
    return True


# --- JSON bodies, indented for reading, with every other character as it was sent: nothing is
# decoded and written again.

_WORD: Final = re.compile(r'"(?:[^"\\]|\\.)*"|[{}\[\],:]|[^\s"{}\[\],:]+')
_MOST_INDENTED: Final = 256 * 1024
"""The maximum number of characters of an indented text; deep nesting makes long ones of short."""


def indent_json(text: str) -> str | None:
    """Return a JSON object or array indented; None if it is neither, or would become too long."""
    if not text.lstrip(" \t\r\n").startswith(("{", "[")):
        return None
    try:
        json.loads(text, parse_int=str, parse_float=str)
    except (ValueError, RecursionError):
        return None
    pieces: list[str] = []
    depth = length = 0
    previous = ""
    for match in _WORD.finditer(text):
        word = match[0]
        is_end = word in ("}", "]")
        depth -= is_end
        if previous and ((is_end and previous not in "{[") or (not is_end and previous in "{[,")):
            pieces.append("\n" + "  " * depth)
            length += 2 * depth
        pieces.append(": " if word == ":" else word)
        depth += word in ("{", "[")
        previous = word
        length += len(word) + 1
        if length > _MOST_INDENTED:
            return None
    return "".join(pieces)
