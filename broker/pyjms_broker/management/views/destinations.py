"""Views of queues and topics.

(ActiveMQ DestinationView, TopicView, QueueView; activemq-edges 7)
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final, TypeAlias

from pyjms.errors import InvalidDestinationException, JMSException, MessageFormatException
from pyjms.jms.destination import Destination, parse_destination
from pyjms_broker.api.completion import wait_for
from pyjms_broker.api.destination import DestinationStatistics
from pyjms_broker.api.message import MessageReference
from pyjms_broker.management.errors import InvalidArgumentException
from pyjms_broker.management.host import Managed
from pyjms_broker.management.messages import (
    UNLIMITED,
    as_item,
    browse,
    copy,
    copy_matching,
    find,
    move,
    move_matching,
    original_destination,
    remove_matching,
    text_message,
)
from pyjms_broker.management.model import (
    BOOLEAN,
    DOUBLE,
    FLOAT,
    INT,
    LONG,
    MAP,
    STRING,
    Attribute,
    Operation,
    Parameter,
    ViewKind,
    view_kind,
)
from pyjms_broker.management.views.counters import cursor_attributes, minimum, size_attributes
from pyjms_broker.policy.slow_consumers import AbortSlowConsumerAttributes
from pyjms_broker.region.base_destination import BaseDestination
from pyjms_broker.region.prefetch_subscription import PrefetchSubscription
from pyjms_broker.region.queue import Queue
from pyjms_broker.region.topic import Topic

_Destination: TypeAlias = Managed[BaseDestination]
_Properties: TypeAlias = dict[str, object]

_TABLE: Final = "javax.management.openmbean.TabularData"
_ITEMS: Final = "[Ljavax.management.openmbean.CompositeData;"
_NAMES: Final = "[Ljavax.management.ObjectName;"
_NAME: Final = "javax.management.ObjectName"
VOID: Final = "void"


def _statistics(d: _Destination) -> DestinationStatistics:
    return d.it.statistics


def _counter(name: str, field: str, description: str) -> Attribute[_Destination]:
    return Attribute(name, LONG, description, lambda d: getattr(d.it.statistics, field))


def policy_attribute(
    name: str, field: str, kind: str, description: str, *, writable: bool = False
) -> Attribute[_Destination]:
    """Return a writable attribute for `field` of the destination's policy."""

    def write(d: _Destination, value: object) -> None:
        d.it.policy = replace(d.it.policy, **{field: value})  # type: ignore[arg-type]

    return Attribute(
        name, kind, description, lambda d: getattr(d.it.policy, field), write if writable else None
    )


def _average_blocked_time(d: _Destination) -> float:
    blocked = d.it.statistics.blocked_sends
    return d.it.statistics.blocked_time / blocked if blocked else 0.0


def _store_size(d: _Destination) -> int:
    store = d.it.store if isinstance(d.it, Queue | Topic) else None
    return 0 if store is None else store.message_size


def _subscriptions(d: _Destination) -> list[str]:
    names = d.tree.names
    return [str(names.consumer(each)) for each in d.it.consumers]


def _strategy(d: _Destination) -> str | None:
    strategy = d.it.policy.slow_consumer_strategy
    names = (
        str(d.tree.names.slow_consumer_strategy(each))
        for each in d.tree.region.slow_consumers.strategies()
        if each.strategy is strategy and isinstance(strategy, AbortSlowConsumerAttributes)
    )
    return next(names, None)


def _set_warning_interval(d: _Destination, milliseconds: int) -> None:
    d.it.policy = replace(d.it.policy, blocked_producer_warning_interval=milliseconds / 1000)


def _set_dead_letters(d: _Destination, value: bool) -> None:
    d.it.is_dead_letter_queue = value


async def _send(d: _Destination, headers: _Properties, body: str | None) -> str:
    message = text_message(d.it.destination, body, headers, d.tree)
    message_id = str(message.message_id)
    await wait_for(d.tree.send(message))
    return message_id


