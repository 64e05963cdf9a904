"""Views of consumers, durable subscriptions and slow consumer strategies.

(ActiveMQ SubscriptionView, DurableSubscriptionView, TopicSubscriptionView,
AbortSlowConsumerStrategyView, AbortSlowAckConsumerStrategyView; activemq-edges 7)
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from itertools import islice
from typing import Any, Final, TypeAlias

from pyjms.errors import IllegalStateException, InvalidDestinationException
from pyjms.jms.destination import Queue, Topic
from pyjms.wire.openwire.commands import ConsumerId, RemoveSubscriptionInfo
from pyjms_broker.api.completion import Completion
from pyjms_broker.api.destination import RegionDestination
from pyjms_broker.api.message import NO_TRANSACTION, MessageReference
from pyjms_broker.api.subscription import Subscription
from pyjms_broker.management import view_attributes as attributes
from pyjms_broker.management.diagnosis import diagnose_consumer
from pyjms_broker.management.host import Managed, ManagementContext
from pyjms_broker.management.messages import as_item, browse_limit
from pyjms_broker.management.model import (
    Action,
    Entry,
    Operations,
    Readers,
    View,
    ViewKind,
    part,
    view_kind,
)
from pyjms_broker.management.object_name import ObjectName
from pyjms_broker.management.views.destinations import cursor_readers, oldest_readers
from pyjms_broker.policy.slow_consumers import (
    AbortSlowAckConsumerAttributes,
    AbortSlowConsumerAttributes,
    AbortSlowConsumerWatch,
)
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


def _consumer_id(c: _Consumer) -> ConsumerId | None:
    """Return the consumer's id; an offline subscription has none, even if it had a consumer."""
    return c.it.consumer_id if _is_active(c) else None


def _session_id(c: _Consumer) -> int:
    found = _consumer_id(c)
    return 0 if found is None else found.session_id


def _number(c: _Consumer) -> int:
    found = _consumer_id(c)
    return -1 if found is None else found.value


def _connection_id(c: _Consumer) -> str | None:
    found = _consumer_id(c)
    return "NOTSET" if found is None else found.connection_id


def _is_active(c: _Consumer) -> bool:
    return not isinstance(c.it, DurableTopicSubscription) or c.it.is_active


def _connection(c: _Consumer) -> str | None:
    context = c.it.context
    if not _is_active(c) or context.connector_name is None or context.client_id is None:
        return None
    return str(
        c.tree.names.connector(
            context.connector_name, connectionViewType="clientId", connectionName=context.client_id
        )
    )


def _settle_mode(c: _Consumer) -> str | None:
    consumer_id, connection = _consumer_id(c), c.it.context.connection
    link = None if consumer_id is None or connection is None else connection.link_of(consumer_id)
    return None if link is None else link.settle_mode


def _matches(kind: type[Queue | Topic]) -> Callable[[_Consumer, str], bool]:
    return lambda c, text: (
        c.it.requested.is_topic == (kind is Topic) and matches(c.it.requested, kind(text))
    )


_READERS: Final[Readers[Managed[Any]]] = {
    "ClientId": _client_id,
    "ConnectionId": _connection_id,
    "SessionId": _session_id,
    "SubscriptionId": _number,
    "Active": _is_active,
    "Durable": lambda c: isinstance(c.it, DurableTopicSubscription),
    "Connection": _connection,
    "SettleMode": _settle_mode,
}


def _close(c: _Consumer) -> None:
    if not _is_active(c) or c.it.context.connection is None:
        raise IllegalStateException(
            f"{c.it} has no client that could close it",
            hint="an inactive durable subscription can be deleted",
        )
    c.tree.region.slow_consumers.abort(c.it, with_connection=False)


async def _why(c: _Consumer) -> dict[str, object]:
    return (await diagnose_consumer(c.tree, c.it)).as_item()


_OPERATIONS: Final[Operations] = {
    "CompositeData why()": Action("Return why the consumer gets nothing, with remedies.", _why),
    **{
        f"boolean isMatching{kind.__name__}(String name)": Action(
            "Whether the subscription's destination matches the name.", _matches(kind)
        )
        for kind in (Queue, Topic)
    },
    "void close()": Action(
        "Tell the client to close the consumer, and remove it after a second if it did not.", _close
    ),
    "void resetStatistics()": Action(
        "Reset the counters; messages in flight still count as dispatched.",
        lambda c: c.it.reset_statistics(),
    ),
}


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


