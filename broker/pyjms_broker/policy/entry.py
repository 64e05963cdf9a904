"""The settings of destinations, as ActiveMQ's PolicyEntry has them; only those that take effect.

Durations are seconds. An entry is applied when a destination or a subscription is created.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final, Literal, TypeAlias

from pyjms.jms.destination import Destination, TemporaryQueue, TemporaryTopic
from pyjms_broker.api.dead_letter import DeadLetterStrategy
from pyjms_broker.policy.dead_letter import SharedDeadLetterStrategy
from pyjms_broker.policy.eviction import MessageEvictionStrategy, OldestMessageEvictionStrategy
from pyjms_broker.policy.pending import PendingMessageLimitStrategy

__all__ = [
    "PendingDurableSubscriberPolicy",
    "PendingQueuePolicy",
    "PendingSubscriberPolicy",
    "PolicyEntry",
]

PendingQueuePolicy: TypeAlias = Literal["storeCursor", "vmQueueCursor"]
PendingSubscriberPolicy: TypeAlias = Literal["fileCursor", "vmCursor"]
PendingDurableSubscriberPolicy: TypeAlias = Literal[
    "storeDurableSubscriberCursor", "vmDurableCursor"
]

_DEFAULT_PREFETCH: Final = {"queue": 1000, "browser": 500, "topic": 32767, "durable": 100}
_DEFAULT_DURABLE_PREFETCHES: Final = (100, 1000)
_NO_POLICY_PRODUCERS: Final = 1024
_NO_POLICY_DEPTH: Final = 2048


@dataclass(frozen=True, kw_only=True)
class PolicyEntry:
    """Settings for the destinations that `destination` (a name or a pattern) matches.

    `temp_queue` and `temp_topic` make it the entry of all temporary queues or topics. An entry
    without any of these is the default of the map.
    Source: ActiveMQ PolicyEntry (2.1); names in snake_case.
    """

    destination: Destination | None = None
    temp_queue: bool = False
    temp_topic: bool = False

    memory_limit: int = 0
    """Bytes of messages the destination may hold, 0: no limit of its own."""
    producer_flow_control: bool = True
    """Whether senders wait while memory is full."""
    send_fail_if_no_space: bool | None = None
    """Whether a send fails at once instead; None: as the broker's system usage says."""
    send_fail_if_no_space_after_timeout: float | None = None
    """Seconds after which a waiting send fails, 0: never; None: as the system usage says."""
    blocked_producer_warning_interval: float = 30.0
    """Minimum seconds between warnings about waiting senders, 0: no warnings."""
    minimum_message_size: int = 1024
    """Bytes that each message counts in addition to its body and properties."""
    use_cache: bool = True
    """Whether stored messages are kept in memory, too, while there is room."""
    cursor_memory_high_water_mark: int = 70
    """Percent of the memory limits at which waiting messages are left to the stores."""
    store_usage_high_water_mark: int = 100
    """Percent of the store's limit at which senders wait."""
    persist_jms_redelivered: bool = False
    """Whether a queue's store marks each message as redelivered before it is sent."""

    max_page_size: int = 200
    """How many undispatched messages of a queue are offered to its consumers."""
    max_browse_page_size: int | None = 400
    """How many messages a browser sees; None: all."""
    max_expire_page_size: int = 400
    """How many messages an expiry scan inspects."""
    expire_messages_period: float = 30.0
    """Seconds between expiry scans, 0: no scans."""

    prioritized_messages: bool = False
    """Whether JMSPriority decides the order."""
    strict_order_dispatch: bool = False
    """Whether the first consumer is filled before the next gets messages."""
    use_consumer_priority: bool = True
    """Whether consumers of higher priority come first."""
    all_consumers_exclusive_by_default: bool = False
    """Treat every consumer as exclusive."""
    lazy_dispatch: bool = False
    """Offer only as many messages as the consumers have room for."""
    consumers_before_dispatch_starts: int = 0
    """Wait for that many consumers before the first dispatch."""
    time_before_dispatch_starts: float = 0
    """Seconds to wait before the first dispatch.

    With `consumers_before_dispatch_starts` it is the longest wait, and 0 means 1 second.
    """
    message_group_map_factory_type: str = "cached"
    """`cached?cacheSize=1024`, `bucket?bucketCount=1024` or `simple`."""
    dispatch_policy: str = "simple"
    """Topics: `simple`, `round_robin`, `strict_order` or `priority`."""

    queue_prefetch: int = 1000
    queue_browser_prefetch: int = 500
    topic_prefetch: int = 32767
    durable_topic_prefetch: int = 100
    """The prefetches replace a consumer's own only where that is the built-in default."""
    use_prefetch_extension: bool = True
    """Whether messages delivered but not acknowledged make room for more."""

    enable_audit: bool = True
    """Whether repeated message ids are dropped."""
    max_producers_to_audit: int = 64
    max_audit_depth: int = 10_000
    """Window of the audit of topic subscriptions, in messages of a producer."""
    max_queue_audit_depth: int = 10_000
    """The same of queues."""

    dead_letter_strategy: DeadLetterStrategy = field(default_factory=SharedDeadLetterStrategy)
    pending_message_limit_strategy: PendingMessageLimitStrategy | None = None
    """How many messages may wait for a topic consumer; None: any number."""
    message_eviction_strategy: MessageEvictionStrategy = field(
        default_factory=OldestMessageEvictionStrategy
    )
    pending_queue_policy: PendingQueuePolicy = "storeCursor"
    """Where a queue's pending messages are: `storeCursor` leaves them to the store or the temp
    store beyond the high-water mark, `vmQueueCursor` keeps all in memory."""
    pending_subscriber_policy: PendingSubscriberPolicy = "fileCursor"
    """Where the pending messages of a non-durable topic consumer are: `fileCursor` uses the temp
    store, `vmCursor` keeps all in memory."""
    pending_durable_subscriber_policy: PendingDurableSubscriberPolicy = (
        "storeDurableSubscriberCursor"
    )
    """Where the pending messages of a durable subscription are: `storeDurableSubscriberCursor`
    leaves them to the stores as a queue does, `vmDurableCursor` keeps all in memory."""
    max_destinations: int = -1
    """How many destinations may match this entry, -1: any number."""

    gc_inactive_destinations: bool = False
    """Whether destinations that nobody uses are removed by the broker's sweeps."""
    inactive_timeout_before_gc: float = 60.0
    """Seconds for which nobody has used them, 0: they stay."""
    gc_with_network_consumers: bool = False
    """Whether consumers of other brokers do not keep them."""

    advisory_for_consumed: bool = False
    """Report each acknowledged message to the filter chain."""
    advisory_for_discarding_messages: bool = False
    """Report each message evicted from a topic subscription."""
    advisory_for_slow_consumers: bool = False
    """Report each consumer that becomes slow."""

    is_built_in: bool = field(default=False, repr=False)
    """Whether this is the built-in entry, which applies where the user has none."""

    @staticmethod
    def built_in() -> PolicyEntry:
        """Return the settings of a destination that no entry matches (activemq-broker P2)."""
        return PolicyEntry(
            max_producers_to_audit=_NO_POLICY_PRODUCERS,
            max_audit_depth=_NO_POLICY_DEPTH,
            max_queue_audit_depth=_NO_POLICY_DEPTH,
            max_browse_page_size=None,
            is_built_in=True,
        )

    @property
    def target(self) -> Destination | None:
        """The pattern that decides what the entry is for, None for the default."""
        if self.temp_queue:
            return TemporaryQueue(">")
        if self.temp_topic:
            return TemporaryTopic(">")
        return self.destination

    @property
    def audits_topic_subscriptions(self) -> bool:
        """Whether topic subscriptions drop repeated ids: only under an entry of the user's."""
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
        """Return the prefetch of a durable subscriber; 1000 is a built-in default too.

        An entry that leaves the attribute at its default changes nothing.
        """
        default = _DEFAULT_PREFETCH["durable"]
        if self.durable_topic_prefetch == default or requested not in _DEFAULT_DURABLE_PREFETCHES:
            return requested
        return self.durable_topic_prefetch
