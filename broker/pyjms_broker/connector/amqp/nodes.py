"""Nodes of AMQP as destinations: addresses, dynamic nodes, filters and options.

queue://NAME, topic://NAME              queue, topic; options may follow: `?consumer.exclusive=true`
temp-queue://ID, temp-topic://ID        a temporary destination of any connection
NAME                                    the queue of that name

Capabilities do not choose the kind of a named node, as in ActiveMQ. (amqp-connector A52 to A58)
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from pyjms.errors import JMSException
from pyjms.jms.destination import Destination, TemporaryQueue, TemporaryTopic, parse_destination
from pyjms.transport.options import Options, boolean, integer, options_for
from pyjms.wire.amqp.performatives import DeleteOnClose, Error, Source, Target
from pyjms.wire.amqp.values import Described, Symbol, ULong
from pyjms.wire.openwire.commands import ConsumerInfo, Throwable

CONNECTION_FORCED: Final = Symbol("amqp:connection:forced")
DECODE_ERROR: Final = Symbol("amqp:decode-error")
FAILED: Final = Symbol("failed")
ILLEGAL_STATE: Final = Symbol("amqp:illegal-state")
INTERNAL_ERROR: Final = Symbol("amqp:internal-error")
INVALID_FIELD: Final = Symbol("amqp:invalid-field")
NOT_FOUND: Final = Symbol("amqp:not-found")
PRECONDITION_FAILED: Final = Symbol("amqp:precondition-failed")
RESOURCE_DELETED: Final = Symbol("amqp:resource-deleted")
RESOURCE_LIMIT: Final = Symbol("amqp:resource-limit-exceeded")
UNAUTHORIZED: Final = Symbol("amqp:unauthorized-access")
UNKNOWN_TRANSACTION: Final = Symbol("amqp:transaction:unknown-id")

_SECURITY: Final = "java.lang.SecurityException"
_CLIENT_ID: Final = "javax.jms.InvalidClientIDException"
OPEN_CONDITIONS: Final = {_SECURITY: UNAUTHORIZED, _CLIENT_ID: INVALID_FIELD}
"""Conditions of a refused connection by the class of the error; others: illegal state.

(amqp-connector A36)
"""
LINK_CONDITIONS: Final = {
    _SECURITY: UNAUTHORIZED,
    "javax.jms.InvalidSelectorException": INVALID_FIELD,
}
"""Of a refused link; others: internal error. (amqp-connector A61)"""
SEND_CONDITIONS: Final = {
    _SECURITY: UNAUTHORIZED,
    "javax.jms.ResourceAllocationException": RESOURCE_LIMIT,
}
"""Of a refused message; others: failed. (amqp-connector A72)"""
_NO_TEXT: Final = "The broker refused the request"


def error_of(failure: Throwable | None, conditions: Mapping[str, Symbol], other: Symbol) -> Error:
    """Return the error of AMQP for one of the broker."""
    if failure is None:
        return Error(other, _NO_TEXT)
    condition = conditions.get(failure.class_name or "", other)
    return Error(condition, failure.message or _NO_TEXT)


class NodeRefused(JMSException):
    """A source or target cannot be used."""

    def __init__(self, condition: Symbol, reason: str) -> None:
        super().__init__(reason)
        self.error = Error(condition, reason)


# addresses
_TEMPORARY: Final = (TemporaryQueue.PREFIX, TemporaryTopic.PREFIX)
_CREATED: Final = "ID:"
"""The names of temporary destinations begin with the id of the connection that has created them."""
_TEMPORARY_TOPIC: Final = Symbol("temporary-topic")
_TEMPORARY_QUEUE: Final = Symbol("temporary-queue")
_LIFETIME: Final = Symbol("lifetime-policy")
_NOT_CREATED: Final = "Not a broker created temp destination"


def destination_at(address: str, condition: Symbol) -> Destination:
    """Return the destination of an address.

    Raises:
        NodeRefused: with `condition`: it is a temporary one that no broker has created, or empty.
    """
    for prefix in _TEMPORARY:
        if address.startswith(prefix) and not address.startswith(_CREATED, len(prefix)):
            raise NodeRefused(condition, _NOT_CREATED)
    try:
        return parse_destination(address)
    except JMSException as error:
        raise NodeRefused(condition, error.reason) from error


def dynamic_kind(node: Source | Target) -> type[TemporaryQueue | TemporaryTopic]:
    """Return the kind of temporary destination that a dynamic node is."""
    is_topic = _TEMPORARY_TOPIC in (node.capabilities or ())
    return TemporaryTopic if is_topic else TemporaryQueue


def show_dynamic(node: Source | Target, destination: Destination) -> None:
    """Tell in a node how the dynamic one that it asks for has been created."""
    node.address = destination.qualified_name
    node.dynamic = True
    node.capabilities = [_TEMPORARY_TOPIC if destination.is_topic else _TEMPORARY_QUEUE]
    node.dynamic_node_properties = {_LIFETIME: DeleteOnClose()}


# filters
class Filters(NamedTuple):
    """The filters of a source."""

    selector: str | None
    no_local: bool
    in_force: dict[Any, Any] | None
    """They alone, under the client's keys."""


