"""Messages in management requests: browsing, sending, moving, copying and removal.

A moved message is sent through the whole filter chain, with its original destination set and the
redelivery counter 0, and is removed from its queue's store only after the copy is stored. Messages
that are dispatched to a consumer stay. (ActiveMQ BrokerSupport.resend,
Queue.moveMatchingMessagesTo)
Duplicate detection does not drop a copy even if the target had the message before: the copy has a
new id, which only keeps the text of the old one, and no duplicate id.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from itertools import islice
from typing import Final

from pyjms.errors import (
    IllegalStateException,
    InvalidDestinationException,
    JMSException,
    MessageFormatException,
)
from pyjms.jms.destination import Destination, parse_destination
from pyjms.runtime import clock as _clock
from pyjms.runtime.slices import Slices
from pyjms.selector import Selector, SelectorLimitException, selector_or_none
from pyjms.wire.limits import MAX_PROPERTY_VALUES, inflate, inflate_sized
from pyjms.wire.openwire.commands import (
    ActiveMQBytesMessage,
    ActiveMQMapMessage,
    ActiveMQMessage,
    ActiveMQTextMessage,
    MessageId,
)
from pyjms.wire.openwire.primitives import decode_map, decode_text, encode_map, encode_text
from pyjms_broker.api.completion import COMPLETED, Completion, all_of, wait_for
from pyjms_broker.api.destination import BrokerDestination
from pyjms_broker.api.message import MessageReference, copy_for_destination, remove_duplicate_id
from pyjms_broker.api.names import is_internal
from pyjms_broker.management.host import ManagementContext
from pyjms_broker.policy.entry import PolicyEntry
from pyjms_broker.region.queue import Queue
from pyjms_broker.region.topic import Topic

ORIGINAL_DESTINATION: Final = "pyjms_original_destination"
"""The property that `pyjms.support.retry` sets."""
_PREVIEW: Final = 255
"""The maximum number of bytes of a body in results. Source: ActiveMQ OpenTypeSupport."""
_DEFAULT_PAGE: Final = 400


def select(
    destination: BrokerDestination, selector: str | None, tree: ManagementContext
) -> Iterator[MessageReference]:
    """Iterate over the messages of a queue that a selector matches; None or blank: all."""
    compiled = selector_or_none(selector, tree.region.selector_limits)
    for reference in destination.messages():
        if compiled is None or is_selected(compiled, reference):
            yield reference


def is_selected(selector: Selector, reference: MessageReference) -> bool:
    """Return whether a selector matches a message; False if properties cannot be decoded."""
    try:
        return selector.matches(reference.lookup)
    except SelectorLimitException:
        raise
    except JMSException:  # its properties cannot be decoded, as for consumers (activemq-broker Q11)
        return False


def browse(
    destination: BrokerDestination, tree: ManagementContext, selector: str | None = None
) -> list[dict[str, object]]:
    """Return the first matching messages, at most the policy's `max_browse_page_size`."""
    limit = browse_limit(tree.region.policy_map.entry_for(destination.destination))
    return [as_item(each) for each in islice(select(destination, selector, tree), limit)]


def browse_limit(policy: PolicyEntry) -> int:
    """Return the maximum number of messages that a browse operation returns."""
    return policy.max_browse_page_size or _DEFAULT_PAGE


def as_item(reference: MessageReference) -> dict[str, object]:
    """Return a message as an item of ActiveMQ's browse operations."""
    message = reference.message
    item = {name: read(reference) for name, read in _FIELDS.items()}
    item.update(_properties(reference))
    for kind, read_body in _BODIES.items():
        if isinstance(message, kind):
            try:
                item.update(read_body(content_of(message)))
            except JMSException as error:
                item["Text"] = f"The body cannot be read: {type(error).__name__}"
    return item


def content_of(message: ActiveMQMessage) -> bytes:
    """Return the bytes of a message's body, inflated if they are compressed."""
    content = bytes(message.content or b"")
    if not message.compressed or not content:
        return content
    return inflate_sized(content) if isinstance(message, ActiveMQBytesMessage) else inflate(content)


