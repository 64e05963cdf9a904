"""Views of queues and topics. (ActiveMQ DestinationView, TopicView, QueueView; activemq-edges 7)"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any, Final, TypeAlias, TypeVar

from pyjms.errors import InvalidDestinationException, JMSException, MessageFormatException
from pyjms.jms.destination import Destination, parse_destination
from pyjms.runtime import clock as _clock
from pyjms_broker.api.completion import wait_for
from pyjms_broker.api.message import MessageReference
from pyjms_broker.api.statistics import DestinationStatistics
from pyjms_broker.api.usage import MemoryUsage
from pyjms_broker.management import messages
from pyjms_broker.management import view_attributes as attributes
from pyjms_broker.management.dead_letters import Retry, groups_of, of_reason
from pyjms_broker.management.diagnosis import diagnose_destination
from pyjms_broker.management.errors import InvalidArgumentException
from pyjms_broker.management.host import Managed, ManagementContext, minimum
from pyjms_broker.management.model import (
    Action,
    Entry,
    Operations,
    Readers,
    ViewKind,
    Writers,
    part,
    view_kind,
)
from pyjms_broker.policy.slow_consumers import AbortSlowConsumerAttributes
from pyjms_broker.region.base_destination import BaseDestination
from pyjms_broker.region.queue import Queue
from pyjms_broker.region.subscription import PrefetchSubscription
from pyjms_broker.region.topic import Topic

T = TypeVar("T")
_Destination: TypeAlias = Managed[BaseDestination]
_Properties: TypeAlias = dict[str, object]


def _average_blocked_time(d: _Destination) -> float:
    blocked = d.it.statistics.blocked_sends
    return d.it.statistics.blocked_time / blocked if blocked else 0.0


def _store_size(d: _Destination) -> int:
    store = d.it.store if isinstance(d.it, Queue | Topic) else None
    return 0 if store is None else store.message_size


def _memory_limit(d: Managed[Any]) -> int:
    """Return the limit that holds for it, its own or the broker's. Source: ActiveMQ Usage."""
    usage: MemoryUsage | None = d.it.memory
    while usage is not None:
        if usage.limit:
            return usage.limit
        usage = usage.parent
    return 0


def _memory_percent(d: _Destination) -> int:
    limit = _memory_limit(d)
    return d.it.memory.used * 100 // limit if limit else 0


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


def _set_policy(d: _Destination, **values: Any) -> None:
    d.it.policy = replace(d.it.policy, **values)


def _set_dead_letters(d: _Destination, value: bool) -> None:
    d.it.is_dead_letter_queue = value


async def _send(d: _Destination, headers: _Properties, body: str | None) -> str:
    message = messages.text_message(d.it.destination, body, headers, d.tree)
    message_id = str(message.message_id)
    await wait_for(d.tree.send(message))
    return message_id


async def _send_properties(d: _Destination, text: str, delimiter: str = ",") -> str:
    if not delimiter:
        raise InvalidArgumentException("The parameter delimiter is empty", hint="use a comma")
    properties: _Properties = {}
    for pair in text.split(delimiter):
        name, equals, value = pair.strip().partition("=")
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


def _browse(d: _Destination, selector: str | None = None) -> list[dict[str, object]]:
    return messages.browse(d.it, d.tree, selector)


def size_readers(statistics: Callable[[T], DestinationStatistics]) -> Readers[T]:
    """Return the functions for the attributes about the sizes of messages."""
    return {
        "AverageMessageSize": lambda t: int(statistics(t).average_size),
        "MaxMessageSize": lambda t: statistics(t).max_size,
        "MinMessageSize": lambda t: minimum(statistics(t).min_size),
    }


def oldest_readers(arrival: Callable[[T], int]) -> Readers[T]:
    """Return the function for the age of the oldest message; arrival 0: there is none."""

    def age(target: T) -> int:
        since = arrival(target)
        return max(0, _clock.time_ms() - since) if since else 0

    return {"FirstMessageAge": age}


def rate_readers(rates: Callable[[T], tuple[float, float] | None]) -> Readers[T]:
    """Return the functions for the messages a second, in and out."""

    def rate(index: int) -> Callable[[T], float | None]:
        def read(target: T) -> float | None:
            found = rates(target)
            return None if found is None else round(found[index], 2)

        return read

    return {"EnqueueRate": rate(0), "DequeueRate": rate(1)}


def cursor_readers(
    is_full: Callable[[T], bool], size: Callable[[T], int], limit: Callable[[T], int]
) -> Readers[T]:
    """Return the functions for the attributes about waiting messages; limit 0: unlimited."""
    return {
        "CursorFull": is_full,
        "CursorMemoryUsage": size,
        "CursorPercentUsage": lambda t: size(t) * 100 // limit(t) if limit(t) else 0,
    }


