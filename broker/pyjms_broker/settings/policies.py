"""Policies in broker.yaml (`policies`): PolicyEntry with its strategies. (activemq-broker 2.1)

Most keys come from the table `pyjms_broker.policy.entry.PolicyAttributes`; a test compares the
others with `PolicyEntry`.
"""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal, get_args

from pydantic import Field, field_validator

from pyjms.configuration.section import Duration, Section
from pyjms.errors import InvalidSelectorException
from pyjms.jms.destination import Destination
from pyjms.selector import compile_selector
from pyjms_broker import entry_points
from pyjms_broker.api.policies import DeadLetterStrategy, MessageQuery, SubscriptionRecoveryPolicy
from pyjms_broker.filters import composite_queues
from pyjms_broker.filters import virtual_destinations as virtual
from pyjms_broker.policy import dead_letter, eviction, recovery, slow_consumers
from pyjms_broker.policy.entry import PolicyAttributes, PolicyEntry
from pyjms_broker.policy.network_bridges import (
    ConditionalNetworkBridgeAttributes,
    ConditionalNetworkBridgeFilterFactory,
)
from pyjms_broker.settings.extensions import RecoveryPolicySettings
from pyjms_broker.settings.values import BuiltSection, DestinationName, types_of

_QUERY: Final = "an object with methods execute(destination) and validate_update(message)"
_QUERY_METHODS: Final = ("execute", "validate_update")


def load_message_query(name: str) -> MessageQuery:
    """Load an installed query; a class is instantiated without arguments."""
    loaded = entry_points.load(entry_points.QUERIES, name)
    query: Any = loaded() if isinstance(loaded, type) else loaded
    is_query = all(callable(getattr(query, method, None)) for method in _QUERY_METHODS)
    entry_points.check_loaded(entry_points.QUERIES, name, is_query, _QUERY)
    checked: MessageQuery = query
    return checked


class _BuiltIn(BuiltSection[SubscriptionRecoveryPolicy], RecoveryPolicySettings):
    pass


class NoRecoverySettings(_BuiltIn, made_by=recovery.NoSubscriptionRecoveryPolicy):
    """Nothing is kept."""

    type: Literal["none"]


class FixedCountRecoverySettings(_BuiltIn, recovery.FixedCountSubscriptionRecoveryPolicy):
    """The last messages are kept."""

    type: Literal["fixed_count"]


class FixedSizedRecoverySettings(_BuiltIn, recovery.FixedSizedSubscriptionRecoveryPolicy):
    """The last messages are kept that fit into a size."""

    type: Literal["fixed_sized"]


class LastImageRecoverySettings(_BuiltIn, made_by=recovery.LastImageSubscriptionRecoveryPolicy):
    """The last message is kept."""

    type: Literal["last_image"]


class TimedRecoverySettings(_BuiltIn, made_by=recovery.TimedSubscriptionRecoveryPolicy):
    """Recent messages are kept for a time."""

    type: Literal["timed"]
    recover_duration: Duration = Field(default=60.0, gt=0)
    """Time for which a message is kept."""


class QueryBasedRecoverySettings(RecoveryPolicySettings):
    """An extension returns the messages."""

    type: Literal["query_based"]
    query: str
    """Name of the query, an entry point of the group broker.message_queries."""

    def build(self) -> SubscriptionRecoveryPolicy:
        """Create the policy."""
        return recovery.QueryBasedSubscriptionRecoveryPolicy(query=load_message_query(self.query))


RecoverySettings = Annotated[
    NoRecoverySettings
    | FixedCountRecoverySettings
    | FixedSizedRecoverySettings
    | LastImageRecoverySettings
    | TimedRecoverySettings
    | QueryBasedRecoverySettings,
    Field(discriminator="type"),
]
BUILT_IN_RECOVERY_POLICIES: Final = types_of(get_args(RecoverySettings)[0])


class _DeadLetterSettings(BuiltSection[DeadLetterStrategy], dead_letter.DeadLetterAttributes):
    pass


class SharedDeadLetterSettings(_DeadLetterSettings, made_by=dead_letter.SharedDeadLetterStrategy):
    """One dead-letter queue for all destinations."""

    type: Literal["shared"]
    dead_letter_queue: DestinationName | None = None
    """Name of the queue; null: ActiveMQ.DLQ."""


class IndividualDeadLetterSettings(
    _DeadLetterSettings,
    dead_letter.IndividualDeadLetterAttributes,
    made_by=dead_letter.IndividualDeadLetterStrategy,
):
    """A dead-letter destination for each destination."""

    type: Literal["individual"]


