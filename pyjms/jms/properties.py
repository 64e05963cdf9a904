"""A message's properties, as a mapping with JMS's typed getters and setters.

The mapping is a view. Names such as JMSXGroupID and JMSPriority refer to headers, for reading and,
if JMS has a setter, for writing. Iteration yields the names that JMS lists: the application's
properties and the JMSX names that are set. As in ActiveMQ, any name except None and "" is accepted.
(jms-api 6; openwire-encoding 18)
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, MutableMapping
from typing import TYPE_CHECKING, Final

from pyjms.enums import DeliveryMode
from pyjms.errors import MessageFormatException, MessageNotWriteableException
from pyjms.jms.conversions import NULLS, PROPERTY_READS, convert, normalize_named
from pyjms.jms.destination import Destination, parse_destination
from pyjms.jms.typed_access import TypedGetters, TypedSetters

if TYPE_CHECKING:
    from pyjms.jms.message import Message

DUPLICATE_ID_PROPERTY: Final = "_AMQ_DUPL_ID"
"""Artemis' property by which a sender identifies repetitions of one message."""

FAILURE_CAUSE: Final = "dlqDeliveryFailureCause"
"""ActiveMQ's property of a dead letter with the reason, which includes the redelivery policy."""
FAILURE_TYPE: Final = "pyjms_failure_type"
"""This broker's property of a dead letter with the class of the reason, usable in selectors."""
FAILURE_TEXT: Final = "pyjms_failure_text"
"""This broker's property of a dead letter with only the text of the reason."""
ORIGINAL_EXPIRATION: Final = "originalExpiration"
"""ActiveMQ's property of a dead letter with the original expiration of the message."""


class MessageProperties(TypedGetters, TypedSetters, MutableMapping[str, object]):
    """The properties of one message.

    `properties[name]` raises KeyError if a property is missing. The typed getters follow JMS: for
    a missing number, those of integers raise ValueError, the others TypeError. Received properties
    are read-only until `message.clear_properties()`.
    """

    __slots__ = ("_message",)

    def __init__(self, message: Message) -> None:
        self._message = message

    def __getitem__(self, name: str) -> object:
        value = self._find(name)
        if value is None and name not in self._message.property_values():
            raise KeyError(name)
        return value

    def __setitem__(self, name: str, value: object) -> None:
        """Set a property to a bool, int, float, str, None, one of `pyjms.jms.types`, list or dict.

        Raises:
            MessageFormatException: JMS has no type for the value, or the name is not a str.
            MessageNotWriteableException: the properties are read-only.
            ValueError: the name is None or empty.
        """
        if not name:
            raise ValueError("A property name cannot be None or empty")
        self._check_writable()
        value = normalize_named("a property", name, value, binary=False)
        header = _HEADER_SETTERS.get(name)
        if header is None:
            self._message.property_values()[name] = value
        else:
            header(self._message, name, value)

    def __delitem__(self, name: str) -> None:
        self._check_writable()
        del self._message.property_values()[name]

    def __iter__(self) -> Iterator[str]:
        values = self._message.property_values()
        yield from values
        for name, is_set in _LISTED.items():
            if name not in values and is_set(self._message):
                yield name

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def __contains__(self, name: object) -> bool:
        """Return whether the property exists, even with the value None. JMS: propertyExists."""
        if name in self._message.property_values():
            return True
        return isinstance(name, str) and self._find(name) is not None

    def __repr__(self) -> str:
        return f"MessageProperties({sorted(self)})"

    def clear(self) -> None:
        """Remove the application's properties; names that refer to headers are kept.

        Raises:
            MessageNotWriteableException: the properties are read-only;
                `message.clear_properties()` always works.
        """
        self._check_writable()
        self._message.property_values().clear()

    def get_object(self, name: str) -> object:
        """Return the value with the type it was set with; None if it is missing."""
        return self._find(name)

    def _find(self, name: str) -> object:
        header = _HEADERS.get(name)
        if header is None:
            return self._message.property_values().get(name)
        return header(self._message)

    def _convert(self, name: str, target: str) -> object:
        try:
            return convert(self._find(name), target, PROPERTY_READS, NULLS)
        except (MessageFormatException, ValueError, TypeError) as error:
            raise _about(error, name) from None

    def _check_writable(self) -> None:
        if self._message.read_only_properties:
            raise MessageNotWriteableException(
                "The message properties are read-only", hint="call clear_properties() first"
            )