def _bytes_body(content: bytes) -> dict[str, object]:
    return {"BodyLength": len(content), "BodyPreview": list(content[:_PREVIEW])}


def original_destination(reference: MessageReference) -> Destination | None:
    """Return a message's destination before it was dead-lettered or moved; None if unknown.

    A listener that sends its dead letters itself stores it in a property.
    """
    original = reference.message.original_destination
    if original is not None:
        return original
    try:
        written = reference.properties.get(ORIGINAL_DESTINATION)
        original = parse_destination(written) if isinstance(written, str) else None
    except JMSException:  # its properties cannot be decoded, or have no valid destination
        return None
    return None if original is None or is_internal(original) else original


def _map_body(content: bytes) -> dict[str, object]:
    values = decode_map(content, MAX_PROPERTY_VALUES) if content else {}
    return {"ContentMap": {key: str(value) for key, value in values.items()}}


_BODIES: Final[dict[type[ActiveMQMessage], Callable[[bytes], dict[str, object]]]] = {
    ActiveMQTextMessage: lambda content: {"Text": decode_text(content) if content else None},
    ActiveMQBytesMessage: _bytes_body,
    ActiveMQMapMessage: _map_body,
}


def _date(milliseconds: int) -> str:
    try:
        found = datetime.fromtimestamp(milliseconds / 1000, UTC)
    except (ValueError, OverflowError, OSError):  # any long that a client has set
        return f"{milliseconds} ms"
    return found.isoformat(timespec="seconds").replace("+00:00", "Z")


def _optional(value: object) -> str | None:
    return None if value is None else str(value)


def _broker_path(reference: MessageReference) -> str:
    path = reference.message.broker_path  # Java's text of an array, and of none
    return "null" if path is None else str([str(each) for each in path])


_FIELDS: Final[dict[str, Callable[[MessageReference], object]]] = {
    "JMSMessageID": lambda r: str(r.message_id),
    "JMSDestination": lambda r: str(r.message.destination),
    "JMSCorrelationID": lambda r: r.message.correlation_id,
    "JMSReplyTo": lambda r: _optional(r.message.reply_to),
    "JMSType": lambda r: r.message.type,
    "JMSDeliveryMode": lambda r: "PERSISTENT" if r.message.persistent else "NON-PERSISTENT",
    "JMSPriority": lambda r: r.message.priority,
    "JMSRedelivered": lambda r: r.redelivery_counter > 0,
    "JMSTimestamp": lambda r: _date(r.message.timestamp),
    "JMSExpiration": lambda r: r.message.expiration,
    "JMSXGroupID": lambda r: r.message.group_id,
    "JMSXGroupSeq": lambda r: r.message.group_sequence,
    "JMSXUserID": lambda r: r.message.user_id,
    "BrokerPath": _broker_path,
    "OriginalDestination": lambda r: _optional(original_destination(r)),
}


def _properties(reference: MessageReference) -> dict[str, object]:
    try:
        properties = reference.properties
    except JMSException:
        return {"PropertiesText": "{}"}
    by_kind: dict[str, dict[str, object]] = {
        f"{kind}Properties": {}
        for kind in ("String", "Boolean", "Byte", "Short", "Int", "Long", "Float", "Double")
    }
    for name, value in properties.items():
        by_kind[f"{_KINDS.get(type(value).__name__, 'String')}Properties"][name] = value
    text = ", ".join(f"{name}={value}" for name, value in properties.items())
    return {"PropertiesText": f"{{{text}}}", **by_kind}


_KINDS: Final = {
    "bool": "Boolean",
    "Byte": "Byte",
    "Short": "Short",
    "int": "Int",
    "Int": "Int",
    "Long": "Long",
    "Float": "Float",
    "float": "Double",
    "Double": "Double",
}


