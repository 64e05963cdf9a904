"""`policies` of broker.yaml: PolicyEntry with its strategies. (activemq-broker 2.1)

Names and defaults are those of `pyjms_broker.policy.entry.PolicyEntry`; a test compares them.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field

from pyjms._yaml import Duration
from pyjms.jms.destination import DEFAULT_DEAD_LETTER_QUEUE
from pyjms_broker.api.dead_letter import DeadLetterStrategy
from pyjms_broker.policy.dead_letter import (
    DiscardingDeadLetterStrategy,
    IndividualDeadLetterStrategy,
    SharedDeadLetterStrategy,
)
from pyjms_broker.policy.entry import (
    PendingDurableSubscriberPolicy,
    PendingQueuePolicy,
    PendingSubscriberPolicy,
    PolicyEntry,
)
from pyjms_broker.policy.eviction import (
    MessageEvictionStrategy,
    OldestMessageEvictionStrategy,
    OldestMessageWithLowestPriorityEvictionStrategy,
    UniquePropertyMessageEvictionStrategy,
)
from pyjms_broker.policy.pending import (
    ConstantPendingMessageLimitStrategy,
    PendingMessageLimitStrategy,
    PrefetchRatePendingMessageLimitStrategy,
)
from pyjms_broker.settings.values import Bytes, DestinationName, Section

__all__ = ["PolicySettings"]


class _DeadLetterSettings(Section):
    process_expired: bool = True
    """Whether expired messages are kept as dead letters."""
    process_non_persistent: bool = False
    """Whether non-persistent messages are kept."""
    expiration: Duration = 0.0
    """Time until dead letters expire; 0: never."""
    enable_audit: bool = True
    """Whether a message id that was kept before is discarded."""
    max_producers_to_audit: int = Field(default=64, ge=1)
    """Number of producers that the audit remembers."""
    max_audit_depth: int = Field(default=2048, ge=1)
    """Number of messages of each producer that the audit remembers."""


class SharedDeadLetterSettings(_DeadLetterSettings):
    """One dead-letter queue for all destinations."""

    type: Literal["shared"]
    dead_letter_queue: DestinationName | None = None
    """Name of the queue; null: ActiveMQ.DLQ."""

    def build(self) -> DeadLetterStrategy:
        """Create the strategy."""
        return SharedDeadLetterStrategy(**_arguments(self))


class IndividualDeadLetterSettings(_DeadLetterSettings):
    """A dead-letter destination for each destination."""

    type: Literal["individual"]
    queue_prefix: str = f"{DEFAULT_DEAD_LETTER_QUEUE}.Queue."
    """Prefix of the dead-letter destinations of queues."""
    topic_prefix: str = f"{DEFAULT_DEAD_LETTER_QUEUE}.Topic."
    """Prefix of the dead-letter destinations of topics."""
    queue_suffix: str | None = None
    """Suffix of the dead-letter destinations of queues."""
    topic_suffix: str | None = None
    """Suffix of the dead-letter destinations of topics."""
    use_queue_for_queue_messages: bool = True
    """Whether the dead letters of queues go to a queue; false: to a topic."""
    use_queue_for_topic_messages: bool = True
    """Whether the dead letters of topics go to a queue; false: to a topic."""
    destination_per_durable_subscriber: bool = False
    """Whether each durable subscription has its own dead-letter destination."""
    max_destinations_to_audit: int = Field(default=10_000, ge=1)
    """Number of destinations that the audit remembers."""

    def build(self) -> DeadLetterStrategy:
        """Create the strategy."""
        return IndividualDeadLetterStrategy(**_arguments(self))


class DiscardingDeadLetterSettings(Section):
    """Messages that cannot be delivered are discarded."""

    type: Literal["discarding"]

    def build(self) -> DeadLetterStrategy:
        """Create the strategy."""
        return DiscardingDeadLetterStrategy()


class ConstantPendingLimitSettings(Section):
    """The same limit for every topic consumer."""

    type: Literal["constant"]
    limit: int = Field(default=-1, ge=-1)
    """Maximum number of pending messages; -1: unlimited."""

    def build(self) -> PendingMessageLimitStrategy:
        """Create the strategy."""
        return ConstantPendingMessageLimitStrategy(limit=self.limit)


class PrefetchRatePendingLimitSettings(Section):
    """A multiple of the consumer's prefetch."""

    type: Literal["prefetch_rate"]
    multiplier: float = Field(default=0.5, ge=0)
    """Maximum number of pending messages, as a multiple of the prefetch."""

    def build(self) -> PendingMessageLimitStrategy:
        """Create the strategy."""
        return PrefetchRatePendingMessageLimitStrategy(multiplier=self.multiplier)


