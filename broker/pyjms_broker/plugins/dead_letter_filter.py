"""The base class of filters that decide which messages are dead-lettered."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from typing import Any

from pyjms_broker.api.broker import Broker
from pyjms_broker.api.filter import BrokerFilter, intercepted
from pyjms_broker.api.message import MessageReference

__all__ = ["DeadLetterFilter"]


def _decide(
    self: DeadLetterFilter, arguments: tuple[Any, ...], proceed: Callable[[], bool]
) -> bool:
    return self.is_dead_letter(arguments[1]) and proceed()


class DeadLetterFilter(BrokerFilter):
    """Passes on the dead letters that `is_dead_letter` allows; acknowledgement always continues."""

    send_to_dead_letter_queue = intercepted(Broker.send_to_dead_letter_queue, _decide)

    @abstractmethod
    def is_dead_letter(self, reference: MessageReference) -> bool:
        """Return whether the rest of the chain should dead-letter the message.

        Called once per message, so an implementation may also process the message.
        """
