"""Finds a peer that sends nothing, and what to do before it finds us silent.

One task per connection compares two counters with their values at its previous check, so no
command pays for a timestamp.

- Nothing written since the last check: something is sent, unless a write is under way: a peer that
  does not read has bytes enough waiting to see that we are alive.
- Nothing received since the last check: the peer is silent, unless our own side has paused reading.
- After a long halt (a suspended machine) the next check is due a whole period later, so that two
  checks never follow each other without time for the peer to send.

(activemq-edges I2, I3, ST13)
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple, Protocol

from pyjms import _clock

__all__ = ["NEVER", "Checks", "MonitoredTransport", "wait_for_silence"]


class MonitoredTransport(Protocol):
    """What must be known of a transport; TcpTransport has it."""

    @property
    def received_bytes(self) -> int:
        """How many bytes have come in."""

    @property
    def sent_commands(self) -> int:
        """How many commands have been queued for writing."""

    @property
    def writing(self) -> bool:
        """Whether a write is under way, because the peer does not read fast enough."""

    @property
    def reading_paused(self) -> bool:
        """Whether our own side has paused reading."""

    def fail(self, error: BaseException) -> None:
        """End the transport because of `error`."""


class Checks(NamedTuple):
    """When one direction is checked: seconds until the first time, and between two times."""

    first: float
    period: float


NEVER: Final = Checks(float("inf"), float("inf"))
"""The direction is not checked."""


async def wait_for_silence(
    transport: MonitoredTransport,
    keep_alive: Callable[[], object],
    *,
    writes: Checks,
    reads: Checks,
) -> None:
    """Return when nothing was received between two checks. Cancellable.

    Args:
        transport: counts what comes and goes.
        keep_alive: called when nothing was sent between two checks; sends something.
        writes: when to check what was sent.
        reads: when to check what was received. One of the two is not `NEVER`.
    """
    received = sent = -1
    now = _clock.now()
    next_write, next_read = now + writes.first, now + reads.first
    while True:
        await _clock.sleep(max(0.0, min(next_write, next_read) - _clock.now()))
        now = _clock.now()
        if now >= next_write:
            if sent == transport.sent_commands and not transport.writing:
                keep_alive()
            sent = transport.sent_commands
            next_write = now + writes.period  # not from when it was due: see the module's text
        if now >= next_read:
            if received == transport.received_bytes and not transport.reading_paused:
                return
            received = transport.received_bytes
            next_read = now + reads.period
