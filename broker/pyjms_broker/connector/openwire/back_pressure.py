"""Back-pressure on one client: pauses of reading from it, and of dispatching to it.

The broker never buffers unbounded data for a client. It pauses reading from the connection while at
least one of these conditions holds (`ReadPause`), and resumes when none does:

| condition | begins | ends |
|---|---|---|
| RESPONSES | the client does not read, and has 64 KiB of responses on top of the rest | drained |
| SPACE | a send without a producer window waits for memory or disk space | none waits any more |
| WAITING_SENDS | more sends wait for space than windows of normal clients allow | fewer wait |
| DESTINATIONS | a command waits until its many new destinations exist | none waits any more |
| TURN | the client's messages have taken much time | other clients had their turn |
| STOPPING | the connector is stopping | never |

A client that does not read for the moment is read further at first. Otherwise one whose reading
thread waits until its acknowledgements are sent, while another thread waits for a response, could
never read again.

While the transport is congested the connection's subscriptions also count as full, so nothing is
dispatched to it; once the transport is drained they are offered messages again. Producers with a
window are throttled by withholding their ProducerAcks, not by pausing the connection: their other
commands, such as acknowledgements, must still get through. (activemq-broker M2, M6)
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum, auto
from typing import Final

from anyio import lowlevel

from pyjms._wakeup import BackgroundTask, end_tasks, spawn
from pyjms.transport.openwire import OpenWireTransport
from pyjms_broker.api.completion import Completion
from pyjms_broker.connector.base import BrokerHost

__all__ = ["BackPressure", "ReadPause"]

_MAXIMUM_WAITING_SENDS = 1000
_MAXIMUM_WAITING_BYTES = 64 * 1024 * 1024
"""The limit for one connection, well above any producer window."""
_MAXIMUM_UNREAD_RESPONSES: Final = 64 * 1024
"""Bytes per connection in addition to those queued when it became congested; most responses
have 20 to 60."""
_WAITING_BYTES_UNDER_PRESSURE = 1024 * 1024
"""The limit for one connection while the memory for all clients' waiting sends is exceeded."""
_WORK_AT_ONCE: Final = 0.05
"""Seconds of work per turn: a chunk may have hundreds of messages, each for many consumers."""


class ReadPause(Enum):
    """The reason for not reading from a client."""

    RESPONSES = auto()
    SPACE = auto()
    WAITING_SENDS = auto()
    DESTINATIONS = auto()
    TURN = auto()
    STOPPING = auto()


