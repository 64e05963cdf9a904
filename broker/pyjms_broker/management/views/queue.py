"""Views of queues. (ActiveMQ QueueView; activemq-edges 7)"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeAlias

from pyjms.errors import InvalidDestinationException, JMSException
from pyjms.jms.destination import Destination, parse_destination
from pyjms_broker.api.completion import wait_for
from pyjms_broker.api.message import MessageReference
from pyjms_broker.management.conversion import BOOLEAN, INT, MAP, STRING
from pyjms_broker.management.host import Managed
from pyjms_broker.management.messages import as_item, original_destination
from pyjms_broker.management.model import Attribute, Operation, Parameter, ViewKind, view_kind
from pyjms_broker.management.transfer import (
    UNLIMITED,
    copy,
    copy_matching,
    find,
    move,
    move_matching,
    remove_matching,
)
from pyjms_broker.management.views.counters import cursor_attributes
from pyjms_broker.management.views.destination import (
    ATTRIBUTES,
    OPERATIONS,
    SELECTOR,
    VOID,
    policy_attribute,
)
from pyjms_broker.region.queue.queue import Queue
from pyjms_broker.region.subscription.prefetch import PrefetchSubscription

__all__ = ["QUEUE"]

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