async def _send_properties(d: _Destination, text: str, delimiter: str = ",") -> str:
    if not delimiter:
        raise InvalidArgumentException("The parameter delimiter is empty", hint="use a comma")
    properties: _Properties = {}
    for part in text.split(delimiter):
        name, equals, value = part.strip().partition("=")
        if not equals:
            raise MessageFormatException(
                "The parameter properties has an entry that is not name=value",
                hint=f"write name=value{delimiter}name=value{delimiter}body=...",
            )
        properties[name] = value
    for credential in ("username", "password"):
        properties.pop(credential, None)
    body = properties.pop("body", None)
    return await _send(d, properties, None if body is None else str(body))


SELECTOR: Final = Parameter("selector", STRING, is_optional=True)
_BODY: Final = Parameter("body", STRING, is_optional=True)
_HEADERS: Final = Parameter("headers", MAP)
_LOGIN: Final = (
    Parameter("user", STRING, is_optional=True),
    Parameter("password", STRING, is_optional=True),
)


def _browse_operations() -> tuple[Operation[_Destination], ...]:
    def browse_first(d: _Destination, selector: str | None = None) -> list[dict[str, object]]:
        return browse(d.it, d.tree, selector)

    about = "Return the first messages, at most max_browse_page_size of the policy."
    return tuple(
        Operation(name, kind, about, browse_first, parameters)
        for name, kind in (
            ("browse", _ITEMS),
            ("browseAsTable", _TABLE),
            ("browseMessages", "java.util.List"),
        )
        for parameters in ((), (SELECTOR,))
    )


