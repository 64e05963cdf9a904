"""Inactivity detection: detects a silent peer, and sends keep-alives so that the peer detects none.

One task per connection compares two counters with their values at its previous check, so no
command needs a timestamp.

- Nothing written since the last check: a keep-alive is sent, unless a write is in progress: then
  enough bytes are waiting for the peer to see that this side is alive.
- Nothing received since the last check: the peer is silent, unless this side has paused reading.
- After a long halt (a suspended machine) the next check is due a whole period later, so that two
  checks never follow each other without time for the peer to send.

(activemq-edges I2, I3, ST13)
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from pyjms.runtime import clock as _clock

if TYPE_CHECKING:
    from pyjms.transport.tcp import TcpTransport


class Checks(NamedTuple):
    """The times of checks of one direction: seconds until the first check, and between checks."""

    first: float
    period: float


NEVER: Final = Checks(float("inf"), float("inf"))
"""The direction is not checked."""


async def wait_for_silence(
    transport: TcpTransport[Any],
    keep_alive: Callable[[], object],
    *,
    writes: Checks,
    reads: Checks,
) -> None:
    """Wait until nothing was received between two checks. Cancellable.

    Args:
        transport: counts received bytes and sent commands.
        keep_alive: called when nothing was sent between two checks; sends a keep-alive.
        writes: the checks of what was sent.
        reads: the checks of what was received. At least one of the two is not `NEVER`.
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
            next_write = now + writes.period  # not from the due time: see the module's docstring
        if now >= next_read:
            if received == transport.received_bytes and not transport.reading_paused:
                return
            received = transport.received_bytes
            next_read = now + reads.period