_READERS: Final[Readers[Managed[Any]]] = {
    **size_readers(lambda d: d.it.statistics),
    **rate_readers(
        lambda d: None if d.tree.host.history is None else d.tree.host.history.rates(d.it)
    ),
    "StoreMessageSize": _store_size,
    "MemoryLimit": _memory_limit,
    "MemoryPercentUsage": _memory_percent,
    "MinEnqueueTime": lambda d: minimum(d.it.statistics.min_time),
    "AverageBlockedTime": _average_blocked_time,
    "TotalBlockedTime": lambda d: int(d.it.statistics.blocked_time),
    "BlockedProducerWarningInterval": lambda d: int(
        d.it.policy.blocked_producer_warning_interval * 1000
    ),
    "Subscriptions": _subscriptions,
    "SlowConsumerStrategy": _strategy,
}
_WRITERS: Final[Writers[Managed[Any]]] = {
    "MemoryLimit": lambda d, limit: d.it.memory.change_limit(limit),
    "TempUsageLimit": lambda d, limit: d.it.temp_usage.change_limit(limit),
    "ProducerFlowControl": lambda d, enabled: d.it.control_flow(enabled=enabled),
    "AlwaysRetroactive": lambda d, value: _set_policy(d, always_retroactive=value),
    "BlockedProducerWarningInterval": lambda d, milliseconds: _set_policy(
        d, blocked_producer_warning_interval=milliseconds / 1000
    ),
    "UseCache": lambda d, value: _set_policy(d, use_cache=value),
    "DLQ": _set_dead_letters,
}


async def _why(d: _Destination) -> dict[str, object]:
    return (await diagnose_destination(d.tree, d.it)).as_item()


_BROWSED: Final = "Return the first messages, at most max_browse_page_size of the policy."
OPERATIONS: Final[Operations] = {
    "void resetStatistics()": Action("Reset the counters.", lambda d: d.it.statistics.reset()),
    "CompositeData why()": Action("Return why nothing is delivered, with remedies.", _why),
    "CompositeData history(String range)": Action(
        "Return depth, rates, consumers and memory of the last hour or day, oldest first.",
        lambda d, name: d.tree.history.item(name, d.it.destination),
    ),
    **{
        f"{kind} {name}({parameters})": Action(_BROWSED, _browse)
        for kind, name in (
            ("CompositeData[]", "browse"),
            ("TabularData", "browseAsTable"),
            ("List", "browseMessages"),
        )
        for parameters in ("", "String? selector")
    },
    "String sendTextMessage(String? body)": Action(
        "Send a persistent text message; return its id.", lambda d, body: _send(d, {}, body)
    ),
    "String sendTextMessage(Map headers, String? body)": Action(
        "Send a text message with headers and properties; return its id.", _send
    ),
    "String sendTextMessage(String? body, String? user, String? password)": Action(
        "Send a text message; user and password are ignored.",
        lambda d, body, _user, _password: _send(d, {}, body),
    ),
    "String sendTextMessage(Map headers, String? body, String? user, String? password)": Action(
        "Send a text message with headers; user and password are ignored.",
        lambda d, headers, body, _user, _password: _send(d, headers, body),
    ),
    "String sendTextMessageWithProperties(String properties)": Action(
        "Send a message given as name=value,...,body=...; return its id.", _send_properties
    ),
    "String sendTextMessageWithProperties(String properties, String delimiter)": Action(
        "Send a message given as name=value pairs with another delimiter; return its id.",
        _send_properties,
    ),
}

TOPIC: Final[ViewKind[Any]] = view_kind(
    "TopicView", "A topic.", attributes.DESTINATION, _READERS, OPERATIONS, _WRITERS
)


_Queue: TypeAlias = Managed[Queue]


def _get_message(d: _Queue, message_id: str) -> dict[str, object] | None:
    found = messages.find(d.it, message_id)
    return None if found is None else messages.as_item(found)


def _remove_message(d: _Queue, message_id: str) -> bool:
    found = messages.find(d.it, message_id)
    return found is not None and d.it.remove_message(d.tree.client, found)


async def _move_message(d: _Queue, message_id: str, to: str) -> bool:
    found = messages.find(d.it, message_id)
    stored = None if found is None else messages.move(d.tree, d.it, found, parse_destination(to))
    if stored is not None:
        await wait_for(stored)
    return stored is not None


async def _copy_message(d: _Queue, message_id: str, to: str) -> bool:
    found = messages.find(d.it, message_id)
    if found is not None:
        await wait_for(messages.copy(d.tree, d.it, found, parse_destination(to)))
    return found is not None


async def _move_matching(
    d: _Queue, selector: str, to: str, maximum: int = messages.UNLIMITED
) -> int:
    target = parse_destination(to)
    return await messages.move_matching(d.tree, d.it, selector, lambda _: target, maximum)


async def _copy_matching(
    d: _Queue, selector: str, to: str, maximum: int = messages.UNLIMITED
) -> int:
    return await messages.copy_matching(d.tree, d.it, selector, parse_destination(to), maximum)


async def _remove_matching(d: _Queue, selector: str, maximum: int = messages.UNLIMITED) -> int:
    return await messages.remove_matching(d.tree, d.it, selector, maximum)


