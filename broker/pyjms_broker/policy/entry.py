"""The settings of destinations: the entries of a policy, and the map that finds the one of a name.

Durations are in seconds. An entry is applied when a destination or a subscription is created.
(ActiveMQ PolicyEntry, PolicyMap; activemq-broker P1)
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

from pyjms.jms.destination import Destination, TemporaryQueue, TemporaryTopic
from pyjms_broker.api.policies import DeadLetterStrategy, SubscriptionRecoveryPolicy
from pyjms_broker.attribute import Unit, attribute, count, duration, flag
from pyjms_broker.policy.dead_letter import SharedDeadLetterStrategy, audit_depth, audited_producers
from pyjms_broker.policy.eviction import (
    MessageEvictionStrategy,
    OldestMessageEvictionStrategy,
    PendingMessageLimitStrategy,
)
from pyjms_broker.policy.wildcard import matches, specificity

if TYPE_CHECKING:
    from pyjms_broker.policy.network_bridges import ConditionalNetworkBridgeFilterFactory
    from pyjms_broker.policy.slow_consumers import SlowConsumerStrategy

PendingQueuePolicy: TypeAlias = Literal["storeCursor", "vmQueueCursor"]
PendingSubscriberPolicy: TypeAlias = Literal["fileCursor", "vmCursor"]
PendingDurableSubscriberPolicy: TypeAlias = Literal[
    "storeDurableSubscriberCursor", "vmDurableCursor"
]

_DEFAULT_PREFETCH: Final = {"queue": 1000, "browser": 500, "topic": 32767, "durable": 100}
_DEFAULT_DURABLE_PREFETCHES: Final = (100, 1000)
_NO_POLICY_PRODUCERS: Final = 1024
_NO_POLICY_DEPTH: Final = 2048


def _prefetch(default: int, consumers: str) -> int:
    return count(default, f"Prefetch of {consumers} that do not set one.")


def _advisory(event: str, subject: str = "") -> bool:
    return flag(f"Whether each {event} causes an advisory{subject}.")


@dataclass(frozen=True, kw_only=True, init=False, repr=False, eq=False)  # only a base class
class PolicyAttributes:
    """The attributes that configuration files contain unchanged."""

    memory_limit: int = attribute(
        0, "Memory for the destination's messages; 0: no separate limit.", unit=Unit.BYTES
    )
    producer_flow_control: bool = flag(
        "Whether senders wait while the destination is full.", default=True
    )
    send_fail_if_no_space: bool | None = attribute(
        None, "Whether sends fail instead of waiting; null: as in system_usage."
    )
    send_fail_if_no_space_after_timeout: float | None = duration(
        None, "Time that sends wait before they fail, 0: unlimited; null: as in system_usage."
    )
    blocked_producer_warning_interval: float = duration(
        30.0, "Minimum time between warnings about waiting senders; 0: no warnings."
    )
    minimum_message_size: int = attribute(
        1024,
        "Memory counted for each message in addition to its body and properties.",
        unit=Unit.BYTES,
    )
    use_cache: bool = flag(
        "Whether stored messages are also kept in memory while there is space.", default=True
    )
    cursor_memory_high_water_mark: int = count(
        70,
        "Percentage of the memory limits above which pending messages stay in the stores.",
    )
    store_usage_high_water_mark: int = count(
        100, "Percentage of store_limit above which senders wait.", minimum=1
    )
    persist_jms_redelivered: bool = flag(
        "Whether a dispatch is stored first, so that JMSRedelivered is set after a restart."
    )
    """Whether a queue's store marks each message as redelivered before it is sent."""
    max_page_size: int = count(
        200, "Maximum number of undispatched messages of a queue that are paged in.", minimum=1
    )
    max_browse_page_size: int | None = count(
        400, "Maximum number of messages that a browser returns; null: unlimited.", minimum=1
    )
    max_expire_page_size: int = count(
        400, "Maximum number of messages checked by an expiry scan.", minimum=1
    )
    expire_messages_period: float = duration(30.0, "Time between expiry scans; 0: no scans.")
    prioritized_messages: bool = flag("Whether messages are ordered by JMSPriority.")
    strict_order_dispatch: bool = flag(
        "Whether one consumer's prefetch is filled before the next one's."
    )
    use_consumer_priority: bool = flag(
        "Whether consumers of higher priority are preferred.", default=True
    )
    all_consumers_exclusive_by_default: bool = flag("Whether every consumer is exclusive.")
    lazy_dispatch: bool = flag(
        "Whether only as many messages are paged in as the consumers have capacity for."
    )
    consumers_before_dispatch_starts: int = count(
        0, "Number of consumers to wait for before the first dispatch."
    )
    time_before_dispatch_starts: float = duration(0.0, "Time to wait before the first dispatch.")
    """Seconds to wait before the first dispatch.
    With `consumers_before_dispatch_starts` it is the longest wait, and 0 means 1 second.
    """
    message_group_map_factory_type: str = attribute(
        "cached",
        "cached, cached?cacheSize=1024, bucket?bucketCount=1024 or simple: how groups are tracked.",
    )
    queue_prefetch: int = _prefetch(1000, "queue consumers")
    queue_browser_prefetch: int = _prefetch(500, "queue browsers")
    topic_prefetch: int = _prefetch(32767, "topic consumers")
    durable_topic_prefetch: int = _prefetch(100, "durable subscribers")
    """The prefetches replace a consumer's own only if that is the built-in default."""
    use_prefetch_extension: bool = flag(
        "Whether delivered messages leave the prefetch window before they are acknowledged.",
        default=True,
    )
    enable_audit: bool = flag(
        "Whether messages with a repeated message id are dropped.", default=True
    )
    max_producers_to_audit: int = audited_producers(64)
    max_audit_depth: int = audit_depth(10_000, "a topic's audit")
    max_queue_audit_depth: int = audit_depth(10_000, "a queue's audit")
    pending_queue_policy: PendingQueuePolicy = attribute(
        "storeCursor",
        "Cursor of queues; pending messages that exceed memory are on disk; vmQueueCursor: never.",
    )
    """The cursor of a queue: above the high-water mark, `storeCursor` leaves pending messages in
    the store or the temp store; `vmQueueCursor` keeps all in memory."""
    pending_subscriber_policy: PendingSubscriberPolicy = attribute(
        "fileCursor", "The same for non-durable topic consumers; vmCursor: never on disk."
    )
    """The cursor of a non-durable topic consumer: `fileCursor` uses the temp store for pending
    messages, `vmCursor` keeps all in memory."""
    pending_durable_subscriber_policy: PendingDurableSubscriberPolicy = attribute(
        "storeDurableSubscriberCursor",
        "The same for durable subscriptions; vmDurableCursor: never on disk.",
    )
    """The cursor of a durable subscription: `storeDurableSubscriberCursor` leaves pending
    messages in the stores, like a queue's; `vmDurableCursor` keeps all in memory."""
    always_retroactive: bool = flag("Whether all non-durable topic consumers are retroactive.")
    max_destinations: int = attribute(
        -1, "Maximum number of destinations that match the policy; -1: unlimited.", minimum=-1
    )
    gc_inactive_destinations: bool = flag(
        "Whether unused destinations are removed; see schedule_period_for_destination_purge."
    )
    inactive_timeout_before_gc: float = duration(
        60.0, "Time without consumers, producers and messages before their removal; 0: never."
    )
    gc_with_network_consumers: bool = flag(
        "Whether destinations with only network consumers count as unused."
    )
    send_advisory_if_no_consumers: bool = flag(
        "Whether a non-persistent message without a consumer is sent to an advisory topic."
    )
    advisory_for_delivery: bool = _advisory("enqueued message")
    advisory_for_dispatched: bool = _advisory("dispatched message")
    advisory_for_consumed: bool = _advisory("acknowledged message")
    advisory_for_discarding_messages: bool = _advisory("evicted message")
    advisory_for_slow_consumers: bool = _advisory("consumer that becomes slow")
    advisory_for_fast_producers: bool = _advisory(
        "message that arrives at full memory", " about its producer"
    )
    advisory_when_full: bool = _advisory("message that arrives at full memory", " about the memory")
    include_body_for_advisory: bool = flag(
        "Whether advisories about messages contain their bodies."
    )


