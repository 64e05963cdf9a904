"""The pulls to which the broker has not responded.

After a reconnection the new broker does not know these pulls, and their consumers would wait for
ever. They are sent again with the remaining timeout; if it passes while there is no broker, the
transport responds instead, by a dispatch without message. (activemq-edges F3)
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from pyjms import _clock
from pyjms.wire.openwire.commands import ConsumerId, MessageDispatch, MessagePull

__all__ = ["OpenPulls"]


class OpenPulls:
    """The pulls of one client, oldest first, by consumer."""

    def __init__(self) -> None:
        self._pulls: dict[ConsumerId | None, list[tuple[MessagePull, float | None]]] = {}

    def __bool__(self) -> bool:
        return bool(self._pulls)

    def add(self, pull: MessagePull) -> None:
        """Add a pull that is about to be sent."""
        deadline = None
        if pull.timeout:
            deadline = _clock.now() + max(pull.timeout, 0) / 1000
        self._pulls.setdefault(pull.consumer_id, []).append((pull, deadline))

    def on_dispatch(self, dispatch: MessageDispatch) -> None:
        """Record a response: a message is the response to all pulls of its consumer."""
        consumer_id = dispatch.consumer_id
        pulls = self._pulls.get(consumer_id)
        if pulls is None:
            return
        if dispatch.message is not None:
            del self._pulls[consumer_id]
            return
        for index, (_, deadline) in enumerate(pulls):
            if deadline is not None:
                del pulls[index]
                break
        if not pulls:
            del self._pulls[consumer_id]

    def consumer_closed(self, consumer_id: ConsumerId) -> None:
        """Remove the pulls of a consumer."""
        self._pulls.pop(consumer_id, None)

    def replay(self) -> Iterator[MessagePull]:
        """Yield all pulls, with their remaining timeouts."""
        now = _clock.now()
        for pulls in self._pulls.values():
            for pull, deadline in pulls:
                left = 0
                if deadline is not None:
                    left = round((deadline - now) * 1000)
                    left = left if left > 0 else -1
                yield MessagePull(pull.consumer_id, pull.destination, left)

    def next_deadline(self) -> float | None:
        """Return when the next pull times out; None: never."""
        return min(
            (d for pulls in self._pulls.values() for _, d in pulls if d is not None), default=None
        )

    def respond_to_overdue(self, deliver: Callable[[MessageDispatch], None]) -> None:
        """Respond to pulls that have timed out by dispatches without message."""
        now = _clock.now()
        overdue = [
            pull
            for pulls in self._pulls.values()
            for pull, deadline in pulls
            if deadline is not None and deadline <= now
        ]
        for pull in overdue:
            dispatch = MessageDispatch(pull.consumer_id, pull.destination)
            self.on_dispatch(dispatch)
            deliver(dispatch)
