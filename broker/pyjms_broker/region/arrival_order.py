"""The arrival order of messages that become visible only once they are stored.

(activemq-persistence K13; activemq-broker Q2)
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING

from pyjms_broker.api.completion import Completion

if TYPE_CHECKING:
    from pyjms_broker.api.message import MessageReference

__all__ = ["ArrivalOrder"]


class ArrivalOrder:
    """Keeps the order of arrival while messages are being stored.

    While `messages` is not empty, every new message of the destination must be appended, even a
    message that is not stored; otherwise it would overtake those that wait.
    """

    def __init__(
        self,
        enqueue: Callable[[MessageReference], None],
        discard: Callable[[MessageReference, Exception], None],
    ) -> None:
        """Set the callbacks for each stored message, and for one that could not be stored."""
        self.messages: deque[tuple[MessageReference, Completion]] = deque()
        """The waiting messages, oldest first, each with the completion of its storage."""
        self._enqueue = enqueue
        self._discard = discard

    def append(self, reference: MessageReference, stored: Completion) -> None:
        """Enqueue the message once it is first and `stored` is done (`COMPLETED`: no storage)."""
        self.messages.append((reference, stored))
        stored.then(self._advance)

    def _advance(self, _stored: Completion) -> None:
        messages = self.messages
        while messages:
            reference, stored = messages[0]
            if not stored.done:
                return
            messages.popleft()
            if stored.error is None:
                self._enqueue(reference)
            else:
                self._discard(reference, stored.error)
