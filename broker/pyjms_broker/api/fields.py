"""Limits of what clients set: what each version of OpenWire and each store can carry.

All protocols lead to the region broker, which checks connections, consumers, names and messages
here. ActiveMQ's tight encoding, which Java clients use by default, has strings of at most 32,766
bytes of modified UTF-8. Names are shorter, because prefixes are added to them, as in the names of
advisory topics; and they are written in UTF-8, which has no unpaired surrogates. A Java string may
have such ones, so the texts of messages may, too: other protocols replace them.
"""

from __future__ import annotations

from operator import attrgetter
from typing import Final

from pyjms.errors import (
    InvalidClientIDException,
    InvalidDestinationException,
    InvalidSelectorException,
    JMSException,
    MessageFormatException,
)
from pyjms.jms.destination import Destination
from pyjms.jms.mutf8 import encode_mutf8
from pyjms.wire.limits import MAX_TIGHT_STRING_SIZE
from pyjms.wire.openwire.commands import ActiveMQMessage, ConnectionInfo, ConsumerInfo, message_size

MAX_TEXT: Final = MAX_TIGHT_STRING_SIZE
"""The maximum size of a text, in bytes of modified UTF-8."""
MAX_NAME: Final = 32_000
"""The same for names."""
UNLIMITED: Final = 1 << 62
"""The size of the largest message of a connection without frames."""
_MARGIN: Final = 2048
_MARGIN_SHARE: Final = 8
_LONGEST_CHARACTER: Final = 6
"""Bytes of modified UTF-8 for a character above U+FFFF."""