def text_message(
    destination: Destination,
    body: str | None,
    headers: Mapping[str, object],
    tree: ManagementContext,
) -> ActiveMQTextMessage:
    """Return a new text message; headers without a JMS name become properties.

    Source: ActiveMQ DestinationView.sendTextMessage.
    """
    message = ActiveMQTextMessage(
        destination=destination,
        message_id=tree.next_message_id(),
        persistent=True,
        priority=4,
        timestamp=_clock.time_ms(),
        content=None if body is None else encode_text(body),
    )
    properties: dict[str, object] = {}
    for name, value in headers.items():
        write = _HEADERS.get(name)
        if write is None:
            properties[name] = json.dumps(value) if isinstance(value, dict | list) else value
            continue
        try:
            write(message, value)
        except (ValueError, TypeError) as error:
            raise MessageFormatException(
                f"Header {name} of a message to {destination} cannot be set",
                hint="give a number for numeric headers and text for others",
            ) from error
    if properties:
        message.marshalled_properties = encode_map(properties)
    return message


def _whole(value: object) -> int:
    if isinstance(value, int | str) and not isinstance(value, bool):
        return int(value)
    raise TypeError


def _persistent(message: ActiveMQMessage, value: object) -> None:
    message.persistent = str(value).upper() in ("PERSISTENT", "2")


def _time_to_live(message: ActiveMQMessage, value: object) -> None:
    lifetime = _whole(value)
    message.expiration = message.timestamp + lifetime if lifetime > 0 else 0


def _text(value: object) -> str:
    return "" if value is None else str(value)


def _number_field(field: str) -> Callable[[ActiveMQMessage, object], None]:
    return lambda message, value: setattr(message, field, _whole(value))


def _text_field(field: str) -> Callable[[ActiveMQMessage, object], None]:
    return lambda message, value: setattr(message, field, _text(value))


def _priority(message: ActiveMQMessage, value: object) -> None:
    message.priority = max(0, min(9, _whole(value)))


def _reply_to(message: ActiveMQMessage, value: object) -> None:
    message.reply_to = parse_destination(_text(value)) if value else None


_HEADERS: Final[dict[str, Callable[[ActiveMQMessage, object], None]]] = {
    "JMSPriority": _priority,
    "JMSDeliveryMode": _persistent,
    "JMSExpiration": _number_field("expiration"),
    "timeToLive": _time_to_live,
    "JMSCorrelationID": _text_field("correlation_id"),
    "JMSReplyTo": _reply_to,
    "JMSType": _text_field("type"),
    "JMSXGroupID": _text_field("group_id"),
    "JMSXGroupSeq": _number_field("group_sequence"),
}


UNLIMITED: Final = (1 << 31) - 1
_AT_ONCE: Final = 500
"""The number of messages that are handled before other tasks run."""


def find(queue: Queue, message_id: str) -> MessageReference | None:
    """Return the message with this id; None if there is none."""
    return next((r for r in queue.messages() if str(r.message_id) == message_id), None)


def _is_free(reference: MessageReference) -> bool:
    return reference.owner is None and not reference.acked and not reference.dropped


def _check_target(queue: Queue, target: Destination) -> None:
    if target == queue.destination:
        raise InvalidDestinationException(
            f"Messages of {queue} cannot be moved or copied to the same queue",
            hint="name another destination",
        )


def _send_copy(
    tree: ManagementContext, reference: MessageReference, target: Destination
) -> Completion:
    message = reference.message
    sent = copy_for_destination(message, target, message.destination)
    sent.message_id = tree.next_message_id()
    if not _has(tree, target, reference.message_id):
        sent.message_id.text_view = str(reference.message_id)
    remove_duplicate_id(sent)
    sent.original_transaction_id = message.transaction_id
    sent.transaction_id = None
    sent.redelivery_counter = 0
    sent.raw = None
    return tree.send(sent)


def _has(tree: ManagementContext, target: Destination, message_id: MessageId) -> bool:
    """Return whether the target's store has the id, since stores may compare only its text."""
    known = tree.destinations().get(target)
    store = (
        known.base.store if known is not None and isinstance(known.base, Queue | Topic) else None
    )
    return store is not None and store.get_message(message_id) is not None


