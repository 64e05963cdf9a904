"""Recovery policies in broker.yaml (`subscription_recovery_policy`). (activemq-broker 4.2)"""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal

from pydantic import Field

from pyjms._yaml import Duration
from pyjms_broker import entry_points
from pyjms_broker.api.recovery import MessageQuery, SubscriptionRecoveryPolicy
from pyjms_broker.policy.recovery import (
    FixedCountSubscriptionRecoveryPolicy,
    FixedSizedSubscriptionRecoveryPolicy,
    LastImageSubscriptionRecoveryPolicy,
    NoSubscriptionRecoveryPolicy,
    QueryBasedSubscriptionRecoveryPolicy,
    TimedSubscriptionRecoveryPolicy,
)
from pyjms_broker.settings.extensions import RecoveryPolicySettings
from pyjms_broker.settings.values import BuiltSection, Bytes

__all__ = ["BUILT_IN_RECOVERY_POLICIES", "RecoverySettings", "load_message_query"]

_QUERY: Final = "an object with methods execute(destination) and validate_update(message)"
_QUERY_METHODS: Final = ("execute", "validate_update")


def load_message_query(name: str) -> MessageQuery:
    """Load an installed query; a class is instantiated without arguments.

    Raises:
        ConfigurationException: the query is not installed, or cannot be loaded.
    """
    loaded = entry_points.load(entry_points.QUERIES, name)
    query: Any = loaded() if isinstance(loaded, type) else loaded
    is_query = all(callable(getattr(query, method, None)) for method in _QUERY_METHODS)
    entry_points.check_loaded(entry_points.QUERIES, name, is_query, _QUERY)
    checked: MessageQuery = query
    return checked


class _BuiltIn(BuiltSection[SubscriptionRecoveryPolicy], RecoveryPolicySettings):
    pass


class NoRecoverySettings(_BuiltIn, made_by=NoSubscriptionRecoveryPolicy):
    """Nothing is kept."""

    type: Literal["none"]


class FixedCountRecoverySettings(_BuiltIn, made_by=FixedCountSubscriptionRecoveryPolicy):
    """The last messages are kept."""

    type: Literal["fixed_count"]
    maximum_size: int = Field(default=100, ge=1)
    """Number of messages."""


class FixedSizedRecoverySettings(_BuiltIn, made_by=FixedSizedSubscriptionRecoveryPolicy):
    """The last messages are kept that fit into a size."""

    type: Literal["fixed_sized"]
    maximum_size: Bytes = Field(default=65_536, ge=1)
    """Memory for the messages of one topic."""


class LastImageRecoverySettings(_BuiltIn, made_by=LastImageSubscriptionRecoveryPolicy):
    """The last message is kept."""

    type: Literal["last_image"]


class TimedRecoverySettings(_BuiltIn, made_by=TimedSubscriptionRecoveryPolicy):
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
        """Create the policy.

        Raises:
            ConfigurationException: the query is not installed, or cannot be loaded.
        """
        return QueryBasedSubscriptionRecoveryPolicy(query=load_message_query(self.query))


RecoverySettings = Annotated[
    NoRecoverySettings
    | FixedCountRecoverySettings
    | FixedSizedRecoverySettings
    | LastImageRecoverySettings
    | TimedRecoverySettings
    | QueryBasedRecoverySettings,
    Field(discriminator="type"),
]
BUILT_IN_RECOVERY_POLICIES: Final = (
    "none",
    "fixed_count",
    "fixed_sized",
    "last_image",
    "timed",
    "query_based",
)