class BackPressure:
    """Pauses and resumes reading from one client, and tracks whether the client keeps up."""

    __slots__ = (
        "_budget",
        "_closed",
        "_creations",
        "_draining",
        "_most_queued",
        "_pauses",
        "_resume_dispatch",
        "_set_congested",
        "_transport",
        "_turn",
        "_unwindowed_sends",
        "_waiting_bytes",
        "_waiting_sends",
        "_worked",
    )

    def __init__(
        self,
        transport: OpenWireTransport,
        host: BrokerHost,
        set_congested: Callable[[bool], None],
        resume_dispatch: Callable[[], None],
    ) -> None:
        """Watch `transport`.

        Args:
            transport: the client's outermost transport.
            host: counts the waiting sends of all clients.
            set_congested: called with True when the client falls behind, False when it catches up.
            resume_dispatch: called after the latter, to offer messages to its consumers again.
        """
        self._transport = transport
        self._budget = host.frame_budget
        self._set_congested = set_congested
        self._resume_dispatch = resume_dispatch
        self._pauses: set[ReadPause] = set()
        self._draining: BackgroundTask | None = None
        self._most_queued = 0
        self._waiting_sends = 0
        self._waiting_bytes = 0
        self._unwindowed_sends = 0
        self._creations = 0
        self._worked = 0.0
        self._turn: BackgroundTask | None = None
        self._closed = False

    @property
    def congested(self) -> bool:
        """Whether too much unread data is queued for the client."""
        return self._draining is not None

    def pause_reading(self, reason: ReadPause) -> None:
        """Stop reading until `resume_reading` was called for every reason."""
        if not self._pauses:
            self._transport.pause_reading()
        self._pauses.add(reason)

    def resume_reading(self, reason: ReadPause) -> None:
        """Resume reading, unless there are other reasons not to read."""
        if reason in self._pauses:
            self._pauses.remove(reason)
            if not self._pauses and not self._closed:
                self._transport.resume_reading()

    def client_is_behind(self) -> None:
        """Treat the client as congested until it has read what is queued for it."""
        if self._draining is None:
            self._most_queued = (self._transport.queued_bytes or 0) + _MAXIMUM_UNREAD_RESPONSES
            self._set_congested(True)
            name = f"broker {self._transport.remote_address} waits for the client to read"
            self._draining = spawn(self._wait_until_drained, name=name)

    def response_queued(self) -> None:
        """Handle a response that was queued for a congested client.

        Reading pauses if many are queued, since further requests would only add responses.
        """
        self.client_is_behind()
        queued = self._transport.queued_bytes
        if queued is None or queued > self._most_queued:
            self.pause_reading(ReadPause.RESPONSES)

    async def _wait_until_drained(self) -> None:
        await self._transport.drained()
        self._draining = None
        self._set_congested(False)
        self.resume_reading(ReadPause.RESPONSES)
        self._resume_dispatch()

    # sends that wait for space
    def send_waits(self, size: int) -> None:
        """Count a send of `size` bytes that waits for space."""
        self._waiting_sends += 1
        self._waiting_bytes += size
        self._budget.hold(size)
        if not self._within_limits():
            self.pause_reading(ReadPause.WAITING_SENDS)

    def send_finished(self, size: int) -> None:
        """Count a send of `size` bytes as no longer waiting."""
        self._waiting_sends -= 1
        self._waiting_bytes -= size
        self._budget.release(size)
        if self._pauses and self._within_limits():
            self.resume_reading(ReadPause.WAITING_SENDS)

    def unwindowed_send_waits(self) -> None:
        """Stop reading while a send that is not limited by a producer window waits for space."""
        self._unwindowed_sends += 1
        self.pause_reading(ReadPause.SPACE)

    def unwindowed_send_finished(self) -> None:
        """Resume reading once no such send waits any more."""
        self._unwindowed_sends -= 1
        if not self._unwindowed_sends:
            self.resume_reading(ReadPause.SPACE)

    # messages that take a long time
    def worked(self, seconds: float) -> None:
        """Count the time that a message took; above a limit, let other clients go first."""
        self._worked += seconds
        if self._worked > _WORK_AT_ONCE and (self._turn is None or self._turn.done):
            self._worked = 0.0
            self.pause_reading(ReadPause.TURN)
            self._turn = spawn(self._wait_for_others, name="broker lets other clients come first")

    async def _wait_for_others(self) -> None:
        await lowlevel.checkpoint()
        self.resume_reading(ReadPause.TURN)

    # commands that create many destinations
    def pause_until(self, done: Completion) -> None:
        """Stop reading until `done`: until the destinations of a command exist."""
        self._creations += 1
        self.pause_reading(ReadPause.DESTINATIONS)
        done.then(self._creation_ended)

    def _creation_ended(self, _done: Completion) -> None:
        self._creations -= 1
        if not self._creations:
            self.resume_reading(ReadPause.DESTINATIONS)

    def _within_limits(self) -> bool:
        # one message may be long; a second long one is not read while the budget is exceeded
        exceeded = self._budget.exceeded and self._waiting_sends > 1
        size = _WAITING_BYTES_UNDER_PRESSURE if exceeded else _MAXIMUM_WAITING_BYTES
        return self._waiting_sends <= _MAXIMUM_WAITING_SENDS and self._waiting_bytes <= size

    # the end
    def close(self) -> None:
        """Never resume reading, because the connection is closed."""
        self._closed = True

    async def stop(self) -> None:
        """Stop waiting for the client to read, and for other clients."""
        await end_tasks(self._draining, self._turn)
