"""What topics keep for consumers that come later, and who decides it. (activemq-broker 4.2)"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import TYPE_CHECKING, Protocol

from pyjms.jms.destination import Destination
from pyjms.wire.openwire.commands import ActiveMQMessage

if TYPE_CHECKING:
    from pyjms_broker.api.destination import RegionDestination
    from pyjms_broker.api.message import MessageReference

__all__ = ["MessageQuery", "SubscriptionRecovery", "SubscriptionRecoveryPolicy"]


class SubscriptionRecovery(ABC):
    """The messages that one topic keeps. All calls are made on the broker's loop; none may block.

    A message that is kept must be retained (`MessageReference.increment_reference_count`), so that
    it counts as used memory, and released when it is dropped.
    Source: ActiveMQ SubscriptionRecoveryPolicy.
    """

    @abstractmethod
    def add(self, reference: MessageReference) -> bool:
        """Keep a message that the topic is about to publish, or not.

        Return whether the topic may publish it; False drops the message for everybody.
        """

    @abstractmethod
    def messages(self, requested: Destination) -> Iterable[MessageReference]:
        """Return the messages for a new consumer of `requested`, oldest first.

        `requested` is the destination of the consumer, which may be a pattern or a composite.
        Those that its selector does not match, or that have expired, are left out by the caller.
        """

    @abstractmethod
    def evict(self) -> bool:
        """Drop the oldest kept message, because memory is short; False if there is none."""

    @abstractmethod
    def close(self) -> None:
        """Drop everything: the topic is removed."""


class SubscriptionRecoveryPolicy(Protocol):
    """The settings of recovery policies; one object serves all topics of a policy entry."""

    def recovery_for(self, topic: RegionDestination) -> SubscriptionRecovery | None:
        """Return what a new topic keeps; None: nothing."""


class MessageQuery(Protocol):
    """Messages that represent the current state of an application, for a query-based policy.

    Source: ActiveMQ MessageQuery.
    """

    def execute(self, destination: Destination) -> Iterable[ActiveMQMessage]:
        """Return the messages for a new consumer of `destination`, oldest first; must not block.

        The broker gives them ids. A message without a destination gets the topic's.
        """

    def validate_update(self, message: ActiveMQMessage) -> bool:
        """Whether the topic may publish a message; False drops it for everybody."""
