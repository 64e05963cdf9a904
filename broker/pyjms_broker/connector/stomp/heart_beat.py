"""Heart-beats: ends of line when nothing else is sent, and disconnection of silent clients.

`pyjms.transport.silence` has the algorithm. Sending is checked at half the promised period, so that
the client never waits longer than that period. Receiving is checked at the client's period times
the grace multiplier, from the second period on, so a silent client is disconnected after three
periods. (activemq-edges ST13)
"""

from __future__ import annotations

from typing import Final, NamedTuple

from pyjms.errors import ConnectionFailedException, RemoteProtocolError
from pyjms.runtime.event_loop import BackgroundTask, end_tasks, spawn
from pyjms.transport.silence import NEVER, Checks, wait_for_silence
from pyjms.transport.tcp import TcpTransport
from pyjms.wire.stomp import HEART_BEAT, Frame
from pyjms_broker.connector.stomp.headers import MAXIMUM_INT, integer

__all__ = ["HeartBeat", "Periods", "read_periods"]

_SHORTEST_CHECK: Final = 0.01
"""Seconds between two checks; clients that ask for more frequent beats do not get them."""


class Periods(NamedTuple):
    """The maximum silence of each side in milliseconds; 0: no guarantee."""

    client: int
    broker: int

    @property
    def answer(self) -> str:
        """Return the header `heart-beat` of CONNECTED."""
        return f"{self.broker},{self.client}"


def read_periods(text: str) -> Periods:
    """Parse the header `heart-beat` of CONNECT: the client's own and its requested period.

    Raises:
        RemoteProtocolError: it is not two numbers of milliseconds.
    """
    parts = text.split(",")
    try:
        return Periods(*(integer("heart-beat", part, 0, MAXIMUM_INT) for part in parts))
    except (TypeError, RemoteProtocolError):  # not two values, or no numbers
        raise RemoteProtocolError(f"Invalid heart-beat header:{text[:100]}") from None


class HeartBeat:
    """The heart-beats of one connection."""

    def __init__(self, transport: TcpTransport[Frame]) -> None:
        self._transport = transport
        self._task: BackgroundTask | None = None

    def start(self, periods: Periods, grace: float) -> None:
        """Start; a client may exceed its period by the factor `grace`. Call once, on the loop."""
        if not any(periods):
            return
        self._task = spawn(
            self._watch,
            max(periods.broker / 2000, _SHORTEST_CHECK) if periods.broker else None,
            max(periods.client * grace / 1000, _SHORTEST_CHECK) if periods.client else None,
            name=f"broker {self._transport.remote_address} heart-beat",
            on_error=self._transport.fail,
        )

    def end(self) -> None:
        """Stop without waiting."""
        if self._task is not None:
            self._task.cancel()

    async def stop(self) -> None:
        """Stop, and wait until stopped."""
        await end_tasks(self._task)

    async def _watch(self, write: float | None, read: float | None) -> None:
        transport = self._transport
        await wait_for_silence(
            transport,
            lambda: transport.oneway(HEART_BEAT),
            writes=NEVER if write is None else Checks(write, write),
            reads=NEVER if read is None else Checks(2 * read, read),
        )
        raise ConnectionFailedException(
            f"{transport.remote_address}: the client sent nothing for {read:g} s, "
            "though it promised a heart-beat",
            hint="transport.hbGracePeriodMultiplier lets clients take longer",
        )
