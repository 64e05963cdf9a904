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
    """Whether expired messages are kept."""
    process_non_persistent: bool = False
    """Whether non-persistent messages are kept."""
    expiration: Duration = 0.0
    """After which dead letters expire; 0 never."""
    enable_audit: bool = True
    """Whether a message id is kept once only."""
    max_producers_to_audit: int = Field(default=64, ge=1)
    """Producers that the audit remembers."""
    max_audit_depth: int = Field(default=2048, ge=1)
    """Messages of each that it remembers."""


class SharedDeadLetterSettings(_DeadLetterSettings):
    """One dead-letter queue for all."""

    type: Literal["shared"]
    dead_letter_queue: DestinationName | None = None
    """Its name; not set is ActiveMQ.DLQ."""

    def build(self) -> DeadLetterStrategy:
        """Make the strategy."""
        return SharedDeadLetterStrategy(**_arguments(self))


class IndividualDeadLetterSettings(_DeadLetterSettings):
    """A dead-letter destination for each destination."""

    type: Literal["individual"]
    queue_prefix: str = f"{DEFAULT_DEAD_LETTER_QUEUE}.Queue."
    """Stands before a queue's name."""
    topic_prefix: str = f"{DEFAULT_DEAD_LETTER_QUEUE}.Topic."
    """Stands before a topic's name."""
    queue_suffix: str | None = None
    """Stands behind a queue's name."""
    topic_suffix: str | None = None
    """Stands behind a topic's name."""
    use_queue_for_queue_messages: bool = True
    """Whether dead letters of queues go to a queue; else to a topic."""
    use_queue_for_topic_messages: bool = True
    """The same for topics."""
    destination_per_durable_subscriber: bool = False
    """Whether each durable subscription has its own."""
    max_destinations_to_audit: int = Field(default=10_000, ge=1)
    """Destinations that the audit remembers."""

    def build(self) -> DeadLetterStrategy:
        """Make the strategy."""
        return IndividualDeadLetterStrategy(**_arguments(self))


class DiscardingDeadLetterSettings(Section):
    """Nothing is kept."""

    type: Literal["discarding"]

    def build(self) -> DeadLetterStrategy:
        """Make the strategy."""
        return DiscardingDeadLetterStrategy()


class ConstantPendingLimitSettings(Section):
    """The same limit for every topic consumer."""

    type: Literal["constant"]
    limit: int = Field(default=-1, ge=-1)
    """Messages that may wait; -1 any number."""

    def build(self) -> PendingMessageLimitStrategy:
        """Make the strategy."""
        return ConstantPendingMessageLimitStrategy(limit=self.limit)


class PrefetchRatePendingLimitSettings(Section):
    """A multiple of the consumer's prefetch."""

    type: Literal["prefetch_rate"]
    multiplier: float = Field(default=0.5, ge=0)
    """That many times the prefetch may wait."""

    def build(self) -> PendingMessageLimitStrategy:
        """Make the strategy."""
        return PrefetchRatePendingMessageLimitStrategy(multiplier=self.multiplier)


class _EvictionSettings(Section):
    evict_expired_messages_high_watermark: int = Field(default=1000, ge=1)
    """From that many waiting messages on, expired ones go first."""


class OldestEvictionSettings(_EvictionSettings):
    """The oldest message goes."""

    type: Literal["oldest"]

    def build(self) -> MessageEvictionStrategy:
        """Make the strategy."""
        return OldestMessageEvictionStrategy(**_arguments(self))


class LowestPriorityEvictionSettings(_EvictionSettings):
    """The oldest of the lowest priority goes."""

    type: Literal["oldest_with_lowest_priority"]

    def build(self) -> MessageEvictionStrategy:
        """Make the strategy."""
        return OldestMessageWithLowestPriorityEvictionStrategy(**_arguments(self))