SELECTOR: Final = Symbol("apache.org:selector-filter:string")
SELECTOR_CODE: Final = ULong(0x0000468C00000004)
NO_LOCAL: Final = Symbol("apache.org:no-local-filter:list")
NO_LOCAL_CODE: Final = ULong(0x0000468C00000003)


def filters_of(source: Source) -> Filters:
    """Return the filters of a source that the broker knows. (amqp-connector A80 to A82)"""
    selector, no_local = None, False
    in_force = {}
    for key, value in (source.filter or {}).items():
        if not isinstance(value, Described):
            continue
        if value.descriptor in (SELECTOR, SELECTOR_CODE) and isinstance(value.value, str):
            selector = value.value
        elif value.descriptor in (NO_LOCAL, NO_LOCAL_CODE):
            no_local = True
        else:
            continue
        in_force[key] = value
    return Filters(selector, no_local, in_force or None)


def filters_of_subscription(selector: str | None, no_local: bool) -> dict[Any, Any] | None:
    """Return the filters of a durable subscription as a client gets them. (amqp-connector A103)"""
    found: dict[Any, Any] = {}
    if selector:
        found[SELECTOR] = Described(SELECTOR_CODE, selector)
    if no_local:
        found[NO_LOCAL] = Described(NO_LOCAL_CODE, "NoLocalFilter{}")
    return found or None


# options
_PREFIX: Final = "consumer."
_OPTIONS: Final[Options] = {
    **options_for(integer, "maximum_pending_message_limit", "prefetch_size", "priority"),
    **options_for(str, "selector", "client_id", "subscription_name"),
    **options_for(
        boolean,
        *("no_local", "dispatch_async", "retroactive", "exclusive", "browser"),
        *("network_subscription", "optimized_acknowledge", "no_range_acks"),
    ),
}
"""The options of a consumer in the name of its destination."""
_APPLIED: Final = frozenset(("maximumPendingMessageLimit", "priority", "retroactive", "exclusive"))
"""The others are the link's, or have no effect."""


def apply_options(destination: Destination, info: ConsumerInfo) -> None:
    """Set the options in a destination's name on its consumer. (amqp-connector A55)

    Raises:
        NodeRefused: one is unknown or has an invalid value.
    """
    given = {
        name.removeprefix(_PREFIX): text
        for name, text in destination.options.items()
        if name.startswith(_PREFIX)
    }
    unknown = [name for name in given if name not in _OPTIONS]
    if unknown:
        listed = ", ".join(f"{name}={given[name]}" for name in unknown)
        raise NodeRefused(
            INVALID_FIELD,
            f"There are {len(unknown)} consumer options that couldn't be set on the consumer. "
            "Check the options are spelled correctly. "
            f"Unknown parameters=[{{{listed}}}]. This consumer cannot be started.",
        )
    for name, text in given.items():
        attribute, read = _OPTIONS[name]
        try:
            value = read(text)
        except ValueError as error:
            raise NodeRefused(
                INVALID_FIELD, f"Invalid value '{text}' of {_PREFIX}{name}: {error}"
            ) from error
        if name in _APPLIED:
            setattr(info, attribute, value)
