"""How the transports of OpenWire over a byte stream are put together. (activemq-edges U4)"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial

from anyio.abc import ByteStream

from pyjms.transport.openwire.correlator import RequestTransport, ResponseCorrelator
from pyjms.transport.openwire.inactivity import InactivityMonitor
from pyjms.transport.openwire.negotiator import WireFormatNegotiator
from pyjms.transport.openwire.options import OpenWireOptions, read_client_options
from pyjms.transport.options import TcpOptions
from pyjms.transport.tcp import TcpTransport, open_socket, peer_address
from pyjms.transport.tls import (
    CLIENT_TLS,
    IGNORED_OF_TLS_CLIENTS,
    TlsContext,
    accept_tls,
    connect_tls,
    read_client_tls,
    shared_context,
)
from pyjms.transport.uri import DEFAULT_PORT, TransportURI, could_not_create
from pyjms.wire.openwire.commands import Command
from pyjms.wire.openwire.format import NegotiatedSettings, OpenWireFormat
from pyjms.wire.openwire.frame_budget import FrameBudget, UnfinishedFrame

__all__ = ["accepted_transport", "client_transport", "ssl_transport", "tcp_transport"]


_REFUSED = (
    "the broker may require a client certificate (ssl.keyStore) or refuse this one; its log says "
    "more"
)


def tcp_transport(uri: TransportURI) -> RequestTransport:
    """Return a client's transport for `tcp://host:port?options`, not started.

    Raises:
        ConfigurationException: the host or port is missing, or an option is wrong.
    """
    tcp_options, options = read_client_options(uri)
    host, port = _address(uri)
    return client_transport(
        partial(open_socket, host, port, tcp_options, str(uri)),
        f"tcp://{host}:{port}",
        tcp_options,
        options,
    )


def ssl_transport(uri: TransportURI) -> RequestTransport:
    """Return a client's transport for `ssl://host:port?options`, not started.

    Raises:
        ConfigurationException: the host or port is missing, or an option is wrong.
    """
    tcp_options, options = read_client_options(uri, CLIENT_TLS, IGNORED_OF_TLS_CLIENTS)
    host, port = _address(uri)
    context = shared_context(read_client_tls(uri))
    remote = f"ssl://{host}:{port}"

    async def connect() -> ByteStream:
        raw = await open_socket(host, port, tcp_options, str(uri))
        return await connect_tls(raw, context, remote, tcp_options.connection_timeout)

    return client_transport(connect, remote, tcp_options, options, refusal_hint=_REFUSED)


def _address(uri: TransportURI) -> tuple[str, int]:
    if not uri.host or not uri.port:
        raise could_not_create(
            f"{uri} names no {'port' if uri.host else 'host'}",
            hint=f"write {uri.scheme}://{uri.host or 'localhost'}:{DEFAULT_PORT}",
        )
    return uri.host, uri.port


def client_transport(
    connect: Callable[[], Awaitable[ByteStream]],
    remote_address: str,
    tcp_options: TcpOptions,
    options: OpenWireOptions,
    *,
    refusal_hint: str = "",
) -> RequestTransport:
    """Return a client's transport over the byte stream that `connect()` opens, not started.

    For transports of other byte streams: TLS, Unix sockets, tunnels. `connect` raises
    ConnectionFailedException if it cannot; `remote_address` is a URL, for messages and logs, and
    `refusal_hint` what to do if the broker ends the connection before it has sent anything.
    """
    wire_format = OpenWireFormat(options.wire_format)
    tcp = TcpTransport(
        wire_format,
        tcp_options,
        connect=connect,
        remote_address=remote_address,
        refusal_hint=refusal_hint,
    )
    timeout = options.wire_format.max_inactivity_duration_inital_delay
    return ResponseCorrelator(_negotiated(tcp, wire_format, options, timeout))


def accepted_transport(
    stream: ByteStream,
    tcp_options: TcpOptions,
    options: OpenWireOptions,
    frame_budget: FrameBudget | None = None,
    tls: TlsContext | None = None,
) -> WireFormatNegotiator:
    """Return a broker's transport for a connection that it accepted, not started.

    It has no ResponseCorrelator: a broker sends responses, not requests. `frame_budget` limits the
    frames of all its connections that have arrived in part. With `tls`, starting begins with a
    handshake, which has `connectAttemptTimeout` as the negotiation after it.
    """
    unfinished = None if frame_budget is None else UnfinishedFrame(frame_budget)
    wire_format = OpenWireFormat(options.wire_format, unfinished)
    remote, secure = peer_address(stream), None
    if tls is not None:
        remote = peer_address(stream, "ssl")
        timeout = options.connect_attempt_timeout
        secure = partial(accept_tls, context=tls, remote=remote, timeout=timeout)
    tcp = TcpTransport(
        wire_format,
        tcp_options,
        stream=stream,
        secure=secure,
        remote_address=remote,
        on_closed=wire_format.discard,
    )
    if unfinished is not None:
        unfinished.fail = tcp.fail
    return _negotiated(tcp, wire_format, options, options.connect_attempt_timeout)


def _negotiated(
    tcp: TcpTransport[Command],
    wire_format: OpenWireFormat,
    options: OpenWireOptions,
    timeout: float | None,
) -> WireFormatNegotiator:
    monitor: InactivityMonitor | None = None
    if options.use_inactivity_monitor:
        monitor = InactivityMonitor(
            tcp,
            tcp,
            use_keep_alive=options.use_keep_alive,
            keep_alive_response_required=options.keep_alive_response_required,
        )

    def negotiated(settings: NegotiatedSettings) -> None:
        tcp.set_tcp_no_delay(settings.tcp_no_delay_enabled)
        if monitor is not None:
            monitor.monitor(settings)

    return WireFormatNegotiator(
        monitor or tcp,
        wire_format,
        timeout=timeout,
        minimum_version=options.minimum_wire_format_version,
        on_negotiated=negotiated,
    )