class UniquePropertyEvictionSettings(_EvictionSettings):
    """All but the newest with the same value of a property go."""

    type: Literal["unique_property"]
    property_name: str
    """The property."""

    def build(self) -> MessageEvictionStrategy:
        """Make the strategy."""
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
    """What destinations do (`policies`); without a destination it is for all others."""

    destination: DestinationName | None = None
    """The name or pattern it is for: orders.>, topic://news.*"""
    temp_queue: bool = False
    """For all temporary queues instead."""
    temp_topic: bool = False
    """For all temporary topics instead."""

    memory_limit: Bytes = 0
    """Bytes of messages the destination may hold; 0 has no limit of its own."""
    producer_flow_control: bool = True
    """Whether senders wait while it is full."""
    send_fail_if_no_space: bool | None = None
    """Whether their sends fail instead; not set as system_usage says."""
    send_fail_if_no_space_after_timeout: Duration | None = None
    """Whether they fail after that time, 0 never; not set as system_usage says."""
    blocked_producer_warning_interval: Duration = 30.0
    """Least time between two warnings about waiting senders; 0 no warnings."""
    minimum_message_size: Bytes = 1024
    """What a message counts beside body and properties."""
    use_cache: bool = True
    """Whether stored messages stay in memory, too, while there is room."""
    cursor_memory_high_water_mark: int = Field(default=70, ge=0, le=100)
    """Percent of the memory limits at which waiting messages are left to the stores."""
    store_usage_high_water_mark: int = Field(default=100, ge=1, le=100)
    """Percent of the store's limit at which senders wait."""
    persist_jms_redelivered: bool = False
    """Whether the store notes that a queue's message was dispatched, before it is."""

    max_page_size: int = Field(default=200, ge=1)
    """Undispatched messages of a queue that are offered to its consumers."""
    max_browse_page_size: int | None = Field(default=400, ge=1)
    """Messages that a browser sees; null all."""
    max_expire_page_size: int = Field(default=400, ge=1)
    """Messages that an expiry scan looks at."""
    expire_messages_period: Duration = 30.0
    """Time between two expiry scans; 0 no scans."""

    prioritized_messages: bool = False
    """Whether JMSPriority decides the order."""
    strict_order_dispatch: bool = False
    """Whether the first consumer is filled before the next."""
    use_consumer_priority: bool = True
    """Whether consumers of higher priority come first."""
    all_consumers_exclusive_by_default: bool = False
    """Whether every consumer is exclusive."""
    lazy_dispatch: bool = False
    """Whether only as many messages are offered as the consumers have room for."""
    consumers_before_dispatch_starts: int = Field(default=0, ge=0)
    """Consumers to wait for before the first dispatch."""
    time_before_dispatch_starts: Duration = 0.0
    """Time to wait before the first dispatch."""
    message_group_map_factory_type: str = "cached"
    """How message groups are remembered: cached?cacheSize=1024, bucket?bucketCount=1024, simple."""
    dispatch_policy: Literal["simple", "round_robin", "strict_order", "priority"] = "simple"
    """Order in which a topic's consumers get a message."""

    queue_prefetch: int = Field(default=1000, ge=0)
    """Replaces a queue consumer's prefetch, if that is the default."""
    queue_browser_prefetch: int = Field(default=500, ge=0)
    """Replaces a browser's."""
    topic_prefetch: int = Field(default=32767, ge=0)
    """Replaces a topic consumer's."""
    durable_topic_prefetch: int = Field(default=100, ge=0)
    """Replaces a durable subscriber's."""
    use_prefetch_extension: bool = True
    """Whether messages delivered but not acknowledged make room for more."""

    enable_audit: bool = True
    """Whether repeated message ids are dropped."""
    max_producers_to_audit: int = Field(default=64, ge=1)
    """Producers that the audit remembers."""
    max_audit_depth: int = Field(default=10_000, ge=1)
    """Messages of each that it remembers, for topics."""
    max_queue_audit_depth: int = Field(default=10_000, ge=1)
    """The same for queues."""

    dead_letter_strategy: DeadLetterSettings | None = None
    """Where messages go that nobody could handle; not set is type: shared."""
    pending_message_limit_strategy: PendingLimitSettings | None = None
    """How many messages may wait for a topic consumer; not set any number."""
    message_eviction_strategy: EvictionSettings | None = None
    """Which of them go beyond that; not set is type: oldest."""
    pending_queue_policy: PendingQueuePolicy = "storeCursor"
    """Where a queue's pending messages are that memory has no room for: the store, or the temp
    store if they are not persistent (storeCursor); or nowhere else (vmQueueCursor)."""
    pending_subscriber_policy: PendingSubscriberPolicy = "fileCursor"
    """The same of a topic consumer that is not durable: the temp store (fileCursor), or nowhere
    else (vmCursor)."""
    pending_durable_subscriber_policy: PendingDurableSubscriberPolicy = (
        "storeDurableSubscriberCursor"
    )
    """The same of a durable subscription: as a queue (storeDurableSubscriberCursor), or nowhere
    else (vmDurableCursor)."""
    max_destinations: int = Field(default=-1, ge=-1)
    """How many destinations may match; -1 any number."""

    advisory_for_consumed: bool = False
    """Whether each acknowledged message is told of."""
    advisory_for_discarding_messages: bool = False
    """Whether each evicted message is told of."""
    advisory_for_slow_consumers: bool = False
    """Whether each consumer that becomes slow is told of."""

    def build(self) -> PolicyEntry:
        """Make the entry."""
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
