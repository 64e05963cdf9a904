"""Views of consumers, durable subscriptions and slow consumer strategies.

(ActiveMQ SubscriptionView, DurableSubscriptionView, TopicSubscriptionView,
AbortSlowConsumerStrategyView, AbortSlowAckConsumerStrategyView; activemq-edges 7)
"""

from __future__ import annotations

from itertools import islice
from typing import Any, Final, TypeAlias

from pyjms.errors import IllegalStateException, InvalidDestinationException
from pyjms.jms.destination import Destination, Queue, Topic
from pyjms.wire.openwire.commands import RemoveSubscriptionInfo
from pyjms_broker.api.completion import Completion
from pyjms_broker.api.destination import RegionDestination
from pyjms_broker.api.message import NO_TRANSACTION, MessageReference
from pyjms_broker.api.subscription import Subscription
from pyjms_broker.management.host import Managed
from pyjms_broker.management.messages import as_item, browse_limit
from pyjms_broker.management.model import (
    BOOLEAN,
    BYTE,
    INT,
    LONG,
    STRING,
    Attribute,
    Operation,
    Parameter,
    ViewKind,
    view_kind,
)
from pyjms_broker.management.object_name import ObjectName
from pyjms_broker.management.views.counters import cursor_attributes
from pyjms_broker.policy.slow_consumers import AbortSlowConsumerWatch
from pyjms_broker.policy.wildcard import matches
from pyjms_broker.region.durable_subscription import DurableTopicSubscription
from pyjms_broker.region.slow_consumers import WatchedStrategy
from pyjms_broker.region.topic_subscription import TopicSubscription

_Consumer: TypeAlias = Managed[Subscription]
_Durable: TypeAlias = Managed[DurableTopicSubscription]


def _client_id(c: _Consumer) -> str | None:
    if isinstance(c.it, DurableTopicSubscription):
        return c.it.key.client_id
    return c.it.context.client_id


def _info(name: str, field: str, kind: str, description: str) -> Attribute[_Consumer]:
    return Attribute(name, kind, description, lambda c: getattr(c.it.info, field))


def _count(name: str, field: str, description: str, kind: str = LONG) -> Attribute[_Consumer]:
    return Attribute(name, kind, description, lambda c: getattr(c.it, field))


def _session_id(c: _Consumer) -> int:
    return 0 if c.it.consumer_id is None else c.it.consumer_id.session_id


def _number(c: _Consumer) -> int:
    return 0 if c.it.consumer_id is None else c.it.consumer_id.value


def _connection_id(c: _Consumer) -> str | None:
    return None if c.it.consumer_id is None else c.it.consumer_id.connection_id


def _is_active(c: _Consumer) -> bool:
    return not isinstance(c.it, DurableTopicSubscription) or c.it.is_active


def _pending(c: _Consumer) -> int:
    return c.it.pending_count


def _connection(c: _Consumer) -> str | None:
    context = c.it.context
    if not _is_active(c) or context.connector_name is None or context.client_id is None:
        return None
    return str(
        c.tree.names.connector(
            context.connector_name, connectionViewType="clientId", connectionName=context.client_id
        )
    )


def _matches(kind: type[Destination]) -> Operation[_Consumer]:
    name = "isMatchingTopic" if kind is Topic else "isMatchingQueue"
    return Operation(
        name,
        BOOLEAN,
        "Whether the subscription's destination matches the name.",
        lambda c, text: (
            c.it.requested.is_topic == (kind is Topic) and matches(c.it.requested, kind(text))
        ),
        (Parameter("name", STRING),),
    )