_DURABLE_READERS: Final[Readers[_Durable]] = {
    **_READERS,
    **cursor_readers(lambda c: not _has_space(c), _cursor_bytes, _cursor_limit),
    **oldest_readers(lambda c: c.it.oldest_arrival()),
}
_DURABLE_OPERATIONS: Final[Operations] = {
    "CompositeData[] browse()": Action(
        "Return the first messages, at most max_browse_page_size of the policy.", _browse
    ),
    "TabularData browseAsTable()": Action("Return the first messages as a table.", _browse),
    "void removeMessage(String messageId)": Action("Remove a waiting message.", _remove_message),
    "boolean doesCursorHaveSpace()": Action(
        "Whether memory has space for more pending messages.", _has_space
    ),
    "boolean doesCursorHaveMessagesBuffered()": Action(
        "Whether messages wait for dispatch.", lambda c: c.it.pending_count > 0
    ),
    "int cursorSize()": Action("Number of waiting messages.", lambda c: c.it.pending_count),
    "void destroy()": Action("Delete the subscription; an error while it is active.", _destroy),
}

SUBSCRIPTION: Final[ViewKind[Any]] = view_kind(
    "SubscriptionView",
    "A consumer of a queue.",
    attributes.SUBSCRIPTION,
    _READERS,
    _OPERATIONS,
)
TOPIC_SUBSCRIPTION: Final[ViewKind[Any]] = view_kind(
    "TopicSubscriptionView",
    "A consumer of a topic.",
    attributes.TOPIC_SUBSCRIPTION,
    {
        **_READERS,
        "MaximumPendingQueueSize": lambda c: (
            c.it.maximum_pending_message_limit if isinstance(c.it, TopicSubscription) else -1
        ),
    },
    _OPERATIONS,
)
DURABLE: Final[ViewKind[Any]] = view_kind(
    "DurableSubscriptionView",
    "A durable subscription with a consumer.",
    attributes.DURABLE,
    _DURABLE_READERS,
    {**_OPERATIONS, **_DURABLE_OPERATIONS},
)
INACTIVE_DURABLE: Final[ViewKind[Any]] = view_kind(
    "InactiveDurableSubscriptionView",
    "A durable subscription without a consumer.",
    attributes.DURABLE,
    _DURABLE_READERS,
    {**_OPERATIONS, **_DURABLE_OPERATIONS},
)


_Strategy: TypeAlias = Managed[WatchedStrategy]


def _milliseconds(field: str) -> Callable[[_Strategy], int]:
    return lambda s: int(getattr(s.it.strategy, field) * 1000)


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


_SLOW_READERS: Final[Readers[_Strategy]] = {
    "CheckPeriod": _milliseconds("check_period"),
    "MaxSlowDuration": _milliseconds("max_slow_duration"),
    "SlowConsumers": _rows,
}
_SLOW_OPERATIONS: Final[Operations] = {
    f"void {name}({java_type} consumerToAbort)": Action(
        f"Close a {what}; the argument is the consumer's object name.",
        partial(_abort, with_connection=with_connection),
    )
    for name, what, with_connection in (
        ("abortConsumer", "consumer", False),
        ("abortConnection", "consumer's connection", True),
    )
    for java_type in ("String", "ObjectName")
}

SLOW_CONSUMERS: Final[ViewKind[_Strategy]] = view_kind(
    "AbortSlowConsumerStrategyView",
    "A strategy that aborts slow consumers.",
    attributes.SLOW_CONSUMERS,
    _SLOW_READERS,
    _SLOW_OPERATIONS,
)
SLOW_ACK_CONSUMERS: Final[ViewKind[_Strategy]] = view_kind(
    "AbortSlowAckConsumerStrategyView",
    "A strategy that aborts consumers that acknowledge too slowly.",
    attributes.SLOW_ACK_CONSUMERS,
    {**_SLOW_READERS, "MaxTimeSinceLastAck": _milliseconds("max_time_since_last_ack")},
    _SLOW_OPERATIONS,
)


def _kind_of(subscription: Subscription) -> ViewKind[Any]:
    if isinstance(subscription, DurableTopicSubscription):
        return DURABLE if subscription.is_active else INACTIVE_DURABLE
    return TOPIC_SUBSCRIPTION if subscription.requested.is_topic else SUBSCRIPTION


def subscription_view(context: ManagementContext, subscription: Subscription) -> View[Any]:
    """Return the view of a subscription, without a search, which takes long if there are many."""
    name = context.names.consumer(subscription)
    return View(name, _kind_of(subscription), Managed(context, subscription))


def _subscriptions(context: ManagementContext) -> Iterator[Entry]:
    for subscription in context.region.subscriptions.all():
        yield context.names.consumer(subscription), _kind_of(subscription), subscription


def _slow_consumer_strategies(context: ManagementContext) -> Iterator[Entry]:
    for watched in context.region.slow_consumers.strategies():
        by_ack = isinstance(watched.strategy, AbortSlowAckConsumerAttributes)
        if isinstance(watched.strategy, AbortSlowConsumerAttributes):
            kind = SLOW_ACK_CONSUMERS if by_ack else SLOW_CONSUMERS
            yield context.names.slow_consumer_strategy(watched), kind, watched


PARTS: Final = (
    part(
        *(_subscriptions, "destinationType", "destinationName"),
        *("endpoint", "clientId", "consumerId"),
    ),
    part(_slow_consumer_strategies, "service", "instanceName"),
)