class _EvictionSettings(Section):
    evict_expired_messages_high_watermark: int = Field(default=1000, ge=1)
    """Number of pending messages from which expired ones are evicted first."""


class OldestEvictionSettings(_EvictionSettings):
    """The oldest message is evicted first."""

    type: Literal["oldest"]

    def build(self) -> MessageEvictionStrategy:
        """Create the strategy."""
        return OldestMessageEvictionStrategy(**_arguments(self))


class LowestPriorityEvictionSettings(_EvictionSettings):
    """The oldest message of the lowest priority is evicted first."""

    type: Literal["oldest_with_lowest_priority"]

    def build(self) -> MessageEvictionStrategy:
        """Create the strategy."""
        return OldestMessageWithLowestPriorityEvictionStrategy(**_arguments(self))


class UniquePropertyEvictionSettings(_EvictionSettings):
    """Only the newest message with each value of a property is kept."""

    type: Literal["unique_property"]
    property_name: str
    """Name of the property."""

    def build(self) -> MessageEvictionStrategy:
        """Create the strategy."""
        return UniquePropertyMessageEvictionStrategy(**_arguments(self))


DeadLetterSettings = Annotated[
    SharedDeadLetterSettings | IndividualDeadLetterSettings | DiscardingDeadLetterSettings,
    Field(discriminator="type"),
]
PendingLimitSettings = Annotated[
    ConstantPendingLimitSettings | PrefetchRatePendingLimitSettings, Field(discriminator="type")
]
EvictionSettings = Annotated[
    OldestEvictionSettings | LowestPriorityEvictionSettings | UniquePropertyEvictionSettings,
    Field(discriminator="type"),
]


