"""Convert `<destinationPolicy>` and the virtual destinations of `<destinationInterceptors>`."""

from __future__ import annotations

from typing import Final

from pydantic import BaseModel

from pyjms_broker.conversion.draft import (
    Draft,
    Handler,
    Lost,
    Path,
    Rule,
    Spec,
    children,
    destination_at,
    inside,
    item,
    section,
    word,
)
from pyjms_broker.conversion.xml_reader import Element
from pyjms_broker.settings.persistence import snake_case
from pyjms_broker.settings.policies import (
    AbortSlowAckConsumerSettings,
    AbortSlowConsumerSettings,
    CompositeQueueSettings,
    CompositeTopicSettings,
    ConditionalNetworkBridgeSettings,
    ConstantPendingLimitSettings,
    DiscardingDeadLetterSettings,
    FixedCountRecoverySettings,
    FixedSizedRecoverySettings,
    ForwardSettings,
    IndividualDeadLetterSettings,
    LowestPriorityEvictionSettings,
    OldestEvictionSettings,
    PolicySettings,
    PrefetchRatePendingLimitSettings,
    SharedDeadLetterSettings,
    TimedRecoverySettings,
    UniquePropertyEvictionSettings,
    VirtualTopicSettings,
)

_SLOW_NO_EFFECT: Final = {"name": "the name has no effect"}
_STRATEGIES: Final[dict[str, dict[str, Spec]]] = {
    "deadLetterStrategy": {
        "sharedDeadLetterStrategy": Spec(
            SharedDeadLetterSettings,
            "shared",
            children={"deadLetterQueue": inside(destination_at("dead_letter_queue"))},
        ),
        "individualDeadLetterStrategy": Spec(IndividualDeadLetterSettings, "individual"),
        "discarding": Spec(
            DiscardingDeadLetterSettings,
            "discarding",
            no_effect=dict.fromkeys(
                ("processExpired", "processNonPersistent", "expiration", "enableAudit"),
                "discarded messages are not stored",
            ),
        ),
    },
    "pendingMessageLimitStrategy": {
        "constantPendingMessageLimitStrategy": Spec(ConstantPendingLimitSettings, "constant"),
        "prefetchRatePendingMessageLimitStrategy": Spec(
            PrefetchRatePendingLimitSettings, "prefetch_rate"
        ),
    },
    "messageEvictionStrategy": {
        "oldestMessageEvictionStrategy": Spec(OldestEvictionSettings, "oldest"),
        "oldestMessageWithLowestPriorityEvictionStrategy": Spec(
            LowestPriorityEvictionSettings, "oldest_with_lowest_priority"
        ),
        "uniquePropertyMessageEvictionStrategy": Spec(
            UniquePropertyEvictionSettings, "unique_property"
        ),
    },
    "networkBridgeFilterFactory": {
        "conditionalNetworkBridgeFilterFactory": Spec(ConditionalNetworkBridgeSettings)
    },
    "slowConsumerStrategy": {
        "abortSlowConsumerStrategy": Spec(
            AbortSlowConsumerSettings, "abort_slow", no_effect=_SLOW_NO_EFFECT
        ),
        "abortSlowAckConsumerStrategy": Spec(
            AbortSlowAckConsumerSettings, "abort_slow_ack", no_effect=_SLOW_NO_EFFECT
        ),
    },
    "subscriptionRecoveryPolicy": {
        "noSubscriptionRecoveryPolicy": Spec(None, "none"),
        "fixedCountSubscriptionRecoveryPolicy": Spec(FixedCountRecoverySettings, "fixed_count"),
        "fixedSizedSubscriptionRecoveryPolicy": Spec(
            FixedSizedRecoverySettings,
            "fixed_sized",
            lost={"useSharedBuffer": Lost("each topic has its own buffer", same_as="false")},
        ),
        "lastImageSubscriptionRecoveryPolicy": Spec(None, "last_image"),
        "timedSubscriptionRecoveryPolicy": Spec(TimedRecoverySettings, "timed"),
    },
}
"""Elements converted to a section with a `type`, by the property that contains them."""
_CHOICES: Final[dict[str, dict[str, str]]] = {
    "dispatchPolicy": {
        "simpleDispatchPolicy": "simple",
        "roundRobinDispatchPolicy": "round_robin",
        "strictOrderDispatchPolicy": "strict_order",
        "priorityDispatchPolicy": "priority",
    },
    "pendingQueuePolicy": {
        "storeCursor": "storeCursor",
        "vmQueueCursor": "vmQueueCursor",
        "fileQueueCursor": "storeCursor",
    },
    "pendingSubscriberPolicy": {"fileCursor": "fileCursor", "vmCursor": "vmCursor"},
    "pendingDurableSubscriberPolicy": {
        "storeDurableSubscriberCursor": "storeDurableSubscriberCursor",
        "vmDurableCursor": "vmDurableCursor",
        "fileDurableSubscriberCursor": "storeDurableSubscriberCursor",
    },
}
"""Elements converted to a word, by the property that contains them."""
_LOST: Final[dict[str, Rule]] = {
    "clientIdFilterDispatchPolicy": Lost("messages cannot be dispatched by client id"),
    "priorityNetworkDispatchPolicy": Lost(
        "duplicate subscriptions of a network are suppressed by the network connector",
        "keep suppress_duplicate_topic_subscriptions of network_connectors",
    ),
    "queryBasedSubscriptionRecoveryPolicy": Lost(
        "it is a Java object", "write a query in Python (docs/extending.md): type: query_based"
    ),
    "retainedMessageSubscriptionRecoveryPolicy": Lost(
        "a retained message is always kept", "leave it out"
    ),
}
_CURSOR: Final = Spec(
    lost={
        "immediatePriorityDispatch": Lost("cursors have no attributes", same_as="true"),
        "useCache": Lost("cursors have no attributes", "set use_cache of the policy"),
    }
)