def _about(error: Exception, name: str) -> Exception:
    if isinstance(error, MessageFormatException):
        return MessageFormatException(f"Property {name!r}: {error.reason}", hint=error.hint)
    return type(error)(f"Property {name!r}: {error}")


def _text(value: object) -> str | None:
    return None if value is None else str(value)


def _provider(name: str) -> Callable[[Message], object]:
    def read(message: Message) -> object:
        source = message.source
        return None if source is None else source.provider_property(name)

    return read


_HEADERS: Final[dict[str, Callable[[Message], object]]] = {
    "JMSMessageID": lambda m: m.message_id,
    "JMSDestination": lambda m: _text(m.destination),
    "JMSReplyTo": lambda m: _text(m.reply_to),
    "JMSCorrelationID": lambda m: m.correlation_id,
    "JMSDeliveryMode": lambda m: m.delivery_mode.name,
    "JMSPriority": lambda m: m.priority,
    "JMSTimestamp": lambda m: m.timestamp,
    "JMSExpiration": lambda m: m.expiration,
    "JMSRedelivered": lambda m: m.redelivered,
    "JMSType": lambda m: m.type,
    "JMSXDeliveryCount": lambda m: m.delivery_count,
    "JMSXGroupID": lambda m: m.group_id,
    "JMSXGroupSeq": lambda m: m.group_sequence,
    "JMSXUserID": lambda m: m.user_id or m.property_values().get("JMSXUserID"),
    "JMSXMimeType": lambda m: m.MIME_TYPE,
    **{
        name: _provider(name)
        for name in (
            "JMSXProducerTXID",
            "JMSXGroupFirstForConsumer",
            "JMSActiveMQBrokerInTime",
            "JMSActiveMQBrokerOutTime",
            "JMSActiveMQBrokerPath",
        )
    },
}

_LISTED: Final[dict[str, Callable[[Message], bool]]] = {
    "JMSXGroupID": lambda m: m.group_id is not None,
    "JMSXGroupSeq": lambda m: m.group_id is not None,
    "JMSXUserID": lambda m: m.user_id is not None,
    "JMSXDeliveryCount": lambda m: m.redelivered,
}


def _setter(attribute: str, target: str) -> Callable[[Message, str, object], None]:
    def set_header(message: Message, name: str, value: object) -> None:
        try:
            converted = convert(value, target, PROPERTY_READS, NULLS)
        except (MessageFormatException, ValueError, TypeError) as error:
            raise MessageFormatException(
                f"Property {name} cannot be set from a {type(value).__name__}"
            ) from error
        setattr(message, attribute, converted)

    return set_header


def _set_delivery_mode(message: Message, name: str, value: object) -> None:
    modes: dict[object, DeliveryMode] = {
        **{str(int(mode)): mode for mode in DeliveryMode},
        **{mode.name: mode for mode in DeliveryMode},
    }
    mode = modes.get(str(value).upper())
    if mode is None:
        raise MessageFormatException(f"Property {name} cannot be set to {value!r}")
    message.delivery_mode = mode


def _set_reply_to(message: Message, name: str, value: object) -> None:
    if value is not None and not isinstance(value, str):
        raise MessageFormatException(f"Property {name} cannot be set from a {type(value).__name__}")
    reply_to: Destination | None = None if value is None else parse_destination(value)
    message.reply_to = reply_to


_HEADER_SETTERS: Final[dict[str, Callable[[Message, str, object], None]]] = {
    "JMSCorrelationID": _setter("correlation_id", "String"),
    "JMSDeliveryMode": _set_delivery_mode,
    "JMSExpiration": _setter("expiration", "long"),
    "JMSPriority": _setter("priority", "int"),
    "JMSRedelivered": _setter("redelivered", "boolean"),
    "JMSReplyTo": _set_reply_to,
    "JMSTimestamp": _setter("timestamp", "long"),
    "JMSType": _setter("type", "String"),
    "JMSXDeliveryCount": _setter("delivery_count", "int"),
    "JMSXGroupID": _setter("group_id", "String"),
    "JMSXGroupSeq": _setter("group_sequence", "int"),
}
