"""Keep-alive: sends KeepAliveInfo when nothing else is sent, and detects a dead peer.

One task per connection compares two counters with their values at its previous check, so no
command pays for a timestamp. The first checks come after the negotiated initial delay; then
reading is checked every T, the negotiated inactivity duration, and writing every T/3.

- Nothing written since the last check: send KeepAliveInfo, unless a write is under way: a
  peer that does not read has bytes enough waiting to see that we are alive.
- Nothing received since the last check: the connection fails, unless our own side has paused
  reading.
- After a long halt (a suspended machine) the next check is due a whole period later, so that
  two checks never follow each other without time for the peer to send.

(activemq-edges I2, I3; openwire-encoding 16)
"""

from __future__ import annotations

from typing import Protocol

from pyjms import _clock
from pyjms._wakeup import BackgroundTask, end_tasks, spawn
from pyjms.errors import ConnectionFailedException
from pyjms.transport.base import Transport, TransportFilter
from pyjms.wire.openwire.commands import Command, KeepAliveInfo
from pyjms.wire.openwire.format import NegotiatedSettings

__all__ = ["InactivityMonitor", "MonitoredTransport"]

_SHORTEST_DIVIDED = 0.003  # a T of 3 ms or less is not divided for the write check


class MonitoredTransport(Protocol):
    """What the monitor needs of the transport below; TcpTransport has it."""

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


class InactivityMonitor(TransportFilter[Command]):
    """Keeps the connection alive and fails it when the peer is silent for too long."""

    def __init__(
        self,
        next_transport: Transport[Command],
        monitored: MonitoredTransport,
        *,
        use_keep_alive: bool = True,
        keep_alive_response_required: bool = False,
    ) -> None:
        super().__init__(next_transport)
        self._monitored = monitored
        self._use_keep_alive = use_keep_alive
        self._response_required = keep_alive_response_required
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
            # a peer that does not read has bytes enough waiting to see that we are alive
            if command.response_required and not self.next.congested:
                self.next.oneway(KeepAliveInfo(command.command_id, response_required=False))
            return
        self.listener.on_command(command)

    def on_exception(self, error: Exception) -> None:
        if self._task is not None:
            self._task.cancel()
        self.listener.on_exception(error)

    async def _watch(self, duration: float, initial_delay: float) -> None:
        write_period = duration / 3 if duration > _SHORTEST_DIVIDED else duration
        monitored = self._monitored
        received = sent = -1
        next_write = next_read = _clock.now() + initial_delay
        while True:
            await _clock.sleep(max(0.0, min(next_write, next_read) - _clock.now()))
            now = _clock.now()
            if now >= next_write:
                if sent == monitored.sent_commands and not monitored.writing:
                    self._send_keep_alive()
                sent = monitored.sent_commands
                # from now, not from when it was due: see the theory of operation
                next_write = now + write_period
            if now >= next_read:
                if received == monitored.received_bytes and not monitored.reading_paused:
                    monitored.fail(
                        ConnectionFailedException(
                            f"Channel was inactive for too (>{duration * 1000:.0f}) long: "
                            f"{self.remote_address}",
                            hint="wireFormat.maxInactivityDuration (ms) sets the limit, 0: none",
                        )
                    )
                    return
                received = monitored.received_bytes
                next_read = now + duration

    def _send_keep_alive(self) -> None:
        if self._use_keep_alive:
            self.next.oneway(KeepAliveInfo(0, response_required=self._response_required))