class PolicySettings(Section):
    """The behaviour of destinations (`policies`); without a destination: of all others."""

    destination: DestinationName | None = None
    """Name or pattern: orders.>, topic://news.*; without: all other destinations."""
    temp_queue: bool = False
    """Whether the policy is for all temporary queues, instead of a destination."""
    temp_topic: bool = False
    """Whether the policy is for all temporary topics, instead of a destination."""

    memory_limit: Bytes = 0
    """Memory for the destination's messages; 0: no limit of its own."""
    producer_flow_control: bool = True
    """Whether senders wait while the destination is full."""
    send_fail_if_no_space: bool | None = None
    """Whether sends fail instead of waiting; null: as in system_usage."""
    send_fail_if_no_space_after_timeout: Duration | None = None
    """Time that sends wait before they fail, 0: unlimited; null: as in system_usage."""
    blocked_producer_warning_interval: Duration = 30.0
    """Minimum time between two warnings about waiting senders; 0: no warnings."""
    minimum_message_size: Bytes = 1024
    """Memory that each message is counted with, in addition to its body and properties."""
    use_cache: bool = True
    """Whether stored messages are kept in memory, too, while there is space."""
    cursor_memory_high_water_mark: int = Field(default=70, ge=0, le=100)
    """Percentage of the memory limits from which pending messages are left to the stores."""
    store_usage_high_water_mark: int = Field(default=100, ge=1, le=100)
    """Percentage of store_limit from which senders wait."""
    persist_jms_redelivered: bool = False
    """Whether a dispatch is stored first, so that JMSRedelivered is set after a restart."""

    max_page_size: int = Field(default=200, ge=1)
    """Maximum number of undispatched messages of a queue that are paged in."""
    max_browse_page_size: int | None = Field(default=400, ge=1)
    """Maximum number of messages that a browser returns; null: unlimited."""
    max_expire_page_size: int = Field(default=400, ge=1)
    """Maximum number of messages that an expiry scan checks."""
    expire_messages_period: Duration = 30.0
    """Time between two expiry scans; 0: no scans."""

    prioritized_messages: bool = False
    """Whether messages are ordered by JMSPriority."""
    strict_order_dispatch: bool = False
    """Whether one consumer's prefetch is filled before the next one's."""
    use_consumer_priority: bool = True
    """Whether consumers of higher priority are preferred."""
    all_consumers_exclusive_by_default: bool = False
    """Whether every consumer is exclusive."""
    lazy_dispatch: bool = False
    """Whether only as many messages are paged in as the consumers have capacity for."""
    consumers_before_dispatch_starts: int = Field(default=0, ge=0)
    """Number of consumers to wait for before the first dispatch."""
    time_before_dispatch_starts: Duration = 0.0
    """Time to wait before the first dispatch."""
    message_group_map_factory_type: str = "cached"
    """cached, cached?cacheSize=1024, bucket?bucketCount=1024 or simple: how groups are tracked."""
    dispatch_policy: Literal["simple", "round_robin", "strict_order", "priority"] = "simple"
    """Order in which a topic's consumers get a message."""

    queue_prefetch: int = Field(default=1000, ge=0)
    """Prefetch of queue consumers that do not set one."""
    queue_browser_prefetch: int = Field(default=500, ge=0)
    """Prefetch of queue browsers that do not set one."""
    topic_prefetch: int = Field(default=32767, ge=0)
    """Prefetch of topic consumers that do not set one."""
    durable_topic_prefetch: int = Field(default=100, ge=0)
    """Prefetch of durable subscribers that do not set one."""
    use_prefetch_extension: bool = True
    """Whether delivered messages make way for others before they are acknowledged."""

    enable_audit: bool = True
    """Whether messages with a message id that was seen before are dropped."""
    max_producers_to_audit: int = Field(default=64, ge=1)
    """Number of producers that the audit remembers."""
    max_audit_depth: int = Field(default=10_000, ge=1)
    """Number of messages of each producer that a topic's audit remembers."""
    max_queue_audit_depth: int = Field(default=10_000, ge=1)
    """Number of messages of each producer that a queue's audit remembers."""

    dead_letter_strategy: DeadLetterSettings | None = None
    """Where messages go that cannot be delivered; null: type: shared."""
    pending_message_limit_strategy: PendingLimitSettings | None = None
    """How many messages may be pending for a topic consumer; null: unlimited."""
    message_eviction_strategy: EvictionSettings | None = None
    """Which pending messages are evicted above that limit; null: type: oldest."""
    pending_queue_policy: PendingQueuePolicy = "storeCursor"
    """Where a queue's messages wait that do not fit in memory: on disk; vmQueueCursor: nowhere."""
    pending_subscriber_policy: PendingSubscriberPolicy = "fileCursor"
    """The same for non-durable topic consumers: on disk; vmCursor: nowhere."""
    pending_durable_subscriber_policy: PendingDurableSubscriberPolicy = (
        "storeDurableSubscriberCursor"
    )
    """The same for durable subscriptions: on disk; vmDurableCursor: nowhere."""
    max_destinations: int = Field(default=-1, ge=-1)
    """Maximum number of destinations that match the policy; -1: unlimited."""

    gc_inactive_destinations: bool = False
    """Whether unused destinations are removed; see schedule_period_for_destination_purge."""
    inactive_timeout_before_gc: Duration = 60.0
    """Time without consumers, producers and messages before that; 0: never."""
    gc_with_network_consumers: bool = False
    """Whether consumers of a network of brokers count as none there."""

    advisory_for_consumed: bool = False
    """Whether each acknowledged message causes an advisory."""
    advisory_for_discarding_messages: bool = False
    """Whether each evicted message causes an advisory."""
    advisory_for_slow_consumers: bool = False
    """Whether each consumer that becomes slow causes an advisory."""

    def build(self) -> PolicyEntry:
        """Create the policy entry."""
        arguments = {
            name: getattr(self, name)
            for name in type(self).model_fields
            if getattr(self, name) is not None or name not in _STRATEGIES
        }
        for name in _STRATEGIES & arguments.keys():
            arguments[name] = arguments[name].build()
        return PolicyEntry(**arguments)


_STRATEGIES = {
    "dead_letter_strategy",
    "pending_message_limit_strategy",
    "message_eviction_strategy",
}


def _arguments(settings: Section) -> dict[str, Any]:
    return {name: getattr(settings, name) for name in type(settings).model_fields if name != "type"}
