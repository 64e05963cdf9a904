"""One end of a `vm://` connection, which passes commands to the other end in the process.

Commands are passed as objects, in order and in runs, through an inbox at each end. Commands sent
while another one is being handled wait, so calls never nest. With `marshal=true` commands are
passed as bytes, which is slower but prevents the ends from sharing objects. Ends on different event
loops, whose connection is a bridge (`pyjms_broker.connector.vm.bridge`), also exchange bytes.
(activemq-broker B15)
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, Final

from pyjms.errors import ConnectionFailedException, RemoteProtocolError
from pyjms.transport.base import Transport
from pyjms.transport.inbox import HIGH_WATER, Inbox
from pyjms.wire.openwire.commands import Command
from pyjms.wire.openwire.format import OpenWireFormat
from pyjms_broker.connector.vm.bridge import FarEnd

_RUN_ROOM: Final = 1 << 24
"""Bytes of a run; the other end's inbox counts commands instead."""


class VmTransport(Transport[Command]):
    """One end of a connection within the process."""

    def __init__(self, remote_address: str, wire_format: OpenWireFormat | None = None) -> None:
        """Send objects, or bytes encoded by `wire_format`. Set `peer` before the start."""
        self.runs_are_raw = False
        self.wire_format = wire_format
        self.peer: VmTransport | FarEnd | None = None
        self._remote = remote_address
        self._error: Exception | None = None
        self._stopped = False
        self._receive_run: Callable[[deque[Command]], object] | None = None
        self._late: list[Callable[[], object]] | None = None  # what is deferred while a run arrives
        self.inbox = self._new_inbox()
        """The inbox for the peer's commands, or bytes if there is a wire format."""

    def encode_with(self, wire_format: OpenWireFormat) -> None:
        """Exchange bytes instead of objects, in a negotiated format. Call it before `start`."""
        self.wire_format = wire_format
        self.inbox = self._new_inbox()

    def _new_inbox(self) -> Inbox[Any]:
        deliver = self._deliver if self.wire_format is None else self._decode
        return Inbox(deliver, self._on_end, f"pyjms {self._remote}")

    @property
    def notices_silence(self) -> bool:
        return True  # both ends are in one process

    async def start(self) -> None:
        if self._stopped:
            raise ConnectionFailedException(f"The transport to {self._remote} was stopped")
        self._receive_run = getattr(self.listener, "on_commands", None)
        self.inbox.start()

    async def stop(self) -> None:
        if self._stopped:
            return
        self._stopped = True
        peer = self.peer
        if peer is not None:
            if isinstance(peer, FarEnd):
                peer.close()
            peer.inbox.end(ConnectionFailedException(f"peer ({peer.remote_address}) stopped."))
        await self.inbox.stop()

    def oneway(self, command: Command) -> None:
        peer = self.peer
        if peer is None or self._stopped or self._error is not None:
            why = self._error or ("it was stopped" if self._stopped else "it is not started")
            raise ConnectionFailedException(f"Cannot send to {self._remote}: {why}")
        wire_format = self.wire_format
        try:
            peer.inbox.put(command if wire_format is None else wire_format.encode(command))
        except ConnectionFailedException as error:  # the other loop was closed without notice
            self.inbox.end(error)
            raise

    @property
    def run_room(self) -> int:
        peer = self.peer
        is_usable = not self._stopped and self._error is None and self.wire_format is None
        return _RUN_ROOM if is_usable and peer is not None and not peer.inbox.congested else 0

    def oneway_run(self, commands: Sequence[Command]) -> int:
        peer = self.peer
        if not self.run_room or not isinstance(peer, VmTransport):
            return 0
        run = commands[: HIGH_WATER + 1 - peer.inbox.size]
        peer.inbox.put_all(run)
        return len(run)

    def defer(self, function: Callable[[], object]) -> bool:
        if self._late is None:
            return False
        self._late.append(function)
        return True

    @property
    def congested(self) -> bool:
        return self.peer is not None and self.peer.inbox.congested

    async def drain(self) -> None:
        if self.peer is not None:
            await self.peer.inbox.drain()

    def pause_reading(self) -> None:
        self.inbox.pause()

    def resume_reading(self) -> None:
        self.inbox.resume()

    @property
    def remote_address(self) -> str:
        return self._remote

    def _deliver(self, commands: deque[Command]) -> None:
        if self._receive_run is not None:
            late: list[Callable[[], object]] = []
            self._late = late
            try:
                self._receive_run(commands)
            finally:  # what came before a failure has its effect
                self._late = None
                for function in late:
                    function()
            return
        while commands and not self.inbox.is_paused:
            self.listener.on_command(commands.popleft())

    def _decode(self, chunks: deque[bytes]) -> None:
        assert self.wire_format is not None
        while chunks and not self.inbox.is_paused:
            try:
                commands = self.wire_format.receive_data(chunks.popleft())
            except RemoteProtocolError as error:
                for command in error.completed:
                    self.listener.on_command(command)
                raise
            for command in commands:
                self.listener.on_command(command)

    def _on_end(self, error: Exception) -> None:
        self._error = error
        if not self._stopped:
            self.listener.on_exception(error)