def _choice(name: str, element: str, text: str) -> Handler:
    note = ""
    if element.startswith("file") and text.startswith("store"):
        note = "the store keeps the messages, so that no copy in files is needed"
    return word(snake_case(name), text, _CURSOR, note)


_POLICY_ENTRY: Final = Spec(
    PolicySettings,
    keys={"inactiveTimoutBeforeGC": "inactive_timeout_before_gc"},
    has_destination=True,
    no_effect={
        "optimizedDispatch": "messages are always dispatched by the sender's task",
        "reduceMemoryFootprint": "messages are not kept in two forms",
        "doOptimzeMessageStorage": "it only matters for ActiveMQ's store",
        "optimizeMessageStoreInFlightLimit": "it only matters for ActiveMQ's store",
        "useTopicSubscriptionInflightStats": "they are always counted",
    },
    lost={
        "sendDuplicateFromStoreToDLQ": Lost(
            "a duplicate that the store has is dropped", same_as="false"
        )
    },
    children={
        "messageGroupMapFactory": Lost("it is a Java object", "use messageGroupMapFactoryType"),
        **{
            name: inside(
                {**_LOST, **{each: section(snake_case(name), spec) for each, spec in known.items()}}
            )
            for name, known in _STRATEGIES.items()
        },
        **{
            name: inside(
                {**_LOST, **{each: _choice(name, each, text) for each, text in known.items()}}
            )
            for name, known in _CHOICES.items()
        },
    },
)
_ENTRY: Final = item("policies", _POLICY_ENTRY)
_ENTRIES: Final = children({"policyEntry": _ENTRY})
POLICIES: Final = inside(
    children(
        {
            "policyEntries": _ENTRIES,
            "entries": _ENTRIES,
            "policyEntry": _ENTRY,
            "defaultEntry": _ENTRIES,
        }
    )
)
"""Converts `<destinationPolicy>`."""

_FORWARD: Final = item(
    "forward_to",
    Spec(
        ForwardSettings,
        needs_destination=True,
        children={"filter": Lost("it is a Java object", "use selector")},
    ),
)
_FORWARDED: Final = {"queue": _FORWARD, "topic": _FORWARD, "filteredDestination": _FORWARD}
_CONCURRENT: Final = {
    "concurrentSend": "copies are sent one after the other",
    "copyMessage": "messages are copied as far as they are changed",
    "transactedSend": "all copies are stored together with the message",
}


def _virtual(type_: str, model: type[BaseModel]) -> Handler:
    convert = item(
        "virtual_destinations",
        Spec(model, type_, no_effect=_CONCURRENT, children={"forwardTo": children(_FORWARDED)}),
    )

    def convert_unless_empty(draft: Draft, element: Element, path: Path) -> None:
        forward = element.child("forwardTo")
        if type_ != "virtual_topic" and (
            forward is None or not any(each.name in _FORWARDED for each in forward.children)
        ):
            draft.findings.report(element, "it forwards to no destination")
        else:
            convert(draft, element, path)

    return convert_unless_empty


_INTERCEPTORS: Final = {
    "virtualDestinationInterceptor": children(
        {
            "virtualDestinations": children(
                {
                    "virtualTopic": _virtual("virtual_topic", VirtualTopicSettings),
                    "compositeQueue": _virtual("composite_queue", CompositeQueueSettings),
                    "compositeTopic": _virtual("composite_topic", CompositeTopicSettings),
                }
            )
        }
    ),
    "mirroredQueue": word(
        "use_mirrored_queues",
        True,
        Spec(
            lost={
                "prefix": Lost(
                    "mirrors are named VirtualTopic.Mirror.x", same_as="VirtualTopic.Mirror."
                ),
                "postfix": Lost("mirrors are named VirtualTopic.Mirror.x", same_as=""),
                "copyMessage": Lost("messages are copied", same_as="true"),
            }
        ),
    ),
}


def convert_interceptors(draft: Draft, element: Element, path: Path) -> None:
    """Convert `<destinationInterceptors>`, which replace the default virtual topics."""
    draft.put((*path, "virtual_destinations"), [], element)
    draft.convert_children(element, _INTERCEPTORS, path)
