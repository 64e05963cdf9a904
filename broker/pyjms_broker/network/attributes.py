"""The attributes of network connectors, with ActiveMQ's names and defaults. (activemq-edges 9)

The class is also the base of the settings in broker.yaml.

The options of a duplex bridge in BrokerInfo, as Java properties with ActiveMQ's names.

(activemq-edges NW1)
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from typing import Annotated, Any, Final, get_args, get_type_hints

from pyjms.configuration.properties_file import parse_properties
from pyjms.errors import JMSException
from pyjms.jms.destination import Destination, parse_destination
from pyjms_broker.attribute import Attribute, attribute, count, flag


@dataclass(frozen=True, kw_only=True)
class NetworkConnectorAttributes:
    """The attributes of a network connector; times to live are numbers of brokers."""

    name: str = attribute("NC", "Unique in the broker; part of client ids and subscription names.")
    user_name: str | None = attribute(None, "User of the bridge at this and at the remote broker.")
    password: Annotated[str | None, Attribute("That user's password.")] = field(
        default=None, repr=False
    )
    remote_user_name: str | None = attribute(None, "User at the remote broker; null: user_name.")
    remote_password: Annotated[str | None, Attribute("That user's password; null: password.")] = (
        field(default=None, repr=False)
    )
    duplex: bool = flag(
        "Whether the remote broker also forwards to this one over the same connection."
    )
    conduit_subscriptions: bool = flag(
        "Whether the remote consumers of a destination are combined, without their selectors.",
        default=True,
    )
    conduit_network_queue_subscriptions: bool = flag(
        "Whether this includes queue consumers of brokers behind the remote one."
    )
    decrease_network_consumer_priority: bool = flag(
        "Whether consumers of this broker are preferred to remote consumers."
    )
    consumer_priority_base: int = attribute(
        -5,
        "Priority of remote consumers then; lowered for each broker in between.",
        minimum=-128,
        maximum=127,
    )
    network_ttl: int = attribute(
        1,
        "Maximum number of brokers that messages and subscriptions traverse; -1: unlimited.",
        minimum=-1,
    )
    message_ttl: int | None = attribute(
        None, "The same for messages; null: network_ttl.", minimum=-1
    )
    consumer_ttl: int | None = attribute(
        None, "The same for consumers; null: network_ttl.", minimum=-1
    )
    suppress_duplicate_queue_subscriptions: bool = flag(
        "Whether a queue consumer reachable over two paths is served over one of them."
    )
    suppress_duplicate_topic_subscriptions: bool = flag(
        "The same for topic consumers.", default=True
    )
    dynamic_only: bool = flag(
        "Whether durable subscriptions are forwarded only while they have a consumer."
    )
    static_bridge: bool = flag(
        "Whether only statically_included_destinations are forwarded, always."
    )
    bridge_temp_destinations: bool = flag(
        "Whether temporary destinations are forwarded, for replies.", default=True
    )
    prefetch_size: int = count(1000, "Prefetch of a bridge per destination.", minimum=1)
    advisory_prefetch_size: int = count(
        0, "Prefetch of the remote broker's advisories; 0: prefetch_size."
    )
    advisory_ack_percentage: int = count(
        75,
        "Percentage of this prefetch after which advisories are acknowledged.",
        minimum=1,
        maximum=100,
    )
    always_sync_send: bool = flag(
        "Whether the remote broker also confirms non-persistent messages.", default=True
    )
    destination_filter: str | None = attribute(
        None, "Advisory topics that report remote consumers; null: for the included destinations."
    )
    sync_durable_subs: bool = flag(
        "Whether the brokers exchange their durable subscriptions each time they connect."
    )
    use_virtual_dest_subs: bool = flag(
        "Whether consumers fed by remote virtual destinations count as consumers of these."
    )
    use_compression: bool = flag("Whether the bodies of forwarded messages are compressed.")
    advisory_for_failed_forward: bool = flag(
        "Whether each message that the remote broker refuses causes an advisory."
    )
    check_duplicate_messages_on_duplex: bool = flag(
        "Whether persistent messages sent again over a duplex connection are dropped."
    )
    client_id_token: str = attribute("_", "Separator of the parts of the bridge's client ids.")
    dynamically_included_destinations: tuple[Destination, ...] = ()
    statically_included_destinations: tuple[Destination, ...] = ()
    excluded_destinations: tuple[Destination, ...] = ()

    @property
    def dispatch_async(self) -> bool:
        """Whether bridges' messages are dispatched asynchronously; always so, for all consumers."""
        return True

    @property
    def messages_hops(self) -> int:
        """The maximum number of brokers that a message may pass; -1: unlimited."""
        return self.network_ttl if self.message_ttl is None else self.message_ttl

    @property
    def consumers_hops(self) -> int:
        """The maximum number of brokers to a consumer; -1: unlimited."""
        return self.network_ttl if self.consumer_ttl is None else self.consumer_ttl


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
    """Parse the options sent by a remote broker; unknown ones have no effect."""
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