def _check_not_leased(queue: Queue) -> None:
    if queue.reader is not None and queue.reader.is_leased:
        raise IllegalStateException(
            f"{queue} is leased to a range reader: nothing can be removed from it",
            hint="stop the reader first",
        )


def move(
    tree: ManagementContext, queue: Queue, reference: MessageReference, target: Destination
) -> Completion | None:
    """Move one message; completed when the copy is stored. None if it is dispatched."""
    _check_target(queue, target)
    _check_not_leased(queue)
    reference = queue.contents.in_memory(reference) or reference
    if not _is_free(reference):
        return None
    stored = reference.dead_letter = _send_copy(tree, reference, target)
    trail = tree.region.trail
    if trail is not None and queue.is_trailed:
        trail.on_event("moved", reference, "to", target.qualified_name)
    queue.remove_message(tree.client, reference)
    queue.forget_duplicate(reference)
    return stored


def copy(
    tree: ManagementContext, queue: Queue, reference: MessageReference, target: Destination
) -> Completion:
    """Send a copy of one message; completed when it is stored."""
    _check_target(queue, target)
    return _send_copy(tree, reference, target)


async def move_matching(
    tree: ManagementContext,
    queue: Queue,
    selector: str | None,
    target_of: Callable[[MessageReference], Destination | None],
    maximum: int = UNLIMITED,
) -> int:
    """Move at most `maximum` matching messages; return their number once they are stored.

    `target_of` returns None for a message that stays. A cancellation takes effect between two
    messages.
    """

    def act(reference: MessageReference) -> Completion | None:
        target = target_of(reference)
        return None if target is None else move(tree, queue, reference, target)

    return await _in_pages(
        queue.messages,
        _matcher(tree, selector, lambda each: _is_free(each) and target_of(each) is not None),
        act,
        maximum,
    )


async def copy_matching(
    tree: ManagementContext, queue: Queue, selector: str | None, target: Destination, maximum: int
) -> int:
    """Copy at most `maximum` matching messages; return their number once they are stored."""
    once = queue.messages()
    return await _in_pages(
        lambda: once,
        _matcher(tree, selector),
        lambda reference: copy(tree, queue, reference, target),
        maximum,
    )


async def remove_matching(
    tree: ManagementContext, queue: Queue, selector: str | None, maximum: int
) -> int:
    """Remove at most `maximum` matching undispatched messages; return their number."""
    _check_not_leased(queue)
    return await _in_pages(
        queue.messages,
        _matcher(tree, selector, _is_free),
        lambda each: COMPLETED if queue.remove_message(tree.client, each) else None,
        maximum,
    )


def _matcher(
    tree: ManagementContext,
    selector: str | None,
    is_candidate: Callable[[MessageReference], bool] = lambda _: True,
) -> Callable[[MessageReference], bool]:
    compiled = selector_or_none(selector, tree.region.selector_limits)
    return lambda reference: (
        is_candidate(reference) and (compiled is None or is_selected(compiled, reference))
    )


async def _in_pages(
    scan: Callable[[], Iterator[MessageReference]],
    is_wanted: Callable[[MessageReference], bool],
    act: Callable[[MessageReference], Completion | None],
    maximum: int,
) -> int:
    """Call `act` for wanted messages, page by page; return the number of its completions.

    Each page is searched from the start of what `scan` returns, because messages are paged in and
    out meanwhile.
    """
    count = 0
    slices = Slices()  # a long queue must not block the event loop
    while count < maximum:
        page: list[MessageReference] = []
        for reference in scan():
            if is_wanted(reference):
                page.append(reference)
                if len(page) == min(_AT_ONCE, maximum - count):
                    break
            await slices.after_item()
        done = [stored for stored in map(act, page) if stored is not None]
        await wait_for(all_of(done))
        if not done:
            break
        count += len(done)
        await _clock.sleep(0)
    return count