def largest_message(max_frame_size: int | None) -> int:
    """Return the size of the largest message that a connection's frames can carry back.

    A dispatch is longer than the frame that the sender of its message has sent: it has the
    consumer's id, the destination once more, and what the broker adds, such as the user.
    """
    if max_frame_size is None:
        return UNLIMITED
    return max_frame_size - min(_MARGIN, max_frame_size // _MARGIN_SHARE)


def can_be_written(text: str) -> bool:
    """Whether a text can be encoded as UTF-8; Java strings may contain unpaired surrogates."""
    if text.isascii():
        return True
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def writable(text: str) -> str:
    """Return the text with backslash escapes for characters that UTF-8 cannot encode."""
    return text if text.isascii() else text.encode("utf-8", "backslashreplace").decode()


def excess(text: str | None, limit: int = MAX_TEXT) -> str | None:
    """Return what is wrong with the length of a text; None: nothing."""
    if text is None or len(text) * _LONGEST_CHARACTER <= limit:
        return None
    size = len(encode_mutf8(text))
    return None if size <= limit else f"has {size} bytes, more than {limit}"


def name_fault(name: str | None) -> str | None:
    """Return what is wrong with a name; None: nothing."""
    if name is not None and not can_be_written(name):
        return "contains half of a surrogate pair, which UTF-8 cannot express"
    return excess(name, MAX_NAME)


def readable_properties(message: ActiveMQMessage) -> dict[str, object]:
    """Return the properties of a message; {} if they cannot be decoded."""
    try:
        return message.properties
    except JMSException:
        return {}


def check_destination(destination: Destination | None) -> None:
    """Check the name of a destination, a pattern or a composite.

    Raises:
        InvalidDestinationException: it is too long, or no valid Unicode.
    """
    fault = None if destination is None else name_fault(destination.physical_name)
    if fault is not None:
        raise InvalidDestinationException(
            f"The name of {str(destination)[:100]!r} {fault}", hint="use another name"
        )


def check_connection(info: ConnectionInfo) -> None:
    """Check the names of a connection.

    Raises:
        InvalidClientIDException: one is too long, or no valid Unicode.
    """
    connection_id = None if info.connection_id is None else info.connection_id.value
    for what, fault in (
        ("connection id", name_fault(connection_id)),
        ("client id", name_fault(info.client_id)),
        ("user name", excess(info.user_name, MAX_NAME)),  # no store writes it
    ):
        if fault is not None:
            raise InvalidClientIDException(f"The {what} {fault}", hint="use another one")


def check_consumer(info: ConsumerInfo) -> None:
    """Check the destination, the selector and the names of a consumer.

    Raises:
        InvalidDestinationException, InvalidSelectorException, JMSException: one is too long, or no
            valid Unicode.
    """
    check_destination(info.destination)
    selector = info.selector
    fault = excess(selector)
    if selector is not None and not can_be_written(selector):
        fault = "contains half of a surrogate pair, which UTF-8 cannot express"
    if fault is not None:
        raise InvalidSelectorException(f"The selector {fault}")
    connection_id = None if info.consumer_id is None else info.consumer_id.connection_id
    for what, name in (
        ("consumer id", connection_id),
        ("client id", info.client_id),
        ("subscription name", info.subscription_name),
    ):
        fault = name_fault(name)
        if fault is not None:
            raise JMSException(f"The {what} {fault}", hint="use another one")


_TEXTS: Final = (
    ("JMSType", attrgetter("type")),
    ("JMSCorrelationID", attrgetter("correlation_id")),
    ("JMSXGroupID", attrgetter("group_id")),
    ("JMSXUserID", attrgetter("user_id")),
    ("JMSMessageID", attrgetter("message_id.text_view")),
)
_DESTINATIONS: Final = (
    ("JMSDestination", attrgetter("destination")),
    ("JMSReplyTo", attrgetter("reply_to")),
    ("original destination", attrgetter("original_destination")),
)
_ALL_TEXTS: Final = attrgetter(
    "type", "correlation_id", "group_id", "user_id", "message_id.text_view"
)
_NO_TEXTS: Final = (None,) * len(_TEXTS)
"""What `_ALL_TEXTS` returns for most messages of other protocols."""
_SHORT_TEXT: Final = MAX_TEXT // _LONGEST_CHARACTER
"""Characters of a text that is short enough in any encoding."""
_LATEST: Final = 1 << 63
_NUMBERS: Final = (
    ("JMSPriority", attrgetter("priority"), 8),
    ("JMSXGroupSeq", attrgetter("group_sequence"), 32),
    ("redelivery counter", attrgetter("redelivery_counter"), 32),
    ("JMSExpiration", attrgetter("expiration"), 64),
    ("JMSTimestamp", attrgetter("timestamp"), 64),
)


def needs_no_check(message: ActiveMQMessage, largest: int) -> bool:
    """Return whether a message to a known destination has nothing that `check_message` refuses."""
    return (
        len(message.content or b"") + len(message.marshalled_properties or b"") <= largest
        and (
            (texts := _ALL_TEXTS(message)) == _NO_TEXTS
            or max(map(len, filter(None, texts)), default=0) <= _SHORT_TEXT
        )
        and message.reply_to is None
        and message.original_destination is None
        and 0 <= message.timestamp < _LATEST
        and 0 <= message.expiration < _LATEST
        and message.redelivery_counter == message.group_sequence == 0
    )


def check_message(message: ActiveMQMessage, largest: int) -> None:
    """Check the size and the headers of a message; properties and body are marshalled already.

    Raises:
        MessageFormatException: it is larger than `largest`, a text is too long, or a number does
            not fit its field.
    """
    size = message_size(message) if message.raw is None else len(message.raw)
    if size > largest:
        raise MessageFormatException(
            f"The message has {size} bytes, more than {largest}",
            hint="raise wireFormat.maxFrameSize of the connector and of the clients",
        )
    texts = _ALL_TEXTS(message)
    if texts != _NO_TEXTS and max(map(len, filter(None, texts)), default=0) > _SHORT_TEXT:
        for name, text in _TEXTS:
            fault = excess(text(message))
            if fault is not None:
                raise MessageFormatException(f"{name} {fault}")
    for name, destination in _DESTINATIONS:
        found: Destination | None = destination(message)
        if found is None or len(found.physical_name) * _LONGEST_CHARACTER <= MAX_TEXT:
            continue
        fault = excess(found.physical_name)
        if fault is not None:
            raise MessageFormatException(f"The name of the {name} {fault}")
    for name, number, bits in _NUMBERS:
        value: int = number(message)
        if not -1 << (bits - 1) <= value < 1 << (bits - 1):
            raise MessageFormatException(f"{name} {value} does not fit into {bits} bits")