_ATTRIBUTES: Final[tuple[Attribute[Any], ...]] = (
    Attribute("ClientId", STRING, "The client id.", _client_id),
    Attribute("ConnectionId", STRING, "The connection's id.", _connection_id),
    Attribute("SessionId", LONG, "The session's number.", _session_id),
    Attribute("SubscriptionId", LONG, "The consumer's number in its session.", _number),
    Attribute(
        "DestinationName", STRING, "The destination.", lambda c: c.it.requested.physical_name
    ),
    Attribute(
        "DestinationQueue",
        BOOLEAN,
        "Whether the destination is a queue.",
        lambda c: not c.it.requested.is_topic,
    ),
    Attribute(
        "DestinationTopic",
        BOOLEAN,
        "Whether the destination is a topic.",
        lambda c: c.it.requested.is_topic,
    ),
    Attribute(
        "DestinationTemporary",
        BOOLEAN,
        "Whether the destination is temporary.",
        lambda c: c.it.requested.is_temporary,
    ),
    _info("Selector", "selector", STRING, "The selector."),
    Attribute("Active", BOOLEAN, "Whether the subscription has a consumer.", _is_active),
    Attribute(
        "Network",
        BOOLEAN,
        "Whether the consumer is a network bridge.",
        lambda c: c.it.info.network_subscription,
    ),
    Attribute(
        "PendingQueueSize", INT, "Messages that wait for dispatch to the consumer.", _pending
    ),
    _count(
        "DispatchedQueueSize",
        "in_flight",
        "Messages that are dispatched but not acknowledged.",
        INT,
    ),
    _count("MessageCountAwaitingAcknowledge", "in_flight", "The same as DispatchedQueueSize.", INT),
    _count("DispatchedCounter", "dispatched_count", "Messages dispatched to the consumer."),
    _count("EnqueueCounter", "enqueue_count", "Messages that matched the subscription."),
    _count("DequeueCounter", "dequeue_count", "Acknowledged messages."),
    _count("ConsumedCount", "dequeue_count", "The same as DequeueCounter."),
    _count("PrefetchSize", "prefetch_size", "The consumer's prefetch.", INT),
    _info(
        "MaximumPendingMessageLimit",
        "maximum_pending_message_limit",
        INT,
        "Maximum number of waiting messages that the client requested; 0: as in the policy.",
    ),
    _info(
        "Retroactive",
        "retroactive",
        BOOLEAN,
        "Whether the consumer is retroactive.",
    ),
    _info("Exclusive", "exclusive", BOOLEAN, "Whether it is the queue's exclusive consumer."),
    Attribute(
        "Durable",
        BOOLEAN,
        "Whether it is a durable subscription.",
        lambda c: isinstance(c.it, DurableTopicSubscription),
    ),
    _info(
        "NoLocal",
        "no_local",
        BOOLEAN,
        "Whether messages of the consumer's own connection are excluded.",
    ),
    _info(
        "DispatchAsync",
        "dispatch_async",
        BOOLEAN,
        "Whether the client requested asynchronous dispatch.",
    ),
    _info("Priority", "priority", BYTE, "The consumer's priority."),
    Attribute(
        "SlowConsumer",
        BOOLEAN,
        "Whether messages wait because the consumer cannot keep up.",
        lambda c: c.it.is_slow,
    ),
    _info("SubscriptionName", "subscription_name", STRING, "The durable subscription's name."),
    Attribute("UserName", STRING, "The login name.", lambda c: c.it.context.user_name),
    Attribute(
        "Connection",
        "javax.management.ObjectName",
        "Object name of the connection's view.",
        _connection,
    ),
)

_OPERATIONS: Final[tuple[Operation[Any], ...]] = (
    _matches(Queue),
    _matches(Topic),
    Operation(
        "resetStatistics",
        "void",
        "Reset the counters; messages in flight still count as dispatched.",
        lambda c: c.it.reset_statistics(),
    ),
)


def _messages(c: _Durable) -> list[MessageReference]:
    """Return the unacknowledged messages: those in flight, then the waiting ones."""
    policy = c.tree.region.policy_map.entry_for(c.it.requested)
    limit = browse_limit(policy)
    found = list(islice(c.it.dispatched.values(), limit))
    return found + c.it.backlog.waiting(limit - len(found))


def _browse(c: _Durable) -> list[dict[str, object]]:
    return [as_item(each) for each in _messages(c)]


