"""The requests whose response is pending, and the messages that have not been sent yet."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from pyjms import _clock
from pyjms.wire.openwire.commands import ActiveMQMessage, Command, Response

__all__ = ["HeldMessages", "OpenRequests", "Request"]

OnResponse = Callable[[Response | Exception], None]


@dataclass
class Request:
    """A request, and the callback for its response."""

    number: int
    command: Command
    on_response: OnResponse
    since: float
    """When it was made."""
    was_sent: bool = False
    """Whether a broker may have received it."""
    was_repeated: bool = False
    """Whether several brokers may have received it."""


class OpenRequests:
    """The requests of one client, in the order in which they were sent."""

    def __init__(self) -> None:
        self._requests: dict[int, Request] = {}
        self._number = 0

    def __iter__(self) -> Iterator[Request]:
        return iter(list(self._requests.values()))

    def add(self, command: Command, on_response: OnResponse) -> Request:
        """Add a request that is about to be sent."""
        self._number += 1
        request = Request(self._number, command, on_response, _clock.now())
        self._requests[request.number] = request
        return request

    def pop(self, number: int) -> Request | None:
        """Remove a request and return it; None: it was abandoned or completed."""
        return self._requests.pop(number, None)

    def abandon(self, command: Command) -> Request | None:
        """Remove and return the request of `command`, whose caller no longer waits."""
        for request in self:
            if request.command is command:
                return self._requests.pop(request.number)
        return None

    def commands(self) -> frozenset[int]:
        """Return the `id()` of each command."""
        return frozenset(id(request.command) for request in self._requests.values())

    def messages(self) -> list[Request]:
        """Return the requests that send a message."""
        return [r for r in self._requests.values() if isinstance(r.command, ActiveMQMessage)]

    def pop_all(self) -> list[Request]:
        """Remove and return all requests."""
        requests, self._requests = self._requests, {}
        return list(requests.values())


class HeldMessages:
    """Messages sent without response while there was no broker; their senders wait in `drained`."""

    def __init__(self) -> None:
        self._held: dict[int, tuple[ActiveMQMessage, bool]] = {}  # by `id()` of the message

    def add(self, message: ActiveMQMessage, *, is_replayed: bool) -> None:
        """Add a message; `is_replayed`: a replay sends it in any case."""
        self._held[id(message)] = (message, is_replayed)

    def remove(self, message: Command) -> ActiveMQMessage | None:
        """Remove a message whose sender no longer waits; return the message or its held copy.

        Returns None if it was not held.
        """
        held = self._held.pop(id(message), None)
        if held is None and isinstance(message, ActiveMQMessage) and message.message_id:
            for key, (other, _) in self._held.items():
                if other.message_id is message.message_id:  # copies have the same object
                    held = self._held.pop(key)
                    break
        return None if held is None else held[0]

    def unsent(self) -> list[ActiveMQMessage]:
        """Return the messages that a replay does not send."""
        return [message for message, is_replayed in self._held.values() if not is_replayed]

    def clear(self) -> None:
        """Remove all messages, because they were sent."""
        self._held.clear()

    def pop_all(self) -> list[ActiveMQMessage]:
        """Remove and return all messages, which are not sent."""
        held, self._held = self._held, {}
        return [message for message, _ in held.values()]