ATTRIBUTES: Final[tuple[Attribute[Any], ...]] = (
    Attribute("Name", STRING, "The destination's name.", lambda d: d.it.destination.physical_name),
    _counter(
        "QueueSize", "messages", "Messages in the queue, including those in flight; topics: 0."
    ),
    _counter("EnqueueCount", "enqueues", "Messages enqueued."),
    _counter("DequeueCount", "dequeues", "Messages acknowledged, expired or removed."),
    _counter("DispatchCount", "dispatched", "Messages dispatched to consumers."),
    _counter("InFlightCount", "inflight", "Messages that are dispatched but not acknowledged."),
    _counter("ExpiredCount", "expired", "Expired messages."),
    Attribute("ForwardCount", LONG, "Always 0.", lambda _: 0),
    _counter("ConsumerCount", "consumers", "Number of subscriptions."),
    _counter("ProducerCount", "producers", "Number of producers."),
    Attribute("DuplicateFromStoreCount", LONG, "Always 0.", lambda _: 0),
    Attribute(
        "StoreMessageSize", LONG, "Total size of the messages in the store, in bytes.", _store_size
    ),
    Attribute(
        "AverageEnqueueTime",
        DOUBLE,
        "Average time from arrival to first dispatch, in ms.",
        lambda d: d.it.statistics.average_time,
    ),
    _counter("MaxEnqueueTime", "max_time", "Longest time from arrival to first dispatch, in ms."),
    Attribute(
        "MinEnqueueTime",
        LONG,
        "Shortest time from arrival to first dispatch, in ms.",
        lambda d: minimum(d.it.statistics.min_time),
    ),
    *size_attributes(_statistics),
    Attribute(
        "MemoryPercentUsage",
        INT,
        "Percentage of MemoryLimit in use.",
        lambda d: d.it.memory.percent,
    ),
    Attribute(
        "MemoryUsageByteCount",
        LONG,
        "Total size of the messages in memory, in bytes.",
        lambda d: d.it.memory.used,
    ),
    Attribute(
        "MemoryLimit",
        LONG,
        "Memory limit in bytes; 0: only the broker's limit.",
        lambda d: d.it.memory.limit,
        lambda d, limit: d.it.memory.change_limit(limit),
    ),
    Attribute("MemoryUsagePortion", FLOAT, "Always 1.", lambda _: 1.0),
    Attribute(
        "TempUsageLimit",
        LONG,
        "Limit of the temp store, in bytes.",
        lambda d: d.it.temp_usage.limit,
        lambda d, limit: d.it.temp_usage.change_limit(limit),
    ),
    Attribute(
        "TempUsagePercentUsage",
        INT,
        "Percentage of the temp store's limit in use.",
        lambda d: d.it.temp_usage.percent,
    ),
    _counter("BlockedSends", "blocked_sends", "Sends that had to wait for space."),
    Attribute(
        "AverageBlockedTime",
        DOUBLE,
        "Average time that blocked sends have waited for space, in ms.",
        _average_blocked_time,
    ),
    Attribute(
        "TotalBlockedTime",
        LONG,
        "Total time that sends have waited for space, in ms.",
        lambda d: int(d.it.statistics.blocked_time),
    ),
    Attribute(
        "ProducerFlowControl",
        BOOLEAN,
        "Whether producers are held back when memory, store or temp space is full.",
        lambda d: d.it.policy.producer_flow_control,
        lambda d, enabled: d.it.control_flow(enabled=enabled),
    ),
    policy_attribute(
        "AlwaysRetroactive",
        "always_retroactive",
        BOOLEAN,
        "Whether every topic consumer is retroactive.",
        writable=True,
    ),
    Attribute(
        "BlockedProducerWarningInterval",
        LONG,
        "Minimum time between two warnings about blocked producers, in ms.",
        lambda d: int(d.it.policy.blocked_producer_warning_interval * 1000),
        _set_warning_interval,
    ),
    policy_attribute(
        "MaxProducersToAudit",
        "max_producers_to_audit",
        INT,
        "Number of producers in the duplicate audit.",
    ),
    policy_attribute(
        "MaxAuditDepth",
        "max_audit_depth",
        INT,
        "Number of message ids per producer in the duplicate audit.",
    ),
    policy_attribute(
        "MaxPageSize", "max_page_size", INT, "Maximum number of messages paged in at a time."
    ),
    policy_attribute(
        "UseCache",
        "use_cache",
        BOOLEAN,
        "Whether stored messages are cached in memory.",
        writable=True,
    ),
    policy_attribute(
        "PrioritizedMessages",
        "prioritized_messages",
        BOOLEAN,
        "Whether messages are ordered by priority.",
    ),
    Attribute("Options", STRING, "Always empty.", lambda _: ""),
    Attribute(
        "DLQ",
        BOOLEAN,
        "Whether the destination is a dead-letter queue.",
        lambda d: d.it.is_dead_letter_queue,
        _set_dead_letters,
    ),
    Attribute("SendDuplicateFromStoreToDLQ", BOOLEAN, "Always false.", lambda _: False),
    Attribute("Subscriptions", _NAMES, "Object names of the consumers.", _subscriptions),
    Attribute(
        "SlowConsumerStrategy",
        _NAME,
        "Object name of the slow consumer strategy; null: none.",
        _strategy,
    ),
)

OPERATIONS: Final[tuple[Operation[Any], ...]] = (
    Operation("resetStatistics", VOID, "Reset the counters.", lambda d: d.it.statistics.reset()),
    *_browse_operations(),
    Operation(
        "sendTextMessage",
        STRING,
        "Send a persistent text message; return its id.",
        lambda d, body: _send(d, {}, body),
        (_BODY,),
    ),
    Operation(
        "sendTextMessage",
        STRING,
        "Send a text message with headers and properties; return its id.",
        _send,
        (_HEADERS, _BODY),
    ),
    Operation(
        "sendTextMessage",
        STRING,
        "Send a text message; user and password are ignored.",
        lambda d, body, _user, _password: _send(d, {}, body),
        (_BODY, *_LOGIN),
    ),
    Operation(
        "sendTextMessage",
        STRING,
        "Send a text message with headers; user and password are ignored.",
        lambda d, headers, body, _user, _password: _send(d, headers, body),
        (_HEADERS, _BODY, *_LOGIN),
    ),
    Operation(
        "sendTextMessageWithProperties",
        STRING,
        "Send a message given as name=value,...,body=...; return its id.",
        _send_properties,
        (Parameter("properties", STRING),),
    ),
    Operation(
        "sendTextMessageWithProperties",
        STRING,
        "Send a message given as name=value pairs with another delimiter; return its id.",
        _send_properties,
        (Parameter("properties", STRING), Parameter("delimiter", STRING)),
    ),
)

