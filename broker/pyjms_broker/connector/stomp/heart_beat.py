"""Heart-beats: ends of line when nothing else is sent, and disconnection of silent clients.

`pyjms.transport.tcp` has the algorithm. Sending is checked at half the promised period, so that
the client never waits longer than that period. Receiving is checked at the client's period times
the grace multiplier, from the second period on, so a silent client is disconnected after three
periods. (activemq-edges ST13)
"""

from __future__ import annotations

from typing import Final, NamedTuple

from pyjms.errors import ConnectionFailedException, RemoteProtocolError
from pyjms.runtime.event_loop import BackgroundTask, spawn
from pyjms.transport.tcp import NEVER, Checks, TcpTransport, wait_for_silence
from pyjms.wire.stomp import HEART_BEAT, Frame
from pyjms_broker.connector.stomp.headers import MAXIMUM_INT, integer

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


def start_heart_beat(
    transport: TcpTransport[Frame], periods: Periods, grace: float
) -> BackgroundTask | None:
    """Start the heart-beats of one connection; return the task, or None if there are no periods.

    A client may exceed its period by the factor `grace`. Call it on the event loop.
    """
    if not any(periods):
        return None
    write = max(periods.broker / 2000, _SHORTEST_CHECK)
    read = max(periods.client * grace / 1000, _SHORTEST_CHECK)

    async def watch() -> None:
        await wait_for_silence(
            transport,
            lambda: transport.oneway(HEART_BEAT),
            writes=Checks(write, write) if periods.broker else NEVER,
            reads=Checks(2 * read, read) if periods.client else NEVER,
        )
        raise ConnectionFailedException(
            f"{transport.remote_address}: the client sent nothing for {read:g} s, "
            "though it promised a heart-beat",
            hint="transport.hbGracePeriodMultiplier lets clients take longer",
        )

    name = f"broker {transport.remote_address} heart-beat"
    return spawn(watch, name=name, on_error=transport.fail)
