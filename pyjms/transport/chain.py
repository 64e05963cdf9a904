"""How the filters of a transport are put around it. (ActiveMQ U4)"""

from __future__ import annotations

from anyio.abc import ByteStream

from pyjms.transport.base import RequestTransport
from pyjms.transport.correlator import ResponseCorrelator
from pyjms.transport.inactivity import InactivityMonitor
from pyjms.transport.negotiator import WireFormatNegotiator
from pyjms.transport.options import TcpOptions, read_tcp_options
from pyjms.transport.tcp import TcpTransport
from pyjms.transport.uri import DEFAULT_PORT, TransportURI, could_not_create
from pyjms.wire.openwire.format import NegotiatedSettings, OpenWireFormat, WireFormatSettings

__all__ = ["accepted_transport", "tcp_transport"]


def tcp_transport(uri: TransportURI) -> RequestTransport:
    """A client's transport for `tcp://host:port?options`.

    Raises:
        ConfigurationException: no host or port, or a wrong option.
    """
    options, settings = read_tcp_options(uri)
    if not uri.host or not uri.port:
        raise could_not_create(
            f"{uri} names no {'port' if uri.host else 'host'}",
            hint=f"write {uri.scheme}://{uri.host or 'localhost'}:{DEFAULT_PORT}",
        )
    wire_format = OpenWireFormat(settings)
    tcp = TcpTransport(wire_format, options, url=str(uri), host=uri.host, port=uri.port)
    timeout = settings.max_inactivity_duration_inital_delay
    return ResponseCorrelator(_negotiated(tcp, wire_format, options, timeout))


def accepted_transport(
    stream: ByteStream, options: TcpOptions, settings: WireFormatSettings
) -> WireFormatNegotiator:
    """A broker's transport for a socket that it accepted; it answers by itself, unnumbered."""
    wire_format = OpenWireFormat(settings)
    tcp = TcpTransport(wire_format, options, stream=stream)
    return _negotiated(tcp, wire_format, options, options.connect_attempt_timeout)


def _negotiated(
    tcp: TcpTransport, wire_format: OpenWireFormat, options: TcpOptions, timeout: float | None
) -> WireFormatNegotiator:
    if not options.use_inactivity_monitor:
        return WireFormatNegotiator(
            tcp,
            wire_format,
            timeout=timeout,
            minimum_version=options.minimum_wire_format_version,
            on_negotiated=lambda settings: tcp.set_tcp_no_delay(settings.tcp_no_delay_enabled),
        )
    monitor = InactivityMonitor(
        tcp,
        tcp,
        use_keep_alive=options.use_keep_alive,
        keep_alive_response_required=options.keep_alive_response_required,
    )

    def negotiated(settings: NegotiatedSettings) -> None:
        tcp.set_tcp_no_delay(settings.tcp_no_delay_enabled)
        monitor.monitor(settings)

    return WireFormatNegotiator(
        monitor,
        wire_format,
        timeout=timeout,
        minimum_version=options.minimum_wire_format_version,
        on_negotiated=negotiated,
    )
