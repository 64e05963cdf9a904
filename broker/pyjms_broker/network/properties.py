"""The options of a duplex bridge in BrokerInfo, as Java properties with ActiveMQ's names.

(activemq-edges NW1)
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import fields
from typing import Any, Final, get_args, get_type_hints

from pyjms.errors import JMSException
from pyjms.jms.destination import Destination, parse_destination
from pyjms_broker.network.attributes import NetworkConnectorAttributes
from pyjms_broker.security.properties_file import parse_properties

__all__ = ["activemq_name", "inbound_properties", "read_properties_of", "written_properties"]

_NOT_SENT: Final = ("network_ttl", "remote_user_name", "remote_password")
"""The first is sent as two parts; the others do not apply to the reverse direction."""
_MOST: Final = 64 << 10
"""The maximum number of characters that a remote broker may send."""
_ESCAPED: Final = re.compile(r"[\\\n\r\t\f]|^ ")
_ESCAPES: Final = {"\n": "\\n", "\r": "\\r", "\t": "\\t", "\f": "\\f"}


def activemq_name(attribute: str) -> str:
    """Return ActiveMQ's name of an attribute, such as consumerTTL for consumer_ttl."""
    first, *rest = attribute.split("_")
    return first + "".join("TTL" if each == "ttl" else each.capitalize() for each in rest)


def written_properties(attributes: NetworkConnectorAttributes) -> str:
    """Return the options for the remote broker."""
    given: dict[str, object] = {
        each.name: getattr(attributes, each.name)
        for each in fields(attributes)
        if each.name not in _NOT_SENT
    }
    given |= {"message_ttl": attributes.messages_hops, "consumer_ttl": attributes.consumers_hops}
    return "".join(
        f"{activemq_name(name)}={_ESCAPED.sub(_escape, _text(value))}\n"
        for name, value in given.items()
        if value is not None and value != ()
    )


def inbound_properties(attributes: NetworkConnectorAttributes) -> str:
    """Return the options for the local broker, to which a duplex bridge passes commands."""
    value = str(attributes.check_duplicate_messages_on_duplex).lower()
    return f"{activemq_name('check_duplicate_messages_on_duplex')}={value}\n"


def _text(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, tuple):
        return f"[{','.join(map(str, value))}]"
    return str(value)


def _escape(match: re.Match[str]) -> str:
    return _ESCAPES.get(match[0], "\\" + match[0])


def read_properties_of(text: str) -> NetworkConnectorAttributes:
    """Parse the options sent by a remote broker; unknown ones have no effect.

    Raises:
        JMSException: a value is invalid.
    """
    if len(text) > _MOST:
        raise JMSException(f"The properties of the bridge have more than {_MOST} characters")
    given = parse_properties(text)
    values: dict[str, Any] = {}
    kinds = get_type_hints(NetworkConnectorAttributes)
    for each in fields(NetworkConnectorAttributes):
        name = activemq_name(each.name)
        if name in given:
            try:
                values[each.name] = _reader_of(kinds[each.name])(given[name])
            except ValueError as error:
                raise JMSException(f"The value of {name} of the bridge: {error}") from error
    return NetworkConnectorAttributes(**values)


def _reader_of(kind: Any) -> Callable[[str], object]:
    """Return the parser for values of a type or of an optional type."""
    return _READERS[next(each for each in (kind, *get_args(kind)) if each in _READERS)]


def _boolean(text: str) -> bool:
    return text.strip().lower() == "true"


def _destinations(text: str) -> tuple[Destination, ...]:
    names = text.strip().removeprefix("[").removesuffix("]").split(",")
    return tuple(parse_destination(name.strip()) for name in names if name.strip())


_READERS: Final[Mapping[Any, Callable[[str], object]]] = {
    tuple[Destination, ...]: _destinations,
    bool: _boolean,
    int: int,
    str: str,
}
