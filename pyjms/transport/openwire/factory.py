"""The composition of OpenWire transports over a byte stream. (activemq-edges U4)"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial

from anyio.abc import ByteStream

from pyjms.transport.openwire.correlator import RequestTransport, ResponseCorrelator
from pyjms.transport.openwire.inactivity import InactivityMonitor
from pyjms.transport.openwire.negotiator import WireFormatNegotiator
from pyjms.transport.openwire.options import OpenWireOptions, read_client_options
from pyjms.transport.options import TcpOptions
from pyjms.transport.tcp import TcpTransport, open_socket
from pyjms.transport.uri import DEFAULT_PORT, TransportURI, could_not_create
from pyjms.wire.openwire.commands import Command
from pyjms.wire.openwire.format import NegotiatedSettings, OpenWireFormat

__all__ = ["client_transport", "host_and_port", "negotiated_transport", "tcp_transport"]


def tcp_transport(uri: TransportURI) -> RequestTransport:
    """Return a client's transport for `tcp://host:port?options`, not started.

    Raises:
        ConfigurationException: the host or port is missing, or an option is wrong.
    """
    tcp_options, options = read_client_options(uri)
    host, port = host_and_port(uri)
    return client_transport(
        partial(open_socket, host, port, tcp_options, str(uri)),
        f"tcp://{host}:{port}",
        tcp_options,
        options,
    )


def host_and_port(uri: TransportURI) -> tuple[str, int]:
    """Return a broker's address.

    Raises:
        ConfigurationException: the host or the port is missing.
    """
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

    For transports over other byte streams: TLS, Unix sockets, tunnels. `connect` raises
    ConnectionFailedException if it fails; `remote_address` is a URL, for messages and logs, and
    `refusal_hint` the hint of the error if the broker ends the connection before it has sent
    anything.
    """
    carried_by = partial(
        TcpTransport[Command],
        options=tcp_options,
        connect=connect,
        remote_address=remote_address,
        refusal_hint=refusal_hint,
    )
    if options.other_format is not None:
        return ResponseCorrelator(carried_by(options.other_format()))
    wire_format = OpenWireFormat(options.wire_format)
    tcp = carried_by(wire_format)
    timeout = options.wire_format.max_inactivity_duration_inital_delay
    return ResponseCorrelator(negotiated_transport(tcp, wire_format, options, timeout))


def negotiated_transport(
    tcp: TcpTransport[Command],
    wire_format: OpenWireFormat,
    options: OpenWireOptions,
    timeout: float | None,
) -> WireFormatNegotiator:
    """Return OpenWire's filters over a transport: the inactivity monitor and the negotiator.

    `timeout` limits the negotiation, in seconds; None for no limit.
    """
    monitor: InactivityMonitor | None = None
    if options.use_inactivity_monitor:
        monitor = InactivityMonitor(tcp, tcp, options)

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
