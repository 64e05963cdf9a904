"""The interface of dead-letter strategies."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

from pyjms.jms.destination import Destination

if TYPE_CHECKING:
    from pyjms_broker.api.message import MessageReference
    from pyjms_broker.api.subscription import Subscription

__all__ = ["DeadLetterStrategy"]


class DeadLetterStrategy(ABC):
    """Decides which messages of a policy entry are dead-lettered, and where they are sent.

    Source: ActiveMQ DeadLetterStrategy.
    """

    expiration: float
    """Time to live of dead letters in seconds; 0: they do not expire."""

    @abstractmethod
    def is_send_to_dead_letter_queue(self, reference: MessageReference) -> bool:
        """Return whether to dead-letter a message, and record it: a second call returns False.

        (activemq-broker L1)
        """

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
