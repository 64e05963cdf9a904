"""The base class of filters that decide which messages are dead-lettered."""

from __future__ import annotations

from abc import abstractmethod

from pyjms.wire.openwire.commands import Throwable
from pyjms_broker.api.context import ConnectionContext
from pyjms_broker.api.filter import BrokerFilter
from pyjms_broker.api.message import MessageReference
from pyjms_broker.api.subscription import Subscription

__all__ = ["DeadLetterFilter"]


class DeadLetterFilter(BrokerFilter):
    """Passes on the dead letters that `is_dead_letter` allows; acknowledgement always continues."""

    def send_to_dead_letter_queue(
        self,
        context: ConnectionContext,
        reference: MessageReference,
        subscription: Subscription | None,
        cause: Throwable | None,
    ) -> bool:
        if not self.is_dead_letter(reference):
            return False
        return self.next.send_to_dead_letter_queue(context, reference, subscription, cause)

    @abstractmethod
    def is_dead_letter(self, reference: MessageReference) -> bool:
        """Return whether the rest of the chain should dead-letter the message.

        Called once per message, so an implementation may also process the message.
        """
