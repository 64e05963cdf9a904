"""Receiving without prefetch: each receive asks the broker for one message. (ActiveMQ Q14)

A pull with a time-out is answered by a message or, in time, by a dispatch without one; the
broker leaves the second out when a message came meanwhile. Pulls whose receive was
cancelled stay asked for, so they are counted.
"""

from __future__ import annotations

from collections.abc import Callable

from pyjms.wire.openwire.commands import Command, ConsumerInfo, MessagePull

__all__ = ["PullRequests"]


class PullRequests:
    """The pulls of one consumer that the broker has not answered."""

    def __init__(self, info: ConsumerInfo, oneway: Callable[[Command], None]) -> None:
        self._info = info
        self._oneway = oneway
        self.unanswered = 0
        """How many with a time-out wait for their end."""
        self.is_over = False
        """Whether the broker said that the time of the last pull is over."""
        self._endless = False

    @property
    def is_waiting(self) -> bool:
        """Whether any pull may still bring a message."""
        return self._endless or self.unanswered > 0

    def ask(self, timeout: float | None) -> None:
        """Ask for a message within `timeout` seconds; an endless pull is asked for only once."""
        self.is_over = False
        if timeout is None and self._endless:
            return
        if timeout is None:
            self._endless = True
            milliseconds = 0
        else:
            self.unanswered += 1
            milliseconds = max(1, round(timeout * 1000)) if timeout > 0 else -1
        self._oneway(MessagePull(self._info.consumer_id, self._info.destination, milliseconds))

    def message_came(self) -> None:
        """A message answers all: the broker signals none of the ends that are due."""
        self.unanswered = 0
        self._endless = False

    def nothing_came(self) -> None:
        """A dispatch without message: the time of the oldest pull is over."""
        self.unanswered = max(0, self.unanswered - 1)
        self.is_over = self.unanswered == 0