TOPIC: Final[ViewKind[Any]] = view_kind("TopicView", "A topic.", ATTRIBUTES, OPERATIONS)


_Queue: TypeAlias = Managed[Queue]

_ITEM: Final = "javax.management.openmbean.CompositeData"


def _get_message(d: _Queue, message_id: str) -> dict[str, object] | None:
    found = find(d.it, message_id)
    return None if found is None else as_item(found)


def _remove_message(d: _Queue, message_id: str) -> bool:
    found = find(d.it, message_id)
    return found is not None and d.it.remove_message(d.tree.client, found)


async def _move_message(d: _Queue, message_id: str, to: str) -> bool:
    found = find(d.it, message_id)
    stored = None if found is None else move(d.tree, d.it, found, parse_destination(to))
    if stored is not None:
        await wait_for(stored)
    return stored is not None


async def _copy_message(d: _Queue, message_id: str, to: str) -> bool:
    found = find(d.it, message_id)
    if found is not None:
        await wait_for(copy(d.tree, d.it, found, parse_destination(to)))
    return found is not None


async def _move_matching(d: _Queue, selector: str, to: str, maximum: int = UNLIMITED) -> int:
    target = parse_destination(to)
    return await move_matching(d.tree, d.it, selector, lambda _: target, maximum)


async def _copy_matching(d: _Queue, selector: str, to: str, maximum: int = UNLIMITED) -> int:
    return await copy_matching(d.tree, d.it, selector, parse_destination(to), maximum)


async def _remove_matching(d: _Queue, selector: str, maximum: int = UNLIMITED) -> int:
    return await remove_matching(d.tree, d.it, selector, maximum)


async def _retry_message(d: _Queue, message_id: str) -> bool:
    found = find(d.it, message_id)
    if found is None:
        raise JMSException(f"Could not find message reference: {message_id[:200]}")
    original = original_destination(found)
    if original is None:
        raise InvalidDestinationException(
            f"No original destination for message: {message_id[:200]}",
            hint="move it to a destination with moveMessageTo",
        )
    stored = move(d.tree, d.it, found, original)
    if stored is not None:
        await wait_for(stored)
    return stored is not None


async def _retry_messages(d: _Queue) -> int:
    def target_of(reference: MessageReference) -> Destination | None:
        original = original_destination(reference)
        return None if original == d.it.destination else original

    return await move_matching(d.tree, d.it, None, target_of)


def _purge(d: _Queue) -> None:
    d.it.purge(d.tree.client)


def _groups(d: _Queue) -> dict[str, str]:
    owners = d.it.dispatcher.groups.groups.owners
    return {group: str(owner.consumer_id) for group, owner in owners().items()}


def _cursor_bytes(d: _Queue) -> int:
    dispatched = (
        c.dispatched.values() for c in d.it.consumers if isinstance(c, PrefetchSubscription)
    )
    in_flight = sum(r.size for each in dispatched for r in each if r.destination is d.it)
    return max(0, d.it.memory.used - in_flight)


_MESSAGE_ID: Final = Parameter("messageId", STRING)
_TARGET: Final = Parameter("destinationName", STRING)
_MAXIMUM: Final = Parameter("maximumMessages", INT)


def _matching(
    name: str, description: str, call: Callable[..., object], *parameters: Parameter
) -> tuple[Operation[Any], ...]:
    return (
        Operation(name, INT, description, call, parameters),
        Operation(name, INT, description, call, (*parameters, _MAXIMUM)),
    )


