"""Policies in broker.yaml (`policies`): PolicyEntry with its strategies. (activemq-broker 2.1)

Most keys come from the table `pyjms_broker.policy.entry.PolicyAttributes`; a test compares the
others with `PolicyEntry`.
"""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from pyjms_broker.api.dead_letter import DeadLetterStrategy
from pyjms_broker.policy.dead_letter import (
    DeadLetterAttributes,
    DiscardingDeadLetterStrategy,
    IndividualDeadLetterAttributes,
    IndividualDeadLetterStrategy,
    SharedDeadLetterStrategy,
)
from pyjms_broker.policy.entry import PolicyAttributes, PolicyEntry
from pyjms_broker.policy.eviction import (
    MessageEvictionStrategy,
    OldestMessageEvictionStrategy,
    OldestMessageWithLowestPriorityEvictionStrategy,
    UniquePropertyMessageEvictionStrategy,
)
from pyjms_broker.policy.network_bridges import (
    ConditionalNetworkBridgeAttributes,
    ConditionalNetworkBridgeFilterFactory,
)
from pyjms_broker.policy.pending import (
    ConstantPendingMessageLimitStrategy,
    PendingMessageLimitStrategy,
    PrefetchRatePendingMessageLimitStrategy,
)
from pyjms_broker.policy.slow_consumers import (
    AbortSlowAckConsumerAttributes,
    AbortSlowAckConsumerStrategy,
    AbortSlowConsumerAttributes,
    AbortSlowConsumerStrategy,
    SlowConsumerStrategy,
)
from pyjms_broker.settings.recovery import RecoverySettings
from pyjms_broker.settings.values import BuiltSection, DestinationName, Section, check_by

__all__ = ["STRATEGIES", "PolicySettings"]


class _DeadLetterSettings(BuiltSection[DeadLetterStrategy], DeadLetterAttributes):
    pass


class SharedDeadLetterSettings(_DeadLetterSettings, made_by=SharedDeadLetterStrategy):
    """One dead-letter queue for all destinations."""

    type: Literal["shared"]
    dead_letter_queue: DestinationName | None = None
    """Name of the queue; null: ActiveMQ.DLQ."""


class IndividualDeadLetterSettings(
    _DeadLetterSettings, IndividualDeadLetterAttributes, made_by=IndividualDeadLetterStrategy
):
    """A dead-letter destination for each destination."""

    type: Literal["individual"]


class DiscardingDeadLetterSettings(
    BuiltSection[DeadLetterStrategy], made_by=DiscardingDeadLetterStrategy
):
    """Messages that cannot be delivered are discarded."""

    type: Literal["discarding"]


class ConstantPendingLimitSettings(
    BuiltSection[PendingMessageLimitStrategy], made_by=ConstantPendingMessageLimitStrategy
):
    """The same limit for every topic consumer."""

    type: Literal["constant"]
    limit: int = Field(default=-1, ge=-1)
    """Maximum number of pending messages; -1: unlimited."""


class PrefetchRatePendingLimitSettings(
    BuiltSection[PendingMessageLimitStrategy], made_by=PrefetchRatePendingMessageLimitStrategy
):
    """A multiple of the consumer's prefetch."""

    type: Literal["prefetch_rate"]
    multiplier: float = Field(default=0.5, ge=0)
    """Maximum number of pending messages, as a multiple of the prefetch."""


class _EvictionSettings(BuiltSection[MessageEvictionStrategy]):
    evict_expired_messages_high_watermark: int = Field(default=1000, ge=1)
    """Number of pending messages from which expired ones are evicted first."""


class OldestEvictionSettings(_EvictionSettings, made_by=OldestMessageEvictionStrategy):
    """The oldest message is evicted first."""

    type: Literal["oldest"]


class LowestPriorityEvictionSettings(
    _EvictionSettings, made_by=OldestMessageWithLowestPriorityEvictionStrategy
):
    """The oldest message of the lowest priority is evicted first."""

    type: Literal["oldest_with_lowest_priority"]


class UniquePropertyEvictionSettings(
    _EvictionSettings, made_by=UniquePropertyMessageEvictionStrategy
):
    """Only the newest message with each value of a property is kept."""

    type: Literal["unique_property"]
    property_name: str
    """Name of the property."""


class _AbortSettings(BuiltSection[SlowConsumerStrategy]):
    @model_validator(mode="after")
    def _check(self) -> Self:
        check_by(self.build)
        return self


class AbortSlowConsumerSettings(
    _AbortSettings, AbortSlowConsumerAttributes, made_by=AbortSlowConsumerStrategy
):
    """Consumers whose prefetch window is full while messages wait are aborted."""

    type: Literal["abort_slow"]


class AbortSlowAckConsumerSettings(
    _AbortSettings, AbortSlowAckConsumerAttributes, made_by=AbortSlowAckConsumerStrategy
):
    """Consumers that do not acknowledge are aborted."""

    type: Literal["abort_slow_ack"]


class ConditionalNetworkBridgeSettings(
    BuiltSection[ConditionalNetworkBridgeFilterFactory],
    ConditionalNetworkBridgeAttributes,
    made_by=ConditionalNetworkBridgeFilterFactory,
):
    """What bridges of a network forward from a queue."""


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

SlowConsumerSettings = Annotated[
    AbortSlowConsumerSettings | AbortSlowAckConsumerSettings, Field(discriminator="type")
]


class PolicySettings(Section, PolicyAttributes):
    """The behaviour of destinations (`policies`); without a destination: of all others."""

    destination: DestinationName | None = None
    """Name or pattern: orders.>, topic://news.*; without: all other destinations."""
    temp_queue: bool = False
    """Whether the policy is for all temporary queues, instead of a destination."""
    temp_topic: bool = False
    """Whether the policy is for all temporary topics, instead of a destination."""

    dispatch_policy: Literal["simple", "round_robin", "strict_order", "priority"] = "simple"
    """Order in which a topic's consumers get a message."""

    dead_letter_strategy: DeadLetterSettings | None = None
    """Destination of messages that cannot be delivered; null: type: shared."""
    pending_message_limit_strategy: PendingLimitSettings | None = None
    """Maximum number of pending messages of a topic consumer; null: unlimited."""
    message_eviction_strategy: EvictionSettings | None = None
    """Which pending messages are evicted above that limit; null: type: oldest."""
    slow_consumer_strategy: SlowConsumerSettings | None = None
    """Which slow consumers are aborted; null: none."""
    subscription_recovery_policy: RecoverySettings | None = None
    """Messages kept for retroactive consumers; null: only a retained message."""

    network_bridge_filter_factory: ConditionalNetworkBridgeSettings | None = None
    """Messages forwarded from a queue; null: all that have not been at the target broker."""

    def build(self) -> PolicyEntry:
        """Create the policy entry."""
        arguments = {
            name: getattr(self, name)
            for name in type(self).model_fields
            if getattr(self, name) is not None or name not in STRATEGIES
        }
        for name in STRATEGIES & arguments.keys():
            arguments[name] = arguments[name].build()
        return PolicyEntry(**arguments)


STRATEGIES = {
    "dead_letter_strategy",
    "pending_message_limit_strategy",
    "message_eviction_strategy",
    "network_bridge_filter_factory",
    "slow_consumer_strategy",
    "subscription_recovery_policy",
}
