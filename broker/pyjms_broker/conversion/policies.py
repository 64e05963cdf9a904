"""Convert `<destinationPolicy>` and the virtual destinations of `<destinationInterceptors>`."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Final

from pyjms_broker.conversion.draft import Draft, Handler, Lost, Path, Spec, destination_of
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

__all__ = ["CHOICES", "FORWARDED", "STRATEGIES", "convert_interceptors", "convert_policies"]

# --- Conversion of `<policyEntry>` with its strategies, and of virtual destinations.

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


def convert_policies(draft: Draft, element: Element, path: Path) -> None:
    """Convert `<destinationPolicy>`."""
    policy_map = draft.only_child(element)
    if policy_map is not None:
        draft.convert_children(policy_map, _MAP_CHILDREN, (*path, "policies"))


def _entries(draft: Draft, element: Element, path: Path) -> None:
    draft.convert_children(element, {"policyEntry": _entry}, path)


def _entry(draft: Draft, element: Element, path: Path) -> None:
    here = draft.append_for_destination(element, path, POLICY_ENTRY)
    draft.convert_children(element, _ENTRY_CHILDREN, here)


def _strategy(
    known: Mapping[str, Spec | str], key: str, draft: Draft, element: Element, path: Path
) -> None:
    """Convert a strategy to a section with a type, or to a word; report an unknown one."""
    strategy = draft.only_child(element)
    if strategy is None:
        return
    here = (*path, key)
    match known.get(strategy.name):
        case None:
            _name_unknown(draft, strategy, known)
        case str(word):
            _put_word(word, draft, strategy, here)
        case spec:
            draft.put(here, {}, strategy)
            draft.convert_attributes(strategy, spec, here)
            draft.convert_children(strategy, _STRATEGY_CHILDREN, here)


def _put_word(word: str, draft: Draft, strategy: Element, path: Path) -> None:
    draft.put(path, word, strategy)
    if strategy.name in CHOICES_NOTES:
        draft.findings.note(strategy, CHOICES_NOTES[strategy.name])
    for name, text in strategy.attributes.items():
        draft.name_lost(strategy, CHOICES_LOST.get(name, _NO_ATTRIBUTES), name, text)


def _name_unknown(draft: Draft, element: Element, known: Mapping[str, object]) -> None:
    lost = CHOICES_LOST.get(element.name)
    if lost is None:
        lost = Lost(f"there is no {element.name} here", f"there are {', '.join(known)}")
    draft.findings.unsupported(element, lost.reason, lost.hint)


def _dead_letter_queue(draft: Draft, element: Element, path: Path) -> None:
    queue = draft.only_child(element)
    name = None if queue is None else destination_of(queue)
    if queue is not None and name is not None:
        draft.put((*path, "dead_letter_queue"), name, queue)


def convert_interceptors(draft: Draft, element: Element, path: Path) -> None:
    """Convert `<destinationInterceptors>`, which replace the default virtual topics."""
    draft.put((*path, "virtual_destinations"), [], element)
    draft.convert_children(element, _INTERCEPTORS, path)


def _virtual_destinations(draft: Draft, element: Element, path: Path) -> None:
    draft.convert_children(element, {"virtualDestinations": _virtual}, path)


def _virtual(draft: Draft, element: Element, path: Path) -> None:
    for each in element.read_children():
        spec = VIRTUAL_DESTINATIONS.get(each.name)
        if spec is None:
            _name_unknown(draft, each, VIRTUAL_DESTINATIONS)
            continue
        if spec.type != "virtual_topic" and not _targets(each):
            draft.findings.unsupported(each, "it forwards to no destination")
            continue
        here = draft.append((*path, "virtual_destinations"), {}, each)
        draft.convert_attributes(each, spec, here)
        draft.convert_children(each, {"forwardTo": _forward}, here)


def _targets(element: Element) -> bool:
    forward = element.child("forwardTo")
    return forward is not None and any(each.name in FORWARDED for each in forward.children)


def _forward(draft: Draft, element: Element, path: Path) -> None:
    for each in element.read_children():
        name = destination_of(each)
        if each.name not in FORWARDED or name is None:
            draft.findings.unsupported(each, "it names no queue or topic")
            continue
        here = draft.append((*path, "forward_to"), {"destination": name}, each)
        draft.convert_attributes(each, FORWARD, here)
        draft.convert_children(each, {"filter": Lost("it is a Java object", "use selector")}, here)


def _mirrored(draft: Draft, element: Element, path: Path) -> None:
    draft.put((*path, "use_mirrored_queues"), True, element)
    for name, text in element.attributes.items():
        lost = MIRRORED_QUEUE_LOST.get(name, _NO_ATTRIBUTES)
        draft.name_lost(element, lost, name, text)


_NO_ATTRIBUTES: Final = Lost("it has no such attribute here")
_KNOWN: Final[dict[str, Mapping[str, Spec | str]]] = {**STRATEGIES, **CHOICES}
_STRATEGY_CHILDREN: Final[dict[str, Handler | Lost]] = {
    "deadLetterQueue": _dead_letter_queue,
    "query": Lost("it is a Java object", "write a query in Python (docs/extending.md)"),
}
_ENTRY_CHILDREN: Final[dict[str, Handler | Lost]] = {
    **POLICY_ENTRY_LOST,
    **{name: partial(_strategy, known, snake_case(name)) for name, known in _KNOWN.items()},
}
_MAP_CHILDREN: Final[dict[str, Handler | Lost]] = {
    "policyEntries": _entries,
    "entries": _entries,
    "policyEntry": _entry,
    "defaultEntry": _entries,
}
_INTERCEPTORS: Final[dict[str, Handler | Lost]] = {
    "virtualDestinationInterceptor": _virtual_destinations,
    "mirroredQueue": _mirrored,
}