_QUEUE_ATTRIBUTES: Final[tuple[Attribute[Any], ...]] = (
    *cursor_attributes(
        lambda d: d.it.memory.is_above(d.it.policy.cursor_memory_high_water_mark),
        _cursor_bytes,
        lambda d: d.it.memory.limit or d.tree.host.system_usage.memory.limit,
    ),
    Attribute(
        "CacheEnabled",
        BOOLEAN,
        "Whether all waiting messages are in memory.",
        lambda d: d.it.contents.paged_out_count == 0,
    ),
    Attribute("MessageGroups", MAP, "The consumer of each message group.", _groups),
    policy_attribute(
        "MessageGroupType",
        "message_group_map_factory_type",
        STRING,
        "The type of the message group map.",
    ),
    Attribute(
        "Paused", BOOLEAN, "Whether dispatching is paused.", lambda d: d.it.dispatcher.is_paused
    ),
)

_QUEUE_OPERATIONS: Final[tuple[Operation[Any], ...]] = (
    Operation("getMessage", _ITEM, "Return a message.", _get_message, (_MESSAGE_ID,)),
    Operation(
        "removeMessage",
        BOOLEAN,
        "Remove a message that is not in flight; return whether it was removed.",
        _remove_message,
        (_MESSAGE_ID,),
    ),
    *_matching(
        "removeMatchingMessages",
        "Remove matching messages; return their number.",
        _remove_matching,
        SELECTOR,
    ),
    Operation("purge", VOID, "Remove all messages that are not in flight.", _purge),
    Operation("copyMessageTo", BOOLEAN, "Copy a message.", _copy_message, (_MESSAGE_ID, _TARGET)),
    *_matching(
        "copyMatchingMessagesTo",
        "Copy matching messages; return their number.",
        _copy_matching,
        SELECTOR,
        _TARGET,
    ),
    Operation("moveMessageTo", BOOLEAN, "Move a message.", _move_message, (_MESSAGE_ID, _TARGET)),
    *_matching(
        "moveMatchingMessagesTo",
        "Move matching messages; return their number.",
        _move_matching,
        SELECTOR,
        _TARGET,
    ),
    Operation(
        "retryMessage",
        BOOLEAN,
        "Move a message to its original destination.",
        _retry_message,
        (_MESSAGE_ID,),
    ),
    Operation(
        "retryMessages", INT, "Move all messages to their original destinations.", _retry_messages
    ),
    Operation("pause", VOID, "Stop dispatching.", lambda d: d.it.pause()),
    Operation("resume", VOID, "Resume dispatching.", lambda d: d.it.resume()),
    Operation(
        "cursorSize", INT, "Number of waiting messages.", lambda d: d.it.dispatcher.pending_count
    ),
    Operation(
        "doesCursorHaveSpace",
        BOOLEAN,
        "Whether memory has space for more pending messages.",
        lambda d: not d.it.memory.is_above(d.it.policy.cursor_memory_high_water_mark),
    ),
    Operation(
        "doesCursorHaveMessagesBuffered",
        BOOLEAN,
        "Whether messages wait for dispatch.",
        lambda d: d.it.dispatcher.pending_count > 0,
    ),
    Operation(
        "removeMessageGroup",
        VOID,
        "Release a message group from its consumer.",
        lambda d, group: d.it.dispatcher.groups.release(group),
        (Parameter("groupName", STRING),),
    ),
    Operation(
        "removeAllMessageGroups",
        VOID,
        "Release all message groups from their consumers.",
        lambda d: d.it.dispatcher.groups.release_all(),
    ),
)

QUEUE: Final[ViewKind[Any]] = view_kind(
    "QueueView", "A queue.", [*ATTRIBUTES, *_QUEUE_ATTRIBUTES], [*OPERATIONS, *_QUEUE_OPERATIONS]
)
