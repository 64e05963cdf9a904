"""Conversion of commands in advisory messages to elements. (activemq-edges ST14)"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from pyjms.jms.destination import Destination
from pyjms.wire.openwire.commands import (
    ConnectionId,
    ConnectionInfo,
    ConsumerId,
    ConsumerInfo,
    DestinationInfo,
    ProducerId,
    ProducerInfo,
    RemoveInfo,
    SessionId,
)
from pyjms_broker.connector.stomp.transformation.elements import Element

__all__ = ["advisory_element"]

_FIELDS: Final[dict[type, tuple[tuple[str, str], ...]]] = {
    ConnectionId: (("value", "value"),),
    SessionId: (("connectionId", "connection_id"), ("value", "value")),
    ConsumerId: (
        ("connectionId", "connection_id"),
        ("sessionId", "session_id"),
        ("value", "value"),
    ),
    ProducerId: (
        ("connectionId", "connection_id"),
        ("sessionId", "session_id"),
        ("value", "value"),
    ),
    ConnectionInfo: (
        ("connectionId", "connection_id"),
        ("clientId", "client_id"),
        ("clientIp", "client_ip"),
        ("userName", "user_name"),
        ("password", ""),
        ("brokerMasterConnector", "broker_master_connector"),
        ("manageable", "manageable"),
        ("clientMaster", "client_master"),
        ("faultTolerant", "fault_tolerant"),
        ("failoverReconnect", "failover_reconnect"),
    ),
    ConsumerInfo: (
        ("consumerId", "consumer_id"),
        ("destination", "destination"),
        ("prefetchSize", "prefetch_size"),
        ("maximumPendingMessageLimit", "maximum_pending_message_limit"),
        ("browser", "browser"),
        ("dispatchAsync", "dispatch_async"),
        ("selector", "selector"),
        ("clientId", "client_id"),
        ("subscriptionName", "subscription_name"),
        ("noLocal", "no_local"),
        ("exclusive", "exclusive"),
        ("retroactive", "retroactive"),
        ("priority", "priority"),
        ("optimizedAcknowledge", "optimized_acknowledge"),
        ("noRangeAcks", "no_range_acks"),
    ),
    ProducerInfo: (
        ("producerId", "producer_id"),
        ("destination", "destination"),
        ("dispatchAsync", "dispatch_async"),
        ("windowSize", "window_size"),
    ),
    DestinationInfo: (
        ("connectionId", "connection_id"),
        ("destination", "destination"),
        ("operationType", "operation_type"),
        ("timeout", "timeout"),
    ),
    RemoveInfo: (
        ("objectId", "object_id"),
        ("lastDeliveredSequenceId", "last_delivered_sequence_id"),
    ),
}
"""Java's field names, in Java's order, and ours; passwords are excluded."""
_TEXTS: Final[dict[type, Callable[[Any], str]]] = {
    bool: lambda value: "true" if value else "false",
    str: str,
}


def advisory_element(command: object) -> Element | None:
    """Return the element of a command; None for commands that are not converted."""
    if type(command) not in _FIELDS:
        return None
    element = _element(type(command).__name__, command)
    common = (("commandId", "command_id"), ("responseRequired", "response_required"))
    element.children[:0] = [
        Element(name, _text(getattr(command, attribute))) for name, attribute in common
    ]
    return element


def _element(name: str, value: Any) -> Element:
    element = Element(name)
    for field, attribute in _FIELDS[type(value)]:
        content = getattr(value, attribute) if attribute else ""
        if content is not None:
            element.children.append(_child(field, content))
    return element


def _child(name: str, value: Any) -> Element:
    if isinstance(value, Destination):
        kind = f"ActiveMQ{type(value).__name__.replace('Temporary', 'Temp')}"
        children = [Element("string", value.physical_name), Element("null")]
        return Element(name, None, children, {"class": kind})
    if type(value) not in _FIELDS:
        return Element(name, _text(value))
    element = _element(name, value)
    if name == "objectId":
        element.attributes["class"] = type(value).__name__
    return element


def _text(value: Any) -> str:
    return _TEXTS.get(type(value), str)(value)
