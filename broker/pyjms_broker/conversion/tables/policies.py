"""Conversion of `<policyEntry>` with its strategies, and of virtual destinations."""

from __future__ import annotations

from typing import Final

from pyjms_broker.conversion.sections import Lost, Spec
from pyjms_broker.settings.policies import (
    AbortSlowAckConsumerSettings,
    AbortSlowConsumerSettings,
    ConditionalNetworkBridgeSettings,
    ConstantPendingLimitSettings,
    DiscardingDeadLetterSettings,
    IndividualDeadLetterSettings,
    LowestPriorityEvictionSettings,
    OldestEvictionSettings,
    PolicySettings,
    PrefetchRatePendingLimitSettings,
    SharedDeadLetterSettings,
    UniquePropertyEvictionSettings,
)
from pyjms_broker.settings.recovery import (
    FixedCountRecoverySettings,
    FixedSizedRecoverySettings,
    TimedRecoverySettings,
)
from pyjms_broker.settings.virtual import (
    CompositeQueueSettings,
    CompositeTopicSettings,
    ForwardSettings,
    VirtualTopicSettings,
)

__all__ = [
    "CHOICES",
    "CHOICES_LOST",
    "CHOICES_NOTES",
    "FORWARD",
    "FORWARDED",
    "MIRRORED_QUEUE_LOST",
    "POLICY_ENTRY",
    "POLICY_ENTRY_LOST",
    "STRATEGIES",
    "VIRTUAL_DESTINATIONS",
]

_DESTINATION: Final = frozenset({"queue", "topic", "destination", "physicalName"})
_JAVA: Final = "it is a Java object"

POLICY_ENTRY: Final = Spec(
    PolicySettings,
    keys={"inactiveTimoutBeforeGC": "inactive_timeout_before_gc"},
    handled=_DESTINATION,
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
)
POLICY_ENTRY_LOST: Final = {
    "messageGroupMapFactory": Lost("it is a Java object", "use messageGroupMapFactoryType")
}

_RECOVERY_NO_EFFECT: Final = {"broker": "the broker is this one"}
_FIXED_COUNT: Final = Spec(FixedCountRecoverySettings, "fixed_count")
_FIXED_SIZED: Final = Spec(
    FixedSizedRecoverySettings,
    "fixed_sized",
    lost={"useSharedBuffer": Lost("each topic has its own buffer", same_as="false")},
)
_DEAD_LETTERS: Final = {"sharedDeadLetterStrategy": Spec(SharedDeadLetterSettings, "shared")}
_SLOW_NO_EFFECT: Final = {"name": "the name has no effect"}

STRATEGIES: Final[dict[str, dict[str, Spec]]] = {
    "deadLetterStrategy": {
        **_DEAD_LETTERS,
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
        "fixedCountSubscriptionRecoveryPolicy": _FIXED_COUNT,
        "fixedSizedSubscriptionRecoveryPolicy": _FIXED_SIZED,
        "lastImageSubscriptionRecoveryPolicy": Spec(None, "last_image"),
        "timedSubscriptionRecoveryPolicy": Spec(TimedRecoverySettings, "timed"),
    },
}
"""Elements converted to a section with a `type`, by the property that contains them."""

CHOICES: Final[dict[str, dict[str, str]]] = {
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

CHOICES_NOTES: Final = dict.fromkeys(
    ("fileQueueCursor", "fileDurableSubscriberCursor"),
    "the store keeps the messages, so that no copy in files is needed",
)
CHOICES_LOST: Final[dict[str, Lost]] = {
    "clientIdFilterDispatchPolicy": Lost("messages cannot be dispatched by client id"),
    "priorityNetworkDispatchPolicy": Lost(
        "duplicate subscriptions of a network are suppressed by the network connector",
        "keep suppress_duplicate_topic_subscriptions of network_connectors",
    ),
    "queryBasedSubscriptionRecoveryPolicy": Lost(
        _JAVA, "write a query in Python (docs/extending.md): type: query_based"
    ),
    "retainedMessageSubscriptionRecoveryPolicy": Lost(
        "a retained message is always kept", "leave it out"
    ),
    "immediatePriorityDispatch": Lost("cursors have no attributes", same_as="true"),
    "useCache": Lost("cursors have no attributes", "set use_cache of the policy"),
}

_CONCURRENT: Final = {
    "concurrentSend": "copies are sent one after the other",
    "copyMessage": "messages are copied as far as they are changed",
    "transactedSend": "all copies are stored together with the message",
}
VIRTUAL_DESTINATIONS: Final = {
    "virtualTopic": Spec(VirtualTopicSettings, "virtual_topic", no_effect=_CONCURRENT),
    "compositeQueue": Spec(CompositeQueueSettings, "composite_queue", no_effect=_CONCURRENT),
    "compositeTopic": Spec(CompositeTopicSettings, "composite_topic", no_effect=_CONCURRENT),
}
FORWARD: Final = Spec(ForwardSettings, handled=_DESTINATION)
FORWARDED: Final = ("queue", "topic", "filteredDestination")
MIRRORED_QUEUE_LOST: Final = {
    "prefix": Lost("mirrors are named VirtualTopic.Mirror.x", same_as="VirtualTopic.Mirror."),
    "postfix": Lost("mirrors are named VirtualTopic.Mirror.x", same_as=""),
    "copyMessage": Lost("messages are copied", same_as="true"),
}
