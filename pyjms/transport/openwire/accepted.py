"""A broker's transport for an OpenWire connection that it accepted, over TCP, TLS or WebSocket."""

from __future__ import annotations

from functools import partial
from typing import Unpack

from anyio.abc import ByteStream

from pyjms.transport.accepted import StreamDetails, accepted_tcp
from pyjms.transport.base import Transport, TransportFilter
from pyjms.transport.openwire.factory import negotiated_transport
from pyjms.transport.openwire.options import OpenWireOptions
from pyjms.transport.options import TcpOptions
from pyjms.wire.openwire.commands import Command
from pyjms.wire.openwire.format import OpenWireFormat
from pyjms.wire.openwire.frame_budget import FrameBudget, UnfinishedFrame

__all__ = ["accepted_transport"]


def accepted_transport(
    stream: ByteStream,
    tcp_options: TcpOptions,
    options: OpenWireOptions,
    frame_budget: FrameBudget | None = None,
    *,
    scheme: str | None = None,
    **stream_details: Unpack[StreamDetails],
) -> Transport[Command]:
    """Return a broker's transport for a connection that it accepted, not started.

    It has no ResponseCorrelator: a broker sends responses, not requests. `frame_budget` limits the
    incomplete frames of all the broker's connections. With `tls`, `start` begins with a handshake;
    `connectAttemptTimeout` limits it, and also the negotiation after it. `scheme` is the scheme of
    the client's address; `layered` counts the frames of a layer of `stream`, such as WebSocket, and
    `unsent_budget` the bytes that all clients have not read yet.
    """
    accept = partial(
        accepted_tcp,
        stream,
        tcp_options=tcp_options,
        scheme=scheme or ("ssl" if stream_details.get("tls") else "tcp"),
        timeout=options.connect_attempt_timeout,
        **stream_details,
    )
    if options.other_format is not None:
        return _StartedFirst(accept(options.other_format()))
    unfinished = None if frame_budget is None else UnfinishedFrame(frame_budget)
    wire_format = OpenWireFormat(options.wire_format, unfinished)
    tcp = accept(wire_format, unfinished=unfinished, discard=wire_format.discard)
    return negotiated_transport(tcp, wire_format, options, options.connect_attempt_timeout)


class _StartedFirst(TransportFilter[Command]):
    """Queues commands until it is started, in place of a negotiator."""

    def __init__(self, next_transport: Transport[Command]) -> None:
        super().__init__(next_transport)
        self._waiting: list[Command] | None = []

    async def start(self) -> None:
        await self.next.start()
        waiting, self._waiting = self._waiting, None
        for command in waiting or ():
            self.next.oneway(command)

    @property
    def outbound(self) -> Transport[Command]:
        return self if self._waiting is not None else self.next.outbound

    def oneway(self, command: Command) -> None:
        if self._waiting is not None:
            self._waiting.append(command)
        else:
            self.next.oneway(command)