def _remove_message(c: _Durable, message_id: str) -> None:
    """Remove a waiting message; any other message is an error."""
    subscription = c.it
    backlog = subscription.backlog
    for each in backlog.waiting(max(1, subscription.pending_count)):
        if str(each.message_id) != message_id:
            continue
        is_in_memory = backlog.pending.remove(each)
        if is_in_memory or backlog.remove_paged_out(each):
            subscription.store_acknowledgement(NO_TRANSACTION, each)
        if is_in_memory:
            subscription.settle(each)
        return
    raise InvalidDestinationException(
        f"{subscription.key} has no waiting message {message_id[:200]!r}",
        hint="messages in flight to its consumer cannot be removed; browse lists the others",
    )


def _topics(c: _Durable) -> list[RegionDestination]:
    return [each.base for each in c.it.destinations]


def _has_space(c: _Durable) -> bool:
    mark = c.it.policy.cursor_memory_high_water_mark
    return not any(topic.memory.is_above(mark) for topic in _topics(c))


def _cursor_bytes(c: _Durable) -> int:
    return sum(each.size for each in c.it.backlog.pending)


def _cursor_limit(c: _Durable) -> int:
    limit = c.tree.host.system_usage.memory.limit
    return sum(topic.memory.limit or limit for topic in _topics(c))


def _destroy(c: _Durable) -> Completion:
    client_id, name = c.it.key
    if c.it.is_active:
        raise IllegalStateException(
            f"Durable subscription {name} of client {client_id} is in use",
            hint="close its consumer first",
        )
    info = RemoveSubscriptionInfo(client_id=client_id, subscription_name=name)
    return c.tree.host.broker.remove_subscription(c.tree.client, info)


_DURABLE_ATTRIBUTES: Final[tuple[Attribute[Any], ...]] = cursor_attributes(
    lambda c: not _has_space(c), _cursor_bytes, _cursor_limit
)

_DURABLE_OPERATIONS: Final[tuple[Operation[Any], ...]] = (
    Operation(
        "browse",
        "[Ljavax.management.openmbean.CompositeData;",
        "Return the first messages, at most max_browse_page_size of the policy.",
        _browse,
    ),
    Operation(
        "browseAsTable",
        "javax.management.openmbean.TabularData",
        "Return the first messages as a table.",
        _browse,
    ),
    Operation(
        "removeMessage",
        "void",
        "Remove a waiting message.",
        _remove_message,
        (Parameter("messageId", STRING),),
    ),
    Operation(
        "doesCursorHaveSpace",
        BOOLEAN,
        "Whether memory has space for more pending messages.",
        _has_space,
    ),
    Operation(
        "doesCursorHaveMessagesBuffered",
        BOOLEAN,
        "Whether messages wait for dispatch.",
        lambda c: c.it.pending_count > 0,
    ),
    Operation("cursorSize", INT, "Number of waiting messages.", _pending),
    Operation("destroy", "void", "Delete the subscription; an error while it is active.", _destroy),
)

_TOPIC_ATTRIBUTES: Final[tuple[Attribute[Any], ...]] = (
    _count(
        "DiscardedCount",
        "discarded_count",
        "Messages evicted because the limit of waiting messages was reached.",
        INT,
    ),
    Attribute(
        "MaximumPendingQueueSize",
        INT,
        "Maximum number of waiting messages; -1: no limit.",
        lambda c: c.it.maximum_pending_message_limit if isinstance(c.it, TopicSubscription) else -1,
    ),
)

SUBSCRIPTION: Final[ViewKind[Any]] = view_kind(
    "SubscriptionView", "A consumer of a queue.", _ATTRIBUTES, _OPERATIONS
)
TOPIC_SUBSCRIPTION: Final[ViewKind[Any]] = view_kind(
    "TopicSubscriptionView",
    "A consumer of a topic.",
    [*_ATTRIBUTES, *_TOPIC_ATTRIBUTES],
    _OPERATIONS,
)
DURABLE: Final[ViewKind[Any]] = view_kind(
    "DurableSubscriptionView",
    "A durable subscription with a consumer.",
    [*_ATTRIBUTES, *_DURABLE_ATTRIBUTES],
    [*_OPERATIONS, *_DURABLE_OPERATIONS],
)
INACTIVE_DURABLE: Final[ViewKind[Any]] = view_kind(
    "InactiveDurableSubscriptionView",
    "A durable subscription without a consumer.",
    [*_ATTRIBUTES, *_DURABLE_ATTRIBUTES],
    [*_OPERATIONS, *_DURABLE_OPERATIONS],
)