@dataclass(frozen=True, kw_only=True)
class PolicyEntry(PolicyAttributes):
    """Settings for the destinations that `destination` (a name or a pattern) matches.

    `temp_queue` and `temp_topic` make it the entry of all temporary queues or topics. An entry
    without any of these is the default of the map.
    Source: ActiveMQ PolicyEntry (2.1); names in snake_case.
    """

    destination: Destination | None = None
    temp_queue: bool = False
    temp_topic: bool = False
    dispatch_policy: str = "simple"
    """Topics: `simple`, `round_robin`, `strict_order`, `priority` or those that exclude consumers:
    `priority_network` or `client_id_filter`."""
    dead_letter_strategy: DeadLetterStrategy = field(default_factory=SharedDeadLetterStrategy)
    pending_message_limit_strategy: PendingMessageLimitStrategy | None = None
    """The limit of pending messages of a topic consumer; None: unlimited."""
    message_eviction_strategy: MessageEvictionStrategy = field(
        default_factory=OldestMessageEvictionStrategy
    )
    slow_consumer_strategy: SlowConsumerStrategy | None = None
    """The strategy that aborts slow consumers; None: none are aborted."""
    subscription_recovery_policy: SubscriptionRecoveryPolicy | None = None
    """The policy for messages that a topic keeps for retroactive consumers; None: retained only."""
    network_bridge_filter_factory: ConditionalNetworkBridgeFilterFactory | None = None
    """The filter of bridges from a queue; None: all messages that have not been at their target."""
    is_built_in: bool = field(default=False, repr=False)
    """Whether this is the built-in entry, which applies if no user's entry does."""

    @staticmethod
    def built_in() -> PolicyEntry:
        """Return the settings of destinations that no entry matches (activemq-broker P2)."""
        return PolicyEntry(
            max_producers_to_audit=_NO_POLICY_PRODUCERS,
            max_audit_depth=_NO_POLICY_DEPTH,
            max_queue_audit_depth=_NO_POLICY_DEPTH,
            max_browse_page_size=None,
            is_built_in=True,
        )

    @property
    def target(self) -> Destination | None:
        """The pattern of the entry's destinations; None for the default entry."""
        if self.temp_queue:
            return TemporaryQueue(">")
        if self.temp_topic:
            return TemporaryTopic(">")
        return self.destination

    @property
    def audits_topic_subscriptions(self) -> bool:
        """Whether topic subscriptions drop repeated ids, which only a user's entry can enable."""
        return self.enable_audit and not self.is_built_in

    def queue_prefetch_for(self, requested: int) -> int:
        """Return the prefetch of a queue consumer that requested `requested`."""
        return self.queue_prefetch if requested == _DEFAULT_PREFETCH["queue"] else requested

    def browser_prefetch_for(self, requested: int) -> int:
        """Return the prefetch of a browser that requested `requested`."""
        return (
            self.queue_browser_prefetch if requested == _DEFAULT_PREFETCH["browser"] else requested
        )

    def topic_prefetch_for(self, requested: int) -> int:
        """Return the prefetch of a topic consumer that requested `requested`."""
        return self.topic_prefetch if requested == _DEFAULT_PREFETCH["topic"] else requested

    def durable_prefetch_for(self, requested: int) -> int:
        """Return the prefetch of a durable subscriber; 1000 also counts as a built-in default.

        An entry that leaves the attribute at its default changes nothing.
        """
        default = _DEFAULT_PREFETCH["durable"]
        if self.durable_topic_prefetch == default or requested not in _DEFAULT_DURABLE_PREFETCHES:
            return requested
        return self.durable_topic_prefetch