async def _retry_message(d: _Queue, message_id: str) -> bool:
    found = messages.find(d.it, message_id)
    if found is None:
        raise JMSException(f"Could not find message reference: {message_id[:200]}")
    original = messages.original_destination(found)
    if original is None:
        raise InvalidDestinationException(
            f"No original destination for message: {message_id[:200]}",
            hint="move it to a destination with moveMessageTo",
        )
    stored = messages.move(d.tree, d.it, found, original)
    if stored is not None:
        await wait_for(stored)
    return stored is not None


async def _retry_messages(d: _Queue, selector: str | None = None) -> int:
    def target_of(reference: MessageReference) -> Destination | None:
        original = messages.original_destination(reference)
        return None if original == d.it.destination else original

    return await messages.move_matching(d.tree, d.it, selector, target_of)


async def _groups_of_dead_letters(d: _Queue) -> list[dict[str, object]]:
    return [each._asdict() for each in await groups_of(d.it)]


async def _retry_group(d: _Queue, reason: str, rate: float = 0.0) -> int:
    return await Retry(d.tree, d.it, of_reason(reason), rate).run()


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


def _matching(signature: str, description: str, call: Callable[..., object]) -> Operations:
    """Return the operation without and with a maximum number of messages."""
    made = Action(description, call)
    return {f"int {signature})": made, f"int {signature}, int maximumMessages)": made}


_QUEUE_READERS: Final[Readers[_Queue]] = {
    **_READERS,
    **cursor_readers(
        lambda d: d.it.memory.is_above(d.it.policy.cursor_memory_high_water_mark),
        _cursor_bytes,
        _memory_limit,
    ),
    **oldest_readers(lambda d: d.it.oldest_arrival()),
    "CacheEnabled": lambda d: d.it.contents.paged_out_count == 0,
    "MessageGroups": _groups,
}

_QUEUE_OPERATIONS: Final[Operations] = {
    "CompositeData getMessage(String messageId)": Action("Return a message.", _get_message),
    "boolean removeMessage(String messageId)": Action(
        "Remove a message that is not in flight; return whether it was removed.", _remove_message
    ),
    **_matching(
        "removeMatchingMessages(String? selector",
        "Remove matching messages; return their number.",
        _remove_matching,
    ),
    "void purge()": Action("Remove all messages that are not in flight.", _purge),
    "boolean copyMessageTo(String messageId, String destinationName)": Action(
        "Copy a message.", _copy_message
    ),
    **_matching(
        "copyMatchingMessagesTo(String? selector, String destinationName",
        "Copy matching messages; return their number.",
        _copy_matching,
    ),
    "boolean moveMessageTo(String messageId, String destinationName)": Action(
        "Move a message.", _move_message
    ),
    **_matching(
        "moveMatchingMessagesTo(String? selector, String destinationName",
        "Move matching messages; return their number.",
        _move_matching,
    ),
    "boolean retryMessage(String messageId)": Action(
        "Move a message to its original destination.", _retry_message
    ),
    "int retryMessages()": Action(
        "Move all messages to their original destinations.", _retry_messages
    ),
    "int retryMatchingMessages(String? selector)": Action(
        "Move matching messages to their original destinations; return their number.",
        _retry_messages,
    ),
    "List deadLetterGroups()": Action(
        "Return the groups of dead letters by reason: reason, size, oldest, example, text.",
        _groups_of_dead_letters,
    ),
    "int retryGroup(String reason)": Action(
        "Move the dead letters of a group to their original destinations; return their number.",
        _retry_group,
    ),
    "int retryGroup(String reason, double messagesPerSecond)": Action(
        "The same, with a maximum rate; the call ends after the last message.", _retry_group
    ),
    "void pause()": Action("Stop dispatching.", lambda d: d.it.pause()),
    "void resume()": Action("Resume dispatching.", lambda d: d.it.resume()),
    "int cursorSize()": Action(
        "Number of waiting messages.", lambda d: d.it.dispatcher.pending_count
    ),
    "boolean doesCursorHaveSpace()": Action(
        "Whether memory has space for more pending messages.",
        lambda d: not d.it.memory.is_above(d.it.policy.cursor_memory_high_water_mark),
    ),
    "boolean doesCursorHaveMessagesBuffered()": Action(
        "Whether messages wait for dispatch.", lambda d: d.it.dispatcher.pending_count > 0
    ),
    "void removeMessageGroup(String groupName)": Action(
        "Release a message group from its consumer.",
        lambda d, group: d.it.dispatcher.groups.release(group),
    ),
    "void removeAllMessageGroups()": Action(
        "Release all message groups from their consumers.",
        lambda d: d.it.dispatcher.groups.release_all(),
    ),
}

QUEUE: Final[ViewKind[Any]] = view_kind(
    "QueueView",
    "A queue.",
    attributes.QUEUE,
    _QUEUE_READERS,
    {**OPERATIONS, **_QUEUE_OPERATIONS},
    _WRITERS,
)


def _destinations(context: ManagementContext) -> Iterator[Entry]:
    for destination, entry_point in context.destinations().items():
        kind = TOPIC if destination.is_topic else QUEUE
        yield context.names.destination(destination), kind, entry_point.base


PARTS: Final = (part(_destinations, "destinationType", "destinationName"),)
