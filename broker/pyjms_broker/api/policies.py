"""The interfaces of what a policy decides: dead letters, and messages kept for later consumers."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import TYPE_CHECKING, Protocol

from pyjms.jms.destination import Destination
from pyjms.wire.openwire.commands import ActiveMQMessage

if TYPE_CHECKING:
    from pyjms_broker.api.destination import RegionDestination
    from pyjms_broker.api.message import MessageReference
    from pyjms_broker.api.subscription import Subscription


class DeadLetterStrategy(ABC):
    """Decides which messages of a policy entry are dead-lettered, and where they are sent.

    Source: ActiveMQ DeadLetterStrategy.
    """

    expiration: float
    """Time to live of dead letters in seconds; 0: they do not expire."""

    @abstractmethod
    def is_send_to_dead_letter_queue(self, reference: MessageReference) -> bool:
        """Return whether to dead-letter a message, and record it: a second call returns False."""

    @abstractmethod
    def rollback(self, reference: MessageReference) -> None:
        """Forget a message, so that it can be dead-lettered again."""

    @abstractmethod
    def dead_letter_destination(
        self, reference: MessageReference, subscription: Subscription | None
    ) -> Destination | None:
        """Return the destination of the dead letter; None to discard it."""

    @abstractmethod
    def is_dead_letter_destination(self, destination: Destination) -> bool:
        """Whether this strategy sends dead letters to a destination."""


class SubscriptionRecovery(ABC):
    """The messages kept by a topic. All methods run on the broker's event loop and must not block.

    A kept message must be retained (`MessageReference.increment_reference_count`), so that it
    counts as used memory, and released when it is dropped.
    Source: ActiveMQ SubscriptionRecoveryPolicy.
    """

    @abstractmethod
    def add(self, reference: MessageReference) -> bool:
        """Decide whether to keep a message that the topic is about to publish.

        Return whether the topic may publish it; False drops the message for all consumers.
        """

    @abstractmethod
    def messages(self, requested: Destination) -> Iterable[MessageReference]:
        """Return the messages for a new consumer of `requested`, oldest first.

        `requested` is the consumer's destination, which may be a pattern or a composite. The caller
        skips messages that have expired or that the selector does not match.
        """

    @abstractmethod
    def evict(self) -> bool:
        """Drop the oldest kept message because memory is short; return False if there is none."""

    @abstractmethod
    def close(self) -> None:
        """Drop all messages, because the topic is removed."""


class SubscriptionRecoveryPolicy(Protocol):
    """A recovery policy; an instance serves all topics of a policy entry."""

    def recovery_for(self, topic: RegionDestination) -> SubscriptionRecovery | None:
        """Return the recovery for a new topic; None if it keeps nothing."""


class MessageQuery(Protocol):
    """Returns messages with the current state of an application, for a query-based policy.

    Source: ActiveMQ MessageQuery.
    """

    def execute(self, destination: Destination) -> Iterable[ActiveMQMessage]:
        """Return the messages for a new consumer of `destination`, oldest first; must not block.

        The broker assigns their ids. A message without a destination gets the topic's.
        """

    def validate_update(self, message: ActiveMQMessage) -> bool:
        """Whether the topic may publish a message; False drops it for all consumers."""
