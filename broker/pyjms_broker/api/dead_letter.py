"""The interface of dead-letter strategies: which messages become dead letters, and where."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

from pyjms.jms.destination import Destination

if TYPE_CHECKING:
    from pyjms_broker.api.message import MessageReference
    from pyjms_broker.api.subscription import Subscription

__all__ = ["DeadLetterStrategy"]


class DeadLetterStrategy(ABC):
    """Decides for one policy entry. Source: ActiveMQ DeadLetterStrategy."""

    expiration: float
    """Time to live of the dead letters in seconds; 0: they do not expire."""

    @abstractmethod
    def is_send_to_dead_letter_queue(self, reference: MessageReference) -> bool:
        """Whether the message is to be dead-lettered; records it: a second call returns False.

        (activemq-broker L1)
        """

    @abstractmethod
    def rollback(self, reference: MessageReference) -> None:
        """Forget the message, so that it can be dead-lettered again."""

    @abstractmethod
    def dead_letter_destination(
        self, reference: MessageReference, subscription: Subscription | None
    ) -> Destination | None:
        """Return where the dead letter goes, None for nowhere."""

    @abstractmethod
    def is_dead_letter_destination(self, destination: Destination) -> bool:
        """Whether dead letters go to this destination."""
