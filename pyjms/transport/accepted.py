"""Transports of connections that a broker accepted, over TCP and TLS, for any protocol."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, TypedDict, TypeVar

from anyio.abc import ByteStream
from anyio.streams.tls import TLSAttribute

from pyjms.transport.options import TcpOptions, peer_address
from pyjms.transport.tcp import TcpTransport
from pyjms.transport.unsent import UnsentBudget
from pyjms.wire.format import WireFormat
from pyjms.wire.openwire.frame_budget import UnfinishedFrame

if TYPE_CHECKING:
    from pyjms.transport.tls import TlsContext

__all__ = ["StreamDetails", "accepted_tcp"]

C = TypeVar("C")


class StreamDetails(TypedDict, total=False):
    """What a connector may say of an accepted stream; see `accepted_tcp`."""

    tls: TlsContext | None
    layered: UnfinishedFrame | None
    unsent_budget: UnsentBudget | None


class _AcceptedTransport(TcpTransport[C]):
    """A transport that has its client's certificate, once it has started."""

    peer_certificate: Mapping[str, Any] | None = None


def accepted_tcp(
    stream: ByteStream,
    wire_format: WireFormat[C],
    tcp_options: TcpOptions,
    *,
    scheme: str,
    timeout: float | None,
    unfinished: UnfinishedFrame | None = None,
    discard: Callable[[], object] | None = None,
    tls: TlsContext | None = None,
    layered: UnfinishedFrame | None = None,
    unsent_budget: UnsentBudget | None = None,
) -> TcpTransport[C]:
    """Return a transport of an accepted connection, not started.

    With `tls`, `start` begins with a handshake, which may take `timeout` seconds. At the end of the
    connection, `discard()` drops the part of an incomplete frame that `wire_format` has buffered.
    `unfinished` is the frame counted by `wire_format`, `layered` the frame counted by a layer of
    `stream`, such as WebSocket; `scheme` is the scheme of the client's address in messages.
    `unsent_budget` counts the long values that wait to be written.
    """
    remote = peer_address(stream, scheme)

    def on_closed() -> None:
        if discard is not None:
            discard()
        if layered is not None:
            layered.close()

    async def secure(stream: ByteStream) -> ByteStream:
        from pyjms.transport.tls import accept_tls  # noqa: PLC0415 - not without TLS

        assert tls is not None
        secured = await accept_tls(stream, tls, remote, timeout)
        tcp.peer_certificate = _certificate(secured)
        return secured

    tcp = _AcceptedTransport(
        wire_format,
        tcp_options,
        stream=stream,
        secure=None if tls is None else secure,
        remote_address=remote,
        on_closed=on_closed,
    )
    tcp.peer_certificate = _certificate(stream)
    tcp.unsent_budget = unsent_budget
    if unfinished is not None:
        unfinished.fail = tcp.fail
        unfinished.pause, unfinished.resume = tcp.wait_for_memory, tcp.has_memory
        if layered is not None:
            layered.fail = tcp.fail
            unfinished.sibling, layered.sibling = layered, unfinished
    return tcp


def _certificate(stream: ByteStream) -> Mapping[str, Any] | None:
    """Return the certificate that the client has presented, or None."""
    return stream.extra(TLSAttribute.peer_certificate, None) or None