class DiscardingDeadLetterSettings(
    BuiltSection[DeadLetterStrategy], made_by=dead_letter.DiscardingDeadLetterStrategy
):
    """Messages that cannot be delivered are discarded."""

    type: Literal["discarding"]


class ConstantPendingLimitSettings(
    BuiltSection[eviction.PendingMessageLimitStrategy], eviction.ConstantPendingMessageLimitStrategy
):
    """The same limit for every topic consumer."""

    type: Literal["constant"]


class PrefetchRatePendingLimitSettings(
    BuiltSection[eviction.PendingMessageLimitStrategy],
    eviction.PrefetchRatePendingMessageLimitStrategy,
):
    """A multiple of the consumer's prefetch."""

    type: Literal["prefetch_rate"]


class OldestEvictionSettings(
    BuiltSection[eviction.MessageEvictionStrategy], eviction.OldestMessageEvictionStrategy
):
    """The oldest message is evicted first."""

    type: Literal["oldest"]


class LowestPriorityEvictionSettings(
    BuiltSection[eviction.MessageEvictionStrategy],
    eviction.OldestMessageWithLowestPriorityEvictionStrategy,
):
    """The oldest message of the lowest priority is evicted first."""

    type: Literal["oldest_with_lowest_priority"]


class UniquePropertyEvictionSettings(
    BuiltSection[eviction.MessageEvictionStrategy], eviction.UniquePropertyMessageEvictionStrategy
):
    """Only the newest message with each value of a property is kept."""

    type: Literal["unique_property"]


class AbortSlowConsumerSettings(
    BuiltSection[slow_consumers.SlowConsumerStrategy],
    slow_consumers.AbortSlowConsumerAttributes,
    made_by=slow_consumers.AbortSlowConsumerStrategy,
):
    """Consumers whose prefetch window is full while messages wait are aborted."""

    type: Literal["abort_slow"]


class AbortSlowAckConsumerSettings(
    BuiltSection[slow_consumers.SlowConsumerStrategy],
    slow_consumers.AbortSlowAckConsumerAttributes,
    made_by=slow_consumers.AbortSlowAckConsumerStrategy,
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

    dispatch_policy: Literal[
        "simple", "round_robin", "strict_order", "priority", "priority_network", "client_id_filter"
    ] = "simple"
    """Order of a topic's consumers, or which of them get a message (the last two)."""

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


class VirtualTopicSettings(
    BuiltSection[virtual.VirtualDestination],
    virtual.VirtualTopicAttributes,
    made_by=virtual.VirtualTopic,
):
    """Topics whose messages are copied to queues, one for each group of consumers."""

    type: Literal["virtual_topic"]


class ForwardSettings(BuiltSection[Destination | composite_queues.FilteredDestination]):
    """One of the destinations that a composite destination forwards to."""

    destination: DestinationName
    """A queue, or topic://NAME."""
    selector: str | None = None
    """Only messages that it matches are forwarded; null: all."""

    @field_validator("selector")
    @classmethod
    def _check_selector(cls, selector: str | None) -> str | None:
        if selector is not None:
            try:
                compile_selector(selector)
            except InvalidSelectorException as error:
                raise ValueError(str(error)) from None
        return selector

    def build(self) -> Destination | composite_queues.FilteredDestination:
        """Create the destination, with a filter if there is a selector."""
        if self.selector is None:
            return self.destination
        return composite_queues.FilteredDestination(self.destination, self.selector)


class _CompositeSettings(BuiltSection[virtual.VirtualDestination]):
    name: str
    """The name of the destination that messages are sent to."""
    forward_to: tuple[ForwardSettings, ...] = Field(min_length=1)
    """The destinations that messages are forwarded to."""
    forward_only: bool = True
    """Whether the destination itself gets no messages."""
    send_when_not_matched: bool = False
    """Whether the destination itself gets only the messages that no selector matches."""


class CompositeQueueSettings(_CompositeSettings, made_by=composite_queues.CompositeQueue):
    """A queue whose messages are forwarded to other destinations."""

    type: Literal["composite_queue"]


class CompositeTopicSettings(_CompositeSettings, made_by=composite_queues.CompositeTopic):
    """A topic whose messages are forwarded to other destinations."""

    type: Literal["composite_topic"]


VirtualDestinationSettings = Annotated[
    VirtualTopicSettings | CompositeQueueSettings | CompositeTopicSettings,
    Field(discriminator="type"),
]
