"""The transport of a client whose protocol is determined at its start."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import anyio
from anyio.abc import ByteStream

from pyjms.transport.base import Transport
from pyjms.wire.openwire.commands import Command

__all__ = ["ChosenTransport"]


class ChosenTransport(Transport[Command]):
    """Delegates to the transport that `choose` returns at the start.

    Args:
        stream: the connection that was accepted.
        remote_address: the client's address.
        choose: performs the handshakes and returns the transport of the client's protocol, not
            started; the stream is closed if it raises.
    """

    def __init__(
        self,
        stream: ByteStream,
        remote_address: str,
        choose: Callable[[ByteStream], Awaitable[Transport[Command]]],
    ) -> None:
        self._stream = stream
        self._remote = remote_address
        self._choose = choose
        self._chosen: Transport[Command] | None = None
        self._early: list[Command] = []
        self._paused = False

    async def start(self) -> None:
        try:
            chosen = await self._choose(self._stream)
        except BaseException:
            with anyio.CancelScope(shield=True):
                await anyio.aclose_forcefully(self._stream)
            raise
        chosen.listener = self.listener
        for command in self._early:
            chosen.oneway(command)
        if self._paused:
            chosen.pause_reading()
        self._chosen = chosen
        await chosen.start()

    async def stop(self) -> None:
        if self._chosen is not None:
            await self._chosen.stop()
        else:
            await anyio.aclose_forcefully(self._stream)

    def oneway(self, command: Command) -> None:
        if self._chosen is None:
            self._early.append(command)
        else:
            self._chosen.oneway(command)

    def flush(self) -> None:
        if self._chosen is not None:
            self._chosen.flush()

    def defer(self, function: Callable[[], object]) -> bool:
        return self._chosen is not None and self._chosen.defer(function)

    @property
    def outbound(self) -> Transport[Command]:
        return self if self._chosen is None else self._chosen.outbound

    @property
    def queued_bytes(self) -> int | None:
        return None if self._chosen is None else self._chosen.queued_bytes

    @property
    def congested(self) -> bool:
        return self._chosen is not None and self._chosen.congested

    async def drained(self) -> None:
        if self._chosen is not None:
            await self._chosen.drained()

    def pause_reading(self) -> None:
        self._paused = True
        if self._chosen is not None:
            self._chosen.pause_reading()

    def resume_reading(self) -> None:
        self._paused = False
        if self._chosen is not None:
            self._chosen.resume_reading()

    @property
    def remote_address(self) -> str:
        return self._remote if self._chosen is None else self._chosen.remote_address

    @property
    def notices_silence(self) -> bool:
        return self._chosen is not None and self._chosen.notices_silence

    @property
    def peer_certificate(self) -> Mapping[str, Any] | None:
        return None if self._chosen is None else self._chosen.peer_certificate