class PolicyMap:
    """Entries by destination. Source: ActiveMQ PolicyMap."""

    def __init__(
        self, entries: Iterable[PolicyEntry] = (), default_entry: PolicyEntry | None = None
    ) -> None:
        """Create a map of `entries`; one without a destination becomes the default.

        Raises:
            ValueError: there are two defaults.
        """
        self.entries: list[PolicyEntry] = []
        self.default_entry = default_entry
        self._built_in = PolicyEntry.built_in()
        for entry in entries:
            self.add(entry)

    def add(self, entry: PolicyEntry) -> None:
        """Add an entry; an older one for the same destination is replaced.

        Raises:
            ValueError: it is a second default.
        """
        target = entry.target
        if target is None:
            if self.default_entry is not None:
                raise ValueError("a PolicyMap has one default entry, two were given")
            self.default_entry = entry
            return
        self.entries = [other for other in self.entries if other.target != target]
        self.entries.append(entry)

    def replace(self, other: PolicyMap) -> None:
        """Replace the entries by those of another map."""
        self.entries, self.default_entry = list(other.entries), other.default_entry

    @property
    def aborts_slow_consumers(self) -> bool:
        """Whether any entry has a slow consumer strategy."""
        entries = (*self.entries, self.default_entry)
        return any(each is not None and each.slow_consumer_strategy for each in entries)

    def entry_for(self, destination: Destination) -> PolicyEntry:
        """Return the entry that names `destination`, else that of the most specific pattern.

        If none matches, it is the default entry, or the built-in settings.
        """
        best: tuple[tuple[tuple[int, str], ...], PolicyEntry] | None = None
        for entry in self.entries:
            target = entry.target
            if target is None:
                continue
            if target == destination:
                return entry
            if matches(target, destination):
                rank = specificity(target)
                if best is None or rank < best[0]:
                    best = (rank, entry)
        if best is not None:
            return best[1]
        return self.default_entry or self._built_in
