"""Keep-alive: sends KeepAliveInfo when nothing else is sent, and detects a dead peer.

`pyjms.transport.silence` has the algorithm. The first checks come after the negotiated initial
delay; then reading is checked every T, the negotiated inactivity duration, and writing every T/3.
(activemq-edges I2, I3; openwire-encoding 16)
"""

from __future__ import annotations

from pyjms.errors import ConnectionFailedException
from pyjms.runtime.event_loop import BackgroundTask, end_tasks, spawn
from pyjms.transport.base import Transport, TransportFilter
from pyjms.transport.openwire.options import OpenWireOptions
from pyjms.transport.silence import Checks, wait_for_silence
from pyjms.transport.tcp import TcpTransport
from pyjms.wire.openwire.commands import Command, KeepAliveInfo
from pyjms.wire.openwire.settings import NegotiatedSettings

_SHORTEST_DIVIDED = 0.003  # a T of 3 ms or less is not divided for the write check


class InactivityMonitor(TransportFilter[Command]):
    """Keeps the connection alive, and fails it if the peer is silent for too long."""

    def __init__(
        self,
        next_transport: Transport[Command],
        monitored: TcpTransport[Command],
        options: OpenWireOptions,
    ) -> None:
        super().__init__(next_transport)
        self._monitored = monitored
        self._options = options
        self._task: BackgroundTask | None = None

    @property
    def outbound(self) -> Transport[Command]:
        return self.next.outbound

    def monitor(self, settings: NegotiatedSettings) -> None:
        """Start monitoring as negotiated; a duration of 0 means none. Call it on the loop."""
        duration = settings.max_inactivity_duration
        if duration > 0 and self._task is None:
            self._task = spawn(
                self._watch,
                duration,
                settings.max_inactivity_duration_inital_delay,
                name=f"pyjms {self.remote_address} inactivity monitor",
                on_error=self._monitored.fail,
            )

    @property
    def notices_silence(self) -> bool:
        return self._task is not None or self.next.notices_silence

    async def stop(self) -> None:
        await end_tasks(self._task)
        await self.next.stop()

    def on_command(self, command: Command) -> None:
        if isinstance(command, KeepAliveInfo):
            self.on_keep_alive(command)
        else:
            self.listener.on_command(command)

    def on_keep_alive(self, command: KeepAliveInfo) -> None:
        """Answer the peer if it asks for that, unless it does not read.

        In that case enough bytes are waiting to show it that this side is alive.
        """
        if command.response_required and not self.next.congested:
            self.next.oneway(KeepAliveInfo(command.command_id, response_required=False))

    def on_exception(self, error: Exception) -> None:
        if self._task is not None:
            self._task.cancel()
        self.listener.on_exception(error)

    async def _watch(self, duration: float, initial_delay: float) -> None:
        write_period = duration / 3 if duration > _SHORTEST_DIVIDED else duration
        await wait_for_silence(
            self._monitored,
            self._send_keep_alive,
            writes=Checks(initial_delay, write_period),
            reads=Checks(initial_delay, duration),
        )
        self._monitored.fail(
            ConnectionFailedException(
                f"Channel was inactive for too (>{duration * 1000:.0f}) long: "
                f"{self.remote_address}",
                hint="wireFormat.maxInactivityDuration (ms) sets the limit, 0: none",
            )
        )

    def _send_keep_alive(self) -> None:
        if self._options.use_keep_alive:
            required = self._options.keep_alive_response_required
            self.next.oneway(KeepAliveInfo(0, response_required=required))