_Strategy: TypeAlias = Managed[WatchedStrategy]

_OBJECT_NAME: Final = "javax.management.ObjectName"


def _setting(name: str, field: str, kind: str, description: str) -> Attribute[_Strategy]:
    return Attribute(name, kind, description, lambda s: getattr(s.it.strategy, field))


def _time(name: str, field: str, description: str) -> Attribute[_Strategy]:
    return Attribute(
        name, LONG, f"{description}, in ms.", lambda s: int(getattr(s.it.strategy, field) * 1000)
    )


def _rows(s: _Strategy) -> list[dict[str, object]]:
    watch = s.it.watch
    if not isinstance(watch, AbortSlowConsumerWatch):
        return []
    return [
        {
            "subscription": str(s.tree.names.consumer(subscription)),
            "slowCount": entry.count,
            "markCount": entry.checks,
        }
        for subscription, entry in watch.slow.items()
    ]


def _abort(s: _Strategy, name: str, *, with_connection: bool) -> None:
    wanted = ObjectName(name)
    slow_consumers = s.tree.region.slow_consumers
    slow_consumers.abort(_consumer(s, wanted), with_connection=with_connection)


def _consumer(s: _Strategy, wanted: ObjectName) -> Subscription:
    for each in s.tree.region.subscriptions.all():
        if each.consumer_id is not None and s.tree.names.consumer(each) == wanted:
            return each
    raise InvalidDestinationException(
        f"There is no consumer {wanted.text[:300]}", hint="list the attribute SlowConsumers"
    )


_SLOW_CONSUMERS_ATTRIBUTES: Final[tuple[Attribute[_Strategy], ...]] = (
    _time("CheckPeriod", "check_period", "Time between checks"),
    _setting(
        "MaxSlowCount",
        "max_slow_count",
        LONG,
        "Number of times that a consumer may become slow before it is aborted; -1: no limit.",
    ),
    _time(
        "MaxSlowDuration",
        "max_slow_duration",
        "Time that a consumer may be slow before it is aborted (0: no limit)",
    ),
    Attribute(
        "SlowConsumers",
        "javax.management.openmbean.TabularData",
        "The slow consumers, with the number of times that each became slow, and of checks that "
        "found it slow.",
        _rows,
    ),
)
_SLOW_CONSUMERS_OPERATIONS: Final[tuple[Operation[_Strategy], ...]] = tuple(
    Operation(
        name,
        "void",
        f"Close a {what}; the argument is the consumer's object name.",
        lambda s, consumer, with_connection=with_connection: _abort(
            s, consumer, with_connection=with_connection
        ),
        (Parameter("consumerToAbort", kind),),
    )
    for name, what, with_connection in (
        ("abortConsumer", "consumer", False),
        ("abortConnection", "consumer's connection", True),
    )
    for kind in (STRING, _OBJECT_NAME)
)

SLOW_CONSUMERS: Final[ViewKind[_Strategy]] = view_kind(
    "AbortSlowConsumerStrategyView",
    "A strategy that aborts slow consumers.",
    _SLOW_CONSUMERS_ATTRIBUTES,
    _SLOW_CONSUMERS_OPERATIONS,
)
SLOW_ACK_CONSUMERS: Final[ViewKind[_Strategy]] = view_kind(
    "AbortSlowAckConsumerStrategyView",
    "A strategy that aborts consumers that acknowledge too slowly.",
    [
        *_SLOW_CONSUMERS_ATTRIBUTES,
        _time(
            "MaxTimeSinceLastAck",
            "max_time_since_last_ack",
            "Time without an acknowledgement before a consumer is aborted",
        ),
        _setting(
            "IgnoreIdleConsumers",
            "ignore_idle_consumers",
            BOOLEAN,
            "Whether consumers without messages in flight are never slow.",
        ),
        _setting(
            "IgnoreNetworkConsumers",
            "ignore_network_consumers",
            BOOLEAN,
            "Whether consumers of network bridges are never aborted.",
        ),
    ],
    _SLOW_CONSUMERS_OPERATIONS,
)
